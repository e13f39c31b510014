//! Which threads add nodes to the autograd graph.
//!
//! Torch numbers the nodes of each thread separately, and does not report a node's thread. With one thread, numbers
//! show what is older than a call; with several, they may not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THIS: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// A thread id that is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(u64);

impl ThreadId {
    /// The current thread.
    pub fn current() -> ThreadId {
        ThreadId(THIS.with(|this| *this))
    }
}

/// Whether calls were made on one thread or on several.
#[derive(Debug)]
pub struct CallingThreads {
    first: ThreadId,
    are_several: AtomicBool,
}

impl CallingThreads {
    /// The current thread is the first.
    pub fn from_here() -> CallingThreads {
        CallingThreads { first: ThreadId::current(), are_several: AtomicBool::new(false) }
    }

    /// Notes a call on the current thread.
    pub fn meet(&self) {
        if ThreadId::current() != self.first {
            self.are_several.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a call came from a thread other than the first.
    pub fn are_several(&self) -> bool {
        self.are_several.load(Ordering::Relaxed)
    }
}
