//! Limits on recording: `max_calls` and `max_bytes`, over all steps of a run.
//!
//! Both are checked before anything is written. After the first call that is left out for a limit nothing more is
//! recorded, even if something smaller would fit: the dump is the beginning of the run, without holes.

use std::fmt;
use std::io;

use crate::ledger::{OVER_BYTES, OVER_CALLS};

/// The limits, and whether one has been reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    max_calls: Option<u64>,
    max_bytes: Option<u64>,
    reached: Option<&'static str>,
}

impl Limits {
    /// `None` means no limit.
    pub fn new(max_calls: Option<u64>, max_bytes: Option<u64>) -> Limits {
        Limits { max_calls, max_bytes, reached: None }
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        self.max_calls.is_none() && self.max_bytes.is_none()
    }

    /// The limit that prevents a further call, given the calls and bytes written so far.
    pub fn reached_by(&mut self, (calls, written): (u64, u64)) -> Option<&'static str> {
        if self.reached.is_none() {
            let over_calls = self.max_calls.is_some_and(|limit| calls >= limit).then_some(OVER_CALLS);
            let over_bytes = || self.max_bytes.is_some_and(|limit| written >= limit).then_some(OVER_BYTES);
            self.reached = over_calls.or_else(over_bytes);
        }
        self.reached
    }

    /// Whether something was left out for lack of room.
    pub fn is_out_of_room(&self) -> bool {
        self.reached == Some(OVER_BYTES)
    }

    /// Checks that there is room for more bytes after those written.
    pub fn find_room(&mut self, written: u64, bytes: u64) -> io::Result<()> {
        if self.max_bytes.is_some_and(|limit| written.saturating_add(bytes) > limit) {
            self.reached.get_or_insert(OVER_BYTES);
            return Err(io::Error::other(NoRoom));
        }
        Ok(())
    }

    /// The limit that ended the recording, as text.
    pub fn in_words(&self) -> Option<String> {
        let (word, limit) = match self.reached? {
            OVER_CALLS => ("max_calls", self.max_calls?),
            _ => ("max_bytes", self.max_bytes?),
        };
        Some(format!("{word} is {limit}: what came after was left out"))
    }
}

/// A line or file needs more bytes than are left.
#[derive(Debug)]
struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(OVER_BYTES)
    }
}

impl std::error::Error for NoRoom {}

/// Whether an error means that there is no room within `max_bytes`.
pub(crate) fn is_no_room(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NoRoom>())
}
