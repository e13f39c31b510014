//! Which threads put nodes into the autograd graph.
//!
//! Torch numbers the nodes of each thread by themselves, and does not tell whose a node is. While there is one thread,
//! numbers tell what is older than a call; with several, they may not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THIS: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// A thread, told from all others that there ever were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(u64);

impl ThreadId {
    /// The one that runs here.
    pub fn current() -> ThreadId {
        ThreadId(THIS.with(|this| *this))
    }
}

/// Whether calls were made on one thread, or on several.
#[derive(Debug)]
pub struct CallingThreads {
    first: ThreadId,
    are_several: AtomicBool,
}

impl CallingThreads {
    /// The thread that runs here is the first.
    pub fn from_here() -> CallingThreads {
        CallingThreads { first: ThreadId::current(), are_several: AtomicBool::new(false) }
    }

    /// Meets a call on the thread that runs here.
    pub fn meet(&self) {
        if ThreadId::current() != self.first {
            self.are_several.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a call was met on another thread than the first.
    pub fn are_several(&self) -> bool {
        self.are_several.load(Ordering::Relaxed)
    }
}
