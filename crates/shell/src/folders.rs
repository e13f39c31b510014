//! Where the data of a session is: the folders of both layouts of precision_tool, old and new, below one root.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::natural;

/// Deeper folders are not searched: dumps have up to seven levels.
const MAX_DEPTH: usize = 16;

/// The run that the others are compared with.
const FIRST_RUN: &str = "debug_0";

/// Folders that the guides spell in two ways.
const SPELLINGS: [(&str, &str); 3] = [
    ("dump_convert", "convert_result"),
    ("compare_result", "comapre_result"),
    ("precision_data", "precision"),
];

/// Kinds of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// Files that were decoded from an NPU dump.
    Decoded,
    /// Tensors of a TensorFlow run.
    TfDump,
    /// Tensors of an NPU run.
    NpuDump,
    /// Data of overflow detection.
    Overflow,
    /// Graphs of an NPU run.
    NpuGraph,
    /// Results of whole-network comparisons.
    Results,
    /// What fusion passes did.
    Fusion,
}

impl DataKind {
    /// As messages name it.
    pub fn name(self) -> &'static str {
        match self {
            DataKind::Decoded => "decoded data",
            DataKind::TfDump => "TF dump",
            DataKind::NpuDump => "NPU dump",
            DataKind::Overflow => "NPU overflow data",
            DataKind::NpuGraph => "NPU graph",
            DataKind::Results => "comparison result",
            DataKind::Fusion => "fusion result",
        }
    }

    /// Below the root: the newer layout, then the older one.
    fn below_root(self) -> &'static [&'static str] {
        match self {
            DataKind::Decoded => &["temp/decode", "dump/decode", "dump/temp/decode", "temp"],
            DataKind::TfDump => &["tf/dump", "dump/cpu"],
            DataKind::NpuDump => &["npu/debug_0/dump", "npu/debug_1/dump", "dump/npu"],
            DataKind::Overflow => &["overflow/dump", "dump/overflow"],
            DataKind::NpuGraph => &["npu/debug_0/graph", "npu/debug_1/graph", "graph/all"],
            DataKind::Results => &["temp/vector_compare"],
            DataKind::Fusion => &["fusion/fusion_result.json", "fusion_result.json"],
        }
    }

    /// Beside the root: where one guide contradicts itself.
    fn beside_root(self) -> &'static [&'static str] {
        match self {
            DataKind::TfDump => &["precision/dump/cpu"],
            DataKind::Overflow => &["precision_tool/dump/overflow"],
            // Where the training ran.
            DataKind::Fusion => &["fusion_result.json"],
            _ => &[],
        }
    }
}

/// One run on an NPU: its graphs and its dumps.
#[derive(Clone, Debug)]
pub(crate) struct DebugRun {
    /// `debug_0`.
    pub(crate) id: String,
    /// Folders with graphs, whether they exist or not.
    pub(crate) graphs: Vec<PathBuf>,
    /// Folders with dumps, likewise.
    pub(crate) dumps: Vec<PathBuf>,
}

/// The folder of a session, `precision_data`.
#[derive(Clone, Debug)]
pub struct DataFolders {
    root: PathBuf,
}

impl DataFolders {
    /// The folders below a root, which need not exist.
    pub fn new(root: PathBuf) -> DataFolders {
        DataFolders { root }
    }

    /// Where data of a kind may be, whether these folders exist or not.
    pub fn places(&self, kind: DataKind) -> Vec<PathBuf> {
        let beside = self.root.parent().unwrap_or(Path::new(""));
        let below = kind.below_root().iter().map(|place| self.root.join(place));
        below.chain(kind.beside_root().iter().map(|place| beside.join(place))).collect()
    }

    /// One line that says that data of a kind is missing, and where it was looked for.
    pub fn missing(&self, kind: DataKind) -> String {
        let places: Vec<String> = self.places(kind).iter().map(|place| place.display().to_string()).collect();
        format!("no {}: looked in {}", kind.name(), places.join(", "))
    }

    /// The files of a kind, in order: a file of a later run comes after one of an earlier run.
    pub fn files(&self, kind: DataKind) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        for place in self.places(kind) {
            if place.is_file() && seen.insert(place.clone()) {
                found.push(place.clone());
            }
            found.extend(files_below(&place).into_iter().filter(|path| seen.insert(path.clone())));
        }
        found
    }

    /// The runs on an NPU, in natural order; at least `debug_0`, which the older layout belongs to.
    pub(crate) fn debug_runs(&self) -> Vec<DebugRun> {
        let npu = self.root.join("npu");
        let entries = fs::read_dir(&npu).map(|entries| entries.flatten().collect::<Vec<_>>());
        let mut ids: Vec<String> = entries
            .unwrap_or_default()
            .iter()
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("debug_") && name != FIRST_RUN)
            .collect();
        ids.sort_by(|a, b| natural::compare(a.as_bytes(), b.as_bytes()));
        let run = |id: &str| DebugRun {
            graphs: vec![npu.join(id).join("graph")],
            dumps: vec![npu.join(id).join("dump")],
            id: id.to_owned(),
        };
        let mut first = run(FIRST_RUN);
        first.graphs.push(self.root.join("graph/all"));
        first.dumps.push(self.root.join("dump/npu"));
        std::iter::once(first).chain(ids.iter().map(|id| run(id))).collect()
    }

    /// Where drawings go.
    pub(crate) fn drawings(&self) -> PathBuf {
        self.root.join("temp/op_graph")
    }

    /// Whether the root has the layout of the first releases: `dump/npu` instead of `npu/debug_0/dump`.
    fn is_older_layout(&self) -> bool {
        self.root.join("dump").is_dir() && !self.root.join("npu").is_dir()
    }

    /// Where decoded files go.
    pub(crate) fn decoded(&self) -> PathBuf {
        self.root.join(if self.is_older_layout() { "dump/decode" } else { "temp/decode/dump_decode/debug_0" })
    }

    /// The root of all of them.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where results of whole-network comparisons go.
    pub(crate) fn results(&self) -> PathBuf {
        self.root.join("temp/vector_compare")
    }

    /// Where converted files go.
    pub(crate) fn converted(&self) -> PathBuf {
        self.root.join("temp/decode/dump_convert")
    }
}

/// The path, or the same path with a folder of it in the guide's other spelling, if only that exists.
pub(crate) fn spelled(path: &Path) -> PathBuf {
    if path.exists() {
        return path.to_owned();
    }
    for (one, other) in SPELLINGS {
        for (from, to) in [(one, other), (other, one)] {
            let changed: PathBuf =
                path.iter().map(|part| if part == from { to.as_ref() } else { part }).collect();
            if changed != path && changed.exists() {
                return changed;
            }
        }
    }
    path.to_owned()
}

/// Every file below a folder, in natural order. Links to files and folders count if they stay below it.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(root) = fs::canonicalize(folder) {
        collect(folder, &root, 0, &mut HashSet::new(), &mut found);
    }
    found
}

fn collect(folder: &Path, root: &Path, depth: usize, seen: &mut HashSet<PathBuf>, found: &mut Vec<PathBuf>) {
    let Ok(real) = fs::canonicalize(folder) else { return };
    if depth > MAX_DEPTH || !real.starts_with(root) || !seen.insert(real) {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths
        .sort_by(|a, b| natural::compare(a.as_os_str().as_encoded_bytes(), b.as_os_str().as_encoded_bytes()));
    for path in paths {
        if path.is_dir() {
            collect(&path, root, depth + 1, seen, found);
        } else if path.is_file() && fs::canonicalize(&path).is_ok_and(|real| real.starts_with(root)) {
            found.push(path);
        }
    }
}

/// The name of a file as text.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
