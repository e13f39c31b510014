//! The thread on which requests are made.

use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};

/// The runtime, and the process whose thread drives it: a process that was forked off needs its own.
static RUNTIME: Mutex<Option<(u32, Handle)>> = Mutex::new(None);

fn handle() -> io::Result<Handle> {
    let mut known = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some((of, handle)) = &*known
        && *of == process
    {
        return Ok(handle.clone());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let drive = move || runtime.block_on(std::future::pending::<()>());
    thread::Builder::new().name("ulpscope-network".to_owned()).spawn(drive)?;
    *known = Some((process, handle.clone()));
    Ok(handle)
}

/// Runs a future on the runtime's thread, and waits for it.
pub(crate) fn run<F>(future: F) -> io::Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let (send, receive) = sync_channel(1);
    handle()?.spawn(async move {
        // Whoever asked waits below.
        let _ = send.send(future.await);
    });
    receive.recv().map_err(|_| io::Error::other("the request was abandoned: its thread ended"))
}
