//! Calls that torch shows: of its functions, and of the properties of tensors.

use std::cell::Cell;
use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::call::{Arguments, Begun, Kind};
use super::failures::Of;
use super::functions::{Function, Treatment};
use super::recorder::Recorder;

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
    if func.get_type().is(&recorder.torch.property_read) {
        return recorder.read_property(func, args, kwargs);
    }
    let described = recorder.functions.describe(&recorder.torch, func);
    let Some(function) = recorder.guarded(py, Of::New("a function"), described)? else {
        return func.call(args, kwargs);
    };
    match function.treatment {
        Treatment::Pass => {
            recorder.locked(|state| state.ledger.skip("metadata"));
            return func.call(args, kwargs);
        }
        Treatment::Through => return func.call(args, kwargs),
        Treatment::Record => {}
    }
    // Neither another mode nor a class of tensors is to see what is asked of the tensors here.
    let is_overheard = !types.is_empty()? || recorder.torch.has_modes(py)?;
    let unheard = |body: &mut dyn FnMut() -> PyResult<()>| match is_overheard {
        true => recorder.torch.plainly(py, body),
        false => body(),
    };
    let mut begun = None;
    let began = unheard(&mut || {
        begun = Some(recorder.begin_function(py, &function, arguments)?);
        Ok(())
    });
    recorder.guarded(py, Of::New(&function.base), began)?;
    let result = func.call(args, kwargs);
    let Some(begun) = begun else { return result };
    let of = begun.of();
    match &result {
        Ok(output) => {
            let mut begun = Some(begun);
            let ended = unheard(&mut || {
                let Some(begun) = begun.take() else { return Ok(()) };
                if function.changes_input {
                    recorder.note_changed(args, &begun.name)?;
                }
                recorder.end_call(slf, begun, output, None)
            });
            recorder.guarded(py, of.borrowed(), ended)?;
        }
        Err(_) => {
            let raised = recorder.raised_call(&begun, None);
            recorder.guarded(py, of.borrowed(), raised)?;
        }
    }
    result
}

impl Recorder {
    fn begin_function(
        &self,
        py: Python<'_>,
        function: &Function,
        arguments: Arguments<'_, '_>,
    ) -> PyResult<Begun> {
        let hint = HINT.take();
        let stack = self.stacks.current(py, &self.torch)?;
        let base = function.name_for(hint, stack.as_deref());
        let passed = stack.as_ref().map(|stack| function.as_passed(stack, arguments)).transpose()?;
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

    fn note_property(
        &self,
        get: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        result: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let owner = args.get_item(0)?;
        let Some(source) = self.flow.source(&self.torch, &owner)? else { return Ok(()) };
        let property = get.getattr(intern!(get.py(), "__self__"))?.getattr(intern!(get.py(), "__name__"));
        let is_gradient = property.is_ok_and(|name| {
            name.cast::<PyString>().is_ok_and(|name| name.to_string_lossy().trim_start_matches('_') == "grad")
        });
        let source = match (is_gradient, source.strip_prefix("parameter:")) {
            (false, _) => source,
            (true, Some(parameter)) => format!("gradient:{parameter}").into(),
            (true, None) => return Ok(()),
        };
        self.flow.note(&self.torch, result, source)
    }

    /// Notes that a call changed its first argument, or the tensors in it, without returning them.
    fn note_changed(&self, args: &Bound<'_, PyTuple>, call: &str) -> PyResult<()> {
        let Ok(first) = args.get_item(0) else { return Ok(()) };
        if self.torch.is_tensor(&first)? {
            self.note_changed_tensor(&first, format!("{call}.input.0"))?;
        } else if let Ok(items) = first.try_iter() {
            for (position, item) in items.enumerate() {
                let item = item?;
                if self.torch.is_tensor(&item)? {
                    self.note_changed_tensor(&item, format!("{call}.input.0.{position}"))?;
                }
            }
        }
        Ok(())
    }

    fn note_changed_tensor(&self, tensor: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
        let source: Arc<str> = source.into();
        let base = tensor.getattr(intern!(tensor.py(), "_base"))?;
        if !base.is_none() {
            self.flow.note(&self.torch, &base, Arc::clone(&source))?;
        }
        self.flow.note(&self.torch, tensor, source)
    }
}
