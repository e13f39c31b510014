//! The recorder: what torch, the wrappers and autograd call.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_capture::modules;
use ulpscope_capture::{
    CallStack, CallingThreads, Flow, Kind, ModuleName, Modules, Passes, Recording, StartedBackwards, State,
    StepId,
};
use ulpscope_dump::writer::Process;

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::dispatch::{give_hint, see_call, see_operator};
use crate::capture::calls::frames::Stacks;
use crate::capture::calls::functions::Functions;
use crate::capture::calls::module_calls::end_module;
use crate::capture::calls::open_calls::OpenCall;
use crate::capture::describe::items::MAX_DEPTH;
use crate::capture::gradients::node_hooks::Hooks;
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::lifecycle::settings::plan_of;
use crate::capture::torch_api::Torch;

/// Records the calls of a run. As a torch function mode it sees every call of torch's Python functions.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct Recorder {
    pub(in crate::capture) torch: Torch,
    pub(in crate::capture) recording: Recording,
    pub(in crate::capture) flow: Flow<Py<PyAny>>,
    pub(in crate::capture) stacks: Stacks,
    pub(in crate::capture) modules: Modules,
    pub(in crate::capture) functions: Functions,
    pub(in crate::capture) threads: CallingThreads,
    /// Backward passes that are running.
    pub(in crate::capture) passes: Passes,
    /// Hooks in graphs that may still live.
    pub(in crate::capture) hooks: Hooks,
    /// Backward calls of which a part has arrived.
    pub(in crate::capture) started: StartedBackwards<Py<PyAny>>,
    /// What the user has been told.
    pub(in crate::capture) told: Mutex<HashSet<String>>,
    /// Whether calls are recorded.
    pub(in crate::capture) is_on: AtomicBool,
    /// Whether gradients and saved values are.
    pub(in crate::capture) is_collecting: AtomicBool,
    /// The process: a forked child has a copy of everything, and must leave the files alone.
    process: Process,
}

#[pymethods]
impl Recorder {
    /// Containers within containers that are followed.
    #[classattr]
    const MAX_DEPTH: usize = MAX_DEPTH;

    #[new]
    fn new(py: Python<'_>, front: Py<PyAny>, settings: &Bound<'_, PyAny>) -> PyResult<Recorder> {
        let plan = plan_of(settings, &front.bind(py).getattr("wants_call")?)?;
        Ok(Recorder {
            torch: Torch::new(py, front)?,
            recording: Recording::new(plan),
            flow: Flow::default(),
            stacks: Stacks::default(),
            modules: Modules::default(),
            functions: Functions::default(),
            threads: CallingThreads::from_here(),
            passes: Passes::default(),
            hooks: Hooks::default(),
            started: StartedBackwards::default(),
            told: Mutex::default(),
            is_on: AtomicBool::new(false),
            is_collecting: AtomicBool::new(false),
            process: Process::current(),
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
        match args {
            Some(args) => see_call(slf, func, types, Arguments { args, kwargs }),
            None => see_call(slf, func, types, Arguments { args: &PyTuple::empty(slf.py()), kwargs }),
        }
    }

    /// Runs an operator that torch shows to a dispatch mode.
    #[pyo3(signature = (operator, args, kwargs))]
    fn see_operator<'py>(
        slf: &Bound<'py, Recorder>,
        operator: &Bound<'py, PyAny>,
        args: &Bound<'py, PyTuple>,
        kwargs: &Bound<'py, PyDict>,
    ) -> PyResult<Bound<'py, PyAny>> {
        see_operator(slf, operator, Arguments { args, kwargs: Some(kwargs) })
    }

    /// Tells what the next call of torch is, where torch would call it otherwise.
    fn hint(&self, name: &str) {
        give_hint(name);
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
        // What a custom autograd function does in its forward is not put into the graph.
        let kind = if prefix == "Autograd" { Kind::Api } else { Kind::Program };
        let begun = self.torch.with_modes_disabled(py, || {
            let stack = self.stack(py)?;
            self.begin_call(py, &base, kind, false, stack.as_deref(), Arguments { args, kwargs })
        });
        let begun = self.guarded(py, Of::New(&base), begun)?;
        Ok(begun.map(OpenCall::new))
    }

    /// Ends a call that was begun.
    fn end(slf: &Bound<'_, Recorder>, call: &OpenCall, output: &Bound<'_, PyAny>) -> PyResult<()> {
        let recorder = slf.get();
        let Some(begun) = call.take() else { return Ok(()) };
        if !recorder.is_collecting() {
            return Ok(());
        }
        let of = begun.of();
        let ended = recorder.torch.with_modes_disabled(slf.py(), || {
            recorder.note_in_place(&begun, output)?;
            recorder.end_call(slf, begun, output, None, None, &|_| false)
        });
        recorder.guarded(slf.py(), of.borrowed(), ended).map(|_| ())
    }

    /// Notes that a call raised an error of a kind.
    fn raised(&self, py: Python<'_>, call: &OpenCall, kind: &str) -> PyResult<()> {
        let Some(begun) = call.take() else { return Ok(()) };
        if !self.is_collecting() {
            return Ok(());
        }
        let raised = caught(|| self.raised_call(py, &begun, kind, None));
        self.guarded(py, begun.of().borrowed(), raised).map(|_| ())
    }

    /// Leaves a module that raised. A repeated forward does so as soon as it has computed what was asked of it.
    fn raised_module(&self, call: &OpenCall, module: &Bound<'_, PyAny>, kind: &str) -> PyResult<()> {
        call.take().map_or(Ok(()), |begun| self.raised_in_module(&begun, module, kind))
    }

    /// Gives a module its name; without one it is part of a model, and no call of its own.
    #[pyo3(signature = (module, base, is_muted, is_selected))]
    fn add_module(&self, module: &Bound<'_, PyAny>, base: Option<&str>, is_muted: bool, is_selected: bool) {
        let name = base.map(|base| ModuleName { base: base.into(), is_muted, is_selected });
        self.modules.add(module.as_ptr() as usize, name);
    }

    /// Forgets a module, which is gone.
    fn forget_module(&self, address: usize) {
        self.modules.forget(address);
    }

    /// Says where a tensor comes from: `parameter:…`, `buffer:…`.
    fn add_origin(&self, tensor: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
        self.flow.note_origin(&self.tensor(tensor), source)
    }

    /// Forgets a tensor whose inside torch is about to exchange; tells who made it, and what it is to its model.
    fn let_go(&self, tensor: &Bound<'_, PyAny>) -> (Option<String>, Option<String>) {
        let [made, origin] =
            self.flow.let_go(&self.tensor(tensor)).map(|source| source.map(|source| source.to_string()));
        (made, origin)
    }

    /// Knows a tensor again.
    #[pyo3(signature = (tensor, made, origin))]
    fn know_again(
        &self,
        tensor: &Bound<'_, PyAny>,
        made: Option<String>,
        origin: Option<String>,
    ) -> PyResult<()> {
        if let Some(origin) = origin {
            self.flow.note_origin(&self.tensor(tensor), origin)?;
        }
        made.map_or(Ok(()), |made| self.flow.note(self.flow.step(), &self.tensor(tensor), made.into()))
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

    /// Goes into a module; nothing when it is none of the model's, which is counted, or the model itself.
    #[pyo3(signature = (module, args, kwargs))]
    fn enter_module(
        &self,
        module: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
    ) -> PyResult<Option<OpenCall>> {
        let begun = self.begin_module(module, Arguments { args, kwargs: Some(kwargs) })?;
        Ok(begun.map(OpenCall::new))
    }

    /// Leaves a module.
    fn leave_module(
        slf: &Bound<'_, Recorder>,
        call: &OpenCall,
        module: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        call.take().map_or(Ok(()), |begun| end_module(slf, begun, module, output))
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
        self.record_parameter_gradient(py, base, name, number, gradient)
    }

    /// Says that a backward pass begins.
    fn begin_pass(&self) {
        self.passes.begin();
    }

    /// Says that a backward pass is over.
    fn end_pass(&self) {
        self.passes.end();
    }

    /// Records a value under a name and number of the user's own.
    fn save_as(&self, py: Python<'_>, name: &str, number: u64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.record_saved(py, name, number, value)
    }

    /// Adds a note to the ledger.
    fn note(&self, text: String) {
        if self.is_own_process() {
            self.locked(|state| state.note(text));
        }
    }

    /// Adds a note to the ledger of a step that is over.
    fn note_in(&self, py: Python<'_>, folder: PathBuf, text: &str) -> PyResult<()> {
        self.add_note(py, &folder, text)
    }

    /// Adds a note to the ledger that is there once, however often it is given.
    fn note_once(&self, text: &str) {
        if self.is_own_process() {
            self.locked(|state| state.note_once(text));
        }
    }

    /// Records from now on, for the folder of a rank in a step. It is made when there is something to write.
    fn start(&self, folder: PathBuf) {
        self.switch_on(folder, true);
    }

    /// Takes saved values from now on, and no calls.
    fn collect(&self, folder: PathBuf) {
        self.switch_on(folder, false);
    }

    /// Says that the rank has another folder, and moves there what it has already.
    fn move_to(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        self.move_folder(py, folder)
    }

    /// Records no further calls; the gradients of those recorded are still taken.
    fn end_forward(&self) {
        self.switch_off_calls();
    }

    /// Forgets where a step was to be recorded of which nothing has been, and what was noted of it.
    fn withdraw(&self) {
        if self.is_own_process() {
            self.locked(State::withdraw);
        }
    }

    /// Records nothing more, takes every hook away, and makes the dump of what there is.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.switch_off(py)
    }

    /// Ends the step: its dump is whole, and counters begin anew. A step in which nothing was recorded has a dump if the
    /// ledger has something to say, or if one is wanted. What other threads call meanwhile is recorded in the folder of
    /// the next step, or not at all if that is not wanted.
    #[pyo3(signature = (wants_dump, next_folder))]
    fn next_step(&self, py: Python<'_>, wants_dump: bool, next_folder: Option<PathBuf>) -> PyResult<()> {
        self.end_step(py, wants_dump, next_folder)
    }
}

impl Recorder {
    /// Its identity, for what is kept per thread.
    pub(in crate::capture) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Runs `with` on the state. Nothing of Python may run in it.
    pub(in crate::capture) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        self.recording.locked(with)
    }

    /// Runs `with` on the state, if that is the state of a step. Nothing of Python may run in it.
    pub(in crate::capture) fn in_step<T>(
        &self,
        step: StepId,
        with: impl FnOnce(&mut State) -> T,
    ) -> Option<T> {
        self.recording.in_step(step, with)
    }

    pub(in crate::capture) fn is_own_process(&self) -> bool {
        self.process.is_current()
    }

    pub(in crate::capture) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.is_own_process()
    }

    pub(in crate::capture) fn is_collecting(&self) -> bool {
        self.is_collecting.load(Ordering::Relaxed) && self.is_own_process()
    }

    /// Where Python is now. A call is met even if that cannot be told.
    pub(in crate::capture) fn stack(&self, py: Python<'_>) -> PyResult<Option<Arc<CallStack>>> {
        self.stacks.current(py, &self.torch).inspect_err(|_| self.locked(|state| state.ledger.meet()))
    }
}

/// The name of the class of an error.
pub(in crate::capture) fn kind_of(error: &Bound<'_, PyAny>) -> String {
    error.get_type().name().map_or_else(|_| "error".to_owned(), |name| name.to_string())
}
