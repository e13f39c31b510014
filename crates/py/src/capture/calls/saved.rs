//! Values that no call returned: those saved by hand, and what a step leaves behind.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use ulpscope_capture::{OVER_BYTES, State, WITHIN_GRAPH, Written, is_in_graph};
use ulpscope_dump::CallKind;
use ulpscope_dump::journal::encode::{CallLine, ObjectText, Section};

use crate::capture::describe::items::Walk;
use crate::capture::lifecycle::failures::Of;
use crate::capture::recorder::Recorder;

/// The word of calls that stand for the end of a step.
const STEP_END: &str = CallKind::StepEnd.word();

/// How files of results are named.
const OUTPUT: &str = "output";

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
        self.record_value(py, &call, &format!("{call}.debug"), "debug", value)
    }

    /// Records which results of calls a model returned, by their place in what it returned.
    pub(in crate::capture) fn record_returned(&self, tensors: &Bound<'_, PyDict>) -> PyResult<()> {
        if !self.sees_results() {
            return Ok(());
        }
        let is_in_graph_here = self.locked(|state| state.id.graph().is_some());
        let source = |(path, tensor): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let source = self.flow.source(&self.tensor(&tensor))?;
            // Outside of a graph, what was captured there and not replayed in this step has not been made.
            let source = source.filter(|source| is_in_graph_here || !is_in_graph(source));
            Ok((path.extract()?, source.map(|source| source.to_string())))
        };
        let results = tensors.iter().map(source).collect::<PyResult<Vec<(String, Option<String>)>>>()?;
        self.locked(|state| state.returned(results));
        Ok(())
    }

    /// Whether what models return can be told from the dump: all calls are in it.
    fn sees_results(&self) -> bool {
        let plan = &self.recording.plan;
        self.is_collecting() && !plan.selects() && !plan.checks_overflow() && plan.wants_outputs()
    }

    /// Records what a step leaves behind, by name, as it stands at its end. `what` says what these tensors are.
    pub(in crate::capture) fn record_step_end(
        &self,
        py: Python<'_>,
        (what, number): (&str, u64),
        tensors: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.sees_results() {
            return Ok(());
        }
        let call = format!("{what}.{STEP_END}.{number}");
        self.record_value(py, &call, &call, OUTPUT, tensors)
    }

    /// Records a value as a call without arguments. `key` is its name in the dump, `part` that of the value in names of
    /// files.
    fn record_value(
        &self,
        py: Python<'_>,
        call: &str,
        key: &str,
        part: &'static str,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let met = self.locked(|state| {
            state.ledger.meet();
            // It has its number already, which would be that of every replay.
            let why_not = state.id.graph().map(|_| WITHIN_GRAPH).or_else(|| state.take_place());
            if let Some(why) = why_not {
                state.ledger.skip(why);
            }
            why_not.is_none().then_some(state.id)
        });
        let Some(step) = met else { return Ok(()) };
        let saved = self.torch.with_modes_disabled(py, || {
            let mut line = Vec::new();
            let head = CallLine::Begin { name: key, id: None, stack: None, parent: None };
            let encode = |line: &mut Vec<u8>| {
                let mut walk = Walk::new(self, step, call, part);
                walk.has_sources = part == OUTPUT;
                if part != OUTPUT {
                    return walk.item(value, line);
                }
                let mut sections = ObjectText::open(line);
                sections.section(Section::Output, line);
                walk.item(value, line)?;
                sections.close(line);
                Ok(())
            };
            self.measured_together(py, || head.encode_with(&mut line, encode))?;
            let written = self.append(step, |state| {
                state.append(&[&line])?;
                state.ledger.record();
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
        self.guarded(py, Of::New(call), saved).map(|_| ())
    }
}
