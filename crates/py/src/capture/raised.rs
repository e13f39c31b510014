//! Calls that have raised an error.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ulpscope_dump::journal::encode::{CallLine, ObjectText, RaisedLine, Section};

use super::begun::Begun;
use super::buffers::Buffer;
use super::failures::Of;
use super::items::Walk;
use super::recorder::Recorder;
use super::state::Written;

/// What activation checkpointing of torch raises, and catches, as soon as it has computed again what was asked for.
const END_OF_RECOMPUTATION: &str = "_StopRecomputationError";

/// Whether a call was left because nothing more of it is needed: that is no error, and the call counts as recorded.
fn ends_recomputation(begun: &Begun, kind: &str) -> bool {
    begun.is_recompute && kind == END_OF_RECOMPUTATION
}

impl Recorder {
    /// Notes that a call raised an error of a kind, with the parameters of a module.
    pub(super) fn raised_call(
        &self,
        py: Python<'_>,
        begun: &Begun,
        kind: &str,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        self.leave_scope(begun);
        let Some(id) = begun.id else { return Ok(()) };
        let mut line = Buffer::new();
        if let Some(parameters) = parameters.filter(|_| self.plan.wants_inputs()) {
            let pushed = self.push_more(begun, id, parameters, &mut line);
            self.guarded(py, Of::Beside(&begun.name), pushed)?;
        }
        RaisedLine { id, last: begun.ends_last() }.encode(&mut line);
        match self.append(begun.step, |state| state.append(&[&line]))? {
            // Without that line, too, it is a call that has not come back.
            Written::Done(()) | Written::NoRoom if ends_recomputation(begun, kind) => {}
            Written::Done(()) | Written::NoRoom => {
                let why = format!("{}: {kind}", begun.base());
                self.in_step(begun.step, |state| state.ledger.raise(why));
            }
            Written::StepOver => self.note_overtaken(begun),
        }
        Ok(())
    }

    /// Appends a line with the parameters of a module that has begun.
    fn push_more(
        &self,
        begun: &Begun,
        id: u64,
        parameters: &Bound<'_, PyDict>,
        line: &mut Vec<u8>,
    ) -> PyResult<()> {
        CallLine::More { id }.encode_with(line, |line| {
            let mut sections = ObjectText::open(line);
            sections.section(Section::Parameters, line);
            let mut walk = Walk::new(self, begun.step, &begun.name, "parameters");
            walk.is_recompute = begun.is_recompute;
            walk.values(parameters, line)?;
            sections.close(line);
            Ok(())
        })
    }
}
