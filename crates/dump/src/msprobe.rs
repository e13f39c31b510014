//! A rank of an msprobe dump: `dump.json` or `debug.json`, with `stack.json`, `construct.json`, `dump_tensor_data/`
//! and Ulpscope's own `ledger.json` beside it. A journal has the same documents, made when it was opened.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ulpscope_formats::msprobe::{self, DumpJson, Item};
use ulpscope_formats::storage::{self, Kind};
use ulpscope_formats::{Access, Bytes, Error, Place};

use crate::arguments::CallArguments;
use crate::call::{Call, CallKind};
use crate::call_entries::entries_of;
use crate::companion::Companion;
use crate::entry::Entry;
use crate::file_part::PartFiles;
use crate::key::{key_of, parse_key};
use crate::ledger::Ledger;
use crate::parents::Parents;
use crate::problems::Problems;
use crate::rank::{Index, Rank, RankDocuments, Source, Task, Tool};
use crate::stacks::Stacks;
use crate::structure;

/// The folder of tensors beside a `dump.json`. The `dump_data_dir` inside is a path of a different machine.
const DATA_FOLDER: &str = "dump_tensor_data";

/// The memory of a document is returned to the system each time so many bytes of it were read: it may be larger than
/// memory.
const RELEASE_BYTES: usize = 16 << 20;

/// What the system may map around a place that does not follow the one before.
const MAPPED_AROUND: usize = 256 << 10;

/// The stacks of the calls, beside a `dump.json`.
pub(crate) const STACK_FILE: &str = "stack.json";

/// The files beside the calls of a dump.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) stacks: Companion,
    pub(crate) parents: Companion,
    folder: PathBuf,
    /// The folder of the tensors.
    data: PathBuf,
    ledger: OnceLock<Result<Option<Ledger>, Error>>,
    is_journal: bool,
    /// Whether it is the journal of a step that had ended; only the documents were not made.
    pub(crate) is_over: bool,
    /// The names of calls that were running when the run ended.
    pub(crate) running: HashSet<String>,
    /// How the run ended, if it did not end normally.
    pub(crate) notes: Vec<String>,
}

impl Beside {
    fn of_file(path: &Path) -> Beside {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Beside {
            stacks: Companion::File(folder.join(STACK_FILE)),
            parents: Companion::File(folder.join("construct.json")),
            data: folder.join(DATA_FOLDER),
            folder,
            ledger: OnceLock::new(),
            is_journal: false,
            is_over: false,
            running: HashSet::new(),
            notes: Vec::new(),
        }
    }

    /// For a journal; stacks and parents are added later.
    pub(crate) fn made(journal: &Path, ledger: Option<Ledger>) -> Beside {
        let none = (Companion::None, Companion::None);
        let known = OnceLock::from(Ok(ledger));
        Beside {
            stacks: none.0,
            parents: none.1,
            ledger: known,
            is_journal: true,
            ..Beside::of_file(journal)
        }
    }

    /// Whether Ulpscope wrote it: no other tool writes a journal or a ledger.
    fn is_ours(&self) -> bool {
        self.is_journal || Ledger::is_beside(&self.folder)
    }

    fn ledger(&self) -> &Result<Option<Ledger>, Error> {
        self.ledger.get_or_init(|| Ledger::read_beside(&self.folder))
    }
}

/// Opens a `dump.json` or `debug.json`. `data` is the folder of its tensors, if it is not the one beside it.
pub(crate) fn open(path: &Path, data: Option<&Path>) -> Result<Rank, Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    let index = bytes.clone();
    let mut beside = Beside::of_file(path);
    if let Some(data) = data {
        beside.data = data.to_owned();
    }
    index.reading(|| assemble(path, bytes, beside, Problems::default()))
}

/// Indexes the calls. The rest is read on request.
pub(crate) fn assemble(
    path: &Path,
    bytes: Bytes,
    beside: Beside,
    mut problems: Problems,
) -> Result<Rank, Error> {
    let mut json = DumpJson::new(&bytes).map_err(|error| error.in_file(path))?;
    let mut index = Index::default();
    let mut released = 0;
    while let Some(place) = json.next_place() {
        match place {
            Ok((key, body)) => {
                let (base, number, kind) = parse_key(&key);
                if beside.running.contains(&*key) {
                    index.running.push(index.calls.len() as u32);
                }
                let base = index.names.id(base);
                if body.end - released >= RELEASE_BYTES {
                    bytes.release(released..body.end);
                    released = body.end;
                }
                let place = body.start as u64..body.end as u64;
                index.calls.push(Call { base, index: number, kind, place });
            }
            // Everything before it is complete: a killed writer leaves such a file.
            Err(error) => problems.add(&error.in_file(path)),
        }
    }
    let task = match json.task() {
        Some("tensor") => Task::Tensor,
        Some("structure") => Task::Structure,
        _ => Task::Statistics,
    };
    let level = json.level().map(str::to_owned);
    if task == Task::Structure && index.calls.is_empty() {
        structure::fill(&beside.parents, &beside.stacks, &mut index, &mut problems);
    }
    let is_ours = beside.is_ours();
    let source = MsprobeSource {
        bytes,
        read: AtomicUsize::new(0),
        position: AtomicUsize::new(0),
        path: path.to_owned(),
        beside,
        stacks: OnceLock::new(),
        parents: OnceLock::new(),
    };
    Ok(Rank {
        path: path.to_owned(),
        tool: if is_ours { Tool::Ulpscope } else { Tool::Msprobe },
        task,
        level,
        index,
        source: Box::new(source),
        problems,
        part_files: PartFiles::default(),
        moved: None,
    })
}

struct MsprobeSource {
    bytes: Bytes,
    /// How many of them were read since their memory was last returned.
    read: AtomicUsize,
    /// Where the last of them end.
    position: AtomicUsize,
    path: PathBuf,
    beside: Beside,
    stacks: OnceLock<Stacks>,
    parents: OnceLock<Parents>,
}

impl MsprobeSource {
    fn stacks(&self, index: &Index) -> &Stacks {
        self.stacks.get_or_init(|| Stacks::read(&self.beside.stacks, index))
    }

    fn parents(&self, index: &Index) -> &Parents {
        self.parents.get_or_init(|| Parents::read(&self.beside.parents, index))
    }

    /// Counts bytes that were read, and returns the memory of the document from time to time. Calls are typically read in
    /// order, so few of its pages are read again. Samples from all over the document map much more than is read of it.
    fn release_after(&self, place: Range<usize>) {
        let before = self.position.swap(place.end, Ordering::Relaxed);
        // What lies between two places that are near is mapped too.
        let read = place.end.abs_diff(before).min(MAPPED_AROUND).max(place.len());
        if self.read.fetch_add(read, Ordering::Relaxed) + read >= RELEASE_BYTES {
            self.read.store(0, Ordering::Relaxed);
            self.bytes.release(0..self.bytes.len());
        }
    }

    /// The key of a call and what is recorded under it; nothing if only its name is.
    fn body(&self, index: &Index, call: usize) -> Result<Option<(String, Item)>, Error> {
        let call = &index.calls[call];
        if call.place.is_empty() {
            return Ok(None);
        }
        let key = key_of(index.names.text(call.base), call);
        let place = call.place.start as usize..call.place.end as usize;
        let body = msprobe::Call::body_at(&self.bytes, place.clone());
        self.bytes.check_faults()?;
        self.release_after(place);
        let body = body.map_err(|error| {
            // Line numbers are useless for a document that the user cannot open.
            let nowhere = self.beside.is_journal;
            let error = if nowhere { Error { place: Place::Whole, ..error }.in_part(&key) } else { error };
            error.in_file(&self.path)
        })?;
        Ok(Some((key, body)))
    }
}

impl Source for MsprobeSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let kind = index.calls[call].kind;
        let Some((key, body)) = self.body(index, call)? else { return Ok(Vec::new()) };
        Ok(entries_of(&key, kind, body))
    }

    fn arguments(&self, index: &Index, call: usize) -> Result<Option<CallArguments>, Error> {
        let read = match index.calls[call].kind {
            CallKind::ParametersGrad => CallArguments::of_gradients,
            _ => CallArguments::of,
        };
        Ok(self.body(index, call)?.map(|(_, body)| read(body)))
    }

    fn stack(&self, index: &Index, call: usize) -> Option<Vec<String>> {
        self.stacks(index).of(call)
    }

    fn has_stacks(&self, index: &Index) -> bool {
        let file = match &self.beside.stacks {
            Companion::File(file) => file,
            Companion::Made(..) => return true,
            Companion::None => return false,
        };
        match storage::about_itself(file) {
            // Nothing is read from it, but the refusal is listed.
            Ok(about) if about.kind == Kind::Link => {
                self.stacks(index);
                false
            }
            Ok(about) => about.kind == Kind::File,
            Err(_) => false,
        }
    }

    fn parent(&self, index: &Index, call: usize) -> Option<String> {
        self.parents(index).of(index, call)
    }

    fn parent_call(&self, index: &Index, call: usize) -> Option<usize> {
        self.parents(index).call(call)
    }

    fn data_folder(&self) -> Option<&Path> {
        Some(&self.beside.data)
    }

    fn ledger(&self) -> Option<Ledger> {
        self.beside.ledger().as_ref().ok().cloned().flatten()
    }

    fn is_journal(&self) -> bool {
        self.beside.is_journal && !self.beside.is_over
    }

    fn notes(&self) -> &[String] {
        &self.beside.notes
    }

    fn documents(&self) -> Result<Option<RankDocuments>, Error> {
        let (stacks, parents) = (self.beside.stacks.bytes()?, self.beside.parents.bytes()?);
        Ok(Some(RankDocuments { dump: self.bytes.clone(), stacks, parents }))
    }

    fn late_problems(&self) -> Problems {
        let mut problems = Problems::default();
        if let Some(Err(error)) = self.beside.ledger.get() {
            problems.add(error);
        }
        problems.extend(self.stacks.get().map(|stacks| stacks.problems.clone()).unwrap_or_default());
        problems.extend(self.parents.get().map(|parents| parents.problems.clone()).unwrap_or_default());
        problems
    }
}
