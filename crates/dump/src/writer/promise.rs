//! Blocks that a file system promises before they are written.

use std::fs::File;
use std::io;

/// Has the file system promise blocks from `start` on. The file is at least as long afterwards.
#[cfg(target_os = "linux")]
pub(super) fn promised(file: &File, start: u64, length: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let offset = libc::off64_t::try_from(start).map_err(io::Error::other)?;
    let length = libc::off64_t::try_from(length).map_err(io::Error::other)?;
    // SAFETY: the descriptor is that of an open file, and the call touches no memory of ours.
    #[expect(unsafe_code)]
    let status = unsafe { libc::fallocate64(file.as_raw_fd(), 0, offset, length) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn promised(_file: &File, _start: u64, _length: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A file system that makes no promises is written to as far as it goes. One that has no room for them has none for what
/// is to be written; nor has a process whose files may not be that large.
pub(super) fn none_is_fine(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Err(error),
        _ => Ok(()),
    }
}
