//! The objects of torch and of the Python front that capture needs, looked up once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySet, PyTuple, PyType, PyWeakrefReference};

use crate::capture::device::arrivals::lock;
use crate::capture::gradients::backward_calls::PassOver;
use crate::capture::lifecycle::failures::caught;
use crate::capture::python_objects::{ask, call_one, leave, untrack};

/// Functions and classes of torch, and the front's queries.
pub(in crate::capture) struct Torch {
    pub(in crate::capture) tensor: Py<PyType>,
    pub(in crate::capture) parameter: Py<PyType>,
    pub(in crate::capture) size: Py<PyType>,
    /// The type of `descriptor.__get__` and `descriptor.__set__`, which function modes get for a property.
    pub(in crate::capture) property_access: Py<PyType>,
    /// The properties that compute a new tensor, as functions do.
    computing: Vec<Py<PyAny>>,
    /// The property that is the gradient of a tensor.
    gradient: Py<PyAny>,
    accumulate_grad: Py<PyType>,
    without_modes: Py<PyAny>,
    /// Objects of that class that are not in use.
    guards: Mutex<Vec<Py<PyAny>>>,
    graph_task: Py<PyAny>,
    queue_callback: Py<PyAny>,
    running_node: Option<Py<PyAny>>,
    sequence: Py<PyAny>,
    grad_enabled: Py<PyAny>,
    get_frame: Py<PyAny>,
    modes: Py<PyAny>,
    dispatch_modes: Option<Py<PyAny>>,
    /// The kernels that Python code has registered, if torch lists them.
    registered: Option<Py<PySet>>,
    /// How many there were, and whether none of them was a replacement.
    known_kernels: Mutex<Option<(usize, bool)>>,
    is_wrapper: Option<Py<PyAny>>,
    strided: Py<PyAny>,
    /// Whether tensors without memory have been found. Programs without them have no extra cost.
    has_met_memoryless: AtomicBool,
    /// The front: `function`, `original`, `stack`, `value`, `tensor`, `measurable`, `measure`, `add`, `subtract`,
    /// `part_of`, `take_part`, `has_replaced_kernels`, `warn`.
    pub(in crate::capture) front: Py<PyAny>,
}

/// The kernels that Python code has registered, if torch lists them.
fn registered(torch: &Bound<'_, PyAny>) -> PyResult<Option<Py<PySet>>> {
    let Some(library) = torch.getattr_opt("library")? else { return Ok(None) };
    let listed = library.getattr_opt("_impls")?;
    Ok(listed.and_then(|listed| listed.cast_into::<PySet>().ok()).map(Bound::unbind))
}

impl Torch {
    pub(in crate::capture) fn new(py: Python<'_>, front: Py<PyAny>) -> PyResult<Torch> {
        let torch = py.import("torch")?;
        let c = torch.getattr("_C")?;
        let class = |from: &Bound<'_, PyAny>, name: &str| -> PyResult<Py<PyType>> {
            Ok(from.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let own = torch.getattr("Tensor")?;
        let computing =
            ["T", "mT", "H", "mH", "real", "imag"].map(|name| own.getattr(name).map(Bound::unbind));
        let shape = torch.getattr("Tensor")?.getattr("shape")?.getattr("__get__")?;
        let functorch = c.getattr_opt("_functorch")?;
        let engine = torch.getattr("autograd")?.getattr("Variable")?.getattr("_execution_engine")?;
        Ok(Torch {
            tensor: class(&torch, "Tensor")?,
            parameter: class(&torch.getattr("nn")?, "Parameter")?,
            size: class(&torch, "Size")?,
            property_access: shape.get_type().unbind(),
            computing: computing.into_iter().collect::<PyResult<_>>()?,
            gradient: own.getattr("grad")?.unbind(),
            accumulate_grad: class(&c.getattr("_functions")?, "AccumulateGrad")?,
            without_modes: c.getattr("DisableTorchFunction")?.unbind(),
            guards: Mutex::default(),
            graph_task: c.getattr("_current_graph_task_id")?.unbind(),
            queue_callback: engine.getattr("queue_callback")?.unbind(),
            running_node: c.getattr_opt("_current_autograd_node")?.map(Bound::unbind),
            sequence: torch.getattr("autograd")?.getattr("_get_sequence_nr")?.unbind(),
            grad_enabled: c.getattr("is_grad_enabled")?.unbind(),
            modes: c.getattr("_len_torch_function_stack")?.unbind(),
            dispatch_modes: c.getattr_opt("_len_torch_dispatch_stack")?.map(Bound::unbind),
            registered: registered(&torch)?,
            known_kernels: Mutex::default(),
            is_wrapper: functorch
                .map(|space| space.getattr("is_functorch_wrapped_tensor").map(Bound::unbind))
                .transpose()?,
            strided: torch.getattr("strided")?.unbind(),
            has_met_memoryless: AtomicBool::new(false),
            get_frame: py.import("sys")?.getattr("_getframe")?.unbind(),
            front,
        })
    }

    /// Runs our own `body` with all modes of torch disabled: its functions go to no mode and no subclass.
    pub(in crate::capture) fn with_modes_disabled<T>(
        &self,
        py: Python<'_>,
        body: impl FnOnce() -> PyResult<T>,
    ) -> PyResult<T> {
        // One is made for each level of calls within calls, and used again.
        let guard = lock(&self.guards).pop();
        let guard =
            guard.map_or_else(|| self.without_modes.bind(py).call0(), |guard| Ok(guard.into_bound(py)))?;
        ask(&guard, intern!(py, "__enter__"))?;
        let result = caught(body);
        leave(&guard)?;
        lock(&self.guards).push(guard.unbind());
        result
    }

    /// Whether a mode is on, on this thread.
    pub(in crate::capture) fn has_modes(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.modes.bind(py).call0()?.extract::<usize>()? > 0)
    }

    /// Whether torch's operators run torch's kernels, on this thread: neither a mode sees them, nor has Python code
    /// replaced one. If that cannot be told, they do not.
    pub(in crate::capture) fn runs_own_kernels(&self, py: Python<'_>) -> PyResult<bool> {
        let (Some(modes), Some(registered)) = (&self.dispatch_modes, &self.registered) else {
            return Ok(false);
        };
        if modes.bind(py).call0()?.extract::<usize>()? > 0 {
            return Ok(false);
        }
        let count = registered.bind(py).len();
        if let Some((_, are_own)) = lock(&self.known_kernels).filter(|(known, _)| *known == count) {
            return Ok(are_own);
        }
        let has_replaced = self.front.bind(py).call_method0(intern!(py, "has_replaced_kernels"))?;
        let are_own = !has_replaced.is_truthy()?;
        *lock(&self.known_kernels) = Some((count, are_own));
        Ok(are_own)
    }

    /// Whether an object is a tensor of torch's own class, or a parameter.
    pub(in crate::capture) fn is_plain_tensor(&self, object: &Bound<'_, PyAny>) -> bool {
        let kind = object.get_type();
        kind.is(&self.tensor) || kind.is(&self.parameter)
    }

    /// Whether none of the classes that torch names with a call overrides its functions.
    pub(in crate::capture) fn are_plain(&self, types: &Bound<'_, PyAny>) -> PyResult<bool> {
        let is_plain = |class: &Bound<'_, PyAny>| class.is(&self.tensor) || class.is(&self.parameter);
        if let Ok(types) = types.cast_exact::<PyTuple>() {
            return Ok(types.iter().all(|class| is_plain(&class)));
        }
        for class in types.try_iter()? {
            if !is_plain(&class?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(in crate::capture) fn is_tensor(&self, object: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.is_plain_tensor(object) {
            return Ok(true);
        }
        // By its type: `__class__` may run code of the program.
        object.get_type().is_subclass(self.tensor.bind(object.py()))
    }

    /// Whether the address of a tensor of torch's own class can be read, in memory or on a GPU. For tensors without memory
    /// (wrappers of function transforms, `meta`, sparse layouts) torch raises an error with all of its frames, which takes
    /// milliseconds. So tensors are checked for that once the first of them was found.
    pub(in crate::capture) fn may_have_address(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.may_have_memory(tensor)? || self.is_on_gpu(tensor)?)
    }

    /// The same for ordinary memory alone.
    pub(in crate::capture) fn may_have_memory(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        if self.has_only_met_memory() {
            return Ok(true);
        }
        Ok(tensor.getattr(intern!(tensor.py(), "is_cpu"))?.is_truthy()? && self.is_strided(tensor)?)
    }

    /// Whether no tensor without memory was found so far.
    pub(in crate::capture) fn has_only_met_memory(&self) -> bool {
        !self.has_met_memoryless.load(Ordering::Relaxed)
    }

    /// Whether a tensor of torch's own class is on a GPU, with an address.
    pub(in crate::capture) fn is_on_gpu(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(tensor.getattr(intern!(tensor.py(), "is_cuda"))?.is_truthy()? && self.is_strided(tensor)?)
    }

    fn is_strided(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let layout = tensor.getattr(intern!(tensor.py(), "layout"))?;
        Ok(layout.is(&self.strided) && !self.is_wrapper(tensor)?)
    }

    /// Notes that there are tensors without memory.
    pub(in crate::capture) fn meet_memoryless(&self) {
        self.has_met_memoryless.store(true, Ordering::Relaxed);
    }

    fn is_wrapper(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        match &self.is_wrapper {
            Some(ask) => call_one(ask.bind(tensor.py()), tensor)?.is_truthy(),
            None => Ok(false),
        }
    }

    /// Whether a property computes a new tensor.
    pub(in crate::capture) fn is_computing(&self, property: &Bound<'_, PyAny>) -> bool {
        self.computing.iter().any(|known| known.is(property))
    }

    /// Whether a property is the gradient of torch's own tensors.
    pub(in crate::capture) fn is_gradient(&self, property: &Bound<'_, PyAny>) -> bool {
        self.gradient.is(property)
    }

    pub(in crate::capture) fn is_accumulate_grad(&self, node: &Bound<'_, PyAny>) -> bool {
        node.get_type().is(&self.accumulate_grad)
    }

    /// Whether a backward pass is running on this thread.
    pub(in crate::capture) fn in_backward(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.graph_task(py)? >= 0)
    }

    /// The number of the backward pass that is running on this thread; negative if none is.
    pub(in crate::capture) fn graph_task(&self, py: Python<'_>) -> PyResult<i64> {
        self.graph_task.bind(py).call0()?.extract()
    }

    /// Calls something when the backward pass that is running on this thread is over.
    pub(in crate::capture) fn when_pass_ends(&self, py: Python<'_>, callback: PassOver) -> PyResult<()> {
        self.queue_callback.bind(py).call1((callback,)).map(|_| ())
    }

    /// The node of the autograd graph that runs on this thread, if torch reports it.
    pub(in crate::capture) fn running_node<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let node = self.running_node.as_ref().map(|ask| ask.bind(py).call0()).transpose()?;
        Ok(node.filter(|node| !node.is_none()))
    }

    /// The number the next node of the autograd graph will have.
    pub(in crate::capture) fn next_sequence(&self, py: Python<'_>) -> PyResult<u64> {
        self.sequence.bind(py).call0()?.extract()
    }

    pub(in crate::capture) fn grad_enabled(&self, py: Python<'_>) -> PyResult<bool> {
        self.grad_enabled.bind(py).call0()?.is_truthy()
    }

    /// The innermost frame of Python.
    pub(in crate::capture) fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get_frame.bind(py).call0()
    }

    pub(in crate::capture) fn weak_reference(&self, object: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let reference = PyWeakrefReference::new(object)?;
        untrack(&reference);
        Ok(reference.into_any().unbind())
    }

    /// Whether a weak reference refers to `object`.
    pub(in crate::capture) fn refers_to(reference: &Py<PyAny>, object: &Bound<'_, PyAny>) -> bool {
        let reference = reference.bind(object.py()).cast::<PyWeakrefReference>();
        reference.is_ok_and(|reference| reference.upgrade().is_some_and(|found| found.is(object)))
    }
}
