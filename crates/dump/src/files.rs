//! Tensor files and checkpoints of any program. Every tensor, and every plain value beside one, is a separate call
//! that was saved under its name.
//!
//! | file | name |
//! |---|---|
//! | named by the user, with one tensor | none, so that two such files are paired whatever their names |
//! | named by the user, with several | their dotted paths in the file |
//! | in a folder, with one tensor | its path below the folder, without the extension |
//! | in a folder, with several | their dotted paths in the file; preceded by the path of the file if two files of the folder use the same name |
//!
//! The shards of a checkpoint (`model-00001-of-00003.safetensors`) count as one file here. Files are mapped, so
//! only the table of contents of each is kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_formats::acl::FileName;
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::json::Json;
use ulpscope_formats::{Access, Error, Fault, Value};
use ulpscope_kernels::{DigestKind, digest};
use ulpscope_tensor::{DType, View};

use crate::acl;
use crate::address;
use crate::call::{Call, CallKind};
use crate::entry::{Content, Data, Entry, Role, TensorEntry};
use crate::file_part::PartFiles;
use crate::listing::TensorFile;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Source, Task, Tool};

/// Files whose contents are kept; others are read again on request. A system limits the number of mappings.
const MAX_KEPT: usize = 4096;

/// Digits of the numbers in the name of a shard.
const SHARD_DIGITS: usize = 5;

/// Opens a file that the user named.
pub(crate) fn open_file(path: &Path) -> Result<Rank, Error> {
    let mut contents = Contents::of(path.parent().unwrap_or(Path::new("")));
    let leaves = read(path)?;
    let name = PathBuf::from(path.file_name().unwrap_or_default());
    contents.take(TensorFile { path: name.clone(), named: name }, leaves);
    // A single tensor has an empty path in its file.
    Ok(contents.into_rank(path, |item, _| item.name.clone()))
}

/// Opens one tensor of a dump. Like the tensor of a file it has no name, so that two of them are paired.
pub(crate) fn open_entry(path: &Path) -> Result<Rank, Error> {
    let mut contents = Contents::of(path.parent().unwrap_or(Path::new("")));
    let tensor = address::tensor_at(path)?.into_iter().map(Value::Tensor).collect();
    let name = PathBuf::from(path.file_name().unwrap_or_default());
    contents.items.push(Item { file: 0, leaf: 0, name: String::new() });
    let file = TensorFile { path: name.clone(), named: name };
    contents.files.push(Stored { file, leaves: Some(Arc::new(tensor)), is_array: false });
    Ok(contents.into_rank(path, |item, _| item.name.clone()))
}

/// Opens the files of a folder.
pub(crate) fn open_folder(folder: &Path, files: &[TensorFile]) -> Result<Rank, Error> {
    let mut contents = Contents::of(folder);
    for file in files {
        // An array file contains one tensor: its header is read on request.
        if file.path.extension().is_some_and(|extension| extension == Format::Npy.extension()) {
            contents.take_lone(file.clone());
            continue;
        }
        match read(&folder.join(&file.path)) {
            Ok(leaves) => contents.take(file.clone(), leaves),
            Err(error) => contents.problems.add(&error),
        }
    }
    // The files of two operators name their tensors alike; the operator is in the name of the file.
    let is_acl = |stored: &Stored| {
        stored.file.named.file_name().and_then(|name| name.to_str()).is_some_and(acl::is_name)
    };
    let mixed = contents.sets_share_names() || contents.files.iter().any(is_acl);
    Ok(contents.into_rank(folder, |item, set| {
        if item.name.is_empty() {
            set.to_owned()
        } else if mixed {
            format!("{set}.{}", item.name)
        } else {
            item.name.clone()
        }
    }))
}

/// Everything in a file, with its dotted path.
fn read(path: &Path) -> Result<Vec<(String, Value)>, Error> {
    let opened = file::read(path, Access::ReadOnly)?;
    if opened.format.records().is_some() {
        let why = "is a dump among tensor files: name it on its own".to_owned();
        return Err(Error::whole(Fault::Unsupported(why)).in_file(path));
    }
    let leaves = opened.value.leaves();
    Ok(leaves.into_iter().map(|(name, value)| (name, value.clone())).collect())
}

/// Files and their contents.
struct Contents {
    folder: PathBuf,
    files: Vec<Stored>,
    items: Vec<Item>,
    problems: Problems,
}

struct Stored {
    file: TensorFile,
    /// Its contents, unless it is read again each time.
    leaves: Option<Arc<Vec<Value>>>,
    /// Whether its name is that of an array file.
    is_array: bool,
}

struct Item {
    file: usize,
    /// The position in the file.
    leaf: usize,
    /// The dotted path in the file; empty for a single tensor.
    name: String,
}

impl Contents {
    fn of(folder: &Path) -> Contents {
        let (files, items, problems) = (Vec::new(), Vec::new(), Problems::default());
        Contents { folder: folder.to_owned(), files, items, problems }
    }

    fn take_lone(&mut self, file: TensorFile) {
        self.items.push(Item { file: self.files.len(), leaf: 0, name: String::new() });
        self.files.push(Stored { file, leaves: None, is_array: true });
    }

    fn take(&mut self, stored: TensorFile, leaves: Vec<(String, Value)>) {
        let file = self.files.len();
        let mut values = Vec::new();
        for (leaf, (name, value)) in leaves.into_iter().enumerate() {
            if let Value::Unread(why) = &value {
                let error = Error::whole(Fault::Unsupported(why.clone()))
                    .in_part(&name)
                    .in_file(&self.folder.join(&stored.path));
                self.problems.add(&error);
            }
            self.items.push(Item { file, leaf, name });
            values.push(value);
        }
        // Entries that were compressed in an archive are not in the mapped file.
        let mapped = |value: &Value| match value {
            Value::Tensor(tensor) => !tensor.storage().is_writable() || tensor.storage().is_empty(),
            _ => true,
        };
        let kept = file < MAX_KEPT && values.iter().all(mapped);
        let leaves = kept.then(|| Arc::new(values));
        self.files.push(Stored { file: stored, leaves, is_array: false });
    }

    /// Whether two files that are not shards of one checkpoint use the same name.
    fn sets_share_names(&self) -> bool {
        let sets: Vec<String> = self.files.iter().map(|stored| set_name(&stored.file.named)).collect();
        let mut users: HashMap<&str, &str> = HashMap::new();
        self.items.iter().filter(|item| !item.name.is_empty()).any(|item| {
            let set = &sets[item.file];
            *users.entry(&item.name).or_insert(set) != set
        })
    }

    fn into_rank(self, path: &Path, base: impl Fn(&Item, &str) -> String) -> Rank {
        let sets: Vec<String> = self.files.iter().map(|stored| set_name(&stored.file.named)).collect();
        let mut index = Index::default();
        for item in &self.items {
            let base = index.names.id(&base(item, &sets[item.file]));
            // The number of the file, and the position in it.
            let place = item.file as u64..item.leaf as u64;
            index.calls.push(Call { base, index: None, kind: CallKind::Saved, place });
        }
        let source = FilesSource { folder: self.folder, files: self.files, last: Mutex::new(None) };
        Rank {
            path: path.to_owned(),
            tool: Tool::Files,
            task: Task::Tensor,
            level: None,
            index,
            source: Box::new(source),
            problems: self.problems,
            part_files: PartFiles::default(),
            moved: None,
        }
    }
}

/// The path of a file without its extension and without the number of a shard. For a file of an ACL dump, type and name
/// of the operator.
fn set_name(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
    if let Some(name) = name {
        return path.with_file_name(name.operator()).to_string_lossy().into_owned();
    }
    let stem = path.with_extension("");
    let stem = stem.to_string_lossy();
    let number = |text: &str| text.len() == SHARD_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    let shard = stem.rsplit_once("-of-").filter(|(_, count)| number(count));
    match shard.and_then(|(front, _)| front.rsplit_once('-')) {
        Some((set, shard)) if number(shard) => set.to_owned(),
        _ => stem.into_owned(),
    }
}

struct FilesSource {
    folder: PathBuf,
    files: Vec<Stored>,
    /// The last file that was read again: its entries are requested one after the other.
    last: Mutex<Option<(usize, Arc<Vec<Value>>)>>,
}

impl FilesSource {
    fn leaves(&self, number: usize) -> Result<Arc<Vec<Value>>, Error> {
        let Stored { file, leaves, is_array } = &self.files[number];
        if let Some(leaves) = leaves {
            return Ok(Arc::clone(leaves));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, leaves)) = &*last
            && *file == number
        {
            return Ok(Arc::clone(leaves));
        }
        let path = self.folder.join(&file.path);
        let leaves = read(&path)?;
        if *is_array && leaves.len() != 1 {
            let why = format!("is named like an array file and holds {} values: rename it", leaves.len());
            return Err(Error::whole(Fault::Unsupported(why)).in_file(&path));
        }
        let leaves = Arc::new(leaves.into_iter().map(|(_, value)| value).collect());
        *last = Some((number, Arc::clone(&leaves)));
        Ok(leaves)
    }
}

impl Source for FilesSource {
    fn entries(&self, index: &Index, call: usize) -> Result<Vec<Entry>, Error> {
        let call = &index.calls[call];
        let (file, leaf) = (call.place.start as usize, call.place.end as usize);
        let base = index.names.text(call.base);
        let name = if base.is_empty() { set_name(&self.files[file].file.named) } else { base.to_owned() };
        let content = match self.leaves(file) {
            Ok(leaves) => leaves.get(leaf).map_or(Content::None, content),
            // The entry exists; a request for its elements reports why there are none.
            Err(error) => content(&Value::Unread(error.to_string())),
        };
        Ok(vec![Entry { name, role: Role::Saved, path: String::new(), content }])
    }

    fn stack(&self, _index: &Index, _call: usize) -> Option<Vec<String>> {
        None
    }

    fn has_stacks(&self, _index: &Index) -> bool {
        false
    }

    fn parent(&self, _index: &Index, _call: usize) -> Option<String> {
        None
    }

    fn data_folder(&self) -> Option<&Path> {
        None
    }

    fn late_problems(&self) -> Problems {
        Problems::default()
    }
}

fn content(value: &Value) -> Content {
    let scalar = |kind: &str, value: Json| Content::Scalar { kind: kind.to_owned(), value };
    match value {
        Value::None => Content::None,
        Value::Bool(flag) => scalar("bool", Json::Bool(*flag)),
        Value::Int(number) => scalar("int", Json::Int(*number)),
        Value::Float(number) => scalar("float", Json::Float(*number)),
        Value::Str(text) => scalar("str", Json::Str(text.clone())),
        Value::Bytes(bytes) => scalar("bytes", Json::Str(shown_bytes(bytes))),
        Value::Opaque(what) => scalar("object", Json::Str(what.clone())),
        Value::Unread(why) => {
            let entry = TensorEntry::bare(String::new(), None);
            Content::Tensor(Box::new(TensorEntry { data: Data::Refused(why.clone()), ..entry }))
        }
        Value::Tensor(tensor) => {
            let shape = tensor.shape().iter().map(|&dim| dim as u64).collect();
            let entry = TensorEntry::bare(format!("torch.{}", tensor.dtype()), Some(shape));
            Content::Tensor(Box::new(TensorEntry { data: Data::Tensor(tensor.clone()), ..entry }))
        }
        // Leaves are not containers.
        Value::List(_) | Value::Tuple(_) | Value::Dict(_) => Content::None,
    }
}

/// Bytes as text that differs wherever they do: all of them, or a digest.
fn shown_bytes(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let digits: String = bytes.iter().take(SHOWN).map(|byte| format!("{byte:02x}")).collect();
    match View::contiguous(DType::U8, vec![bytes.len()], bytes) {
        Ok(view) if bytes.len() > SHOWN => {
            format!("{} bytes, {digits}…, xxh3 {}", bytes.len(), digest(&view, DigestKind::Xxh3))
        }
        _ => digits,
    }
}
