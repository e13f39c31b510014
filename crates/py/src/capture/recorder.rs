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
use ulpscope_kernels::Survival;

use crate::capture::calls::arguments::Arguments;
use crate::capture::calls::dispatch::{give_hint, see_call, see_operator};
use crate::capture::calls::frames::Stacks;
use crate::capture::calls::functions::Functions;
use crate::capture::calls::module_calls::end_module;
use crate::capture::calls::open_calls::OpenCall;
use crate::capture::describe::items::MAX_DEPTH;
use crate::capture::device::arrivals::Arrivals;
use crate::capture::device::captured_graphs::{CapturedGraph, DeviceGraphs};
use crate::capture::device::gpus::Gpus;
use crate::capture::gradients::node_hooks::Hooks;
use crate::capture::lifecycle::ending::Ending;
use crate::capture::lifecycle::failures::{Of, caught};
use crate::capture::lifecycle::settings::plan_of;
use crate::capture::overflow::OverflowMemory;
use crate::capture::torch_api::Torch;

/// What an error is about that is met with a graph.
const GRAPH: &str = "a captured graph";

/// What calls of models are counted as.
const MODEL_CALL: &str = "a call of a model";

/// Records the calls of a run. As a torch function mode it sees every call of torch's Python functions.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct Recorder {
    pub(in crate::capture) torch: Torch,
    pub(in crate::capture) recording: Arc<Recording>,
    pub(in crate::capture) flow: Flow<Py<PyAny>>,
    pub(in crate::capture) stacks: Stacks,
    pub(in crate::capture) modules: Modules,
    pub(in crate::capture) functions: Functions,
    pub(in crate::capture) threads: CallingThreads,
    /// Running backward passes.
    pub(in crate::capture) passes: Passes,
    /// Hooks in graphs that may be alive.
    pub(in crate::capture) hooks: Hooks,
    /// Backward calls with some gradients received.
    pub(in crate::capture) started: StartedBackwards<Py<PyAny>>,
    /// Tensors that their devices are measuring.
    pub(in crate::capture) arrivals: Arc<Arrivals>,
    /// What the task `overflow_check` remembers.
    pub(in crate::capture) overflow: OverflowMemory,
    /// The GPUs whose tensors our own kernel measures.
    pub(in crate::capture) gpus: Gpus,
    /// The graphs that the program captures.
    pub(in crate::capture) graphs: DeviceGraphs,
    /// The step that a thread is ending.
    pub(in crate::capture) ending: Mutex<Option<Ending>>,
    /// Messages reported to the user.
    pub(in crate::capture) told: Mutex<HashSet<String>>,
    /// Whether calls are recorded.
    pub(in crate::capture) is_on: AtomicBool,
    /// Whether gradients and saved values are recorded.
    pub(in crate::capture) is_collecting: AtomicBool,
    /// The process: a forked child has a copy of everything, and must not touch the files.
    process: Process,
}

#[pymethods]
impl Recorder {
    /// The deepest nesting of containers.
    #[classattr]
    const MAX_DEPTH: usize = MAX_DEPTH;

    #[new]
    fn new(py: Python<'_>, front: Py<PyAny>, settings: &Bound<'_, PyAny>) -> PyResult<Recorder> {
        let plan = plan_of(settings, &front.bind(py).getattr("wants_call")?)?;
        let has_flag = plan.checks_overflow() && front.bind(py).getattr("has_overflow_flag")?.is_truthy()?;
        Ok(Recorder {
            torch: Torch::new(py, front)?,
            flow: Flow::default(),
            stacks: Stacks::default(),
            modules: Modules::default(),
            functions: Functions::default(),
            threads: CallingThreads::from_here(),
            passes: Passes::default(),
            hooks: Hooks::default(),
            started: StartedBackwards::default(),
            arrivals: Arc::default(),
            overflow: OverflowMemory::new(&plan, has_flag),
            recording: Arc::new(Recording::new(plan)),
            gpus: Gpus::default(),
            graphs: DeviceGraphs::default(),
            ending: Mutex::default(),
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

    /// Sets the name of the next torch call, if torch reports a different one.
    fn hint(&self, name: &str) {
        give_hint(name);
    }

    /// Begins a call that torch does not show to modes; `None` if nothing is recorded.
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
        let base: Arc<str> = if name.is_empty() { prefix.into() } else { format!("{prefix}.{name}").into() };
        let kind = match prefix {
            // The operations in the forward of a custom autograd function are not added to the graph.
            "Autograd" => Kind::Api,
            _ if name.is_empty() && prefix.starts_with("Module.") => Kind::ModuleAsFunction,
            _ => Kind::Program,
        };
        let begun = self.torch.with_modes_disabled(py, || {
            let stack = self.stack(py)?;
            let arguments = Arguments { args, kwargs };
            self.measured_together(py, || {
                self.begin_call(py, &base, kind, false, stack.as_deref(), arguments)
            })
        });
        let begun = self.guarded(py, Of::New(&base), begun)?;
        Ok(begun.map(OpenCall::new))
    }

    /// Ends a call that was begun. Parameters are given if the call uses them without getting them as arguments.
    #[pyo3(signature = (call, output, parameters = None))]
    fn end(
        slf: &Bound<'_, Recorder>,
        call: &OpenCall,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let recorder = slf.get();
        let Some(begun) = call.take() else { return Ok(()) };
        if !recorder.is_collecting() {
            return Ok(());
        }
        let of = begun.of();
        let ended = recorder.torch.with_modes_disabled(slf.py(), || {
            recorder.note_in_place(&begun, output)?;
            recorder.end_call(slf, begun, output, parameters, None, &|_| false)
        });
        recorder.guarded(slf.py(), of.borrowed(), ended)?;
        recorder.end_run()
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

    /// Leaves a module that raised. A recomputed forward does so as soon as it has computed what is needed.
    fn raised_module(&self, call: &OpenCall, module: &Bound<'_, PyAny>, kind: &str) -> PyResult<()> {
        call.take().map_or(Ok(()), |begun| self.raised_in_module(&begun, module, kind))
    }

    /// Names a module; without a name it is part of a model, but not recorded as a call.
    #[pyo3(signature = (module, base, is_muted, is_selected))]
    fn add_module(&self, module: &Bound<'_, PyAny>, base: Option<&str>, is_muted: bool, is_selected: bool) {
        let name = base.map(|base| ModuleName { base: base.into(), is_muted, is_selected });
        self.modules.add(module.as_ptr() as usize, name);
    }

    /// Forgets a freed module.
    fn forget_module(&self, address: usize) {
        self.modules.forget(address);
    }

    /// Sets the origin of a tensor: `parameter:…`, `buffer:…`.
    fn add_origin(&self, tensor: &Bound<'_, PyAny>, source: String) -> PyResult<()> {
        self.flow.note_origin(&self.tensor(tensor), source)
    }

    /// Forgets a tensor that torch is about to swap; returns its producer, and its role in its model.
    fn let_go(&self, tensor: &Bound<'_, PyAny>) -> (Option<String>, Option<String>) {
        let [made, origin] =
            self.flow.let_go(&self.tensor(tensor)).map(|source| source.map(|source| source.to_string()));
        (made, origin)
    }

    /// Registers a tensor again.
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

    /// Forgets all modules and tensors.
    fn forget_model(&self) {
        self.modules.clear();
        self.flow.clear();
    }

    /// Whether a module call now would be the outermost on this thread.
    fn is_outermost(&self) -> bool {
        modules::is_outermost(self.address())
    }

    /// The call of the innermost module that this thread is in.
    fn innermost_module(&self) -> Option<String> {
        modules::innermost(self.address()).map(|level| level.name.to_string())
    }

    /// Enters a module; `None` for the model itself, and for a module outside of the model, which is counted.
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

    /// Leaves a module. Parameters are given if they are not only its own.
    #[pyo3(signature = (call, module, output, parameters = None))]
    fn leave_module(
        slf: &Bound<'_, Recorder>,
        call: &OpenCall,
        module: &Bound<'_, PyAny>,
        output: &Bound<'_, PyAny>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        call.take().map_or(Ok(()), |begun| end_module(slf, begun, module, output, parameters))
    }

    /// Records the current gradient of a module's parameter. `source` is given if it is what
    /// the optimizer gets, which ranks may have exchanged.
    #[pyo3(signature = (base, name, gradient, source = None))]
    fn parameter_gradient(
        &self,
        py: Python<'_>,
        base: &str,
        name: &str,
        gradient: &Bound<'_, PyAny>,
        source: Option<&str>,
    ) -> PyResult<()> {
        // What a backward call returned for it is checked.
        if self.recording.plan.checks_overflow() {
            return Ok(());
        }
        self.record_parameter_gradient(py, (base, name), gradient, source)
    }

    /// A backward pass begins.
    fn begin_pass(&self) {
        self.passes.begin();
    }

    /// A backward pass is over.
    fn end_pass(&self) {
        self.passes.end();
    }

    /// Records a value under the user's name and a number.
    fn save_as(&self, py: Python<'_>, name: &str, number: u64, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.record_saved(py, name, number, value)
    }

    /// Whether the elements of a tensor are those that a recorded call returned: nothing else wrote into it since.
    fn is_as_returned(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let source = self.flow.source(&self.tensor(tensor))?;
        Ok(self.recording.plan.sees_apis() && source.is_some_and(|source| source.contains(".output.")))
    }

    /// Whether no recorded call of this step wrote into a parameter or buffer.
    fn is_untouched(&self, origin: &Bound<'_, PyAny>) -> PyResult<bool> {
        let source = self.flow.source(&self.tensor(origin))?;
        Ok(source.is_none_or(|source| !source.contains(".output.") && !source.contains(".input.")))
    }

    /// Records what a step leaves behind: `what` says what these tensors are, which have names.
    fn step_end(&self, py: Python<'_>, what: &str, number: u64, tensors: &Bound<'_, PyAny>) -> PyResult<()> {
        self.record_step_end(py, (what, number), tensors)
    }

    /// The number of a call of a model that has returned in this step, and whether that is in a graph that is being
    /// captured.
    fn next_model_call(&self) -> (u64, bool) {
        self.locked(|state| (state.number(&Arc::from(MODEL_CALL)), state.id.graph().is_some()))
    }

    /// Records which results of calls a model returned, by their place in what it returned.
    fn returned(&self, tensors: &Bound<'_, PyDict>) -> PyResult<()> {
        self.record_returned(tensors)
    }

    /// Prepares a GPU for the capture of a graph; returns whether graphs are recorded there.
    fn prepare_for_graph(&self, py: Python<'_>, device: i32) -> PyResult<bool> {
        let prepared = caught(|| self.prepare_for_graphs(py, device));
        Ok(self.guarded(py, Of::Beside(GRAPH), prepared)?.unwrap_or(false))
    }

    /// Records the graph that is being captured on the current stream; returns whether it is recorded.
    fn begin_graph(&self, py: Python<'_>, device: i32) -> PyResult<bool> {
        let begun = caught(|| self.begin_captured(py, device));
        Ok(self.guarded(py, Of::Beside(GRAPH), begun)?.unwrap_or(false))
    }

    /// Ends the capture of a graph; `None` if it is not recorded.
    fn end_graph(&self) -> Option<CapturedGraph> {
        self.end_captured()
    }

    /// A graph is about to be replayed.
    fn begin_replay(&self, py: Python<'_>, graph: &CapturedGraph) -> PyResult<()> {
        let begun = caught(|| self.before_replay(py, graph));
        self.guarded(py, Of::Beside(GRAPH), begun).map(|_| ())
    }

    /// A graph was just replayed; returns whether its calls are recorded.
    fn end_replay(&self, py: Python<'_>, graph: &CapturedGraph) -> PyResult<bool> {
        let ended = caught(|| self.torch.with_modes_disabled(py, || self.record_replay(py, graph)));
        Ok(self.guarded(py, Of::Beside(GRAPH), ended)?.unwrap_or(false))
    }

    /// Adds a note to the ledger.
    fn note(&self, text: String) {
        if self.is_own_process() {
            self.locked(|state| state.note(text));
        }
    }

    /// Adds a note to the ledger of a finished step.
    fn note_in(&self, py: Python<'_>, folder: PathBuf, text: &str) -> PyResult<()> {
        self.add_note(py, &folder, text)
    }

    /// Adds a note to the ledger that is kept once, without a count.
    fn note_once(&self, text: &str) {
        if self.is_own_process() {
            self.locked(|state| state.note_once(text));
        }
    }

    /// Starts recording to the folder of a rank in a step. The folder is created on the first write.
    fn start(&self, folder: PathBuf) {
        self.switch_on(folder, true);
    }

    /// Starts recording saved values, but no calls.
    fn collect(&self, folder: PathBuf) {
        self.switch_on(folder, false);
    }

    /// Changes the folder of the rank, and moves the existing files there.
    fn move_to(&self, py: Python<'_>, folder: PathBuf) -> PyResult<()> {
        self.move_folder(py, folder)
    }

    /// Which calls of this step have values that the dtype of `would_overflow` would lose: their names, the finite
    /// elements that are not zero, and how many of them would overflow or underflow. Forgets them.
    fn take_would_overflow(&self) -> Vec<(String, u64, u64, u64)> {
        let lost = self.locked(|state| state.overflows.take_survivals());
        let row = |(call, lost): (Arc<str>, Survival)| {
            (call.to_string(), lost.elements, lost.overflows, lost.underflows)
        };
        lost.into_iter().map(row).collect()
    }

    /// Waits for the devices, and reports the calls of this step that overflowed there; raises the error that ends the
    /// run, if one does.
    fn judge_devices(&self, py: Python<'_>) -> PyResult<()> {
        self.judge_all(py)?;
        self.end_run()
    }

    /// Sets whether a loss scaler multiplies the loss right now.
    fn set_scaling(&self, is_scaling: bool) {
        self.overflow.devices.set_scaling(is_scaling);
    }

    /// Stops recording calls; the gradients of recorded ones are still recorded.
    fn end_forward(&self) {
        self.switch_off_calls();
    }

    /// Clears the folder and the notes of a step of which nothing was recorded.
    fn withdraw(&self) {
        if self.is_own_process() {
            self.locked(State::withdraw);
        }
    }

    /// Stops recording, removes every hook, and makes the dump.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.switch_off(py)
    }

    /// Ends the step: its dump is complete, and counters restart. A step without recorded calls has a dump if the
    /// ledger has something to report, or if a dump is requested. Calls of other threads in the meantime are recorded
    /// in the folder of the next step, or not at all if that is not selected.
    #[pyo3(signature = (wants_dump, next_folder))]
    fn next_step(&self, py: Python<'_>, wants_dump: bool, next_folder: Option<PathBuf>) -> PyResult<()> {
        self.end_step(py, wants_dump, next_folder)
    }
}

impl Recorder {
    /// Its identity, for data kept per thread.
    pub(in crate::capture) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Runs `with` on the state. It must not run Python code.
    pub(in crate::capture) fn locked<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        self.recording.locked(with)
    }

    /// Runs `with` on the state, if the step is the current one. It must not run Python code.
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

    /// The current Python stack. A call is counted even if the stack is unavailable.
    pub(in crate::capture) fn stack(&self, py: Python<'_>) -> PyResult<Option<Arc<CallStack>>> {
        self.stacks.current(py, &self.torch).inspect_err(|_| self.locked(|state| state.ledger.meet()))
    }
}

/// The name of the class of an error.
pub(in crate::capture) fn kind_of(error: &Bound<'_, PyAny>) -> String {
    error.get_type().name().map_or_else(|_| "error".to_owned(), |name| name.to_string())
}
