//! Tensors that TensorFlow dumped: the folders of its debugger, and arrays with the debugger's names.
//!
//! ```text
//! run_1794722146064463_0/_tfdbg_device_,job_localhost,…/LeNet/conv1/Conv2D_0_DebugIdentity_1794722146114779
//! LeNet_conv1_Conv2D.0.1794722157959595.npy
//! ```
//!
//! Each execution of an operator is a call, and its outputs are entries: the debugger records no inputs. An array has the
//! name of its operator with `_` for `/`. Sessions replace what is fed by nodes such as `_arg_x_0_0`: these are read as
//! the operators that they replace.

mod places;
mod source;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use ulpscope_formats::tensorflow::{NpyName, argument_name};

use crate::call::{Call, CallKind};
use crate::file_part::PartFiles;
use crate::listing::TensorFile;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Task, Tool};

pub(crate) use places::{TfRun, runs};
use source::TfSource;

/// A file with one tensor.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct TfFile {
    /// Its path below the folder.
    pub(crate) path: PathBuf,
    /// The operator.
    pub(crate) node: String,
    /// Which of its outputs.
    pub(crate) output: u32,
    /// When it was written.
    pub(crate) time: u64,
    /// Whether it is an array, and not an event of the debugger.
    pub(crate) is_array: bool,
}

/// The arrays of a folder, if all of its tensor files have names of TensorFlow's dumps.
pub(crate) fn arrays(files: &[TensorFile]) -> Option<Vec<TfFile>> {
    let file = |file: &TensorFile| {
        let name = NpyName::parse(file.named.file_name()?.to_str()?)?;
        let NpyName { node, output, time } = name;
        Some(TfFile { path: file.path.clone(), node, output, time, is_array: true })
    };
    files.iter().map(file).collect()
}

/// Opens the files of one run.
pub(crate) fn open(folder: &Path, files: &[TfFile]) -> Rank {
    let mut files = with_fed_names(files.to_vec());
    files.sort_by(|a, b| (a.time, &a.node, a.output, &a.path).cmp(&(b.time, &b.node, b.output, &b.path)));
    // The calls in order of time, each with its files.
    let mut calls: Vec<Vec<TfFile>> = Vec::new();
    let mut of_execution: HashMap<(String, u32), usize> = HashMap::new();
    let mut written: HashMap<(String, u32), u32> = HashMap::new();
    for file in files {
        let times = written.entry((file.node.clone(), file.output)).or_default();
        let execution = *times;
        *times += 1;
        let call = *of_execution.entry((file.node.clone(), execution)).or_insert_with(|| {
            calls.push(Vec::new());
            calls.len() - 1
        });
        calls[call].push(file);
    }
    let mut index = Index::default();
    let mut executions: HashMap<String, u32> = HashMap::new();
    let mut ordered: Vec<TfFile> = Vec::new();
    for mut outputs in calls {
        outputs.sort_by_key(|file| file.output);
        let Some(first) = outputs.first() else { continue };
        let execution = executions.entry(first.node.clone()).or_default();
        let start = ordered.len() as u64;
        let place = start..start + outputs.len() as u64;
        let base = index.names.id(&first.node);
        index.calls.push(Call { base, index: Some(*execution), kind: CallKind::Forward, place });
        *execution += 1;
        ordered.append(&mut outputs);
    }
    Rank {
        path: folder.to_owned(),
        tool: Tool::Tensorflow,
        task: Task::Tensor,
        level: None,
        index,
        source: Box::new(TfSource { folder: folder.to_owned(), files: ordered }),
        problems: Problems::default(),
        part_files: PartFiles::default(),
        moved: None,
    }
}

/// Files of feeds under the name of the operator that they replace, unless that operator was dumped too.
fn with_fed_names(mut files: Vec<TfFile>) -> Vec<TfFile> {
    let dumped: HashSet<(String, u32)> = files.iter().map(|file| (file.node.clone(), file.output)).collect();
    for file in &mut files {
        let fed = argument_name(&file.node).map(|(name, output)| (name.to_owned(), output));
        if let Some((name, output)) = fed.filter(|fed| !dumped.contains(fed)) {
            (file.node, file.output) = (name, output);
        }
    }
    files
}
