//! Hooks in the autograd graph, kept to be taken away.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::gradients::GradientHook;
use super::torch_api::untrack;

/// Hooks kept before those of graphs that are gone are looked for.
const SWEEP: usize = 1 << 14;

/// The handles of hooks.
#[derive(Default)]
pub(super) struct Hooks {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    handles: Vec<Py<PyAny>>,
    sweep_at: usize,
}

impl Hooks {
    /// Keeps the handle of a hook.
    pub(super) fn keep(&self, handle: Bound<'_, PyAny>) {
        untrack(&handle);
        let py = handle.py();
        let is_much = {
            let mut kept = self.lock();
            kept.handles.push(handle.unbind());
            kept.handles.len() > kept.sweep_at.max(SWEEP)
        };
        if is_much {
            self.drop_dead(py);
        }
    }

    /// Lets go of the hooks of graphs that are gone.
    pub(super) fn drop_dead(&self, py: Python<'_>) {
        let mut handles = std::mem::take(&mut self.lock().handles);
        // A handle that does not answer is taken for one of a graph that lives.
        let is_dead = |handle: &Py<PyAny>| {
            handle.call_method0(py, intern!(py, "hooks_dict_ref")).is_ok_and(|hooks| hooks.is_none(py))
        };
        handles.retain(|handle| !is_dead(handle));
        let mut kept = self.lock();
        kept.handles.append(&mut handles);
        kept.sweep_at = kept.handles.len() * 2;
    }

    /// How many calls have a graph that lives, and that no backward pass has come by.
    pub(super) fn count_untouched(&self, py: Python<'_>) -> usize {
        let handles: Vec<Py<PyAny>> = self.lock().handles.iter().map(|handle| handle.clone_ref(py)).collect();
        let hook_of = |handle: &Py<PyAny>| -> Option<Bound<'_, PyAny>> {
            let handle = handle.bind(py);
            let hooks = handle.call_method0(intern!(py, "hooks_dict_ref")).ok()?;
            hooks.get_item(handle.getattr(intern!(py, "id")).ok()?).ok()
        };
        let untouched = handles
            .iter()
            .filter_map(|handle| hook_of(handle)?.cast::<GradientHook>().ok()?.get().untouched_call());
        untouched.collect::<HashSet<usize>>().len()
    }

    /// Takes all hooks away; the first error, if any, when all have been tried.
    pub(super) fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let handles = std::mem::take(&mut self.lock().handles);
        let mut result = Ok(());
        for handle in handles {
            let removed = handle.call_method0(py, intern!(py, "remove")).map(|_| ());
            result = result.and(removed);
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
