//! The append-only journal of one rank in one step.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::tensor_files::DATA_FOLDER;
use crate::journal::JOURNAL_FILE;

/// What an earlier run may have left in the folder of a rank, and would be taken for this run's.
const EARLIER: [&str; 6] =
    ["dump.json", "debug.json", "stack.json", "construct.json", "ledger.json", JOURNAL_FILE];

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    folder: PathBuf,
    written: u64,
}

impl Journal {
    /// Makes the folder of a rank, clears it of what an earlier run left, and begins its journal.
    pub fn create(folder: &Path) -> io::Result<Journal> {
        fs::create_dir_all(folder)?;
        for name in EARLIER {
            absent_is_fine(fs::remove_file(folder.join(name)))?;
        }
        // Files of an earlier run may be linked to each other: writing over one would change another.
        absent_is_fine(fs::remove_dir_all(folder.join(DATA_FOLDER)))?;
        let file = OpenOptions::new().append(true).create_new(true).open(folder.join(JOURNAL_FILE))?;
        Ok(Journal { file, folder: folder.to_owned(), written: 0 })
    }

    /// Appends whole lines in one write: after it has returned they outlive the process.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.file.write_all(lines)?;
        self.written += lines.len() as u64;
        Ok(())
    }

    /// The folder of the rank.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
