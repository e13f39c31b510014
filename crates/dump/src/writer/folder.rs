//! The folder that tensor files are in, kept open: a link in it is made without walking the path to it, twice.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A folder that is there.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    open: Option<File>,
}

impl Folder {
    /// Makes a folder, and those above it, unless it is there.
    pub(super) fn make(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        // Elsewhere, or where it may be written to but not be listed, its path does.
        let open = if cfg!(target_os = "linux") { File::open(path).ok() } else { None };
        Ok(Folder { path: path.to_owned(), open })
    }

    /// Says that it has another path now; it is the same folder.
    pub(super) fn moved_to(&mut self, path: &Path) {
        path.clone_into(&mut self.path);
    }

    /// Gives a file in it a further name, which must be free.
    pub(super) fn link(&self, file: &str, name: &str) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(open) = &self.open {
            return link_within(open, file, name);
        }
        fs::hard_link(self.path.join(file), self.path.join(name))
    }
}

#[cfg(target_os = "linux")]
fn link_within(folder: &File, file: &str, name: &str) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;

    let (file, name) = (CString::new(file)?, CString::new(name)?);
    let folder = folder.as_raw_fd();
    // SAFETY: the descriptor is that of an open folder, and both names end in a zero byte and live until the call returns.
    #[expect(unsafe_code)]
    let status = unsafe { libc::linkat(folder, file.as_ptr(), folder, name.as_ptr(), 0) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
