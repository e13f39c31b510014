//! The files of NPU dumps, under the names that `mapping.csv` gives them, and the runs and folders that they lie in.
//!
//! ```text
//! npu/debug_0/dump/{time}/{device}/{model name}/{model}/{step}/FILES        the newest time counts
//! dump/npu/FILES                                                            copied by hand
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use ulpscope_dump::{Problems, mapped_names};
use ulpscope_formats::acl::{self, DumpFile, FileName};
use ulpscope_formats::file::Format;
use ulpscope_formats::{Access, Bytes, Error};

use crate::folders::{file_name, files_below};

/// Digits of the time that the folder of a run is named after: year to second.
const TIME_DIGITS: usize = 14;

/// A file that may be one of an NPU dump.
#[derive(Clone, Debug)]
pub(crate) struct NpuFile {
    pub(crate) path: PathBuf,
    /// Its name, or the one that `mapping.csv` has for it. The file itself is never renamed.
    pub(crate) named: String,
    /// The parts of that name, if it is one of a dump file.
    pub(crate) name: Option<FileName>,
    /// Whether it has statistics instead of elements.
    pub(crate) is_statistics: bool,
}

/// Every file below a folder, or the file itself.
pub(crate) fn npu_files(place: &Path, problems: &mut Problems) -> Vec<NpuFile> {
    let paths = if place.is_file() { vec![place.to_owned()] } else { files_below(place) };
    let mut mappings: HashMap<PathBuf, HashMap<String, String>> = HashMap::new();
    for path in paths.iter().filter(|path| file_name(path) == MAPPING) {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        mappings.entry(folder).or_insert_with_key(|folder| mapped_names(folder, problems));
    }
    // A file that the user names has its mapping beside it.
    if let (Some(folder), true) = (place.parent(), place.is_file() && is_digits(&file_name(place)))
        && folder.join(MAPPING).is_file()
    {
        mappings.insert(folder.to_owned(), mapped_names(folder, problems));
    }
    let named = |path: PathBuf| {
        let own = file_name(&path);
        let mapping = path.parent().and_then(|folder| mappings.get(folder));
        let named = mapping.and_then(|names| names.get(&own)).cloned().unwrap_or(own);
        let statistics = FileName::parse_statistics(&named);
        let is_statistics = statistics.is_some();
        NpuFile { path, name: statistics.or_else(|| FileName::parse(&named)), named, is_statistics }
    };
    paths.into_iter().filter(|path| file_name(path) != MAPPING).map(named).collect()
}

const MAPPING: &str = "mapping.csv";

fn is_digits(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit())
}

impl NpuFile {
    /// Whether it has the tensors or statistics of an operator.
    pub(crate) fn is_of_operator(&self) -> bool {
        self.name.as_ref().is_some_and(|name| !name.is_op_debug()) || is_digits(&self.named)
    }

    /// Whether it has the state of overflow detection.
    pub(crate) fn is_op_debug(&self) -> bool {
        self.name.as_ref().is_some_and(FileName::is_op_debug)
    }

    /// Reads its tensors; nothing if it is of a different format.
    pub(crate) fn read(&self) -> Result<Option<DumpFile>, Error> {
        read(&self.path)
    }
}

fn read(path: &Path) -> Result<Option<DumpFile>, Error> {
    let read = || {
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        match bytes.reading(|| Format::detect(path, &bytes)) {
            Ok(Format::Acl) => bytes.reading(|| acl::read(&bytes)).map(Some),
            Err(error) if !matches!(error.fault, ulpscope_formats::Fault::UnknownFormat { .. }) => Err(error),
            _ => Ok(None),
        }
    };
    read().map_err(|error| error.in_file(path))
}

/// A folder with dump files.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) folder: PathBuf,
    pub(crate) files: Vec<NpuFile>,
    /// The folders between that of the run and this one: device, model name, model, step.
    pub(crate) below_run: Vec<String>,
}

/// The folders of the newest run below a place that have files of operators, in natural order.
pub(crate) fn newest_leaves(place: &Path, problems: &mut Problems) -> Vec<Leaf> {
    let mut leaves: Vec<(PathBuf, Leaf)> = Vec::new();
    for file in npu_files(place, problems).into_iter().filter(NpuFile::is_of_operator) {
        let folder = file.path.parent().unwrap_or(place).to_owned();
        if let Some((_, leaf)) = leaves.iter_mut().find(|(_, leaf)| leaf.folder == folder) {
            leaf.files.push(file);
            continue;
        }
        let (run, below_run) = run_of(place, &folder);
        leaves.push((run, Leaf { folder, files: vec![file], below_run }));
    }
    let newest = leaves.iter().map(|(run, _)| run.clone()).max().unwrap_or_default();
    leaves.into_iter().filter(|(run, _)| *run == newest).map(|(_, leaf)| leaf).collect()
}

/// The folder of the newest run below a place; none if there are no dump files.
pub(crate) fn newest_run(place: &Path, problems: &mut Problems) -> Option<PathBuf> {
    let files = npu_files(place, problems).into_iter();
    let dumped = files.filter(|file| file.name.is_some() || file.is_of_operator());
    dumped.filter_map(|file| Some(run_of(place, file.path.parent()?).0)).max()
}

/// The folder of the run that a folder belongs to, and the folders from there to it. Files without the folder of a run
/// were copied by hand: they belong to the place itself.
fn run_of(place: &Path, folder: &Path) -> (PathBuf, Vec<String>) {
    let below: Vec<String> = folder
        .strip_prefix(place)
        .unwrap_or(folder)
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let is_time = |name: &String| name.len() == TIME_DIGITS && is_digits(name);
    let depth = below.iter().position(is_time).map_or(0, |at| at + 1);
    (place.join(below[..depth].iter().collect::<PathBuf>()), below[depth..].to_vec())
}

impl Leaf {
    /// What is the same in a second run: device and step. Names of models have a time in them.
    pub(crate) fn position(&self) -> (Option<&String>, Option<&String>) {
        let step = self.below_run.last().filter(|_| self.below_run.len() > 1);
        (self.below_run.first(), step)
    }
}
