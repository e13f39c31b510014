//! Lines and tensor files on their way to the disk: of the step that takes them, and within what is allowed.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ulpscope_dump::writer::{Fingerprint, file_size};
use ulpscope_formats::file::Format;

use super::ledger::OVER_BYTES;
use super::limits::is_no_room;
use super::recorder::Recorder;
use super::state::{State, StepId, Written};
use super::tensors::{LONG, is_endless};
use crate::input::Input;

impl Recorder {
    /// Appends to the journal of a step, if that is not over, and there is room. What cannot be written ends the
    /// recording.
    pub(super) fn append<T>(
        &self,
        step: StepId,
        with: impl FnOnce(&mut State) -> std::io::Result<T>,
    ) -> PyResult<Written<T>> {
        let appended = self.locked(|state| {
            if !state.takes(step) {
                return Ok(Written::StepOver);
            }
            state.begin_files(&self.plan)?;
            with(state).map(Written::Done)
        });
        match appended {
            Err(error) if is_no_room(&error) => Ok(Written::NoRoom),
            appended => appended.map_err(|error| PyOSError::new_err(error.to_string())),
        }
    }

    /// Makes the file of a tensor, or a link to that of an equal one, and tells its name; nothing if the step is over, or
    /// there is no room for it, which is counted.
    pub(super) fn save_tensor(
        &self,
        py: Python<'_>,
        step: StepId,
        stem: &str,
        input: Input<'_>,
    ) -> PyResult<Option<String>> {
        let (is_long, is_endless) = input.looked_at(|view| (view.packed_size() >= LONG, is_endless(view)))?;
        if is_endless && self.plan.format != Format::Pt {
            // The others have no strides: the file would hold every repetition.
            let why = "an expanded tensor that stands for more than 1 GiB (use file_format pt)";
            self.locked(|state| state.ledger.unread(why.to_owned()));
            return Ok(None);
        }
        let fingerprint = match is_long {
            true => input.detached(py, Fingerprint::of)?,
            false => input.looked_at(Fingerprint::of)?,
        };
        match self.append(step, |state| Ok(state.link(stem, &fingerprint)))? {
            Written::Done(None) => {}
            Written::Done(linked) => return Ok(linked),
            Written::StepOver | Written::NoRoom => return Ok(None),
        }
        let tensor = input.into_lone_tensor()?;
        let save = || {
            self.append(step, |state| {
                state.find_room(file_size(&tensor))?;
                Ok(state.save(stem, fingerprint, &tensor))
            })
        };
        // Nothing of Python is asked for while the state is locked, so that it is unlocked before the GIL is taken again.
        let saved = if is_long { py.detach(save)? } else { save()? };
        match saved {
            Written::Done(saved) => saved.map(Some).map_err(|error| PyOSError::new_err(error.to_string())),
            Written::StepOver => Ok(None),
            Written::NoRoom => {
                self.locked(|state| state.ledger.unread(OVER_BYTES.to_owned()));
                Ok(None)
            }
        }
    }
}
