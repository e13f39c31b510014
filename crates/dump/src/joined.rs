//! Several files of one process, read as one rank: `dump.json` and `debug.json`, the overflow dumps of
//! ptdbg_ascend (one small `.pkl` for each overflowed call).

use std::path::{Path, PathBuf};

use ulpscope_formats::Error;
use ulpscope_formats::pkl_lines::Frame;

use crate::arguments::CallArguments;
use crate::call::Call;
use crate::entry::{Content, Entry};
use crate::file_part::PartFiles;
use crate::ledger::Ledger;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source};

/// Opens every file of a folder and concatenates their calls. A file that cannot be opened is a
/// problem. If none can be opened, the first problem is the error.
pub(crate) fn open(
    folder: &Path,
    files: &[PathBuf],
    open_one: impl Fn(&Path) -> Result<Rank, Error>,
) -> Result<Rank, Error> {
    let mut problems = Problems::default();
    let mut first_error = None;
    let mut parts = Vec::new();
    for file in files {
        match open_one(file) {
            Ok(rank) => parts.push(rank),
            Err(error) => {
                problems.add(&error);
                first_error.get_or_insert(error);
            }
        }
    }
    if parts.len() == 1 && problems.is_empty() {
        return Ok(parts.remove(0));
    }
    match (parts.is_empty(), first_error) {
        (true, Some(error)) => Err(error),
        _ => Ok(join(folder, parts, problems)),
    }
}

fn join(folder: &Path, parts: Vec<Rank>, problems: Problems) -> Rank {
    let mut index = Index::default();
    let mut starts = Vec::new();
    for part in &parts {
        starts.push(index.calls.len());
        for call in part.calls() {
            let base = index.names.id(part.base(call.base));
            index.calls.push(Call { base, ..call.clone() });
        }
    }
    let first = parts.first().and_then(|part| part.source.data_folder());
    let one_folder = parts.iter().all(|part| part.source.data_folder() == first);
    let data = if one_folder { first.map(Path::to_owned) } else { Some(folder.to_owned()) };
    Rank {
        path: folder.to_owned(),
        tool: parts.first().map_or(crate::Tool::Files, |part| part.tool),
        task: parts.first().map_or(crate::Task::Statistics, |part| part.task),
        level: parts.first().and_then(|part| part.level.clone()),
        index,
        source: Box::new(Joined { parts, starts, data, one_folder }),
        problems,
        part_files: PartFiles::default(),
        moved: None,
    }
}

struct Joined {
    parts: Vec<Rank>,
    /// The number of the first call of each part.
    starts: Vec<usize>,
    data: Option<PathBuf>,
    /// Whether all parts have their tensors in the same folder.
    one_folder: bool,
}

impl Joined {
    /// The part that contains a call, and its number there.
    fn part(&self, call: usize) -> (&Rank, usize) {
        let part = self.starts.partition_point(|&start| start <= call) - 1;
        (&self.parts[part], call - self.starts[part])
    }
}

impl Source for Joined {
    fn entries(&self, _index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let (part, call) = self.part(call);
        let mut entries = part.entries(call)?;
        if !self.one_folder
            && let Some(folder) = part.source.data_folder().and_then(Path::file_name)
        {
            for entry in &mut entries {
                if let Content::Tensor(tensor) = &mut entry.content
                    && let Some(name) = tensor.data.file_mut()
                {
                    *name = format!("{}/{name}", folder.to_string_lossy());
                }
            }
        }
        Ok(entries)
    }

    fn arguments(&self, _index: &Index, call: usize) -> Result<Option<CallArguments>, Error> {
        let (part, call) = self.part(call);
        part.arguments(call)
    }

    fn stack(&self, _index: &Index, call: usize) -> Option<Vec<String>> {
        let (part, call) = self.part(call);
        part.stack(call)
    }

    fn frames(&self, _index: &Index, call: usize) -> Option<Vec<Frame>> {
        let (part, call) = self.part(call);
        part.frames(call)
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        self.parts.iter().any(Rank::has_stacks)
    }

    fn parent(&self, _index: &Index, call: usize) -> Option<String> {
        let (part, call) = self.part(call);
        part.parent(call)
    }

    fn data_folder(&self) -> Option<&Path> {
        self.data.as_deref()
    }

    fn ledger(&self) -> Option<Ledger> {
        self.parts.iter().find_map(Rank::ledger)
    }

    fn late_problems(&self) -> Problems {
        let mut problems = Problems::default();
        for part in &self.parts {
            problems.extend(part.problems());
        }
        problems
    }
}
