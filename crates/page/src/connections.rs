//! The open connections of a server: bounded, and with room for one more at any time. Where the limit is reached, the
//! connection that has waited longest gives way, so that idle or slow clients lock nobody out.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Connections at a time: more than a browser opens.
const MAX_CONNECTIONS: usize = 64;

/// All connections of a server.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    next: u64,
    all: BTreeMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    stream: TcpStream,
    /// Whether a request is being answered; else one is awaited.
    is_answering: bool,
    since: Instant,
}

/// A connection that counts, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    connections: Arc<Connections>,
    number: u64,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection. If there are too many, one ends: of those that wait for a request the one that has waited
    /// longest, or else the one whose answer takes longest.
    pub(crate) fn admit(connections: &Arc<Connections>, stream: &TcpStream) -> io::Result<Admission> {
        let stream = stream.try_clone()?;
        let mut open = connections.lock();
        while open.all.len() >= MAX_CONNECTIONS {
            let longest = open.all.iter().min_by_key(|(_, one)| (one.is_answering, one.since));
            let Some(number) = longest.map(|(number, _)| *number) else { break };
            if let Some(ended) = open.all.remove(&number) {
                // Its thread reads the end, or fails to write.
                let _ = ended.stream.shutdown(Shutdown::Both);
            }
        }
        let number = open.next;
        open.next += 1;
        open.all.insert(number, OpenConnection { stream, is_answering: false, since: Instant::now() });
        drop(open);
        Ok(Admission { connections: Arc::clone(connections), number })
    }
}

impl Admission {
    /// Says whether a request is being answered from now on.
    pub(crate) fn answers(&self, is_answering: bool) {
        if let Some(one) = self.connections.lock().all.get_mut(&self.number) {
            one.is_answering = is_answering;
            one.since = Instant::now();
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
    }
}
