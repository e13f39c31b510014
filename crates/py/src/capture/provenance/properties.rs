//! Properties of tensors that a program reads and sets: not calls, but they may return a tensor or replace elements.
//!
//! An optimizer reads the gradient of every parameter several times in a step, so that reading takes as little as it can.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::recorder::Recorder;
use crate::capture::torch_api::Torch;

/// Whether a property is set: `descriptor.__set__` and `descriptor.__get__` are of one type.
pub(in crate::capture) fn is_assignment(access: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> bool {
    args.len() > 1 && is_called(access, "__set__")
}

/// Whether a function or property has a name.
fn is_called(object: &Bound<'_, PyAny>, name: &str) -> bool {
    let found = object.getattr(intern!(object.py(), "__name__"));
    found.is_ok_and(|found| found.cast::<PyString>().is_ok_and(|found| found == name))
}

/// What a property says of the tensor that it returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// It shares the elements of its owner, without torch reporting that.
    Data,
    /// It is the gradient of its owner.
    Gradient,
    /// It shows the elements of its owner.
    View,
}

impl Relation {
    fn of(torch: &Torch, property: &Bound<'_, PyAny>) -> Relation {
        if torch.is_gradient(property) {
            return Relation::Gradient;
        }
        // A class of the program may have properties of the same names.
        match () {
            () if is_called(property, "data") => Relation::Data,
            () if is_called(property, "grad") || is_called(property, "_grad") => Relation::Gradient,
            () => Relation::View,
        }
    }
}

impl Recorder {
    /// Reads a property. A tensor that it returns is another view of the same tensor. `is_overheard`: other modes or
    /// classes would see our queries.
    pub(in crate::capture) fn read_property<'py>(
        &self,
        get: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
        is_overheard: impl FnOnce() -> PyResult<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = get.call(args, kwargs)?;
        if self.torch.is_plain_tensor(&result) {
            let note = || self.note_property(get, args, &result);
            let noted = match is_overheard()? {
                true => self.torch.with_modes_disabled(get.py(), note),
                false => caught(note),
            };
            self.guarded(get.py(), Of::Beside("a property"), noted)?;
        }
        Ok(result)
    }

    /// Sets a property. Replaced elements have the producer of the new ones. It is counted, but not recorded as a call.
    pub(in crate::capture) fn assign_property<'py>(
        &self,
        set: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = set.call(args, kwargs)?;
        self.recording.leave_out("assigned to a property");
        let noted = self.torch.with_modes_disabled(set.py(), || self.note_assignment(set, args));
        self.guarded(set.py(), Of::Beside("a property"), noted)?;
        Ok(result)
    }

    fn note_assignment(&self, set: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> PyResult<()> {
        let property = set.getattr(intern!(set.py(), "__self__"))?;
        if !["data", "real", "imag"].iter().any(|name| is_called(&property, name)) {
            return Ok(());
        }
        let (owner, value) = (args.get_item(0)?, args.get_item(1)?);
        let step = self.flow.step();
        let source = match self.torch.is_tensor(&value)? {
            true => self.flow.source(&self.tensor(&value))?,
            false => None,
        };
        self.flow.note(step, &self.tensor(&owner), source.unwrap_or_else(|| Arc::from("outside")))
    }

    fn note_property(
        &self,
        get: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let step = self.flow.step();
        let owner = args.get_item(0)?;
        let property = get.getattr(intern!(get.py(), "__self__"))?;
        let relation = Relation::of(&self.torch, &property);
        if relation == Relation::Data {
            self.note_alias(result, owner.clone())?;
        }
        let Some(source) = self.flow.source(&self.tensor(&owner))? else { return Ok(()) };
        let source = match (relation, source.strip_prefix("parameter:")) {
            (Relation::Data | Relation::View, _) => source,
            (Relation::Gradient, Some(parameter)) => ["gradient:", parameter].concat().into(),
            (Relation::Gradient, None) => return Ok(()),
        };
        self.flow.note_view(step, &self.tensor(result), source)
    }
}
