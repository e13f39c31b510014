//! The dump of Ascend operators: one file for each execution of an operator, with its inputs and outputs.
//!
//! ```text
//! {time}/{device}/{model name}/{model}/{step}/Conv2D.LeNet_conv1_Conv2D.14.5.1767261601009597     a model
//! {time}/{device}/{model}/Add.Add.3.0.1767261601009597                                            single operators
//! Add.Add.3.0.1767261601009597                                                                    copied by hand
//! ```
//!
//! Each file is a call. It is named after type and name of the operator, and numbered among its executions in order of
//! time: tasks, streams and times differ between runs. `mapping.csv` has the name of a file whose own name is digits;
//! without it the header has the name of the operator.

mod overflow;
mod places;
mod source;

use std::collections::HashMap;
use std::path::Path;

use ulpscope_formats::acl::{self, FileName, flat_op_name};
use ulpscope_formats::file::Format;
use ulpscope_formats::{Access, Bytes, Error};

use crate::call::{Call, CallKind};
use crate::file_part::PartFiles;
use crate::listing::TensorFile;
use crate::problems::Problems;
use crate::rank::{Index, Rank, Task, Tool};

use overflow::DebugFile;
pub use overflow::DeviceOverflow;
pub(crate) use places::{AclPlace, groups};
use source::AclSource;
pub use source::OperatorFile;

/// Whether a name is that of a file of an ACL dump.
pub(crate) fn is_name(name: &str) -> bool {
    FileName::parse(name).is_some() || FileName::parse_statistics(name).is_some()
}

/// The files of an ACL dump, and the others beside them; none if no name is one of an ACL dump. Files with names of
/// digits are recognised by their content.
pub(crate) fn dump_files(folder: &Path, files: &[TensorFile]) -> Option<(Vec<TensorFile>, Vec<TensorFile>)> {
    let known =
        |file: &TensorFile| file.named.file_name().and_then(|name| name.to_str()).is_some_and(is_name);
    if !files.iter().any(known) {
        return None;
    }
    let digits = |file: &TensorFile| own_name(file).bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |file: &&TensorFile| known(file) || digits(file) && is_acl(&folder.join(&file.path));
    Some(files.iter().cloned().partition(|file| is_part(&file)))
}

fn is_acl(path: &Path) -> bool {
    let bytes = Bytes::map(path, Access::ReadOnly);
    bytes.is_ok_and(|bytes| Format::detect(path, &bytes).is_ok_and(|format| format == Format::Acl))
}

/// The note that op-debug files are not among the calls; none if there are no such files.
pub(crate) fn op_debug_note(folder: &Path, files: &[TensorFile]) -> Option<String> {
    let is_op_debug = |file: &&TensorFile| {
        let name = file.named.file_name().and_then(|name| name.to_str()).and_then(FileName::parse);
        name.is_some_and(|name| name.is_op_debug())
    };
    let what = match files.iter().filter(is_op_debug).count() {
        0 => return None,
        1 => "1 op-debug file is".to_owned(),
        count => format!("{count} op-debug files are"),
    };
    Some(format!(
        "{}: {what} not compared: ulpscope overflow shows what the device detected",
        folder.display()
    ))
}

/// Opens the files of one device and step.
pub(crate) fn open(folder: &Path, files: &[TensorFile]) -> Rank {
    let mut problems = Problems::default();
    let mut files_found: Vec<OperatorFile> = Vec::new();
    let mut unread = Vec::new();
    let mut debug = Vec::new();
    for file in files {
        let name = file.named.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let statistics = FileName::parse_statistics(name);
        let is_statistics = statistics.is_some();
        let name = statistics.or_else(|| FileName::parse(name));
        let path = file.path.clone();
        if let Some(name) = name.clone().filter(FileName::is_op_debug) {
            debug.push(DebugFile { path, name });
            continue;
        }
        match operator(folder, file, name.as_ref(), is_statistics, &mut problems) {
            Ok(operator) => files_found.push(OperatorFile { path, name, operator, is_statistics }),
            Err(error) => {
                problems.add(&error);
                let in_name = name.as_ref().map(FileName::operator);
                let operator = in_name.unwrap_or_else(|| own_name(file));
                unread.push(OperatorFile { path, name, operator, is_statistics });
            }
        }
    }
    let mut files = files_found;
    // Stable: files without a time stay in the order of their names.
    files.sort_by_key(|file| file.name.as_ref().map_or((u64::MAX, 0), |name| (name.timestamp, name.task_id)));
    let task = if files.iter().all(|file| file.is_statistics) { Task::Statistics } else { Task::Tensor };
    let mut index = Index::default();
    let mut executions: HashMap<&str, u32> = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        let base = index.names.id(&file.operator);
        let execution = executions.entry(&file.operator).or_default();
        let place = number as u64..number as u64;
        index.calls.push(Call { base, index: Some(*execution), kind: CallKind::Forward, place });
        *execution += 1;
    }
    let overflows = overflow::overflows(folder, &debug, &files, &mut problems);
    let source = AclSource { folder: folder.to_owned(), files, unread, overflows };
    Rank {
        path: folder.to_owned(),
        tool: Tool::Acl,
        task,
        level: None,
        index,
        source: Box::new(source),
        problems,
        part_files: PartFiles::default(),
        moved: None,
    }
}

/// The name of a file's operator. Reads the file, so that what is wrong with it is known at once.
fn operator(
    folder: &Path,
    file: &TensorFile,
    name: Option<&FileName>,
    is_statistics: bool,
    problems: &mut Problems,
) -> Result<String, Error> {
    let path = folder.join(&file.path);
    let in_file = |error: Error| error.in_file(&path);
    let bytes = Bytes::map(&path, Access::ReadOnly)?;
    if is_statistics {
        bytes.reading(|| acl::read_statistics(&bytes)).map_err(in_file)?;
        return Ok(name.map(FileName::operator).unwrap_or_default());
    }
    let dump = bytes.reading(|| acl::read(&bytes)).map_err(in_file)?;
    for (part, tensors) in [("input", &dump.inputs), ("output", &dump.outputs)] {
        for (index, tensor) in tensors.iter().enumerate() {
            if let Err(error) = tensor.tensor() {
                problems.add(&error.in_part(&format!("{part}.{index}")).in_file(&path));
            }
        }
    }
    for error in dump.cut_regions() {
        problems.add(&error.in_file(&path));
    }
    Ok(match name {
        Some(name) => name.operator(),
        None if dump.op_name.is_empty() => own_name(file),
        None => flat_op_name(&dump.op_name),
    })
}

fn own_name(file: &TensorFile) -> String {
    file.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Reads the file of one execution, with the layouts of its tensors.
pub fn read_operator_file(path: &Path) -> Result<acl::DumpFile, Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    bytes.reading(|| acl::read(&bytes)).map_err(|error| error.in_file(path))
}
