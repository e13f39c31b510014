//! A rank of an msprobe dump: `dump.json` or `debug.json`, with `stack.json`, `construct.json`, `dump_tensor_data/`
//! and Ulpscope's own `ledger.json` beside it. A journal has the same documents, made when it was opened.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{self, DumpJson, Item, TensorItem};
use ulpscope_formats::{Access, Bytes, Error, Place};
use ulpscope_kernels::{RECORDED, SUMMARY_KEYS, Statistic};

use crate::arguments::CallArguments;
use crate::call::{Call, CallKind};
use crate::companion::Companion;
use crate::entry::{Content, Data, Entry, MeshPlacement, Role, TensorEntry};
use crate::file_part::{FilePart, PartFiles};
use crate::journal::encode::Section;
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
        let is_near = place.start.abs_diff(before) < MAPPED_AROUND / 4;
        let read = if is_near { place.len() } else { place.len().max(MAPPED_AROUND) };
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
        match file.symlink_metadata() {
            // Nothing is read from it, but the refusal is listed.
            Ok(metadata) if metadata.is_symlink() => {
                self.stacks(index);
                false
            }
            Ok(metadata) => metadata.is_file(),
            Err(_) => false,
        }
    }

    fn parent(&self, index: &Index, call: usize) -> Option<String> {
        self.parents(index).of(index, call)
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

/// The entries of a call in the order of the tool's own rows: inputs, parameters, outputs, gradients.
fn entries_of(key: &str, kind: CallKind, body: Item) -> Vec<Entry> {
    let mut entries = Vec::new();
    match body {
        Item::Dict(sections) if kind != CallKind::Saved => {
            for (section, item) in sections {
                let SectionNames { role, name, stem } = SectionNames::of(key, kind, &section);
                let mut walk = Walk { role, names: (&name, &stem), entries: &mut entries };
                match role {
                    Role::ParameterGrad => walk.grad(&name, &section, item),
                    Role::Input | Role::Output | Role::Parameter => walk.item(&name, "", item, true),
                    Role::Saved => walk.item(&name, &section, item, false),
                }
            }
            entries.sort_by_key(|entry| entry.role);
        }
        body => {
            let mut walk = Walk { role: Role::Saved, names: (key, key), entries: &mut entries };
            walk.item(key, "", body, false);
        }
    }
    entries
}

/// The entries in a section of a call.
pub(crate) struct SectionNames {
    pub(crate) role: Role,
    /// How their names begin.
    pub(crate) name: String,
    /// How the names of their files begin.
    pub(crate) stem: String,
}

impl SectionNames {
    pub(crate) fn of(key: &str, kind: CallKind, section: &str) -> SectionNames {
        let known = Section::of_key(section).filter(|_| kind != CallKind::ParametersGrad);
        let (role, word) = match known {
            Some(Section::InputArgs | Section::InputKwargs | Section::Input) => (Role::Input, "input"),
            Some(Section::Output) => (Role::Output, "output"),
            Some(Section::Parameters) => (Role::Parameter, "parameters"),
            None if kind == CallKind::ParametersGrad => (Role::ParameterGrad, section),
            None => (Role::Saved, section),
        };
        let file_word = if known == Some(Section::InputKwargs) { "kwargs" } else { word };
        SectionNames { role, name: format!("{key}.{word}"), stem: format!("{key}.{file_word}") }
    }
}

/// Walks down an item and collects its leaves. The JSON reader limits the depth.
struct Walk<'a> {
    role: Role,
    /// How names begin, and those of files.
    names: (&'a str, &'a str),
    entries: &'a mut Vec<Entry>,
}

impl Walk<'_> {
    /// `bare`: the item is a container that the tool put around the entries, so a leaf in its place is not an entry.
    fn item(&mut self, name: &str, path: &str, item: Item, bare: bool) {
        let below = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
        match item {
            Item::List(items) => {
                for (position, item) in items.into_iter().enumerate() {
                    let part = position.to_string();
                    self.item(&format!("{name}.{part}"), &below(&part), item, false);
                }
            }
            Item::Dict(pairs) => {
                for (part, item) in pairs {
                    self.item(&format!("{name}.{part}"), &below(&part), item, false);
                }
            }
            Item::None if bare => {}
            leaf => self.leaf(name, path, leaf),
        }
    }

    /// The gradient of a parameter is a list of one.
    fn grad(&mut self, name: &str, path: &str, item: Item) {
        match item {
            Item::List(items) if items.len() == 1 => {
                for item in items {
                    self.item(name, path, item, false);
                }
            }
            item => self.item(name, path, item, false),
        }
    }

    fn leaf(&mut self, name: &str, path: &str, item: Item) {
        let mut name = name.to_owned();
        let content = Content::from(item);
        // The tool's rows have the name of the file, if there is one, or that which a separate file would have.
        if let Content::Tensor(tensor) = &content {
            match &tensor.data {
                Data::File(file) => {
                    if let Some((stem, _)) = file.rsplit_once('.') {
                        name = stem.to_owned();
                    }
                }
                Data::Part(_) => {
                    if let Some(rest) = name.strip_prefix(self.names.0) {
                        name = format!("{}{rest}", self.names.1);
                    }
                }
                Data::None | Data::Tensor(_) | Data::Sample(_) | Data::Assembled(_) | Data::Refused(_) => {}
            }
        }
        self.entries.push(Entry { name, role: self.role, path: path.to_owned(), content });
    }
}

impl From<Item> for Content {
    /// The content of a leaf. Containers are walked before and have no content of their own.
    fn from(item: Item) -> Content {
        match item {
            Item::Scalar { kind, value } => Content::Scalar { kind, value },
            Item::Other(json) => Content::Other(json),
            Item::Tensor(tensor) => Content::Tensor(Box::new(tensor_entry(&tensor))),
            Item::None | Item::List(_) | Item::Dict(_) => Content::None,
        }
    }
}

/// What only Ulpscope records about a tensor. If non-finite elements are counted, all of it is present.
fn further(tensor: &TensorItem) -> Vec<(&'static Statistic, Json)> {
    let is_count = |value: &&Json| matches!(value, Json::Int(count) if u64::try_from(*count).is_ok());
    let written = |statistic: &Statistic| match statistic.is_count() {
        true => tensor.get(statistic.key).filter(is_count).cloned(),
        false => tensor.get(statistic.key).cloned(),
    };
    let others = || RECORDED.iter().filter(|statistic| !statistic.is_summary());
    let has_counts = others().any(|statistic| statistic.is_count() && written(statistic).is_some());
    let missing = |statistic: &Statistic| if statistic.is_count() { Json::Int(0) } else { Json::Null };
    others()
        .filter_map(|statistic| {
            let value = written(statistic).or_else(|| has_counts.then(|| missing(statistic)))?;
            Some((statistic, value))
        })
        .collect()
}

fn strides(tensor: &TensorItem) -> Option<Vec<u64>> {
    let Json::List(strides) = tensor.get("stride")? else { return None };
    let number =
        |stride: &Json| if let Json::Int(stride) = stride { u64::try_from(*stride).ok() } else { None };
    let strides: Vec<u64> = strides.iter().map(number).collect::<Option<_>>()?;
    (tensor.shape()?.len() == strides.len()).then_some(strides)
}

pub(crate) fn tensor_entry(tensor: &TensorItem) -> TensorEntry {
    let stat = |key: &str| tensor.get(key).cloned().unwrap_or(Json::Null);
    TensorEntry {
        class: tensor.class().unwrap_or_default().to_owned(),
        dtype: tensor.dtype().unwrap_or_default().to_owned(),
        shape: tensor.shape(),
        strides: strides(tensor),
        stats: SUMMARY_KEYS.map(stat),
        requires_grad: stat("requires_grad"),
        digest: tensor.digest().map(str::to_owned),
        data: match tensor.data_name() {
            Ok(None) => Data::None,
            Ok(Some(name)) => match FilePart::of(name, tensor) {
                Ok(None) => Data::File(name.to_owned()),
                Ok(Some(part)) => Data::Part(Box::new(part)),
                Err(error) => Data::Refused(error.to_string()),
            },
            Err(error) => Data::Refused(error.to_string()),
        },
        source: tensor.get("source").and_then(Json::as_str).map(str::to_owned),
        recompute: matches!(tensor.get("is_recompute"), Some(Json::Bool(true))),
        is_blank: matches!(tensor.get("blank"), Some(Json::Bool(true))),
        is_changed: matches!(tensor.get("changed"), Some(Json::Bool(true))),
        further: further(tensor),
        mesh: mesh(tensor).map(Box::new),
    }
}

/// Dimensions of a mesh of ranks; torch's have four at most.
const MAX_MESH_DIMS: usize = 16;

/// How a distributed tensor is spread over ranks, if that is recorded and makes sense.
fn mesh(tensor: &TensorItem) -> Option<MeshPlacement> {
    let placements = tensor.get("placements")?.as_list()?;
    let placements: Vec<String> =
        placements.iter().map(|placed| placed.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let mut mesh = tensor.get("device_mesh")?;
    let mut ranks = vec![mesh];
    let mut sizes = Vec::new();
    while let Json::List(rows) = mesh {
        sizes.push(rows.len() as u64);
        mesh = rows.first()?;
        ranks =
            ranks.into_iter().map(Json::as_list).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
        if sizes.len() > MAX_MESH_DIMS {
            return None;
        }
    }
    let ranks: Vec<u64> = ranks
        .into_iter()
        .map(|rank| if let Json::Int(rank) = rank { u64::try_from(*rank).ok() } else { None })
        .collect::<Option<_>>()?;
    let is_whole = sizes.iter().product::<u64>() == ranks.len() as u64 && sizes.len() == placements.len();
    is_whole.then_some(MeshPlacement { sizes, ranks, placements })
}
