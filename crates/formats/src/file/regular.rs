//! Opening a file that was named, whatever it turns out to be.

use std::fs::{File, Metadata, OpenOptions};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::{Error, Fault};

/// Opens a regular file for reading. Folders, pipes and devices are refused at once: a pipe would be waited for until
/// somebody writes to it, and a device may never end.
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

/// What is known of a regular file. Asked of what was opened: the name may by now be that of something else.
pub(crate) fn regular_metadata(file: &File) -> Result<Metadata, Fault> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(metadata);
    }
    let found = if metadata.is_dir() { "a folder" } else { "a device or pipe" };
    Err(Fault::malformed("a regular file", found))
}
