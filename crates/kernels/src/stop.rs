//! Ends a pass early when its result is no longer needed.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The flag that passes of this thread check between two spans.
    static FLAG: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`. Once the flag is set, passes that it calls from this thread return early. Their results are then
/// meaningless: the caller that sets the flag must discard them.
pub fn stoppable<T>(flag: &Arc<AtomicBool>, work: impl FnOnce() -> T) -> T {
    /// Restores the flag of the caller, even if the work panics.
    struct Outer(Option<Arc<AtomicBool>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            FLAG.set(self.0.take());
        }
    }
    let _outer = Outer(FLAG.replace(Some(Arc::clone(flag))));
    work()
}

/// The flag of the passes of this thread, for the threads that help with one.
pub(crate) fn flag() -> Option<Arc<AtomicBool>> {
    FLAG.with_borrow(Clone::clone)
}

pub(crate) fn is_set(flag: Option<&Arc<AtomicBool>>) -> bool {
    flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Whether the pass of this thread should end.
pub(crate) fn is_asked() -> bool {
    FLAG.with_borrow(|flag| is_set(flag.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Threads, compare, kl_divergence, stats, worst};
    use ulpscope_tensor::{DType, View};

    #[test]
    fn a_pass_that_is_stopped_reads_nothing_and_later_ones_read_all() {
        let bytes = vec![0u8; 3 << 20];
        let view = View::contiguous(DType::U8, vec![bytes.len()], &bytes).expect("as many bytes as elements");
        let flag = Arc::new(AtomicBool::new(true));
        for threads in [Threads::One, Threads::All] {
            let seen = stoppable(&flag, || stats(&view, threads).zeros);
            assert_eq!(seen, 0);
            stoppable(&flag, || {
                let tolerance = crate::Tolerance { atol: 0.0, rtol: 0.0 };
                compare(&view, &view, tolerance, threads).expect("one shape");
                kl_divergence(&view, &view, threads);
                worst(&view, &view, 3).expect("one shape");
            });
            assert_eq!(stats(&view, threads).zeros, bytes.len() as u64);
        }
    }
}
