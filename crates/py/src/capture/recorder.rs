//! The recorder: what torch, the wrappers and autograd call.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use ulpscope_dump::writer::Process;

use super::arguments::Arguments;
use super::arriving::Started;
use super::begun::Kind;
use super::failures::{Of, caught};
use super::flow::Flow;
use super::frames::{Stack, Stacks};
use super::functions::Functions;
use super::hooks::Hooks;
use super::items::MAX_DEPTH;
use super::module_calls::end_module;
use super::modules::{self, Modules, Name};
use super::open_calls::OpenCall;
use super::passes::Passes;
use super::plan::Plan;
use super::seen::{give_hint, see_call, see_operator};
use super::state::State;
use super::threads::Threads;
use super::torch_api::Torch;

/// Records the calls of a run. As a torch function mode it sees every call of torch's Python functions.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct Recorder {
    pub(super) torch: Torch,
    pub(super) plan: Plan,
    pub(super) flow: Flow,
    pub(super) stacks: Stacks,
    pub(super) modules: Modules,
    pub(super) functions: Functions,
    pub(super) threads: Threads,
    state: Mutex<State>,
    /// Backward passes that are running.
    pub(super) passes: Passes,
    /// Hooks in graphs that may still live.
    pub(super) hooks: Hooks,
    /// Backward calls of which a part has arrived.
    pub(super) started: Started,
    /// What the user has been told.
    pub(super) told: Mutex<HashSet<String>>,
    /// Whether calls are recorded.
    pub(super) is_on: AtomicBool,
    /// Whether gradients and saved values are.
    pub(super) is_collecting: AtomicBool,
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
        let plan = Plan::new(settings, &front.bind(py).getattr("wants_call")?)?;
        Ok(Recorder {
            torch: Torch::new(py, front)?,
            state: Mutex::new(State::new(plan.limits)),
            plan,
            flow: Flow::default(),
            stacks: Stacks::default(),
            modules: Modules::default(),
            functions: Functions::default(),
            threads: Threads::new(),
            passes: Passes::default(),
            hooks: Hooks::default(),
            started: Started::default(),
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
        let begun = self.torch.plainly(py, || {
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
        let ended = recorder.torch.plainly(slf.py(), || {
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
        self.modules.add(module, base.map(|base| Name { base: base.into(), is_muted, is_selected }));
    }

    /// Forgets a module, which is gone.
    fn forget_module(&self, address: usize) {
        self.modules.forget(address);
    }

    /// Says where a tensor comes from: `parameter:…`, `buffer:…`.
    fn add_origin(&self, tensor: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
        self.flow.note_origin(&self.torch, tensor, source)
    }

    /// Forgets a tensor whose inside torch is about to exchange; tells who made it, and what it is to its model.
    fn let_go(&self, tensor: &Bound<'_, PyAny>) -> (Option<String>, Option<String>) {
        let [made, origin] = self.flow.let_go(tensor).map(|source| source.map(|source| source.to_string()));
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
            self.flow.note_origin(&self.torch, tensor, origin)?;
        }
        made.map_or(Ok(()), |made| self.flow.note(&self.torch, self.flow.step(), tensor, made.into()))
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
    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Runs `with` on the state. Nothing of Python may run in it.
    pub(super) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_own_process(&self) -> bool {
        self.process.is_current()
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

    /// Counts something that is seen, and left out.
    pub(super) fn leave_out(&self, why: &'static str) {
        self.locked(|state| {
            state.ledger.meet();
            state.ledger.skip(why);
        });
    }

    /// Where Python is now. A call is met even if that cannot be told.
    pub(super) fn stack(&self, py: Python<'_>) -> PyResult<Option<Arc<Stack>>> {
        self.stacks.current(py, &self.torch).inspect_err(|_| self.locked(|state| state.ledger.meet()))
    }
}

/// The name of the class of an error.
pub(super) fn kind_of(error: &Bound<'_, PyAny>) -> String {
    error.get_type().name().map_or_else(|_| "error".to_owned(), |name| name.to_string())
}
