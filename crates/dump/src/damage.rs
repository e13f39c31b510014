//! Lines of a `.pkl` that turned out to be damaged when they were decoded.
//!
//! Calls are decoded one by one, in any order and by several threads, and some more than once. For a damaged line
//! only its offset is kept. Its number and its error are found on request, in one pass over the file. The first
//! damaged lines of the file are listed, in whatever order they were found.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ulpscope_formats::pkl_lines::{Line, Lines};
use ulpscope_formats::{Error, Place};

use crate::problems::{MAX_LISTED, Problems};

/// Damaged lines, each once.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    met: Mutex<Met>,
}

#[derive(Debug, Default)]
struct Met {
    /// Whether the lines of a call have been recorded, by the number of the call.
    calls: Vec<bool>,
    /// The offsets of the first damaged lines of the file, as many as are listed.
    first: BTreeSet<u64>,
    count: u64,
}

impl Damage {
    /// Records the offsets of the damaged lines of a call, unless the call has been recorded before.
    pub(crate) fn take(&self, call: usize, lines: impl FnOnce() -> Vec<u64>) {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.calls.len() <= call {
            met.calls.resize(call + 1, false);
        }
        if std::mem::replace(&mut met.calls[call], true) {
            return;
        }
        for start in lines() {
            met.count += 1;
            met.first.insert(start);
            if met.first.len() > MAX_LISTED {
                met.first.pop_last();
            }
        }
    }

    /// Their errors, in the order of the file.
    pub(crate) fn problems(&self, bytes: &[u8], path: &Path) -> Problems {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = Problems::default();
        let (mut at, mut number) = (0, 1);
        for start in met.first.iter().map(|&start| start as usize) {
            number += bytes[at..start].iter().filter(|&&byte| byte == b'\n').count() as u64;
            at = start;
            match Lines::within(&bytes[start..], number, start as u64).next() {
                Some(Err(error)) => problems.add(&error.in_file(path)),
                Some(Ok((_, line @ Line::Other(_)))) => {
                    problems.add(&Error::at(Place::Line(number), line.unknown_form()).in_file(path));
                }
                Some(Ok(_)) | None => {}
            }
        }
        problems.add_unlisted(met.count - met.first.len() as u64);
        problems
    }
}
