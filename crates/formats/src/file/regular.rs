//! Opens a file by name, if it is a regular file.

use std::fs::{File, Metadata, OpenOptions};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Fault};

/// Opens a regular file for reading. Folders, pipes and devices are refused at once: opening a pipe would wait for a
/// writer, and a device may never end.
pub fn open_regular(path: &Path) -> Result<File, Error> {
    let open = || {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        options.custom_flags(libc::O_NONBLOCK);
        let file = options.open(path)?;
        regular_metadata(&file)?;
        Ok(file)
    };
    open().map_err(|fault: Fault| Error::whole(fault).in_file(path))
}

/// The metadata of a regular file. It comes from the open file, because the name may refer to a different file by
/// now.
pub(crate) fn regular_metadata(file: &File) -> Result<Metadata, Fault> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata);
    }
    let found = if metadata.is_dir() { "a folder" } else { "a device or pipe" };
    Err(Fault::malformed("a regular file", found))
}
