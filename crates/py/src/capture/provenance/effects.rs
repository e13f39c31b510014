//! Effects of a call on existing tensors: which it wrote to, and whose elements its result shares.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use ulpscope_capture::{Initialised, StepId};

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::call_in_progress::CallInProgress;
use crate::capture::calls::functions::{Changed, Function};
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::recorder::Recorder;

/// Aliases of aliases that are followed.
const MAX_ALIASES: usize = 8;

impl Recorder {
    /// Notes the effects of a function on its arguments: which it changed, and whose elements its result shares.
    pub(in crate::capture) fn note_effects(
        &self,
        function: &Function,
        changed: &[Changed<'_>],
        arguments: Arguments<'_, '_>,
        output: &Bound<'_, PyAny>,
        begun: &CallInProgress,
    ) -> PyResult<()> {
        let Arguments { args, kwargs } = arguments;
        let py = output.py();
        let assigned = self.assigned_part(args, begun)?;
        for changed in changed.iter().filter(|_| !function.gives_memory) {
            self.note_changed(&changed.place, &changed.argument, begun, assigned.as_ref())?;
        }
        if let Some(out) = kwargs.map(|kwargs| kwargs.get_item(intern!(py, "out"))).transpose()?.flatten()
            && !changed.iter().any(|changed| changed.argument.is(&out))
        {
            self.note_changed("input.out", &out, begun, None)?;
        }
        if function.gives_alias && self.torch.is_tensor(output)? {
            self.note_alias(output, args.get_item(0)?)?;
        }
        Ok(())
    }

    /// The part that `x[…] = y` has written to, if the rest may be uninitialised and the index selects a view.
    fn assigned_part<'py>(
        &self,
        args: &Bound<'py, PyTuple>,
        begun: &CallInProgress,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !begun.name.contains(".__setitem__.") || args.len() < 2 {
            return Ok(None);
        }
        let (tensor, index) = (args.get_item(0)?, args.get_item(1)?);
        if self.flow.initialised(&self.tensor(&tensor)) == Initialised::Fully || !selects_view(&index) {
            return Ok(None);
        }
        Ok(Some(tensor.call_method0(intern!(args.py(), "detach"))?.get_item(index)?))
    }

    /// Notes that a call changed the argument at a place, or the tensors in it, without returning them. `part` is all that
    /// it has written to, if that is known.
    fn note_changed(
        &self,
        place: &str,
        argument: &Bound<'_, PyAny>,
        begun: &CallInProgress,
        part: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let source = format!("{}.{place}", begun.name);
        if self.torch.is_tensor(argument)? {
            self.flow.fill_blank(&self.tensor(part.unwrap_or(argument)));
            self.note_changed_tensor(argument, begun.step, source)?;
        } else if let Ok(items) = argument.try_iter() {
            for (number, item) in items.enumerate() {
                let item = item?;
                if self.torch.is_tensor(&item)? {
                    self.flow.fill_blank(&self.tensor(&item));
                    self.note_changed_tensor(&item, begun.step, format!("{source}.{number}"))?;
                }
            }
        }
        Ok(())
    }

    /// Notes what a call has written in place, if it declared that, as collectives do: other tensors may show parts of
    /// it, as gradients do of a bucket.
    pub(in crate::capture) fn note_in_place(
        &self,
        begun: &CallInProgress,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if begun.written.is_none() {
            return Ok(());
        }
        let noted = caught(|| self.note_written(output, begun));
        self.guarded(output.py(), Of::Beside(&begun.name), noted).map(|_| ())
    }

    /// Notes that a call has written its results to existing tensors: to one, or to several in order.
    fn note_written(&self, place: &Bound<'_, PyAny>, begun: &CallInProgress) -> PyResult<()> {
        if self.torch.is_tensor(place)? {
            return self.note_written_at("0", place, begun);
        }
        let Ok(items) = place.try_iter() else { return Ok(()) };
        for (number, item) in items.enumerate() {
            let item = item?;
            if self.torch.is_tensor(&item)? {
                self.note_written_at(&number.to_string(), &item, begun)?;
            } else if let Ok(parts) = item.cast::<PyList>() {
                for (part, item) in parts.iter().enumerate() {
                    if self.torch.is_tensor(&item)? {
                        self.note_written_at(&format!("{number}.{part}"), &item, begun)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same for the tensor at a place among the results, if the call wrote to it.
    fn note_written_at(
        &self,
        place: &str,
        tensor: &Bound<'_, PyAny>,
        begun: &CallInProgress,
    ) -> PyResult<()> {
        match begun.made(place) {
            true => {
                self.flow.fill_blank(&self.tensor(tensor));
                self.note_changed_tensor(tensor, begun.step, format!("{}.output.{place}", begun.name))
            }
            false => Ok(()),
        }
    }

    /// Notes that a tensor shares the elements of another, or of that one's base or owner: the other may be freed soon.
    pub(in crate::capture) fn note_alias<'py>(
        &self,
        tensor: &Bound<'py, PyAny>,
        mut owner: Bound<'py, PyAny>,
    ) -> PyResult<()> {
        for _ in 0..MAX_ALIASES {
            let base = owner.getattr(intern!(tensor.py(), "_base"))?;
            let found = if base.is_none() { self.owner_of(&owner) } else { Some(base) };
            let Some(found) = found else { break };
            owner = found;
        }
        self.flow.note_alias(&self.tensor(tensor), &self.tensor(&owner))
    }

    /// Notes a change of a tensor, and of the tensors that it is a view or an alias of.
    fn note_changed_tensor(&self, tensor: &Bound<'_, PyAny>, step: StepId, source: String) -> PyResult<()> {
        let source: Arc<str> = source.into();
        let change = self.flow.add_change(step, &self.tensor(tensor), Arc::clone(&source));
        let mut next = Some(tensor.clone());
        for _ in 0..MAX_ALIASES {
            let Some(tensor) = next else { break };
            let base = tensor.getattr(intern!(tensor.py(), "_base"))?;
            self.flow.note_changed(step, &self.tensor(&tensor), Arc::clone(&source), change)?;
            if !base.is_none() {
                self.flow.note_changed(step, &self.tensor(&base), Arc::clone(&source), change)?;
            }
            next = self.owner_of(&tensor).or_else(|| self.owner_of(&base));
        }
        Ok(())
    }
}

/// Whether an index selects a view: numbers, slices, `None` and `...`, alone or in a tuple.
fn selects_view(index: &Bound<'_, PyAny>) -> bool {
    let is_plain = |item: &Bound<'_, PyAny>| {
        item.is_none()
            || item.cast_exact::<PyInt>().is_ok()
            || item.cast::<PySlice>().is_ok()
            || item.cast::<PyEllipsis>().is_ok()
    };
    match index.cast_exact::<PyTuple>() {
        Ok(items) => items.iter().all(|item| is_plain(&item)),
        Err(_) => is_plain(index),
    }
}
