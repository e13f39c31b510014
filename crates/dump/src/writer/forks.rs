//! Whether this process is a copy: a forked child has the journal of its parent mapped, and must not write to it.
//!
//! Asking the system for the number of the process takes some hundred nanoseconds on some machines, and would be asked
//! several times for every call. So the system library is asked to count forks instead.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Whether forks are counted here.
static IS_COUNTING: OnceLock<bool> = OnceLock::new();

/// A process, told from those that are forked from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The one that runs here.
    pub fn current() -> Process {
        // Where forks cannot be counted, the system is asked each time.
        let is_counting = *IS_COUNTING.get_or_init(count_forks);
        Process(if is_counting { FORKS.load(Ordering::Relaxed) } else { std::process::id() })
    }

    /// Whether it is this one that runs here, and no copy of it.
    pub fn is_current(self) -> bool {
        self == Process::current()
    }
}

/// Has forks counted from now on; tells whether that can be done.
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
