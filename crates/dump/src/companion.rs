//! A document beside a `dump.json`: a file that may be absent, or one made from a journal.

use std::path::{Path, PathBuf};

use ulpscope_formats::{Access, Bytes, Error, storage};

use crate::links;

/// Where a document is.
#[derive(Debug)]
pub(crate) enum Companion {
    /// In a file, if it exists.
    File(PathBuf),
    /// In memory or in a nameless file, made from the journal of this path.
    Made(PathBuf, Bytes),
    /// Nowhere.
    None,
}

impl Companion {
    pub(crate) fn made(journal: &Path, bytes: Bytes) -> Companion {
        Companion::Made(journal.to_owned(), bytes)
    }

    /// The document, if there is one. Links are not followed.
    pub(crate) fn bytes(&self) -> Result<Option<Bytes>, Error> {
        match self {
            Companion::File(path) if storage::exists(path) => {
                links::refuse(path)?;
                Bytes::map(path, Access::ReadOnly).map(Some)
            }
            Companion::File(_) | Companion::None => Ok(None),
            Companion::Made(_, bytes) => Ok(Some(bytes.clone())),
        }
    }

    /// Reads the document, if there is one. Errors name its file.
    pub(crate) fn read(&self, read: impl FnOnce(&Bytes) -> Result<(), Error>) -> Result<(), Error> {
        let result = self
            .bytes()
            .and_then(|bytes| bytes.as_ref().map_or(Ok(()), |bytes| bytes.reading(|| read(bytes))));
        match self {
            Companion::File(path) | Companion::Made(path, _) => result.map_err(|error| error.in_file(path)),
            Companion::None => result,
        }
    }
}
