//! The arguments of a call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::capture::calls::functions::Changed;

/// The positional and the named arguments.
#[derive(Clone, Copy)]
pub(in crate::capture) struct Arguments<'a, 'py> {
    pub(in crate::capture) args: &'a Bound<'py, PyTuple>,
    pub(in crate::capture) kwargs: Option<&'a Bound<'py, PyDict>>,
}

impl Arguments<'_, '_> {
    /// The name of an argument's entry; `position` is used if it was not passed by name: `input.1`,
    /// `input.running_mean`.
    pub(in crate::capture) fn place_of(&self, argument: &Bound<'_, PyAny>, position: usize) -> String {
        let is_it = |found: &Bound<'_, PyAny>| found.is(argument);
        let is_at_position = self.args.get_item(position).is_ok_and(|found| is_it(&found));
        let name = self.kwargs.filter(|_| !is_at_position).and_then(|kwargs| {
            kwargs.iter().find(|(_, value)| is_it(value)).map(|(name, _)| name.to_string())
        });
        match name {
            Some(name) => format!("input.{name}"),
            None => format!("input.{position}"),
        }
    }

    /// Whether a tensor is among them, or in a list among them. Changed arguments and those that receive results do not
    /// count.
    pub(in crate::capture) fn has_unchanged(
        &self,
        tensor: &Bound<'_, PyAny>,
        changed: &[Changed<'_>],
    ) -> bool {
        let py = tensor.py();
        let is_in = |argument: &Bound<'_, PyAny>| {
            argument.is(tensor)
                || argument.cast_exact::<PyList>().is_ok_and(|items| items.iter().any(|item| item.is(tensor)))
                || argument
                    .cast_exact::<PyTuple>()
                    .is_ok_and(|items| items.iter().any(|item| item.is(tensor)))
        };
        if changed.iter().any(|changed| is_in(&changed.argument))
            || self.kwargs.is_some_and(|kwargs| kwargs.contains(intern!(py, "out")).unwrap_or(true))
        {
            return false;
        }
        self.args.iter().any(|argument| is_in(&argument))
            || self.kwargs.is_some_and(|kwargs| kwargs.values().iter().any(|argument| is_in(&argument)))
    }
}
