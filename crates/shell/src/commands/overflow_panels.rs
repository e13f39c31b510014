//! The overflows that a device detected, one panel for each op-debug file: the operator, what happened, its tensors.

use std::path::PathBuf;

use ulpscope_compare::overflow::{DetectedOverflow, DetectedTensor, device_overflows};
use ulpscope_dump::{Dump, Problems, Select};
use ulpscope_formats::acl::{FileName, StatusMeaning};
use ulpscope_report::panel;
use ulpscope_tensor::DType;

use crate::folders::{DataKind, file_name};
use crate::npu_files::newest_run;
use crate::numpy_text;
use crate::python_text::texts;
use crate::reply::{Ending, Reply};
use crate::session::Session;
use crate::tensor_text::extrema;

/// Shows at most `limit` operators: of all op-debug files of the newest run, or only of those among `files`.
pub(crate) fn panels(session: &Session, limit: usize, files: Option<&[PathBuf]>) -> Reply {
    let mut reply = Reply::default();
    let mut problems = Problems::default();
    let mut found: Vec<DetectedOverflow> = Vec::new();
    let mut is_there = false;
    for place in session.folders.places(DataKind::Overflow).into_iter().filter(|place| place.is_dir()) {
        let Some(run) = newest_run(&place, &mut problems) else { continue };
        is_there = true;
        match Dump::open(&run, &Select::default()) {
            Ok(dump) => {
                dump.problems.listed().iter().for_each(|problem| reply.error(format!("ac: {problem}")));
                let is_asked = |one: &DetectedOverflow| {
                    let is_its =
                        |path: &PathBuf| path.starts_with(&run) && path.ends_with(&one.detected.file);
                    files.is_none_or(|files| files.iter().any(is_its))
                };
                found.extend(device_overflows(&dump, &mut problems).into_iter().filter(is_asked));
            }
            Err(error) => problems.add(&error),
        }
    }
    problems.listed().iter().for_each(|problem| reply.error(format!("ac: {problem}")));
    if !is_there {
        reply.warning(session.folders.missing(DataKind::Overflow));
        return reply;
    }
    found.sort_by_key(|one| one.detected.timestamp);
    // The units of one file belong to one operator.
    let mut operators: Vec<Vec<DetectedOverflow>> = Vec::new();
    for one in found {
        let is_same = |group: &Vec<DetectedOverflow>| {
            let first = &group[0];
            first.detected.file == one.detected.file && first.step == one.step && first.rank == one.rank
        };
        match operators.last_mut().filter(|group| is_same(group)) {
            Some(group) => group.push(one),
            None => operators.push(vec![one]),
        }
    }
    reply.line(&format!(
        "[INFO] [Overflow] Find [{}] overflow debug file. Will show top {} ops.",
        operators.len(),
        limit.min(operators.len())
    ));
    for units in operators.iter().take(limit) {
        reply.block(&panel(None, &lines(units, session.is_chinese)));
    }
    if !operators.is_empty() {
        reply.ending = reply.ending.max(Ending::Differs);
    }
    reply
}

fn lines(units: &[DetectedOverflow], is_chinese: bool) -> Vec<String> {
    let first = &units[0];
    let file = first.detected.call_file.as_deref().map(file_name);
    let name = file.as_deref().and_then(FileName::parse);
    let mut lines = vec![match (&name, &first.call) {
        (Some(name), _) => format!("[{}][{}] {}", name.op_type, first.detected.task_id, name.op_name),
        (None, Some(call)) => format!("[{}] {call}", first.detected.task_id),
        (None, None) => format!(
            "[{}] the operator of stream {}: its tensors were not dumped",
            first.detected.task_id, first.detected.stream_id
        ),
    }];
    for unit in units {
        let detected = &unit.detected;
        let status: Vec<String> = detected.status.iter().map(u64::to_string).collect();
        let words =
            |meaning: &StatusMeaning| if is_chinese { meaning.chinese() } else { meaning.to_string() };
        let meanings: Vec<String> = detected.meanings.iter().map(words).collect();
        lines.push(format!(
            " - [{}][Status:{}][TaskId:{}] {}",
            detected.unit,
            status.join(","),
            detected.task_id,
            texts(&meanings)
        ));
    }
    lines.push(format!(" - First overflow file timestamp [{}] -", first.detected.timestamp));
    for tensor in &first.tensors {
        let part = tensor.name.rsplitn(3, '.').take(2).collect::<Vec<_>>();
        let part: Vec<&str> = part.into_iter().rev().collect();
        lines.push(format!(" ├─ {}.{}.npy", file.as_deref().unwrap_or_default(), part.join(".")));
        lines.push(format!("  └─ {}", tensor_spec(tensor)));
    }
    lines
}

fn tensor_spec(tensor: &DetectedTensor) -> String {
    let shape: Vec<usize> = tensor.shape.iter().map(|&dim| dim as usize).collect();
    let shape = numpy_text::shape(&shape);
    let dtype = tensor.dtype.strip_prefix("torch.").unwrap_or(&tensor.dtype);
    match (&tensor.stats, dtype.parse::<DType>()) {
        (Some(stats), Ok(known)) => {
            let [max, min, mean] = extrema(known, stats);
            format!("[Shape: {shape}] [Dtype: {dtype}] [Max: {max}] [Min: {min}] [Mean: {mean}]")
        }
        _ => format!("[Shape: {shape}] [Dtype: {dtype}] the elements were not read"),
    }
}
