//! The thread that writes numbers while the program makes no calls: the journal of a killed run is not older than the
//! flush interval.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::capture::device::arrivals::Arrivals;

/// How often numbers of our own kernel are looked for.
const OFTEN: Duration = Duration::from_millis(5);

/// The running thread. Without `stop` it ends soon after this is dropped.
pub(super) struct Poller {
    signal: Arc<Signal>,
    /// `None` if no thread could be started: numbers are then written by calls and at the end of the step.
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Signal {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Poller {
    /// Starts the thread, which does not keep `arrivals` alive.
    pub(super) fn start(arrivals: &Arc<Arrivals>, interval: Duration) -> Poller {
        let arrivals = Arc::downgrade(arrivals);
        let signal = Arc::new(Signal::default());
        let own = Arc::clone(&signal);
        let run = move || {
            let (mut tick, mut last) = (interval, Instant::now());
            while !has_ended(&own, tick) {
                let Some(arrivals) = arrivals.upgrade() else { break };
                // Without the GIL, and often: the end of the step then finds little to write.
                arrivals.gpu.write_arrived();
                tick = if arrivals.gpu.is_used() { interval.min(OFTEN) } else { interval };
                if last.elapsed() >= interval && arrivals.is_waiting() {
                    // Nothing is read while the interpreter ends. Only the main thread is interrupted.
                    let _ = Python::try_attach(|py| arrivals.look(py).and_then(|()| arrivals.judge(py)));
                    last = Instant::now();
                }
            }
        };
        Poller { signal, thread: Builder::new().name("ulpscope-numbers".to_owned()).spawn(run).ok() }
    }

    /// Ends the thread and waits for it. The GIL must not be held.
    pub(super) fn stop(mut self) {
        self.signal_end();
        if let Some(thread) = self.thread.take() {
            // Its panic is in nobody's interest: the end of the step reads what it left.
            let _ = thread.join();
        }
    }

    fn signal_end(&self) {
        *self.signal.lock() = true;
        self.signal.changed.notify_all();
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.signal_end();
    }
}

/// Sleeps for the interval; returns whether the thread is to end.
fn has_ended(signal: &Signal, interval: Duration) -> bool {
    let waited = signal.changed.wait_timeout_while(signal.lock(), interval, |is_over| !*is_over);
    *waited.unwrap_or_else(PoisonError::into_inner).0
}
