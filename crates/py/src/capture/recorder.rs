//! The recorder: what torch, the wrappers and autograd call.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyException, PyOSError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use ulpscope_dump::journal;
use ulpscope_formats::json::push_text;

use super::call::{Arguments, Begun, Kind};
use super::flow::Flow;
use super::frames::Stacks;
use super::functions::{Function, Functions, Treatment};
use super::gradients::Arriving;
use super::items::Walk;
use super::modules::{self, Level, Modules, Name};
use super::numbers::push_int;
use super::plan::Plan;
use super::state::State;
use super::tensors::Describe;
use super::torch_api::{Torch, untrack};
use crate::input::Input;

/// Different failures told to the user; the ledger counts all.
const MAX_TOLD: usize = 100;

/// Records the calls of a run. As a torch function mode it sees every call of torch's Python functions.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct Recorder {
    pub(super) torch: Torch,
    pub(super) plan: Plan,
    pub(super) flow: Flow,
    stacks: Stacks,
    pub(super) modules: Modules,
    functions: Functions,
    state: Mutex<State>,
    /// Hooks in graphs that may still live.
    handles: Mutex<Vec<Py<PyAny>>>,
    /// Backward calls of which a part has arrived.
    started: Mutex<Vec<Arc<Mutex<Arriving>>>>,
    /// What the user has been told.
    told: Mutex<HashSet<String>>,
    /// Whether calls are recorded.
    is_on: AtomicBool,
    /// Whether gradients are.
    is_collecting: AtomicBool,
    /// The process: a forked child has a copy of everything, and must leave the files alone.
    process: u32,
}

/// A call that was begun from Python.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct OpenCall {
    begun: Mutex<Option<Begun>>,
}

thread_local! {
    /// What the next call is, for operators whose name torch does not tell.
    static HINT: Cell<Option<&'static str>> = const { Cell::new(None) };
}

#[pymethods]
impl Recorder {
    #[new]
    fn new(py: Python<'_>, front: Py<PyAny>, settings: &Bound<'_, PyAny>) -> PyResult<Recorder> {
        Ok(Recorder {
            torch: Torch::new(py, front)?,
            plan: Plan::new(settings)?,
            flow: Flow::default(),
            stacks: Stacks::default(),
            modules: Modules::default(),
            functions: Functions::default(),
            state: Mutex::default(),
            handles: Mutex::default(),
            started: Mutex::default(),
            told: Mutex::default(),
            is_on: AtomicBool::new(false),
            is_collecting: AtomicBool::new(false),
            process: std::process::id(),
        })
    }

    /// Called by torch for every call of one of its functions.
    #[pyo3(signature = (func, types, args = None, kwargs = None))]
    fn __torch_function__<'py>(
        slf: &Bound<'py, Recorder>,
        func: &Bound<'py, PyAny>,
        types: &Bound<'py, PyAny>,
        args: Option<&Bound<'py, PyTuple>>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let recorder = slf.get();
        let empty;
        let args = match args {
            Some(args) => args,
            None => {
                empty = PyTuple::empty(py);
                &empty
            }
        };
        if !recorder.is_on() {
            return func.call(args, kwargs);
        }
        if func.get_type().is(&recorder.torch.property_read) {
            return recorder.read_property(func, args, kwargs);
        }
        let Some(function) =
            recorder.guarded(py, "function", recorder.functions.describe(&recorder.torch, func))?
        else {
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
        let arguments = Arguments { args, kwargs };
        // Neither another mode nor a class of tensors is to see what is asked of the tensors here.
        let is_overheard = !types.is_empty()? || recorder.torch.has_modes(py)?;
        let unheard = |body: &mut dyn FnMut() -> PyResult<()>| match is_overheard {
            true => recorder.torch.plainly(py, body),
            false => body(),
        };
        let mut begun = None;
        let result = unheard(&mut || {
            begun = Some(recorder.begin_function(py, &function, arguments)?);
            Ok(())
        });
        recorder.guarded(py, &function.base, result)?;
        let result = func.call(args, kwargs);
        let Some(begun) = begun else { return result };
        match &result {
            Ok(output) => {
                let name = Arc::clone(&begun.name);
                let mut begun = Some(begun);
                let ended = unheard(&mut || {
                    if function.changes_input {
                        recorder.note_changed(args, &name)?;
                    }
                    begun.take().map_or(Ok(()), |begun| recorder.end_call(slf, begun, output, None))
                });
                recorder.guarded(py, &name, ended)?;
            }
            Err(_) => {
                let raised = recorder.raised_call(&begun, None);
                recorder.guarded(py, &begun.name, raised)?;
            }
        }
        result
    }

    /// Tells what the next call of torch is, where torch would call it otherwise.
    fn hint(&self, name: &str) {
        HINT.set(match name {
            "__radd__" => Some("r+"),
            "__rmul__" => Some("r*"),
            _ => None,
        });
    }

    /// Begins a call that torch does not show; nothing when nothing is recorded.
    fn begin(
        &self,
        py: Python<'_>,
        prefix: &str,
        name: &str,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<OpenCall>> {
        if !self.is_on() {
            return Ok(None);
        }
        let base: Arc<str> = format!("{prefix}.{name}").into();
        let begun = self.torch.plainly(py, || {
            let stack = self.stacks.current(py, &self.torch)?;
            self.begin_call(py, &base, Kind::Api, stack.as_deref(), Arguments { args, kwargs })
        });
        let begun = self.guarded(py, &base, begun)?;
        Ok(begun.map(|begun| OpenCall { begun: Mutex::new(Some(begun)) }))
    }

    /// Ends a call that was begun.
    fn end(slf: &Bound<'_, Recorder>, call: &OpenCall, output: &Bound<'_, PyAny>) -> PyResult<()> {
        let recorder = slf.get();
        let Some(begun) = call.take() else { return Ok(()) };
        if !recorder.is_collecting() {
            return Ok(());
        }
        let name = Arc::clone(&begun.name);
        let ended = recorder.torch.plainly(slf.py(), || recorder.end_call(slf, begun, output, None));
        recorder.guarded(slf.py(), &name, ended).map(|_| ())
    }

    /// Notes that a call raised.
    fn raised(&self, py: Python<'_>, call: &OpenCall) -> PyResult<()> {
        let Some(begun) = call.take() else { return Ok(()) };
        let raised = self.raised_call(&begun, None);
        self.guarded(py, &begun.name, raised).map(|_| ())
    }

    /// Leaves a module that raised. A repeated forward does so as soon as it has computed what was asked of it.
    fn raised_module(&self, call: &OpenCall, module: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = module.py();
        let Some(begun) = call.take() else { return Ok(()) };
        modules::leave(self.address(), &begun.name);
        if !self.is_collecting() {
            return Ok(());
        }
        let raised = self.torch.plainly(py, || self.raised_call(&begun, Some(&own_parameters(module)?)));
        self.guarded(py, &begun.name, raised).map(|_| ())
    }

    /// Gives a module its name.
    fn add_module(&self, module: &Bound<'_, PyAny>, base: &str, is_muted: bool) {
        self.modules.add(module, Name { base: base.into(), is_muted });
    }

    /// Says where a tensor comes from: `parameter:…`, `buffer:…`.
    fn add_origin(&self, tensor: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
        self.flow.note_origin(&self.torch, tensor, source)
    }

    /// Lets go of modules and of everything known of tensors.
    fn forget_model(&self) {
        self.modules.clear();
        self.flow.clear();
    }

    /// Whether a module call now would be the outermost on this thread.
    fn is_outermost(&self) -> bool {
        modules::is_outermost(self.address())
    }

    /// Goes into a module; nothing when it is none of the model's.
    #[pyo3(signature = (module, args, kwargs))]
    fn enter_module(
        &self,
        module: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> PyResult<Option<OpenCall>> {
        if !self.is_on() {
            return Ok(None);
        }
        let py = module.py();
        let Some(name) = self.modules.name(module) else { return Ok(None) };
        let arguments = Arguments { args, kwargs: Some(kwargs) };
        let around = modules::innermost(self.address());
        let is_muted = name.is_muted || around.as_ref().is_some_and(|level| level.is_muted);
        if is_muted || !self.plan.has_modules() {
            modules::enter(Level {
                recorder: self.address(),
                name: Arc::clone(&name.base),
                is_listed: around.is_some_and(|level| level.is_listed),
                is_muted,
            });
            let begun = Begun::unrecorded(Arc::clone(&name.base), Kind::Module);
            return Ok(Some(OpenCall { begun: Mutex::new(Some(begun)) }));
        }
        let begun = self.torch.plainly(py, || {
            let stack = self.stacks.current(py, &self.torch)?;
            self.begin_call(py, &name.base, Kind::Module, stack.as_deref(), arguments)
        });
        let Some(begun) = self.guarded(py, &name.base, begun)? else { return Ok(None) };
        modules::enter(Level {
            recorder: self.address(),
            name: Arc::clone(&begun.name),
            is_listed: self.plan.has_listed(&begun.name) || around.is_some_and(|level| level.is_listed),
            is_muted: false,
        });
        Ok(Some(OpenCall { begun: Mutex::new(Some(begun)) }))
    }

    /// Leaves a module.
    fn leave_module(
        slf: &Bound<'_, Recorder>,
        call: &OpenCall,
        module: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let py = slf.py();
        let recorder = slf.get();
        let Some(begun) = call.take() else { return Ok(()) };
        modules::leave(recorder.address(), &begun.name);
        if !recorder.is_collecting() {
            return Ok(());
        }
        let name = Arc::clone(&begun.name);
        let ended = recorder
            .torch
            .plainly(py, || recorder.end_call(slf, begun, output, Some(&own_parameters(module)?)));
        recorder.guarded(py, &name, ended).map(|_| ())
    }

    /// Records the gradient that a parameter of a module has now: its `number`th in this step.
    fn parameter_gradient(
        &self,
        py: Python<'_>,
        base: &str,
        name: &str,
        number: u64,
        gradient: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !self.is_collecting() || !self.plan.wants_backward() {
            return Ok(());
        }
        let call = format!("{base}.parameters_grad.{number}");
        if !self.plan.is_listed(&call) {
            return Ok(());
        }
        let recorded = self.torch.plainly(py, || self.push_parameter_gradient(py, &call, name, gradient));
        self.guarded(py, &call, recorded).map(|_| ())
    }

    /// Records a value under a name of the user's own.
    fn save(&self, py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let number = self.locked(|state| state.number(&format!("save:{name}").into()));
        self.save_as(py, name, number, value)?;
        Ok(number)
    }

    /// Records a value under a name and number of the user's own.
    fn save_as(&self, py: Python<'_>, name: &str, number: u64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        if !self.is_collecting() {
            return Ok(());
        }
        let call = format!("{name}.{number}");
        let saved = self.torch.plainly(py, || {
            let mut line = b"{\"call\":".to_vec();
            push_text(&format!("{call}.debug"), &mut line);
            line.extend_from_slice(b",\"data\":");
            let mut walk = Walk::new(self, &call, "debug");
            walk.has_sources = false;
            walk.item(value, &mut line)?;
            drop(walk);
            line.extend_from_slice(b"}\n");
            self.append(|state| {
                state.ledger.seen += 1;
                state.ledger.recorded += 1;
                state.append(None, &line)
            })
        });
        self.guarded(py, &call, saved).map(|_| ())
    }

    /// Adds a note to the ledger.
    fn note(&self, text: String) {
        self.locked(|state| state.ledger.note(text));
    }

    /// Records from now on, for the folder of a rank in a step. It is made when there is something to write.
    fn start(&self, folder: PathBuf) {
        let goes_on = self.locked(|state| {
            state.aim(folder);
            state.ended.is_none()
        });
        self.is_on.store(goes_on, Ordering::Relaxed);
        self.is_collecting.store(goes_on, Ordering::Relaxed);
    }

    /// Records no further calls; the gradients of those recorded are still taken.
    fn end_forward(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Records nothing more, takes every hook away, and makes the dump of what there is.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        if self.locked(|state| state.is_open()) {
            let flushed = self.flush_gradients();
            self.guarded(py, "gradients", flushed)?;
        }
        self.is_on.store(false, Ordering::Relaxed);
        self.is_collecting.store(false, Ordering::Relaxed);
        let handles = std::mem::take(&mut *lock(&self.handles));
        for handle in handles {
            handle.call_method0(py, intern!(py, "remove"))?;
        }
        self.finish(py, true)
    }

    /// Ends the step: its dump is whole, and counters begin anew. A step in which nothing was recorded has a dump if the
    /// ledger has something to say, or if one is wanted.
    fn next_step(&self, py: Python<'_>, wants_dump: bool) -> PyResult<()> {
        if !self.is_own_process() {
            return Ok(());
        }
        let flushed = self.flush_gradients();
        self.guarded(py, "gradients", flushed)?;
        if wants_dump || self.locked(|state| !state.ledger.is_empty()) {
            let opened = self.append(|_| Ok(()));
            self.guarded(py, "dump", opened)?;
        }
        let finished = self.finish(py, false);
        self.drop_dead_handles(py)?;
        self.locked(State::next_step);
        self.modules.forget_spans();
        self.flow.forget();
        finished
    }

    /// The ledger of this step as it stands: calls seen and recorded.
    fn counts(&self) -> (u64, u64) {
        self.locked(|state| (state.ledger.seen, state.ledger.recorded))
    }

    /// Why recording ended early, if it did.
    #[getter]
    fn ended(&self) -> Option<String> {
        self.locked(|state| state.ended.clone())
    }
}

impl Recorder {
    /// Its identity, for what is kept per thread.
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Runs `with` on the state. Nothing of Python may run in it.
    pub(super) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut lock(&self.state))
    }

    fn is_own_process(&self) -> bool {
        self.process == std::process::id()
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.is_own_process()
    }

    pub(super) fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::Relaxed) && self.is_own_process()
    }

    /// Whether calls within modules are recorded, too.
    pub(super) fn sees_apis(&self) -> bool {
        self.plan.level != "L0"
    }

    /// Keeps the handle of a hook, by which it is taken away when recording stops.
    pub(super) fn keep_handle(&self, handle: Bound<'_, PyAny>) {
        untrack(&handle);
        lock(&self.handles).push(handle.unbind());
    }

    /// Lets go of the hooks of graphs that are gone.
    fn drop_dead_handles(&self, py: Python<'_>) -> PyResult<()> {
        let mut handles = std::mem::take(&mut *lock(&self.handles));
        let mut alive = Vec::new();
        for handle in handles.drain(..) {
            if !handle.call_method0(py, intern!(py, "hooks_dict_ref"))?.is_none(py) {
                alive.push(handle);
            }
        }
        lock(&self.handles).append(&mut alive);
        Ok(())
    }

    pub(super) fn keep_started(&self, call: Arc<Mutex<Arriving>>) {
        lock(&self.started).push(call);
    }

    pub(super) fn take_started(&self) -> Vec<Arc<Mutex<Arriving>>> {
        std::mem::take(&mut *lock(&self.started))
    }

    /// Appends to the journal. What cannot be written ends the recording.
    pub(super) fn append<T>(&self, with: impl FnOnce(&mut State) -> std::io::Result<T>) -> PyResult<T> {
        let appended = self.locked(|state| {
            state.open(&self.plan)?;
            with(state)
        });
        appended.map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Makes the file of a tensor and tells its name.
    pub(super) fn save_tensor(&self, stem: &str, input: Input<'_>) -> PyResult<String> {
        let tensor = input.into_lone_tensor()?;
        self.append(|state| Ok(state.save(stem, &tensor)))?
            .map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// What becomes of an error in recording: it is counted and told once, and the run goes on; unless the user wants
    /// to hear of it, or it is none of ours to hold back.
    pub(super) fn guarded<T>(&self, py: Python<'_>, name: &str, result: PyResult<T>) -> PyResult<Option<T>> {
        let error = match result {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        if self.plan.strict || !error.is_instance_of::<PyException>(py) {
            return Err(error);
        }
        let kind = error.get_type(py).name().map_or_else(|_| "error".to_owned(), |name| name.to_string());
        let text = format!("{name}: {kind}: {}", error.value(py));
        let ended = self.locked(|state| {
            state.ledger.seen += 1;
            state.ledger.fail(text.clone());
            state.ended.clone()
        });
        let is_first = {
            let mut told = lock(&self.told);
            told.len() < MAX_TOLD && told.insert(text.clone())
        };
        let message = match ended {
            Some(why) => {
                let was_on = self.is_collecting.swap(false, Ordering::Relaxed);
                self.is_on.store(false, Ordering::Relaxed);
                was_on.then(|| format!("capture has ended, and the run goes on without it: {why}"))
            }
            None => is_first.then(|| format!("could not record {text}; the run goes on")),
        };
        if let Some(message) = message {
            self.torch.front.bind(py).call_method1(intern!(py, "warn"), (message,))?;
        }
        Ok(None)
    }

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
            self.guarded(get.py(), "property", noted)?;
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

    fn push_parameter_gradient(
        &self,
        py: Python<'_>,
        call: &str,
        name: &str,
        gradient: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let stem = self.plan.saves(call).then(|| format!("{call}.{name}"));
        let mut item = Vec::with_capacity(256);
        let describe = Describe { recorder: self, file: stem.as_deref(), source: None, is_recompute: false };
        let requires_grad = gradient.getattr(intern!(py, "requires_grad"))?.is_truthy()?;
        describe.push(gradient, requires_grad, &mut item)?;
        self.append(|state| {
            let (id, is_known) = state.growing(call);
            let mut line = Vec::with_capacity(item.len() + 64);
            if is_known {
                line.extend_from_slice(b"{\"more\":");
                push_int(id.into(), &mut line);
            } else {
                state.ledger.seen += 1;
                state.ledger.recorded += 1;
                line.extend_from_slice(b"{\"call\":");
                push_text(call, &mut line);
                line.extend_from_slice(b",\"id\":");
                push_int(id.into(), &mut line);
            }
            line.extend_from_slice(b",\"data\":{");
            push_text(name, &mut line);
            line.extend_from_slice(b":[");
            line.extend_from_slice(&item);
            line.extend_from_slice(b"]}}\n");
            state.append(None, &line)
        })
    }

    /// Makes the dump of what is in the journal.
    fn finish(&self, py: Python<'_>, keeps_journal: bool) -> PyResult<()> {
        let settled = self.locked(State::settle);
        let finished = settled.map_err(|error| PyOSError::new_err(error.to_string())).and_then(|settled| {
            let Some((folder, is_behind)) = settled else { return Ok(()) };
            py.detach(|| {
                if is_behind {
                    journal::make_dump(&folder)?;
                }
                if keeps_journal { Ok(()) } else { journal::remove(&folder) }
            })
            .map_err(|error| PyOSError::new_err(error.to_string()))
        });
        self.guarded(py, "dump", finished).map(|_| ())
    }
}

impl OpenCall {
    fn take(&self) -> Option<Begun> {
        lock(&self.begun).take()
    }
}

/// The parameters of a module, without those of the modules in it.
fn own_parameters<'py>(module: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let py = module.py();
    let own = module.getattr(intern!(py, "_parameters"))?;
    let parameters = PyDict::new(py);
    for (name, parameter) in own.cast::<PyDict>()?.iter() {
        if !parameter.is_none() {
            parameters.set_item(name, parameter)?;
        }
    }
    Ok(parameters)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
