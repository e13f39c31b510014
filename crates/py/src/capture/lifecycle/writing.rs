//! Writes lines and tensor files, for the current step and within the limits.

use std::io;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ulpscope_capture::{OVER_BYTES, Recording, State, StepId, Written};
use ulpscope_dump::writer::{Fingerprint, SavedTensor};

use crate::capture::describe::tensors::{LONG, is_endless};
use crate::capture::recorder::Recorder;
use crate::input::Input;

/// A write error as a Python error.
pub(in crate::capture) fn not_written(error: io::Error) -> PyErr {
    PyOSError::new_err(error.to_string())
}

impl Recorder {
    /// Appends to the journal of a step, if the step is not over and there is room. A write error ends the recording.
    pub(in crate::capture) fn append<T>(
        &self,
        step: StepId,
        with: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> PyResult<Written<T>> {
        self.recording.append(step, with).map_err(not_written)
    }

    /// Saves a tensor of the current call.
    pub(in crate::capture) fn save_tensor(
        &self,
        py: Python<'_>,
        step: StepId,
        stem: &str,
        input: Input<'_>,
    ) -> PyResult<Option<SavedTensor>> {
        save_tensor(&self.recording, py, step, stem, input)
    }
}

/// Saves a tensor, unless an equal one was saved before, and returns where it is; `None` if the step is over, or if
/// there is no room, which is counted.
pub(in crate::capture) fn save_tensor(
    recording: &Recording,
    py: Python<'_>,
    step: StepId,
    stem: &str,
    input: Input<'_>,
) -> PyResult<Option<SavedTensor>> {
    let (is_long, is_endless) = input.looked_at(|view| (view.packed_size() >= LONG, is_endless(view)))?;
    if is_endless && !recording.plan.format.keeps_repetitions_short() {
        // Other formats have no strides: the file would hold every repetition.
        let why = "an expanded tensor that stands for more than 1 GiB (use file_format pack or pt)";
        recording.locked(|state| state.ledger.unread(why.to_owned()));
        return Ok(None);
    }
    let fingerprint = match is_long {
        true => input.detached(py, Fingerprint::of)?,
        false => input.looked_at(Fingerprint::of)?,
    };
    match recording.append(step, |state| Ok(state.link(stem, &fingerprint))).map_err(not_written)? {
        Written::Done(None) => {}
        Written::Done(linked) => return Ok(linked),
        Written::StepOver | Written::NoRoom => return Ok(None),
    }
    let tensor = input.into_lone_tensor()?;
    let save = || {
        recording.append(step, |state| {
            state.find_room_for(&tensor)?;
            Ok(state.save(stem, fingerprint, &tensor))
        })
    };
    // No Python code runs while the state is locked, so that it is unlocked before the GIL is taken again.
    let saved = if is_long { py.detach(save) } else { save() };
    match saved.map_err(not_written)? {
        Written::Done(saved) => saved.map(Some).map_err(|error| PyOSError::new_err(error.to_string())),
        Written::StepOver => Ok(None),
        Written::NoRoom => {
            recording.locked(|state| state.ledger.unread(OVER_BYTES.to_owned()));
            Ok(None)
        }
    }
}
