//! Several ranks that show their calls as those of one: the stages of a pipeline, or a part of what each rank does.
//!
//! Calls, entries and sources get the names that they would have if one process had made all calls.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ulpscope_formats::pkl_lines::Frame;
use ulpscope_formats::{Error, Tensor};

use crate::call::Call;
use crate::entry::{Content, Data, Entry, TensorEntry};
use crate::names::Names;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source};
use crate::view::AssembledTensor;

/// What parameters and buffers of a rank are called in what it shows, by the name that the rank has for them.
pub type OriginNames = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A rank of several.
pub struct OneOfSeveral {
    /// The rank.
    pub rank: Arc<Rank>,
    /// The names of its parameters and buffers.
    pub origins: OriginNames,
}

/// A call that is shown, under the name that it has among the calls of all ranks.
#[derive(Clone, Debug)]
pub struct ShownCall {
    /// Which of the ranks makes it.
    pub of: u32,
    /// Its number there.
    pub call: u32,
    /// The base of its name.
    pub base: String,
    /// Its number among those of the same base and kind.
    pub index: Option<u32>,
}

struct Several {
    ranks: Vec<OneOfSeveral>,
    /// By number of a call that is shown: the rank, and the number there.
    calls: Vec<(u32, u32)>,
    /// By rank and number there: the number of a call that is shown.
    shown: Vec<Vec<Option<u32>>>,
}

impl Several {
    fn of(&self, call: usize) -> (&OneOfSeveral, usize) {
        let (of, call) = self.calls[call];
        (&self.ranks[of as usize], call as usize)
    }

    /// The name that a call of a rank is shown under; nothing if it is not shown.
    fn shown_name(&self, index: &Index, of: u32, name: &str) -> Option<String> {
        let call = self.ranks[of as usize].rank.find(name)?;
        Some(index.name(self.shown[of as usize][call]? as usize))
    }

    /// Where an entry comes from, in names that are shown; nothing if that is not shown.
    fn source(&self, index: &Index, of: u32, source: &str) -> Option<String> {
        if let Some((kind, name)) = source.split_once(':') {
            return Some(format!("{kind}:{}", (self.ranks[of as usize].origins)(name)));
        }
        for word in [".output.", ".input."] {
            if let Some((call, path)) = source.rsplit_once(word) {
                return Some(format!("{}{word}{path}", self.shown_name(index, of, call)?));
            }
        }
        Some(source.to_owned())
    }
}

impl Source for Several {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let (one, own) = self.of(call);
        let of = self.calls[call].0;
        let mut entries = one.rank.entries(own)?;
        let (name, shown) = (one.rank.name(own), index.name(call));
        for entry in &mut entries {
            if let Some(rest) = entry.name.strip_prefix(&name) {
                entry.name = format!("{shown}{rest}");
            }
            let Content::Tensor(tensor) = &mut entry.content else { continue };
            tensor.source = tensor.source.take().and_then(|source| self.source(index, of, &source));
            if tensor.has_data() {
                let elements = Elements { rank: Arc::clone(&one.rank), entry: (**tensor).clone() };
                tensor.data = Data::Assembled(Arc::new(elements));
            }
        }
        Ok(entries)
    }

    fn stack(&self, _index: &Index, call: usize) -> Option<Vec<String>> {
        let (one, call) = self.of(call);
        one.rank.stack(call)
    }

    fn frames(&self, _index: &Index, call: usize) -> Option<Vec<Frame>> {
        let (one, call) = self.of(call);
        one.rank.frames(call)
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        self.ranks.iter().any(|one| one.rank.has_stacks())
    }

    fn parent(&self, index: &Index, call: usize) -> Option<String> {
        let (one, own) = self.of(call);
        self.shown_name(index, self.calls[call].0, &one.rank.parent(own)?)
    }

    fn data_folder(&self) -> Option<&Path> {
        None
    }

    fn is_journal(&self) -> bool {
        self.ranks.iter().any(|one| one.rank.is_journal())
    }

    fn notes(&self) -> &[String] {
        self.ranks.iter().map(|one| one.rank.notes()).find(|notes| !notes.is_empty()).unwrap_or_default()
    }

    fn late_problems(&self) -> Problems {
        let mut problems = Problems::default();
        self.ranks.iter().for_each(|one| problems.extend(one.rank.problems()));
        problems
    }
}

/// The elements of a tensor in the files of its own rank.
struct Elements {
    rank: Arc<Rank>,
    entry: TensorEntry,
}

impl fmt::Debug for Elements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("rank", &self.rank.path).field("entry", &self.entry).finish()
    }
}

impl AssembledTensor for Elements {
    fn tensor(&self) -> Result<Tensor, Error> {
        let missing = || Error::whole(ulpscope_formats::Fault::malformed("elements", "none"));
        self.rank.tensor(&self.entry)?.ok_or_else(|| missing().in_file(&self.rank.path))
    }
}

impl Rank {
    /// Several ranks as one, which makes these calls in this order. It has the path of the first rank.
    pub fn of_several(ranks: Vec<OneOfSeveral>, calls: Vec<ShownCall>) -> Option<Rank> {
        let first = Arc::clone(&ranks.first()?.rank);
        let mut names = Names::default();
        let mut shown: Vec<Vec<Option<u32>>> =
            ranks.iter().map(|one| vec![None; one.rank.calls().len()]).collect();
        let mut index = Vec::with_capacity(calls.len());
        for (number, call) in calls.iter().enumerate() {
            let own = ranks.get(call.of as usize)?.rank.calls().get(call.call as usize)?;
            let base = names.id(&call.base);
            index.push(Call { base, index: call.index, kind: own.kind, place: own.place.clone() });
            shown[call.of as usize][call.call as usize] = Some(number as u32);
        }
        let calls = calls.into_iter().map(|call| (call.of, call.call)).collect();
        Some(Rank {
            path: first.path.clone(),
            tool: first.tool,
            task: first.task,
            level: first.level.clone(),
            index: Index { names, calls: index, running: Vec::new(), ..Index::default() },
            problems: Problems::default(),
            part_files: Default::default(),
            moved: None,
            source: Box::new(Several { ranks, calls, shown }),
        })
    }
}
