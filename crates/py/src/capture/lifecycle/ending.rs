//! The end of a step: its dump is made from its journal.
//!
//! Where a GPU is still computing numbers of the step, a thread waits for them and makes the dump, while the program
//! runs the next step: nothing that the program does then waits for the GPU. One step at a time is ended like that.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use ulpscope_capture::{Plan, State};
use ulpscope_dump::journal::{self, Layout};
use ulpscope_dump::writer::LateNumbers;

use crate::capture::device::arrivals::lock;
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::recorder::Recorder;

/// How long the program sleeps between two looks at the thread. It waits only if a step is shorter than the end of the
/// one before.
const BRIEFLY: Duration = Duration::from_micros(200);

/// A step that nobody can add to any more.
pub(in crate::capture) struct OverStep {
    state: State,
    /// Bytes written before its end.
    known: u64,
    /// Why its files could not be made.
    unopened: Option<String>,
}

/// A step that was ended, and why no dump of it could be made.
pub(in crate::capture) struct EndedStep {
    over: OverStep,
    failure: Option<String>,
}

/// The thread that ends a step.
pub(in crate::capture) type Ending = JoinHandle<Option<EndedStep>>;

impl OverStep {
    /// A step that was taken out. If a dump is wanted, it has files.
    pub(in crate::capture) fn new(mut state: State, plan: &Plan, needs_dump: bool) -> OverStep {
        let (_, known) = state.so_far();
        let opened = if needs_dump { state.begin_files(plan) } else { Ok(()) };
        OverStep { state, known, unopened: opened.err().map(|error| error.to_string()) }
    }

    /// The numbers that devices are still computing.
    pub(in crate::capture) fn numbers(&self) -> &Arc<LateNumbers> {
        &self.state.numbers
    }

    /// Makes the dump. All numbers that will come are there.
    pub(in crate::capture) fn end(mut self, plan: &Plan) -> EndedStep {
        let failure = match self.unopened.take() {
            Some(failure) => Some(failure),
            None => self.made(plan).err(),
        };
        if let Some(failure) = &failure {
            // The disk may have no room for that either; the failure is reported in any case.
            let _ = self.state.give_up(plan, failure);
        }
        EndedStep { over: self, failure }
    }

    fn made(&mut self, plan: &Plan) -> Result<(), String> {
        let settled = self.state.settle(plan, true).map_err(|error| error.to_string())?;
        let Some((folder, is_behind)) = settled else { return Ok(()) };
        make_dump(&folder, is_behind, plan)?;
        journal::remove(&folder).map_err(|error| error.to_string())
    }
}

/// Makes the dump from the journal of a settled step, if it lacks something.
pub(in crate::capture) fn make_dump(folder: &Path, is_behind: bool, plan: &Plan) -> Result<(), String> {
    if !is_behind {
        return Ok(());
    }
    journal::make_dump(folder, &plan.layout).map_err(|error| error.to_string())
}

impl Recorder {
    /// Whether the program need not wait for the end of this step: a GPU still measures its tensors, and nothing of it
    /// needs Python.
    pub(in crate::capture) fn can_end_later(&self, over: &OverStep) -> bool {
        let plan = &self.recording.plan;
        over.numbers().has_tickets()
            && self.arrivals.only_gpus_measure()
            && matches!(plan.layout, Layout::Msprobe)
            && !plan.checks_overflow()
            && !plan.strict
    }

    /// Ends a step on a thread of its own; returns it if no thread can be started.
    pub(in crate::capture) fn end_later(&self, over: OverStep) -> Result<(), Box<OverStep>> {
        let (arrivals, recording) = (Arc::clone(&self.arrivals), Arc::clone(&self.recording));
        let (sender, receiver) = mpsc::channel::<OverStep>();
        let run = move || {
            let over = receiver.recv().ok()?;
            arrivals.wait_quietly_for(over.numbers());
            Some(over.end(&recording.plan))
        };
        let Ok(thread) = Builder::new().name("ulpscope-step".to_owned()).spawn(run) else {
            return Err(Box::new(over));
        };
        sender.send(over).map_err(|unsent| Box::new(unsent.0))?;
        *lock(&self.ending) = Some(thread);
        Ok(())
    }

    /// Waits until the step before has its dump, and reports if it has none. What interrupts the program is returned at
    /// once: the thread goes on.
    pub(in crate::capture) fn await_ending(&self, py: Python<'_>) -> PyResult<()> {
        let Some(thread) = lock(&self.ending).take() else { return Ok(()) };
        while !thread.is_finished() {
            py.detach(|| std::thread::sleep(BRIEFLY));
            if let Err(error) = py.check_signals() {
                *lock(&self.ending) = Some(thread);
                return Err(error);
            }
        }
        match thread.join() {
            Ok(Some(ended)) => self.take_up(py, ended),
            Ok(None) => Ok(()),
            Err(panic) => {
                let failed = caught(|| std::panic::resume_unwind(panic));
                self.guarded(py, Of::Beside("the dump"), failed).map(|_: Option<()>| ())
            }
        }
    }

    /// Adds what an ended step wrote to what is known, and reports if it has no dump.
    pub(in crate::capture) fn take_up(&self, py: Python<'_>, ended: EndedStep) -> PyResult<()> {
        let EndedStep { over, failure } = ended;
        let (_, written) = over.state.so_far();
        self.locked(|state| {
            state.add_earlier(written.saturating_sub(over.known));
            state.ended = state.ended.take().or(over.state.ended);
        });
        let finished = failure.map_or(Ok(()), |failure| Err(PyOSError::new_err(failure)));
        self.guarded(py, Of::Beside("the dump"), finished).map(|_| ())
    }
}
