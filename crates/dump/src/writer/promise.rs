//! Allocates blocks of a file before they are written.

use std::fs::File;
use std::io;

/// Allocates blocks from `start` on. The file is at least as long afterwards.
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

/// If the file system cannot allocate in advance, writing goes on without it. If it has no space for the blocks, it
/// has none for the data either; the same holds if the process has a limit on file sizes.
pub(super) fn none_is_fine(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Err(error),
        _ => Ok(()),
    }
}
