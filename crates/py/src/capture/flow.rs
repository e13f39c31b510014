//! Which call made a tensor.
//!
//! A tensor is known by its Python object, held weakly: the object that one call returns is the one that is handed to
//! the next. A tensor that is not known, and is neither parameter nor buffer, came from outside.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;

use super::torch_api::Torch;

/// Tensors remembered before the dead ones are looked for.
const SWEEP: usize = 1 << 14;

/// The makers of tensors, by the address of their Python object.
#[derive(Default)]
pub(super) struct Flow {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Outputs of the calls of this step.
    made: HashMap<usize, Made>,
    /// Parameters and buffers, for as long as the run is.
    origins: HashMap<usize, Made>,
    sweep_at: usize,
}

struct Made {
    reference: Py<PyAny>,
    source: Arc<str>,
}

/// Functions that return memory as they find it: what is in it differs from run to run, and is nobody's result.
const BLANK: [&str; 7] = [
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "_efficientzerotensor",
];

/// Whether the results of a call are memory as it was found.
pub(super) fn is_blank(call: &str) -> bool {
    let function = call.split('.').nth(1).unwrap_or_default();
    BLANK.contains(&function) && call.split('.').nth(3) == Some("forward")
}

impl Flow {
    fn locked<T>(&self, with: impl FnOnce(&mut Known) -> T) -> T {
        with(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes who made a tensor. Whatever was known of it before is over.
    pub(super) fn note(&self, torch: &Torch, tensor: &Bound<'_, PyAny>, source: Arc<str>) -> PyResult<()> {
        let made = Made { reference: torch.weak_reference(tensor)?, source };
        let dead = self.locked(|known| {
            known.made.insert(tensor.as_ptr() as usize, made);
            known.made.len() > known.sweep_at.max(SWEEP)
        });
        if dead {
            self.sweep(tensor.py());
        }
        Ok(())
    }

    /// Notes a tensor that the step begins with.
    pub(super) fn note_origin(
        &self,
        torch: &Torch,
        tensor: &Bound<'_, PyAny>,
        source: String,
    ) -> PyResult<()> {
        let made = Made { reference: torch.weak_reference(tensor)?, source: source.into() };
        self.locked(|known| known.origins.insert(tensor.as_ptr() as usize, made));
        Ok(())
    }

    /// Who made a tensor.
    pub(super) fn source(&self, torch: &Torch, tensor: &Bound<'_, PyAny>) -> PyResult<Option<Arc<str>>> {
        if let Some(source) = self.exactly(tensor) {
            return Ok(Some(source));
        }
        if tensor.get_type().is(&torch.parameter) {
            return Ok(Some("parameter".into()));
        }
        // A view that torch made without a call, as `x.T` does.
        let base = tensor.getattr(intern!(tensor.py(), "_base"))?;
        Ok(if base.is_none() { None } else { self.exactly(&base) })
    }

    fn exactly(&self, tensor: &Bound<'_, PyAny>) -> Option<Arc<str>> {
        let address = tensor.as_ptr() as usize;
        let found = |made: &Made| (made.reference.clone_ref(tensor.py()), Arc::clone(&made.source));
        let (made, origin) = self
            .locked(|known| (known.made.get(&address).map(found), known.origins.get(&address).map(found)));
        let mut candidates = made.into_iter().chain(origin);
        candidates.find(|(reference, _)| Torch::refers_to(reference, tensor)).map(|(_, source)| source)
    }

    /// Forgets what this step made.
    pub(super) fn forget(&self) {
        self.locked(|known| known.made.clear());
    }

    /// Forgets everything.
    pub(super) fn clear(&self) {
        self.locked(|known| {
            known.made.clear();
            known.origins.clear();
        });
    }

    fn sweep(&self, py: Python<'_>) {
        self.locked(|known| {
            known.made.retain(|_, made| made.reference.bind(py).call0().is_ok_and(|found| !found.is_none()));
            known.sweep_at = known.made.len() * 2;
        });
    }
}
