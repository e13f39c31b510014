//! What can go wrong with a page.

use std::io;
use std::path::PathBuf;

use ulpscope_report::page::NoPage;
use ulpscope_report::sheet::SheetError;

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// This program was built without the page.
    #[error(transparent)]
    NoPage(#[from] NoPage),
    /// The result cannot be used.
    #[error("{path}: {expected}, found {found}", path = path.display())]
    Result {
        /// The file.
        path: PathBuf,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// Nothing of the result was chosen.
    #[error("{path}: expected {expected}, found {found}; leave out --step and --rank to show all of it", path = path.display())]
    Selection {
        /// The file.
        path: PathBuf,
        /// The step or rank that was chosen.
        expected: String,
        /// Those that the result has.
        found: String,
    },
    /// The page would take the place of something that is none.
    #[error("{path}: exists and is no page: expected a new file, a file that ends in .html, or a folder", path = path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// The server cannot listen.
    #[error(
        "cannot listen on 127.0.0.1:{port}: {cause}; choose a different --port, or leave it out for a free one"
    )]
    Port {
        /// The port.
        port: u16,
        /// The error of the system.
        cause: io::Error,
    },
    /// A sheet cannot be read.
    #[error("{0}; put the sheet back as it was written, or compare again")]
    Sheet(SheetError),
    /// A dump or a document cannot be read.
    #[error(transparent)]
    Dump(#[from] ulpscope_dump::Error),
    /// The data of the page cannot be stored, or the page cannot be written.
    #[error("cannot write the page: {0}")]
    Write(io::Error),
}

// Both messages contain their cause: as a source it would be printed twice.

impl From<SheetError> for PageError {
    fn from(cause: SheetError) -> PageError {
        PageError::Sheet(cause)
    }
}

impl From<io::Error> for PageError {
    fn from(cause: io::Error) -> PageError {
        PageError::Write(cause)
    }
}
