//! Long work that Ctrl-C ends at once.
//!
//! Python delivers a signal to its main thread, and only when that thread checks for signals. So long work runs on a
//! separate thread while the caller waits and checks. When a signal handler raises (`KeyboardInterrupt`, or the
//! program's own exception), the work is told to stop and the exception propagates. Other threads get no signals: there
//! the caller just waits.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use pyo3::prelude::*;

/// Set when the result is no longer needed.
pub(crate) type Stop = Arc<AtomicBool>;

/// Work on fewer bytes ends before an interrupt, and starting a thread would take longer than the work.
pub(crate) const LONG_WORK_BYTES: usize = 32 << 20;

/// Time between two checks for signals.
const TICK: Duration = Duration::from_millis(20);

/// Runs work that borrows from its caller, and that stops soon when told to.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce(&Stop) -> T + Send) -> PyResult<T> {
    let stop = Stop::default();
    // Taken by the thread, or by the caller if no thread can be started.
    let work = Mutex::new(Some(work));
    let take = || work.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let (done, result) = channel();
        let (take, stop) = (&take, &stop);
        let run = move || {
            if let Some(work) = take() {
                // Nobody may be there to hear.
                let _ = done.send(work(stop));
            }
        };
        let Ok(worker) = thread::Builder::new().spawn_scoped(scope, run) else {
            let work = take().expect("nobody else has taken it");
            return Ok(py.detach(|| work(stop)));
        };
        match wait(py, result) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => resume_unwind(py.detach(|| worker.join()).expect_err("it sent nothing")),
            Err(signal) => {
                stop.store(true, Ordering::Relaxed);
                // It still reads the caller's data.
                let _ = py.detach(|| worker.join());
                Err(signal)
            }
        }
    })
}

/// Runs work that owns its data; after an interrupt it may run on until it checks `Stop`.
pub(crate) fn abandonable<T: Send + 'static>(
    py: Python<'_>,
    stop: Stop,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> PyResult<T> {
    let work = Arc::new(Mutex::new(Some(work)));
    let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (done, result) = channel();
    let (for_thread, thread_stop) = (Arc::clone(&work), Arc::clone(&stop));
    let run = move || {
        if let Some(work) = take(&for_thread) {
            // Nobody may be there to hear.
            let _ = done.send(work(&thread_stop));
        }
    };
    let Ok(worker) = thread::Builder::new().spawn(run) else {
        let work = take(&work).expect("nobody else has taken it");
        return Ok(py.detach(|| work(&stop)));
    };
    match wait(py, result) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => resume_unwind(py.detach(|| worker.join()).expect_err("it sent nothing")),
        Err(signal) => {
            stop.store(true, Ordering::Relaxed);
            Err(signal)
        }
    }
}

/// The result, or `None` if there will be none; an error if a signal handler raised.
fn wait<T: Send>(py: Python<'_>, result: Receiver<T>) -> PyResult<Option<T>> {
    let result = Mutex::new(result);
    loop {
        let received = py.detach(|| result.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK));
        match received {
            Ok(value) => return Ok(Some(value)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
    }
}

/// For writers and copiers, which check before every portion. (Not of kind `Interrupted`, which writers retry.)
pub(crate) fn go_on(stop: &Stop) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) { Err(io::Error::other("interrupted")) } else { Ok(()) }
}
