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

    /// The arguments that a call has left as they were, for questions about its results.
    pub(in crate::capture) fn unchanged(&self, changed: &[Changed<'_>]) -> Unchanged {
        let py = self.args.py();
        let mut unchanged = Unchanged::default();
        if self.kwargs.is_some_and(|kwargs| kwargs.contains(intern!(py, "out")).unwrap_or(true)) {
            return unchanged;
        }
        self.args.iter().for_each(|argument| add(&argument, &mut unchanged.given));
        if let Some(kwargs) = self.kwargs {
            kwargs.iter().for_each(|(_, argument)| add(&argument, &mut unchanged.given));
        }
        changed.iter().for_each(|changed| add(&changed.argument, &mut unchanged.changed));
        for addresses in [&mut unchanged.given, &mut unchanged.changed] {
            addresses.sort_unstable();
        }
        unchanged
    }
}

/// The arguments that a call has left as they were, and what is in lists among them. Those that receive results do not
/// count. An optimizer gets a thousand tensors, and returns as many.
#[derive(Default)]
pub(in crate::capture) struct Unchanged {
    /// The addresses of all arguments, sorted.
    given: Vec<usize>,
    /// Those of the changed ones.
    changed: Vec<usize>,
}

impl Unchanged {
    /// Whether a tensor is among them.
    pub(in crate::capture) fn has(&self, tensor: &Bound<'_, PyAny>) -> bool {
        let is_in = |addresses: &[usize]| addresses.binary_search(&(tensor.as_ptr() as usize)).is_ok();
        is_in(&self.given) && !is_in(&self.changed)
    }
}

/// Adds the address of an argument, and of what is in it if it is a list.
fn add(argument: &Bound<'_, PyAny>, addresses: &mut Vec<usize>) {
    addresses.push(argument.as_ptr() as usize);
    if let Ok(items) = argument.cast_exact::<PyList>() {
        addresses.extend(items.iter().map(|item| item.as_ptr() as usize));
    } else if let Ok(items) = argument.cast_exact::<PyTuple>() {
        addresses.extend(items.iter().map(|item| item.as_ptr() as usize));
    }
}
