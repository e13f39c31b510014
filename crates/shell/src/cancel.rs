//! Ends a command early when the user asks for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ulpscope_kernels::stoppable;

/// A request to end the running command. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flag: Arc<AtomicBool>,
}

impl Cancel {
    /// The flag that a signal handler sets.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Whether the command should end.
    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Forgets an earlier request.
    pub fn clear(&self) {
        self.flag.store(false, Ordering::Relaxed);
    }

    /// An error once the command should end.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        if self.is_asked() { Err(io::Error::other("cancelled")) } else { Ok(()) }
    }

    /// Runs work whose passes over tensors end early.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        stoppable(&self.flag, work)
    }
}
