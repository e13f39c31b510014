//! Switching on and off, and from step to step.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ulpscope_dump::journal;

use super::failures::Of;
use super::recorder::Recorder;
use super::state::State;

impl Recorder {
    /// Takes gradients and saved values from now on, for a folder; and calls, if they are wanted.
    pub(super) fn switch_on(&self, folder: PathBuf, with_calls: bool) {
        let goes_on = self.locked(|state| {
            state.aim(folder);
            state.ended.is_none()
        });
        if with_calls {
            self.is_on.store(goes_on, Ordering::Relaxed);
        }
        self.is_collecting.store(goes_on, Ordering::Relaxed);
    }

    /// Takes no further calls.
    pub(super) fn switch_off_calls(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Takes nothing more, takes every hook away, and makes the dump of what there is. Everything is tried; the first
    /// error is told.
    pub(super) fn switch_off(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        self.switch_off_calls();
        let removed = self.hooks.remove(py);
        let flushed = self.flush_gradients(py);
        self.is_collecting.store(false, Ordering::Relaxed);
        let finished = self.finish(py, true);
        let removed = self.guarded(py, Of::Beside("hooks"), removed).map(|_| ());
        removed.and(flushed).and(finished)
    }

    /// Ends a step.
    pub(super) fn end_step(&self, py: Python<'_>, wants_dump: bool) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        let flushed = self.flush_gradients(py);
        let opened = match wants_dump || self.locked(|state| !state.ledger.is_empty()) {
            true => self.append(|_| Ok(())),
            false => Ok(()),
        };
        let opened = self.guarded(py, Of::Beside("the dump"), opened).map(|_| ());
        let finished = self.finish(py, false);
        self.hooks.drop_dead(py);
        self.locked(State::next_step);
        self.modules.forget_spans();
        self.flow.forget();
        flushed.and(opened).and(finished)
    }

    /// Says that the rank has another folder.
    pub(super) fn move_folder(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        let moved = self.locked(|state| state.move_to(folder));
        let moved = moved.map_err(|error| PyOSError::new_err(error.to_string()));
        self.guarded(py, Of::Beside("the folder of the rank"), moved).map(|_| ())
    }

    /// Makes the dump of what is in the journal, which is removed only once the dump has all of it.
    fn finish(&self, py: Python<'_>, keeps_journal: bool) -> PyResult<()> {
        let settled = self.locked(State::settle);
        let finished = settled.map_err(|error| PyOSError::new_err(error.to_string())).and_then(|settled| {
            let Some((folder, is_behind)) = settled else { return Ok(()) };
            let made = py.detach(|| if is_behind { journal::make_dump(&folder) } else { Ok(()) });
            made.map_err(|error| PyOSError::new_err(error.to_string()))?;
            self.locked(State::is_settled);
            if keeps_journal {
                return Ok(());
            }
            journal::remove(&folder).map_err(|error| PyOSError::new_err(error.to_string()))
        });
        self.guarded(py, Of::Beside("the dump"), finished).map(|_| ())
    }
}
