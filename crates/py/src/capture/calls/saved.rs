//! Values saved by hand.

use pyo3::prelude::*;
use ulpscope_capture::{OVER_BYTES, State, Written};
use ulpscope_dump::journal::encode::CallLine;

use crate::capture::describe::items::Walk;
use crate::capture::lifecycle::failures::Of;
use crate::capture::recorder::Recorder;

impl Recorder {
    /// Records a value under the user's name and a number.
    pub(in crate::capture) fn record_saved(
        &self,
        py: Python<'_>,
        name: &str,
        number: u64,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.is_collecting() {
            return Ok(());
        }
        let call = format!("{name}.{number}");
        let met = self.locked(|state| {
            state.ledger.meet();
            let why_not = state.take_place();
            if let Some(why) = why_not {
                state.ledger.skip(why);
            }
            why_not.is_none().then_some(state.id)
        });
        let Some(step) = met else { return Ok(()) };
        let saved = self.torch.with_modes_disabled(py, || {
            let mut line = Vec::new();
            let name = format!("{call}.debug");
            let head = CallLine::Begin { name: &name, id: None, stack: None, parent: None };
            head.encode_with(&mut line, |line| {
                let mut walk = Walk::new(self, step, &call, "debug");
                walk.has_sources = false;
                walk.item(value, line)
            })?;
            self.measure_queued(py)?;
            let written = self.append(step, |state| {
                state.append(&[&line])?;
                state.ledger.recorded += 1;
                Ok(())
            })?;
            if let Written::NoRoom = written {
                self.locked(|state| state.ledger.skip(OVER_BYTES));
            }
            Ok(())
        });
        if saved.is_err() {
            self.in_step(step, State::give_back_place);
        }
        self.guarded(py, Of::New(&call), saved).map(|_| ())
    }
}
