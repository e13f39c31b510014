//! What a call was given.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::functions::Changed;

/// The positional and the named arguments.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a, 'py> {
    pub(super) args: &'a Bound<'py, PyTuple>,
    pub(super) kwargs: Option<&'a Bound<'py, PyDict>>,
}

impl Arguments<'_, '_> {
    /// Whether a tensor is among them, or in a list among them, and not in one of those that were changed, nor where
    /// results are put.
    pub(super) fn has_unchanged(&self, tensor: &Bound<'_, PyAny>, changed: &[Changed<'_>]) -> bool {
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
