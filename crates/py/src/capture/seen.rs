//! Calls that torch shows: of its functions, and of the properties of tensors.

use std::cell::Cell;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::arguments::Arguments;
use super::begun::{Begun, Kind};
use super::failures::{Of, caught};
use super::functions::{Function, Treatment};
use super::ledger::METADATA;
use super::recorder::{Recorder, kind_of};
use super::state::StepId;

/// Aliases of aliases that are followed.
const MAX_ALIASES: usize = 8;

thread_local! {
    /// What the next call is, for operators whose name torch does not tell.
    static HINT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Tells what the next call of torch on this thread is, where torch would call it otherwise; any other name takes back
/// what was told.
pub(super) fn give_hint(name: &str) {
    HINT.set(match name {
        "__radd__" => Some("r+"),
        "__rmul__" => Some("r*"),
        _ => None,
    });
}

/// Runs a call, and records it if it is of interest.
pub(super) fn see_call<'py>(
    slf: &Bound<'py, Recorder>,
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    arguments: Arguments<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = slf.py();
    let recorder = slf.get();
    let Arguments { args, kwargs } = arguments;
    if !recorder.is_on() {
        return func.call(args, kwargs);
    }
    let mut own = func.clone();
    if func.get_type().is(&recorder.torch.property_access) {
        if is_assignment(func, args) {
            return recorder.assign_property(func, args, kwargs);
        }
        match func.getattr(intern!(py, "__self__")) {
            Ok(property) if recorder.torch.is_computing(&property) => own = property,
            _ => return recorder.read_property(func, args, kwargs),
        }
    }
    let described = caught(|| recorder.functions.describe(&recorder.torch, &own));
    let Some(function) = recorder.guarded(py, Of::Unmet("a function"), described)? else {
        return func.call(args, kwargs);
    };
    if function.is_of_program {
        let original =
            caught(|| recorder.torch.front.bind(py).call_method1(intern!(py, "original"), (&own,)));
        let original = recorder.guarded(py, Of::Unmet("a function"), original)?;
        if let Some(original) = original.filter(|original| !original.is(&own)) {
            return see_call(slf, &original, types, arguments);
        }
    }
    match function.treatment {
        Treatment::Pass => {
            recorder.leave_out(METADATA);
            return func.call(args, kwargs);
        }
        Treatment::Through => return func.call(args, kwargs),
        Treatment::Record => {}
    }
    // Neither another mode nor a class of tensors is to see what is asked of the tensors here.
    let is_overheard = !types.is_empty()? || recorder.torch.has_modes(py)?;
    let unheard = |body: &mut dyn FnMut() -> PyResult<()>| match is_overheard {
        true => recorder.torch.plainly(py, body),
        false => caught(body),
    };
    let mut begun = None;
    let began = unheard(&mut || {
        begun = Some(recorder.begin_function(py, &function, arguments)?);
        Ok(())
    });
    recorder.guarded(py, Of::New(&function.base), began)?;
    let result = func.call(args, kwargs);
    let Some(begun) = begun else { return result };
    // The call itself may have ended the recording, or have come back in another process.
    if !recorder.is_collecting() {
        return result;
    }
    let of = begun.of();
    match &result {
        Ok(output) => {
            let mut begun = Some(begun);
            let ended = unheard(&mut || {
                let Some(begun) = begun.take() else { return Ok(()) };
                let changed = function.changed_by(arguments).and_then(|changed| {
                    recorder.note_effects(&function, changed, arguments, output, &begun)?;
                    Ok(changed)
                });
                // Whatever it did to its arguments, it has ended.
                let changed = recorder.guarded(py, Of::Beside(&begun.name), changed)?.unwrap_or_default();
                let first = changed.first().filter(|position| **position == 0);
                let first = first.and_then(|_| args.get_item(0).ok());
                let hands_on = |tensor: &Bound<'_, PyAny>| arguments.has_unchanged(tensor, changed);
                // Functions that change lists, as those of optimizers, may give nothing back: what they changed is their result.
                let changed_list = first.as_ref().filter(|first| first.is_instance_of::<PyList>());
                let given = changed_list.filter(|_| output.is_none()).unwrap_or(output);
                recorder.end_call(slf, begun, given, None, first.as_ref(), &hands_on)
            });
            recorder.guarded(py, of.borrowed(), ended)?;
        }
        Err(error) => {
            let raised = caught(|| recorder.raised_call(py, &begun, &kind_of(error.value(py)), None));
            recorder.guarded(py, of.borrowed(), raised)?;
        }
    }
    result
}

/// Whether a property is given a value: `descriptor.__set__` and `descriptor.__get__` are of one type.
fn is_assignment(access: &Bound<'_, PyAny>, args: &Bound<'_, PyTuple>) -> bool {
    args.len() > 1 && is_called(access, "__set__")
}

/// Whether a function, or a property, has a name.
fn is_called(object: &Bound<'_, PyAny>, name: &str) -> bool {
    let found = object.getattr(intern!(object.py(), "__name__"));
    found.is_ok_and(|found| found.cast::<PyString>().is_ok_and(|found| found == name))
}

impl Recorder {
    fn begin_function(
        &self,
        py: Python<'_>,
        function: &Function,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Begun> {
        let hint = HINT.take();
        let stack = self.stack(py)?;
        let base = function.name_for(hint, stack.as_deref());
        let passed = stack.as_ref().map(|stack| function.as_passed(stack, arguments)).transpose();
        let passed = passed.inspect_err(|_| self.locked(|state| state.ledger.meet()))?;
        let arguments = match passed.as_ref().and_then(Option::as_ref) {
            Some((args, kwargs)) => Arguments { args, kwargs: Some(kwargs) },
            None => arguments,
        };
        self.begin_call(py, base, Kind::Api, stack.as_deref(), arguments)
    }

    /// A property that gives a tensor gives another view of the one it is asked of.
    fn read_property<'py>(
        &self,
        get: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = get.call(args, kwargs)?;
        if self.torch.is_plain_tensor(&result) {
            let noted = self.torch.plainly(get.py(), || self.note_property(get, args, &result));
            self.guarded(get.py(), Of::Beside("a property"), noted)?;
        }
        Ok(result)
    }

    /// A tensor whose elements are replaced has them from where the others come from. No call of its own: it is counted.
    fn assign_property<'py>(
        &self,
        set: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let result = set.call(args, kwargs)?;
        self.leave_out("assigned to a property");
        let noted = self.torch.plainly(set.py(), || self.note_assignment(set, args));
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
            true => self.flow.source(&self.torch, &value)?,
            false => None,
        };
        self.flow.note(&self.torch, step, &owner, source.unwrap_or_else(|| Arc::from("outside")))
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
        if is_called(&property, "data") {
            self.note_alias(result, owner.clone())?;
        }
        let Some(source) = self.flow.source(&self.torch, &owner)? else { return Ok(()) };
        let is_gradient = is_called(&property, "grad") || is_called(&property, "_grad");
        let source = match (is_gradient, source.strip_prefix("parameter:")) {
            (false, _) => source,
            (true, Some(parameter)) => format!("gradient:{parameter}").into(),
            (true, None) => return Ok(()),
        };
        self.flow.note(&self.torch, step, result, source)
    }

    /// Notes what a function has done to its arguments: which it has changed, and whose elements its result has.
    fn note_effects(
        &self,
        function: &Function,
        changed: &[usize],
        arguments: Arguments<'_, '_>,
        output: &Bound<'_, PyAny>,
        begun: &Begun,
    ) -> PyResult<()> {
        for &position in changed {
            if let Some(argument) = function.argument(position, arguments)? {
                self.note_changed(&argument, position, begun)?;
            }
        }
        if function.gives_alias && self.torch.is_tensor(output)? {
            self.note_alias(output, arguments.args.get_item(0)?)?;
        }
        Ok(())
    }

    /// Notes that a call changed an argument, or the tensors in it, without returning them.
    fn note_changed(&self, argument: &Bound<'_, PyAny>, position: usize, begun: &Begun) -> PyResult<()> {
        let source = format!("{}.input.{position}", begun.name);
        if self.torch.is_tensor(argument)? {
            self.note_changed_tensor(argument, begun.step, source)?;
        } else if let Ok(items) = argument.try_iter() {
            for (number, item) in items.enumerate() {
                let item = item?;
                if self.torch.is_tensor(&item)? {
                    self.note_changed_tensor(&item, begun.step, format!("{source}.{number}"))?;
                }
            }
        }
        Ok(())
    }

    /// Notes that a tensor has the elements of another, or of what that is a view or an alias of: the other may be gone
    /// soon.
    fn note_alias<'py>(&self, tensor: &Bound<'py, PyAny>, mut owner: Bound<'py, PyAny>) -> PyResult<()> {
        for _ in 0..MAX_ALIASES {
            let base = owner.getattr(intern!(tensor.py(), "_base"))?;
            let found = if base.is_none() { self.flow.owner_of(&owner) } else { Some(base) };
            let Some(found) = found else { break };
            owner = found;
        }
        self.flow.note_alias(&self.torch, tensor, &owner)
    }

    /// With a tensor those are changed that it is a view or an alias of.
    fn note_changed_tensor(&self, tensor: &Bound<'_, PyAny>, step: StepId, source: String) -> PyResult<()> {
        let source: Arc<str> = source.into();
        let mut next = Some(tensor.clone());
        for _ in 0..MAX_ALIASES {
            let Some(tensor) = next else { break };
            let base = tensor.getattr(intern!(tensor.py(), "_base"))?;
            self.flow.note(&self.torch, step, &tensor, Arc::clone(&source))?;
            if !base.is_none() {
                self.flow.note(&self.torch, step, &base, Arc::clone(&source))?;
            }
            next = self.flow.owner_of(&tensor).or_else(|| self.flow.owner_of(&base));
        }
        Ok(())
    }
}
