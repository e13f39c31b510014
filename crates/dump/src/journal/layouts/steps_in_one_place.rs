//! A file or folder that holds several steps, one after the other.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ulpscope_formats::Error;

use super::target::Target;

/// Where each step begins: after the last one, or where it began if it is written again after a pause.
#[derive(Debug)]
pub(super) struct StepsInOnePlace<P> {
    target: Target,
    last: Mutex<Option<LastStep<P>>>,
}

#[derive(Debug)]
struct LastStep<P> {
    /// The file or folder that holds it.
    path: PathBuf,
    /// The folder of its journal.
    journal: PathBuf,
    start: P,
    end: P,
}

impl<P: Copy + Default> StepsInOnePlace<P> {
    pub(super) fn new(target: Target) -> StepsInOnePlace<P> {
        StepsInOnePlace { target, last: Mutex::default() }
    }

    /// Writes a step: `write` gets the path and where the step begins, and returns where it ends.
    pub(super) fn write(
        &self,
        journal: &Path,
        write: impl FnOnce(&Path, P) -> Result<P, Error>,
    ) -> Result<(), Error> {
        let path = self.target.path(journal);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let start = match last.as_ref().filter(|last| last.path == path) {
            Some(last) if last.journal == journal => last.start,
            Some(last) => last.end,
            None => P::default(),
        };
        let end = write(&path, start)?;
        *last = Some(LastStep { path, journal: journal.to_owned(), start, end });
        Ok(())
    }
}
