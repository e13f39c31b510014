//! Gradients of parameters: one call per module, which grows as they are accumulated.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use ulpscope_capture::{NOT_SELECTED, OVER_BYTES, StepId, Written};
use ulpscope_dump::journal::encode::{CallLine, LINE_END, ListText, ObjectText};

use crate::capture::describe::tensors::Describe;
use crate::capture::lifecycle::failures::Of;
use crate::capture::recorder::Recorder;

/// The ledger's note for a gradient without room whose call has other gradients.
const AFTER_LIMIT: &str = "a parameter's gradient that came after max_bytes was reached";

impl Recorder {
    /// Records the gradient of a parameter of a module. `source` names what lies in `.grad`
    /// when an optimizer gets it.
    pub(in crate::capture) fn record_parameter_gradient(
        &self,
        py: Python<'_>,
        (base, name): (&str, &str),
        gradient: &Bound<'_, PyAny>,
        source: Option<&str>,
    ) -> PyResult<()> {
        if !self.is_collecting()
            || !self.recording.plan.wants_backward()
            || self.recording.plan.is_structure()
        {
            return Ok(());
        }
        let number = self.locked(|state| state.gradient_number(base, name));
        let call = format!("{base}.parameters_grad.{number}");
        // Gradients of parameters are selected with the backward calls of their module.
        let is_wanted = !self.recording.plan.selects()
            || self.locked(|state| state.wanted_modules.contains(base))
            || !self.recording.plan.has_scope() && self.recording.plan.has_listed(&call);
        let (step, is_first, is_left_out) = self.locked(|state| {
            self.recording.plan.match_list(&call, &mut state.listed);
            let is_first = state.meet_growing(&call);
            if state.is_left_out(&call) {
                return (state.id, is_first, true);
            }
            let why_not = match (is_wanted, is_first) {
                (false, _) => Some(NOT_SELECTED),
                (true, true) => state.take_place(),
                // The call exists: this is not a new one.
                (true, false) => state.is_out_of_room().then_some(OVER_BYTES),
            };
            match why_not {
                Some(why) if is_first => state.leave_out_growing(&call, why),
                // The call exists, with other gradients.
                Some(_) if is_wanted => state.ledger.unread(AFTER_LIMIT.to_owned()),
                _ => {}
            }
            (state.id, is_first, why_not.is_some())
        });
        if is_left_out {
            return Ok(());
        }
        let recorded = self.torch.with_modes_disabled(py, || {
            self.push_parameter_gradient(py, step, (&call, name), (gradient, source), is_first)
        });
        if recorded.is_err() && is_first {
            self.in_step(step, |state| {
                state.forget_growing(&call);
                state.give_back_place();
            });
        }
        let of = if is_first { Of::New(&call) } else { Of::Beside(&call) };
        self.guarded(py, of, recorded).map(|_| ())
    }

    fn push_parameter_gradient(
        &self,
        py: Python<'_>,
        step: StepId,
        (call, name): (&str, &str),
        (gradient, source): (&Bound<'_, PyAny>, Option<&str>),
        is_first: bool,
    ) -> PyResult<()> {
        let stem = self.recording.plan.saves(call).then(|| format!("{call}.{name}"));
        let mut item = Vec::with_capacity(256);
        let file = stem.as_deref();
        let describe = Describe {
            recorder: self,
            step,
            file,
            source: source.map(Arc::from),
            is_recompute: false,
            is_changed: false,
        };
        let requires_grad = gradient.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
        self.measured_together(py, || describe.push(gradient, requires_grad, &mut item))?;
        let appended = self.append(step, |state| {
            let known = state.growing(call);
            let id = known.unwrap_or_else(|| state.next_id());
            let mut line = Vec::with_capacity(item.len() + 64);
            let head = match known {
                Some(id) => CallLine::More { id },
                None => CallLine::Begin { name: call, id: Some(id), stack: None, parent: None },
            };
            head.open(&mut line);
            let mut sections = ObjectText::open(&mut line);
            sections.key(name, &mut line);
            let mut list = ListText::open(&mut line);
            list.element(&mut line);
            line.extend_from_slice(&item);
            list.close(&mut line);
            sections.close(&mut line);
            line.extend_from_slice(LINE_END);
            state.append(&[&line])?;
            if known.is_none() {
                state.begin_growing(call, id);
            }
            if is_first {
                state.ledger.record();
            }
            Ok(())
        })?;
        if let Written::NoRoom = appended {
            self.locked(|state| match is_first {
                true => state.leave_out_growing(call, OVER_BYTES),
                false => state.ledger.unread(AFTER_LIMIT.to_owned()),
            });
        }
        Ok(())
    }
}
