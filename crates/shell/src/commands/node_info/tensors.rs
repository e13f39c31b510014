//! The tensors of an operator in the NPU dump and in the TF dump.

use std::path::PathBuf;

use ulpscope_compare::flat::compare_flat;
use ulpscope_dump::Problems;
use ulpscope_formats::acl::{self, DumpFile, Format, PartContent, TensorStatistics, flat_op_name};
use ulpscope_formats::{Access, Bytes};
use ulpscope_graph::{Attr, Op, TensorDesc};
use ulpscope_kernels::{Threads, Tolerance, stats};
use ulpscope_tensor::python_float_repr;

use crate::commands::compare_two::unequal_lengths;
use crate::folders::{DataKind, file_name};
use crate::npu_files::{Leaf, NpuFile, newest_leaves};
use crate::numpy_text::Digits;
use crate::session::Session;
use crate::tensor_text::{NamedTensor, spec};

/// The tolerance of a check.
const TOLERANCE: f64 = 0.001;

/// A tensor of TensorFlow: `LeNet_fc1_Relu.0.1794722157959628.npy`.
struct TfFile {
    path: PathBuf,
    index: u64,
}

/// The lines about the dumps; with a check, those of the comparison of each output.
pub(super) fn lines(session: &Session, run: &str, graph: &str, op: &Op, is_checked: bool) -> Vec<String> {
    let mut problems = Problems::default();
    let runs = session.folders.debug_runs();
    let places = runs.iter().filter(|one| one.id == run).flat_map(|one| &one.dumps);
    let leaves: Vec<Leaf> = places.flat_map(|place| newest_leaves(place, &mut problems)).collect();
    let files = files_of(&leaves, graph, op);
    let tf = tf_files(session, op);
    let mut inputs = vec!["NpuDumpInput:".to_owned()];
    let mut outputs = vec!["NpuDumpOutput:".to_owned()];
    let mut checks = Vec::new();
    for file in &files {
        let shown = shown_name(file, files.len());
        if file.is_statistics {
            for row in statistics(file, &mut problems) {
                let to = if row.is_input { &mut inputs } else { &mut outputs };
                to.push(format!(" -[{}] {shown}", row.index));
                to.push(format!("   └─ {}", statistics_line(&row)));
            }
            continue;
        }
        let dump = match file.read() {
            Ok(Some(dump)) => dump,
            Ok(None) => continue,
            Err(error) => {
                problems.add(&error);
                continue;
            }
        };
        for part in dump.parts(None, false) {
            let Some((io, index)) = part.name.split_once('.') else { continue };
            let to = match io {
                "input" => &mut inputs,
                "output" => &mut outputs,
                _ => continue,
            };
            to.push(format!(" -[{index}] {shown}.{io}.{index}.npy"));
            let line = match &part.content {
                PartContent::Tensor(tensor) => spec(tensor, &stats(&tensor.view(), Threads::All)),
                PartContent::Unread(why) => why.clone(),
                PartContent::Raw(_) | PartContent::Json(_) => continue,
            };
            to.push(format!("   └─ {line}"));
        }
        if is_checked {
            checks.extend(check(&dump, op, &tf));
        }
    }
    let mut all = inputs;
    all.extend(outputs);
    all.push("TfDumpOutput:".to_owned());
    for file in &tf {
        all.push(format!(" -[{}] {}", file.index, file_name(&file.path)));
        let line = match NamedTensor::read_one(&file.path) {
            Ok(one) => spec(&one.tensor, &stats(&one.tensor.view(), Threads::All)),
            Err(problem) => problem,
        };
        all.push(format!("   └─ {line}"));
    }
    if is_checked {
        all.push("Check:".to_owned());
        if checks.is_empty() {
            checks.push(" - nothing to compare: an output needs an NPU dump and a TF dump".to_owned());
        }
        all.extend(checks);
    }
    all.extend(problems.listed().iter().cloned());
    all
}

/// The files of an operator, of the model that has the graph if folders are named after models.
fn files_of<'a>(leaves: &'a [Leaf], graph: &str, op: &Op) -> Vec<&'a NpuFile> {
    let flat = flat_op_name(&op.name);
    let is_own = |leaf: &&Leaf| leaf.below_run.iter().any(|folder| folder == graph);
    let own: Vec<&Leaf> = leaves.iter().filter(is_own).collect();
    let leaves = if own.is_empty() { leaves.iter().collect() } else { own };
    let is_of_op = |file: &&NpuFile| {
        file.name.as_ref().is_some_and(|name| name.op_name == flat && name.op_type == op.op_type)
    };
    leaves.into_iter().flat_map(|leaf| &leaf.files).filter(is_of_op).collect()
}

/// The name of a file, with its folder if the operator has several.
fn shown_name(file: &NpuFile, count: usize) -> String {
    match file.path.parent().filter(|_| count > 1) {
        Some(folder) => format!("{}/{}", file_name(folder), file_name(&file.path)),
        None => file_name(&file.path),
    }
}

fn statistics(file: &NpuFile, problems: &mut Problems) -> Vec<TensorStatistics> {
    let read = || {
        let bytes = Bytes::map(&file.path, Access::ReadOnly)?;
        bytes.reading(|| acl::read_statistics(&bytes)).map_err(|error| error.in_file(&file.path))
    };
    read().unwrap_or_else(|error| {
        problems.add(&error);
        Vec::new()
    })
}

fn statistics_line(row: &TensorStatistics) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "None".to_owned(), python_float_repr);
    let dtype = row.data_type.map_or_else(|| "None".to_owned(), |data_type| data_type.to_string());
    let shape: Vec<usize> = row.shape.iter().flatten().map(|&dim| dim as usize).collect();
    format!(
        "[Shape: {}] [Dtype: {dtype}] [Max: {}] [Min: {}] [Mean: {}]",
        crate::numpy_text::shape(&shape),
        number(row.max),
        number(row.min),
        number(row.mean)
    )
}

/// The name and number that an output has in TensorFlow.
fn origin(desc: &TensorDesc, number: usize) -> Option<(String, u64)> {
    let Some(Attr::Text(name)) = desc.attr("_datadump_origin_name") else { return None };
    let index = desc.attr("_datadump_origin_output_index").and_then(|index| index.to_string().parse().ok());
    (!name.is_empty()).then(|| (flat_op_name(name), index.unwrap_or(number as u64)))
}

/// The TensorFlow tensors of an operator: those that its outputs name, or else those of its own name.
fn tf_files(session: &Session, op: &Op) -> Vec<TfFile> {
    let named: Vec<(String, TfFile)> =
        session.folders.files(DataKind::TfDump).into_iter().filter_map(tf_file).collect();
    let origins: Vec<(String, u64)> =
        op.output_descs.iter().enumerate().filter_map(|(at, desc)| origin(desc, at)).collect();
    let own = flat_op_name(&op.name);
    let is_origin = |name: &str, file: &TfFile| {
        origins.iter().any(|(origin, index)| origin == name && *index == file.index)
    };
    let mut found: Vec<TfFile> = Vec::new();
    let mut of_name: Vec<TfFile> = Vec::new();
    for (name, file) in named {
        if is_origin(&name, &file) {
            found.push(file);
        } else if name == own || is_placeholder(&name, &own) {
            of_name.push(file);
        }
    }
    let mut files = if found.is_empty() { of_name } else { found };
    files.sort_by_key(|file| file.index);
    files
}

/// TensorFlow's debugger calls what feeds the placeholder `x` `_arg_x_0_0`.
fn is_placeholder(name: &str, op: &str) -> bool {
    let Some(rest) = name.strip_prefix("_arg_").and_then(|rest| rest.strip_prefix(op)) else { return false };
    !rest.is_empty()
        && rest.starts_with('_')
        && rest.bytes().all(|byte| byte == b'_' || byte.is_ascii_digit())
}

fn tf_file(path: PathBuf) -> Option<(String, TfFile)> {
    let name = file_name(&path);
    let mut parts = name.strip_suffix(".npy")?.split('.');
    let (op, index) = (parts.next()?.to_owned(), parts.next()?.parse().ok()?);
    parts.next()?;
    Some((op, TfFile { path, index }))
}

/// Each output compared with its tensor of TensorFlow, in that tensor's order of axes.
fn check(dump: &DumpFile, op: &Op, tf: &[TfFile]) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, output) in dump.outputs.iter().enumerate() {
        let desc = op.output_descs.get(at);
        let wanted = desc.and_then(|desc| origin(desc, at)).map_or(at as u64, |(_, index)| index);
        let Some(file) = tf.iter().find(|file| file.index == wanted) else { continue };
        let format = desc.and_then(|desc| desc.attr("origin_format")).map(ToString::to_string);
        let format = format.as_deref().and_then(Format::from_name);
        let mut notes = Vec::new();
        let mut compared = || -> Result<String, String> {
            let relaid =
                output.relaid(format.unwrap_or(Format::ND), format).map_err(|error| error.to_string())?;
            let golden = NamedTensor::read_one(&file.path)?;
            notes.extend(relaid.unsure);
            let lengths = [&relaid.tensor, &golden.tensor].map(|tensor| tensor.view().len());
            notes.extend(unequal_lengths(lengths));
            let tolerance = Tolerance { atol: TOLERANCE, rtol: TOLERANCE };
            let found = compare_flat(&relaid.tensor.view(), &golden.tensor.view(), tolerance, 0)
                .map_err(|error| error.to_string())?;
            let failing = if found.count == 0 { 0.0 } else { found.failing as f64 / found.count as f64 };
            Ok(format!(
                "[CosSim: {}] [AllClose: {}] [ErrorPer: {}]",
                Digits::Single.float(found.cosine),
                if found.all_close { "True" } else { "False" },
                python_float_repr(failing)
            ))
        };
        lines.push(format!(" -[{at}] {}", file_name(&file.path)));
        lines.push(format!("   └─ {}", compared().unwrap_or_else(|problem| problem)));
        lines.extend(notes.iter().map(|note| format!("   └─ {note}")));
    }
    lines
}
