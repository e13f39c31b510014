//! Finds and opens the graphs of a file or folder.

use std::fs;
use std::path::{Path, PathBuf};

use ulpscope_formats::{Access, Budget, Bytes, Error, Fault, natural};

use crate::build;
use crate::json_fields::JsonFields;
use crate::model::Graph;
use crate::tensorflow;
use crate::text_fields::TextFields;

/// Folders below the one that the user named.
const MAX_DEPTH: usize = 6;

/// A file with graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its graphs, the root first.
    pub graphs: Vec<Graph>,
    /// Whether it is a graph of TensorFlow, and not one of GE.
    pub is_tensorflow: bool,
}

/// Opens a file, or the graphs of a folder: those of the stage `Build` if there are any, which is what runs; else the
/// only one.
pub fn open(path: &Path) -> Result<Vec<GraphFile>, Error> {
    if !path.is_dir() {
        return Ok(vec![read(path)?]);
    }
    match graph_files(path)?.as_slice() {
        [] => {
            let expected = "a graph (ge_proto_*.txt, *.txt.json, ge_onnx_*.pbtxt or .meta)";
            let advice = "none: set DUMP_GE_GRAPH=2, DUMP_GRAPH_LEVEL and DUMP_GRAPH_PATH for the run";
            Err(Error::whole(Fault::malformed(expected, advice)).in_file(path))
        }
        [one] => Ok(vec![read(one)?]),
        several if is_built(&several[0]) => several.iter().map(|file| read(file)).collect(),
        several => {
            let names: Vec<String> = several
                .iter()
                .take(SHOWN)
                .map(|file| file.strip_prefix(path).unwrap_or(file).display().to_string())
                .collect();
            let found =
                format!("{}, none of them of the stage Build: {}; name one", several.len(), names.join(", "));
            Err(Error::whole(Fault::malformed("one graph", found)).in_file(path))
        }
    }
}

/// The graphs below a folder, in natural order: those of the stage `Build` if there are any, else all. Of `X.txt` and
/// `X.txt.json` only the first counts, and of a stage that was written as `ge_proto` and as `ge_onnx` the first: both are
/// the same graph. Without graphs of GE, those of TensorFlow.
pub fn graph_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut of_tensorflow) = (Vec::new(), Vec::new());
    search(folder, 0, &mut found, &mut of_tensorflow)?;
    if found.is_empty() {
        found = of_tensorflow;
    }
    let is_double = |file: &PathBuf| {
        file.extension().is_some_and(|extension| extension == "json")
            && found.contains(&file.with_extension(""))
            || is_onnx(file) && found.iter().any(|other| !is_onnx(other) && is_same_stage(file, other))
    };
    let mut files: Vec<PathBuf> = found.iter().filter(|file| !is_double(file)).cloned().collect();
    files
        .sort_by(|a, b| natural::compare(a.as_os_str().as_encoded_bytes(), b.as_os_str().as_encoded_bytes()));
    let built: Vec<PathBuf> = files.iter().filter(|file| is_built(file)).cloned().collect();
    Ok(if built.is_empty() { files } else { built })
}

/// Whether a file has the graph that runs: that of the stage `Build`.
pub fn is_built(file: &Path) -> bool {
    stage(file) == Some("Build")
}

/// Maximum names in a message.
const SHOWN: usize = 8;

/// What follows the number in the name of a graph's file: `Build`, `PreRunAfterBuild`.
fn stage(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    let rest = name.strip_prefix("ge_proto_").or_else(|| name.strip_prefix("ge_onnx_"))?;
    let (number, stage) = rest.split_once('_')?;
    let stage = stage.strip_suffix(".json").unwrap_or(stage);
    let stage = stage.strip_suffix(".txt").or_else(|| stage.strip_suffix(".pbtxt"))?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(stage)
}

fn is_onnx(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ge_onnx_"))
}

/// Whether two files of one folder are of the same stage.
fn is_same_stage(one: &Path, other: &Path) -> bool {
    one.parent() == other.parent() && stage(one).is_some() && stage(one) == stage(other)
}

/// Whether a name is that of a graph of TensorFlow: a checkpoint's, TensorBoard's, the debugger's.
fn is_tensorflow(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".meta")
        || name.starts_with("events.out.tfevents.")
        || name.starts_with("_tfdbg_graph_hash")
}

/// Links are not followed.
fn search(
    folder: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
    of_tensorflow: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    let in_folder = |error: std::io::Error| Error::whole(error).in_file(folder);
    for item in fs::read_dir(folder).map_err(in_folder)? {
        let item = item.map_err(in_folder)?;
        let kind = item.file_type().map_err(in_folder)?;
        let path = item.path();
        if kind.is_dir() && depth < MAX_DEPTH {
            search(&path, depth + 1, found, of_tensorflow)?;
        } else if kind.is_file() && stage(&path).is_some() {
            found.push(path);
        } else if kind.is_file() && is_tensorflow(&path) {
            of_tensorflow.push(path);
        }
    }
    Ok(())
}

/// Reads the graphs of a file, the root first.
pub fn read_graphs(bytes: &Bytes) -> Result<Vec<Graph>, Error> {
    let mut budget = Budget::of_file(bytes.len());
    if tensorflow::is_message(bytes) {
        return tensorflow::graphs(bytes, &mut budget);
    }
    let is_json = bytes.trim_ascii_start().starts_with(b"{");
    if is_json {
        build::graphs(&mut JsonFields::new(bytes), &mut budget)
    } else {
        build::graphs(&mut TextFields::new(bytes), &mut budget)
    }
}

fn read(path: &Path) -> Result<GraphFile, Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    let graphs = bytes.reading(|| read_graphs(&bytes)).map_err(|error| error.in_file(path))?;
    if graphs.iter().all(|graph| graph.ops.is_empty()) {
        let fault = Fault::malformed("a graph with operators", "none: this is no graph of GE or TensorFlow");
        return Err(Error::whole(fault).in_file(path));
    }
    let is_tensorflow = tensorflow::is_message(&bytes);
    Ok(GraphFile { path: path.to_owned(), graphs, is_tensorflow })
}
