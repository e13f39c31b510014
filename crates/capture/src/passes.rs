//! Gradients that autograd accumulates in place: the gradient that one call of a backward pass produced may be a sum
//! with others by the time the next call gets it. No call produced the sum.
//!
//! Torch counts how often a tensor was changed. The count is read only while a backward pass runs, since it would slow
//! down every call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::address_map::AddressMap;

/// The running backward passes, and the tensors produced in them.
#[derive(Debug, Default)]
pub struct Passes {
    running: AtomicUsize,
    /// By the addresses of tensors: the producer of each, and its change count at that time. If another tensor reuses
    /// an address, its producer differs.
    made: Mutex<AddressMap<(Arc<str>, u64)>>,
}

impl Passes {
    /// A pass begins.
    pub fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// A pass is over; after the last one all tensors are forgotten.
    pub fn end(&self) {
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.lock().clear();
        }
    }

    /// Whether any is running.
    pub fn are_running(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 0
    }

    /// Notes who produced a tensor, if a pass is running. Only then are the tensor's address and change count read.
    pub fn note(&self, version: impl FnOnce() -> Option<(usize, u64)>, source: &Arc<str>) {
        if self.are_running()
            && let Some((address, changes)) = version()
        {
            self.lock().insert(address, (Arc::clone(source), changes));
        }
    }

    /// Whether a tensor was changed in a pass after it was produced.
    pub fn have_changed(&self, version: impl FnOnce() -> Option<(usize, u64)>, source: &Arc<str>) -> bool {
        if !self.are_running() {
            return false;
        }
        let Some((address, changes)) = version() else { return false };
        self.lock().get(&address).is_some_and(|(maker, then)| maker == source && *then != changes)
    }

    fn lock(&self) -> MutexGuard<'_, AddressMap<(Arc<str>, u64)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
