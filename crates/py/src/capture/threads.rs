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
pub(super) struct ThreadId(u64);

impl ThreadId {
    /// The one that runs here.
    pub(super) fn current() -> ThreadId {
        ThreadId(THIS.with(|this| *this))
    }
}

/// Whether calls were made on one thread, or on several.
pub(super) struct Threads {
    first: ThreadId,
    are_several: AtomicBool,
}

impl Threads {
    /// The thread that runs here is the first.
    pub(super) fn new() -> Threads {
        Threads { first: ThreadId::current(), are_several: AtomicBool::new(false) }
    }

    /// Meets a call on the thread that runs here.
    pub(super) fn meet(&self) {
        if ThreadId::current() != self.first {
            self.are_several.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a call was met on another thread than the first.
    pub(super) fn are_several(&self) -> bool {
        self.are_several.load(Ordering::Relaxed)
    }
}
