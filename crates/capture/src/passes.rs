//! Gradients that autograd adds up where they lie: one that a call in a backward pass has made may be, before it is handed
//! to the next call, the sum of that and of others. No call has made the sum.
//!
//! Torch counts how often a tensor is changed. That is looked at while a backward pass runs, and never else: it would
//! cost every call something.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The backward passes that are running, and what was made in them.
#[derive(Debug, Default)]
pub struct Passes {
    running: AtomicUsize,
    /// By the addresses of tensors: who made each, and how often it had been changed then. An address that another tensor
    /// has by now is one of another maker's.
    made: Mutex<HashMap<usize, (Arc<str>, u64)>>,
}

impl Passes {
    /// A pass begins.
    pub fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A pass is over; with the last one, what was made in them is forgotten.
    pub fn end(&self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.lock().clear();
        }
    }

    /// Whether any is running.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Notes who made a tensor, if a pass is running. Only then is the tensor asked for its address, and how often it has
    /// been changed.
    pub fn note(&self, version: impl FnOnce() -> Option<(usize, u64)>, source: &Arc<str>) {
        if self.are_running()
            && let Some((address, changes)) = version()
        {
            self.lock().insert(address, (Arc::clone(source), changes));
        }
    }

    /// Whether a tensor has been changed, in a pass, since its maker made it.
    pub fn have_changed(&self, version: impl FnOnce() -> Option<(usize, u64)>, source: &Arc<str>) -> bool {
        if !self.are_running() {
            return false;
        }
        let Some((address, changes)) = version() else { return false };
        self.lock().get(&address).is_some_and(|(maker, then)| maker == source && *then != changes)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, (Arc<str>, u64)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
