//! Start, stop, and the change of steps.
//!
//! Other threads may record at the same time. A step ends under one lock: its state is taken out and replaced with the
//! next one's. Its dump is made afterwards, when no thread can add to it any more (`ending.rs`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ulpscope_capture::State;
use ulpscope_dump::journal;
use ulpscope_dump::writer::LateNumbers;

use crate::capture::lifecycle::ending::{OverStep, make_dump};
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Starts recording gradients and saved values to a folder; calls too, if wanted.
    pub(in crate::capture) fn switch_on(&self, folder: PathBuf, with_calls: bool) {
        let goes_on = self.locked(|state| {
            state.aim(folder);
            state.ended.is_none()
        });
        if with_calls {
            self.is_on.store(goes_on, Ordering::Relaxed);
        }
        self.is_collecting.store(goes_on, Ordering::Relaxed);
    }

    /// Stops recording calls.
    pub(in crate::capture) fn switch_off_calls(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Stops recording, removes every hook, and makes the dump. Everything is tried; returns the first error.
    pub(in crate::capture) fn switch_off(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        self.switch_off_calls();
        self.abandon_graph();
        let before = self.await_ending(py);
        if let Some(note) = self.unseen_backwards(py) {
            self.locked(|state| state.note(note));
        }
        let removed = self.hooks.remove(py);
        let flushed = self.flush_gradients(py);
        self.is_collecting.store(false, Ordering::Relaxed);
        let copied = self.arrivals.copies.write_all(py);
        let numbers = self.locked(|state| Arc::clone(&state.numbers));
        let judged = self.judge_all(py);
        let waited = copied.and(self.wait_for_numbers(py, &numbers)).and(judged);
        self.arrivals.rest(py);
        let settled = self.locked(|state| state.settle(&self.recording.plan, false));
        let finished = self.make_dump(py, settled);
        if finished.is_err() {
            self.locked(State::unsettle);
        }
        let finished = self.guarded(py, Of::Beside("the dump"), finished).map(|_| ());
        let removed = self.guarded(py, Of::Beside("hooks"), removed).map(|_| ());
        before.and(waited).and(removed).and(flushed).and(finished)
    }

    /// Ends a step and starts the next, which has a folder if it is selected. The dump may be made while that one runs.
    pub(in crate::capture) fn end_step(
        &self,
        py: Python<'_>,
        wants_dump: bool,
        next_folder: Option<PathBuf>,
    ) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        self.abandon_graph();
        let flushed = self.flush_gradients(py);
        // Files belong to the step that is current.
        let copied = self.arrivals.copies.write_all(py);
        let is_wanted = next_folder.is_some();
        let unseen = if is_wanted { None } else { self.unseen_backwards(py) };
        let (mut over, forgotten) = self.locked(|state| {
            let over = state.turn(next_folder);
            (over, self.flow.turn(state.id))
        });
        drop(forgotten);
        if !is_wanted {
            self.switch_off_calls();
            self.is_collecting.store(false, Ordering::Relaxed);
        }
        if let Some(note) = unseen.filter(|_| over.is_aimed()) {
            over.note(note);
        }
        let unmatched = over.note_unmatched(&self.recording.plan);
        self.modules.forget_spans();
        self.hooks.drop_dead(py);
        let needs_dump = over.needs_dump(&self.recording.plan, wants_dump);
        let over = OverStep::new(over, &self.recording.plan, needs_dump);
        let before = self.await_ending(py);
        // After the last step the program may read its dump. After an interruption the step before is still being ended.
        let left = match is_wanted && before.is_ok() && self.can_end_later(&over) {
            true => self.end_later(over).err(),
            false => Some(Box::new(over)),
        };
        let mut waited = copied;
        let mut ended = Ok(());
        if let Some(over) = left {
            waited = waited.and(self.wait_for_numbers(py, over.numbers()));
            let made = caught(|| Ok(py.detach(|| over.end(&self.recording.plan))));
            ended = made.and_then(|made| self.take_up(py, made));
        }
        let mut told = Ok(());
        for note in unmatched {
            told = told.and(self.warn_once(py, note));
        }
        before.and(waited).and(flushed).and(ended).and(told)
    }

    /// Waits until the devices have measured the tensors of a step: the only place that waits for them.
    fn wait_for_numbers(&self, py: Python<'_>, step: &Arc<LateNumbers>) -> PyResult<()> {
        if step.has_tickets() { self.arrivals.wait_for(py, step) } else { Ok(()) }
    }

    /// The note about calls whose backward call may still come after recording has ended.
    fn unseen_backwards(&self, py: Python<'_>) -> Option<String> {
        match self.hooks.count_untouched(py) {
            0 => None,
            calls => Some(format!(
                "recording ended before any backward pass over {calls} calls whose graph is still there: one that \
                 runs now is not seen"
            )),
        }
    }

    /// Changes the folder of the rank.
    pub(in crate::capture) fn move_folder(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        self.await_ending(py)?;
        let moved = self.locked(|state| state.move_to(folder));
        let moved = moved.map_err(|error| PyOSError::new_err(error.to_string()));
        self.guarded(py, Of::Beside("the folder of the rank"), moved).map(|_| ())
    }

    /// Adds a note to the ledger of a finished step.
    pub(in crate::capture) fn add_note(&self, py: Python<'_>, folder: &Path, text: &str) -> PyResult<()> {
        self.await_ending(py)?;
        let added = journal::add_note(folder, text).map_err(|error| PyOSError::new_err(error.to_string()));
        self.guarded(py, Of::Beside("a note"), added).map(|_| ())
    }

    /// Makes the dump from the journal of a settled step, which may continue.
    fn make_dump(&self, py: Python<'_>, settled: io::Result<Option<(PathBuf, bool)>>) -> PyResult<()> {
        let settled = settled.map_err(|error| PyOSError::new_err(error.to_string()))?;
        let Some((folder, is_behind)) = settled else { return Ok(()) };
        caught(|| {
            let made = py.detach(|| make_dump(&folder, is_behind, &self.recording.plan));
            made.map_err(PyOSError::new_err)
        })
    }
}
