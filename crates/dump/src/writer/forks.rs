//! Detects whether this process was forked: a forked child has the journal of its parent mapped, and must not write
//! to it.
//!
//! Asking the system for the process id takes a few hundred nanoseconds on some machines, and would be needed
//! several times for every call. Therefore a fork handler of the C library counts forks instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Whether forks are counted here.
static IS_COUNTING: OnceLock<bool> = OnceLock::new();

/// A process, distinct from its forked children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The current process.
    pub fn current() -> Process {
        // If forks cannot be counted, the system is asked each time.
        let is_counting = *IS_COUNTING.get_or_init(count_forks);
        Process(if is_counting { FORKS.load(Ordering::Relaxed) } else { std::process::id() })
    }

    /// Whether it is the current process and not its parent.
    pub fn is_current(self) -> bool {
        self == Process::current()
    }
}

/// Starts to count forks; returns whether that is possible.
#[cfg(target_os = "linux")]
fn count_forks() -> bool {
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only adds to a number, which a child may do whatever the other threads of its parent were at,
    // and it stays where it is: an extension of Python is never unloaded.
    #[expect(unsafe_code)]
    let status = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    status == 0
}

#[cfg(not(target_os = "linux"))]
fn count_forks() -> bool {
    false
}
