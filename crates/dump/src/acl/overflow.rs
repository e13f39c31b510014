//! What the device detected: the op-debug files of an ACL dump, and the operators that they point to.

use std::path::{Path, PathBuf};

use ulpscope_formats::acl::{FileName, NO_THREAD, StatusMeaning, Thread, UnitState, read_op_debug};
use ulpscope_formats::{Error, Fault};

use super::source::OperatorFile;
use crate::problems::Problems;

/// An op-debug file.
pub(super) struct DebugFile {
    pub(super) path: PathBuf,
    pub(super) name: FileName,
}

/// An overflow that a device detected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOverflow {
    /// The op-debug file, below the folder of the rank.
    pub file: PathBuf,
    /// When the file was written.
    pub timestamp: u64,
    /// The unit that detected it, as the older tools call it: `AI Core`.
    pub unit: &'static str,
    /// Its status: one word, or several.
    pub status: Vec<u64>,
    /// The meaning of the status.
    pub meanings: Vec<StatusMeaning>,
    /// The task and stream that it happened in.
    pub task_id: u64,
    /// See `task_id`.
    pub stream_id: u64,
    /// The call of the rank that ran in it, if its file is there.
    pub call: Option<usize>,
    /// The file of that call, below the folder of the rank.
    pub call_file: Option<PathBuf>,
}

/// The overflows of op-debug files, in order of time.
pub(super) fn overflows(
    folder: &Path,
    debug: &[DebugFile],
    files: &[OperatorFile],
    problems: &mut Problems,
) -> Vec<DeviceOverflow> {
    let mut found = Vec::new();
    for file in debug {
        match read(&folder.join(&file.path)) {
            Ok(units) => {
                let detected = units.iter().filter(|state| state.has_overflow());
                found.extend(detected.map(|state| overflow(file, state, files)));
            }
            Err(error) => problems.add(&error),
        }
    }
    found.sort_by_key(|overflow: &DeviceOverflow| overflow.timestamp);
    found
}

fn read(path: &Path) -> Result<Vec<UnitState>, Error> {
    let dump = super::read_operator_file(path)?;
    let Some(output) = dump.outputs.first() else {
        let fault = Fault::malformed("an output with the state of the device", "no output");
        return Err(Error::whole(fault).in_file(path));
    };
    Ok(read_op_debug(&output.data).map_err(|error| error.in_part("output.0").in_file(path))?.units)
}

fn overflow(file: &DebugFile, state: &UnitState, files: &[OperatorFile]) -> DeviceOverflow {
    // A device that does not know the task writes -1: the file is then that of the task itself.
    let field = |name: &str, own: u64| state.field(name).filter(|&id| id != u64::MAX).unwrap_or(own);
    let task_id = field("task_id", file.name.task_id);
    let stream_id = field("stream_id", file.name.stream_id.unwrap_or_default());
    let part = |name: &str| state.field(name).filter(|&id| id != NO_THREAD && id != u64::MAX);
    let is_part = |thread: &Thread| {
        part("context_id").is_none_or(|id| id == thread.context_id)
            && part("thread_id").is_none_or(|id| id == thread.thread_id)
    };
    let runs_there = |one: &OperatorFile| {
        one.path.parent() == file.path.parent()
            && one.name.as_ref().is_some_and(|name| {
                name.task_id == task_id
                    && name.stream_id.is_none_or(|id| id == stream_id)
                    && name.thread.as_ref().is_none_or(is_part)
            })
    };
    // A task runs many times: the execution nearest to the file.
    let from_file = |one: &OperatorFile| {
        one.name.as_ref().map_or(u64::MAX, |name| name.timestamp.abs_diff(file.name.timestamp))
    };
    let there = files.iter().enumerate().filter(|(_, one)| runs_there(one));
    let call = there.min_by_key(|(_, one)| from_file(one)).map(|(call, _)| call);
    DeviceOverflow {
        file: file.path.clone(),
        timestamp: file.name.timestamp,
        unit: state.unit.name(),
        status: state.status.clone(),
        meanings: state.meanings(),
        task_id,
        stream_id,
        call,
        call_file: call.map(|call| files[call].path.clone()),
    }
}
