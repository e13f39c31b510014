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
    /// A sheet cannot be read.
    #[error(transparent)]
    Sheet(#[from] SheetError),
    /// A dump or a document cannot be read.
    #[error(transparent)]
    Dump(#[from] ulpscope_dump::Error),
    /// The data of the page cannot be stored, or the page cannot be written.
    #[error("cannot write the page: {0}")]
    Write(#[from] io::Error),
}
