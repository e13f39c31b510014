//! Writes a rank again with a file for each tensor, as the older tools read it.
//!
//! ```text
//! dump.json or journal.jsonl, tensors-00000.safetensors ──► dump.json, stack.json, construct.json, ledger.json,
//!                                                            dump_tensor_data/NAME.pt
//! ```
//! Every file has the name of its entry. Entries that share their elements share a file, under separate names.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ulpscope_formats::file::{self, Format};
use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::{Call, DumpJson, DumpWriter, Item, TensorItem};
use ulpscope_formats::{Access, Bytes, Error, Fault, Value, storage};

use crate::call::CallKind;
use crate::call_entries::{SectionNames, tensor_entry};
use crate::entry::{Data, Role, TensorEntry};
use crate::file_part::FilePart;
use crate::journal::{self, JOURNAL_FILE};
use crate::key::parse_key;
use crate::ledger::LEDGER_FILE;
use crate::links;
use crate::msprobe::{self, STACK_FILE};
use crate::problems::Problems;
use crate::rank::Rank;
use crate::writer::names::file_stem;
use crate::writer::{DATA_FOLDER, is_shard_name};

/// The documents that are made anew from a journal.
const DUMP_FILE: &str = "dump.json";
const PARENT_FILE: &str = "construct.json";

/// Records of a rank, the newest first: what a journal has is not in the documents yet.
const RECORDS: [&str; 3] = [JOURNAL_FILE, DUMP_FILE, "debug.json"];

/// Bytes of a tensor with repetitions from which only a format with strides is used, as when it is recorded.
const ENDLESS: usize = 1 << 30;

/// Files of a rank that are not records.
const COMPANIONS: [&str; 3] = [STACK_FILE, PARENT_FILE, LEDGER_FILE];

/// A folder of a rank whose tensors are parts of files.
#[derive(Debug)]
pub struct PackedRank {
    /// The folder.
    pub folder: PathBuf,
    /// The names of its records.
    records: Vec<&'static str>,
}

/// What was written, and what could not be.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// The files.
    pub written: Vec<PathBuf>,
    /// Tensors that could not be read or written. Their entries have no file.
    pub problems: Problems,
}

impl PackedRank {
    /// The rank in a folder, if it is one.
    pub fn in_folder(folder: &Path) -> Option<PackedRank> {
        let items = storage::list(&folder.join(DATA_FOLDER)).ok()?;
        if !items.iter().any(|item| item.name.to_str().is_some_and(is_shard_name)) {
            return None;
        }
        let mut records = RECORDS.to_vec();
        records.retain(|name| storage::is_file(&folder.join(name)));
        if records.first() == Some(&JOURNAL_FILE) {
            records.truncate(1);
        }
        (!records.is_empty()).then(|| PackedRank { folder: folder.to_owned(), records })
    }

    /// Whether a file below some folder is one of this rank's: what [`PackedRank::unpack`] writes replaces it.
    pub fn has(&self, path: &Path) -> bool {
        let Ok(relative) = path.strip_prefix(&self.folder) else { return false };
        let mut parts = relative.components().map(|part| part.as_os_str().to_str().unwrap_or_default());
        match (parts.next(), parts.next(), parts.next()) {
            (Some(DATA_FOLDER), Some(file), None) => is_shard_name(file),
            (Some(file), None, None) => RECORDS.contains(&file) || COMPANIONS.contains(&file),
            _ => false,
        }
    }

    /// Writes the rank to a folder. `make_room` is asked before each file: it makes the folders, and may refuse.
    pub fn unpack(
        &self,
        to: &Path,
        format: Format,
        make_room: &dyn Fn(&Path) -> Result<(), Error>,
    ) -> Result<Unpacked, Error> {
        let mut unpacked = Unpacked::default();
        let mut names = HashSet::new();
        for name in &self.records {
            let path = self.folder.join(name);
            links::refuse(&path)?;
            let rank =
                if *name == JOURNAL_FILE { journal::open(&path)? } else { msprobe::open(&path, None)? };
            let made = if *name == JOURNAL_FILE { DUMP_FILE } else { *name };
            unpacked.problems.extend(rank.problems());
            let Some(documents) = rank.source.documents()? else { continue };
            let mut companions = [(STACK_FILE, documents.stacks), (PARENT_FILE, documents.parents)].to_vec();
            let ledger = self.folder.join(LEDGER_FILE);
            if storage::is_file(&ledger) && *name != JOURNAL_FILE {
                links::refuse(&ledger)?;
                companions.push((LEDGER_FILE, Some(Bytes::map(&ledger, Access::ReadOnly)?)));
            }
            for (name, bytes) in companions {
                let Some(bytes) = bytes else { continue };
                let path = to.join(name);
                // Two records of a rank have the same companions.
                if !unpacked.written.contains(&path) {
                    make_room(&path)?;
                    file::write_with(&path, |out| out.write_all(&bytes).map_err(Error::whole))?;
                    unpacked.written.push(path);
                }
            }
            let path = to.join(made);
            make_room(&path)?;
            let mut files = Files {
                rank: &rank,
                to,
                format,
                make_room,
                names: &mut names,
                known: HashMap::new(),
                made: unpacked,
            };
            file::write_with(&path, |out| {
                documents.dump.reading(|| rewrite(&documents.dump, &to.join(DATA_FOLDER), &mut files, out))
            })?;
            unpacked = files.made;
            unpacked.written.push(path);
        }
        Ok(unpacked)
    }
}

/// Copies a dump.json, and has the files of its tensors written.
fn rewrite(dump: &Bytes, data: &Path, files: &mut Files<'_>, out: &mut dyn Write) -> Result<(), Error> {
    let mut calls = DumpJson::new(dump)?;
    let mut header = calls.before().to_vec();
    for (_, value) in header.iter_mut().filter(|(key, value)| key == "dump_data_dir" && *value != Json::Null)
    {
        *value = Json::Str(data.to_string_lossy().into_owned());
    }
    let mut writer = DumpWriter::new(out, &header)?;
    for call in calls.by_ref() {
        match call {
            Ok(call) => {
                let Call { key, body } = call;
                let body = files.body(&key, body);
                writer.call(&Call { key, body })?;
            }
            // Everything before it is complete.
            Err(error) => files.made.problems.add(&error),
        }
    }
    writer.finish(calls.after())
}

/// Elements that entries share: where they are, and what they are.
type Elements = (FilePart, String, Option<Vec<u64>>);

/// The files of the tensors of a rank.
struct Files<'a> {
    rank: &'a Rank,
    to: &'a Path,
    format: Format,
    make_room: &'a dyn Fn(&Path) -> Result<(), Error>,
    /// File names in use.
    names: &'a mut HashSet<String>,
    /// The file of each part that was written.
    known: HashMap<Elements, PathBuf>,
    made: Unpacked,
}

impl Files<'_> {
    fn body(&mut self, key: &str, body: Item) -> Item {
        let kind = parse_key(key).2;
        match body {
            Item::Dict(sections) if kind != CallKind::Saved => {
                let section = |(section, item): (String, Item)| {
                    let SectionNames { role, stem, .. } = SectionNames::of(key, kind, &section);
                    let item = match item {
                        // The gradient of a parameter is a list of one.
                        Item::List(items) if role == Role::ParameterGrad && items.len() == 1 => {
                            Item::List(items.into_iter().map(|item| self.item(&stem, item)).collect())
                        }
                        item => self.item(&stem, item),
                    };
                    (section, item)
                };
                Item::Dict(sections.into_iter().map(section).collect())
            }
            body => self.item(key, body),
        }
    }

    fn item(&mut self, name: &str, item: Item) -> Item {
        match item {
            Item::List(items) => {
                let items = items.into_iter().enumerate();
                Item::List(items.map(|(at, item)| self.item(&format!("{name}.{at}"), item)).collect())
            }
            Item::Dict(pairs) => {
                let pairs = pairs.into_iter();
                Item::Dict(
                    pairs
                        .map(|(part, item)| {
                            let item = self.item(&format!("{name}.{part}"), item);
                            (part, item)
                        })
                        .collect(),
                )
            }
            Item::Tensor(tensor) => Item::Tensor(self.tensor(name, tensor)),
            other => other,
        }
    }

    fn tensor(&mut self, name: &str, tensor: TensorItem) -> TensorItem {
        let entry = tensor_entry(tensor.clone());
        match &entry.data {
            Data::Part(part) => {
                let file = self.file(name, part, &entry).map_err(|error| {
                    self.made.problems.note(format!("{name}: {error}"));
                });
                tensor.in_own_file(file.ok())
            }
            Data::Refused(why) => {
                self.made.problems.note(format!("{name}: {why}"));
                tensor.in_own_file(None)
            }
            Data::None | Data::File(_) | Data::Tensor(_) | Data::Sample(_) | Data::Assembled(_) => tensor,
        }
    }

    /// Writes the file of an entry, or a link to that of the same elements, and returns its name.
    fn file(&mut self, entry_name: &str, part: &FilePart, entry: &TensorEntry) -> Result<String, Error> {
        let name = self.free_name(entry_name);
        let path = self.to.join(DATA_FOLDER).join(&name);
        (self.make_room)(&path)?;
        let content = (part.clone(), entry.dtype.clone(), entry.shape.clone());
        let linked = self.known.get(&content).is_some_and(|twin| {
            // What may be replaced was asked before.
            let _: std::io::Result<()> = fs::remove_file(&path);
            fs::hard_link(twin, &path).is_ok()
        });
        // If the file system has no links, or no more for this file, the file is written again.
        if !linked {
            let Some(tensor) = self.rank.tensor(entry)? else { return Ok(name) };
            let view = tensor.view();
            if self.format != Format::Pt && view.packed_size() > ENDLESS && view.without_repeats().1 > 1 {
                // Other formats have no strides: the file would hold every repetition.
                let why =
                    "stands for more than 1 GiB of repeated elements, which only .pt has a way to write";
                return Err(Error::whole(Fault::Unsupported(why.to_owned())));
            }
            let write = |out: &mut dyn Write| {
                file::encode(self.format, &Value::Tensor(tensor.clone()), &file_stem(entry_name), out)
            };
            tensor.storage().reading(|| file::write_with(&path, write))?;
            self.known.entry(content).or_insert_with(|| path.clone());
        }
        self.made.written.push(path);
        Ok(name)
    }

    fn free_name(&mut self, entry_name: &str) -> String {
        let (stem, extension) = (file_stem(entry_name), self.format.extension());
        let mut name = format!("{stem}.{extension}");
        let mut again = 2u64;
        while !self.names.insert(name.clone()) {
            name = format!("{stem}~{again}.{extension}");
            again += 1;
        }
        name
    }
}
