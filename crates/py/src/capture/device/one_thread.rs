//! Work that one thread does at a time, and that asks Python: no lock may be held meanwhile.

use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;

use crate::capture::device::arrivals::lock;

/// How long a thread sleeps while another one works.
const BRIEFLY: Duration = Duration::from_micros(200);

/// The thread that works, if one does.
#[derive(Default)]
pub(in crate::capture) struct OneThread(Mutex<Option<ThreadId>>);

/// While it is alive, no other thread works.
pub(in crate::capture) struct Working<'a>(&'a OneThread);

impl OneThread {
    /// Begins; `None` if a thread works already.
    pub(in crate::capture) fn begin(&self) -> Option<Working<'_>> {
        let mut now = lock(&self.0);
        now.is_none().then(|| {
            *now = Some(thread::current().id());
            Working(self)
        })
    }

    /// Begins, after waiting for the other thread. `None` if this thread works already: a finalizer that runs in a
    /// question to Python may come back here, and would wait for itself.
    pub(in crate::capture) fn wait(&self, py: Python<'_>) -> Option<Working<'_>> {
        loop {
            if let Some(working) = self.begin() {
                return Some(working);
            }
            if self.is_here() {
                return None;
            }
            // Never waits for the other thread with the GIL, which that thread may need.
            py.detach(|| thread::sleep(BRIEFLY));
        }
    }

    /// Whether this very thread works.
    pub(in crate::capture) fn is_here(&self) -> bool {
        *lock(&self.0) == Some(thread::current().id())
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}
