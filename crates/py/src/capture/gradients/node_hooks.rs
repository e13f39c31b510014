//! Hooks in the autograd graph, and their removal.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{PyClass, PyClassInitializer};

use crate::capture::gradients::backward_calls::GradientHook;
use crate::capture::overflow::OverflowHook;
use crate::capture::python_objects::{call_with, is_held_alone, untrack};

/// Hooks kept before those of freed graphs are removed.
const SWEEP: usize = 1 << 14;

/// The key of our hook in a node's dictionary. Torch counts other hooks from zero.
const KEY: i32 = -1;

/// Replaces torch's Python function that puts a hook into the dictionary of a node: with the handle that it creates, it
/// takes a tenth of the time of capture.
#[pyclass(frozen, module = "ulpscope._core")]
pub(crate) struct HookPlacer {
    standing: Py<PyAny>,
    new_dictionary: Py<PyAny>,
    key: Py<PyAny>,
}

#[pymethods]
impl HookPlacer {
    /// `standing` is the function for all other hooks.
    #[new]
    fn new(py: Python<'_>, standing: Py<PyAny>) -> PyResult<HookPlacer> {
        let new_dictionary = py.import("collections")?.getattr("OrderedDict")?.unbind();
        Ok(HookPlacer { standing, new_dictionary, key: KEY.into_pyobject(py)?.into_any().unbind() })
    }

    /// Puts a hook into the dictionary of a node, or into a new one. Returns the dictionary and the object that removes
    /// the hook: for our hooks the dictionary itself.
    fn place<'py>(
        &self,
        hooks: &Bound<'py, PyAny>,
        hook: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let py = hook.py();
        if !hooks.is_none() || !is_own(hook) {
            return self.standing.bind(py).call1((hooks, hook))?.extract();
        }
        let hooks = self.new_dictionary.bind(py).call0()?;
        hooks.set_item(&self.key, hook)?;
        Ok((hooks.clone(), hooks))
    }
}

/// Whether a hook is one of ours.
fn is_own(hook: &Bound<'_, PyAny>) -> bool {
    hook.is_exact_instance_of::<GradientHook>() || hook.is_exact_instance_of::<OverflowHook>()
}

/// Removes a hook.
enum Handle {
    /// The dictionary of its node, which also holds it while the node is alive.
    Own(Py<PyDict>),
    /// One of torch's.
    Foreign(Py<PyAny>),
}

impl Handle {
    fn clone_ref(&self, py: Python<'_>) -> Handle {
        match self {
            Handle::Own(hooks) => Handle::Own(hooks.clone_ref(py)),
            Handle::Foreign(handle) => Handle::Foreign(handle.clone_ref(py)),
        }
    }

    /// Whether the graph was freed. A handle that does not answer counts as alive.
    fn is_dead(&self, py: Python<'_>) -> bool {
        match self {
            Handle::Own(hooks) => is_held_alone(hooks, py),
            Handle::Foreign(handle) => {
                let hooks = handle.call_method0(py, intern!(py, "hooks_dict_ref"));
                hooks.is_ok_and(|hooks| hooks.is_none(py))
            }
        }
    }

    fn hook<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match self {
            Handle::Own(hooks) => hooks.bind(py).get_item(KEY).ok()?,
            Handle::Foreign(handle) => {
                let handle = handle.bind(py);
                let hooks = handle.call_method0(intern!(py, "hooks_dict_ref")).ok()?;
                hooks.get_item(handle.getattr(intern!(py, "id")).ok()?).ok()
            }
        }
    }

    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        match self {
            // By a method of the class, which is not exactly a dictionary. The program may have cleared it.
            Handle::Own(hooks) => {
                hooks.bind(py).call_method1(intern!(py, "pop"), (KEY, py.None())).map(|_| ())
            }
            Handle::Foreign(handle) => handle.call_method0(py, intern!(py, "remove")).map(|_| ()),
        }
    }
}

/// The handles of hooks.
#[derive(Default)]
pub(in crate::capture) struct Hooks {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    handles: Vec<Handle>,
    sweep_at: usize,
}

impl Hooks {
    /// Puts a hook on a node.
    pub(in crate::capture) fn place<H>(&self, node: &Bound<'_, PyAny>, hook: H) -> PyResult<()>
    where
        H: PyClass<BaseType = PyAny> + Into<PyClassInitializer<H>>,
    {
        let py = node.py();
        let hook = Bound::new(py, hook)?.into_any();
        untrack(&hook);
        let handle = match call_with(node, intern!(py, "register_hook"), &hook)?.cast_into::<PyDict>() {
            Ok(hooks) => Handle::Own(hooks.unbind()),
            Err(other) => {
                let handle = other.into_inner();
                untrack(&handle);
                Handle::Foreign(handle.unbind())
            }
        };
        let is_much = {
            let mut kept = self.lock();
            kept.handles.push(handle);
            kept.handles.len() > kept.sweep_at.max(SWEEP)
        };
        if is_much {
            self.drop_dead(py);
        }
        Ok(())
    }

    /// Drops the hooks of freed graphs.
    pub(in crate::capture) fn drop_dead(&self, py: Python<'_>) {
        let mut handles = std::mem::take(&mut self.lock().handles);
        handles.retain(|handle| !handle.is_dead(py));
        let mut kept = self.lock();
        kept.handles.append(&mut handles);
        kept.sweep_at = kept.handles.len() * 2;
    }

    /// How many calls have a living graph that no backward pass has visited.
    pub(in crate::capture) fn count_untouched(&self, py: Python<'_>) -> usize {
        self.drop_dead(py);
        let handles: Vec<Handle> = self.lock().handles.iter().map(|handle| handle.clone_ref(py)).collect();
        let untouched = handles
            .iter()
            .filter_map(|handle| handle.hook(py)?.cast::<GradientHook>().ok()?.get().untouched_call());
        untouched.collect::<HashSet<usize>>().len()
    }

    /// Removes all hooks; returns the first error after all were tried.
    pub(in crate::capture) fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let handles = std::mem::take(&mut self.lock().handles);
        let mut result = Ok(());
        for handle in handles {
            result = result.and(handle.remove(py));
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
