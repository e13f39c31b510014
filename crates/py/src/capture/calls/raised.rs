//! Calls that have raised an error.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ulpscope_capture::Buffer;
use ulpscope_dump::journal::encode::{CallLine, ObjectText, Section};

use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::describe::items::Walk;
use crate::capture::lifecycle::failures::Of;
use crate::capture::lifecycle::writing::not_written;
use crate::capture::recorder::Recorder;

/// Torch's activation checkpointing raises and catches this as soon as it has recomputed what it needs.
const END_OF_RECOMPUTATION: &str = "_StopRecomputationError";

/// Whether a call was left because no more of it is needed: not an error, and the call counts as recorded.
fn ends_recomputation(begun: &CallInProgress, kind: &str) -> bool {
    begun.is_recompute && kind == END_OF_RECOMPUTATION
}

impl Recorder {
    /// Notes that a call raised an error of a kind, with the parameters of a module.
    pub(in crate::capture) fn raised_call(
        &self,
        py: Python<'_>,
        begun: &CallInProgress,
        kind: &str,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.recording.leave_scope(begun);
        let Some(id) = begun.id else { return Ok(()) };
        let mut line = Buffer::new();
        if let Some(parameters) = parameters.filter(|_| self.recording.plan.wants_inputs()) {
            let pushed = self.push_more(begun, id, parameters, &mut line);
            self.guarded(py, Of::Beside(&begun.name), pushed)?;
        }
        let is_counted = !ends_recomputation(begun, kind);
        self.recording.raise(begun, kind, line, is_counted).map_err(not_written)
    }

    /// Appends a line with the parameters of a module in progress.
    fn push_more(
        &self,
        begun: &CallInProgress,
        id: u64,
        parameters: &Bound<'_, PyDict>,
        line: &mut Vec<u8>,
    ) -> PyResult<()> {
        CallLine::More { id }.encode_with(line, |line| {
            let mut sections = ObjectText::open(line);
            sections.section(Section::Parameters, line);
            let mut walk = Walk::new(self, begun.step, &begun.name, "parameters");
            walk.is_recompute = begun.is_recompute;
            self.measured_together(parameters.py(), || walk.values(parameters, line))?;
            sections.close(line);
            Ok(())
        })
    }
}
