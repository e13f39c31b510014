//! The memory of remote files: addresses that fault until their bytes are put there.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::OnceLock;

use memmap2::{Mmap, MmapMut, MmapOptions};

/// A file without a byte: a read of a mapping of it raises SIGBUS.
fn nothing() -> io::Result<&'static File> {
    static NOTHING: OnceLock<File> = OnceLock::new();
    if let Some(file) = NOTHING.get() {
        return Ok(file);
    }
    // SAFETY: a plain call of the system with a name that ends in a zero byte.
    #[expect(unsafe_code)]
    let made = unsafe { libc::memfd_create(c"ulpscope-remote".as_ptr(), libc::MFD_CLOEXEC) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and owned by nobody else.
    #[expect(unsafe_code)]
    let made = unsafe { File::from_raw_fd(made) };
    Ok(NOTHING.get_or_init(|| made))
}

/// Addresses for a file of this size, with nothing there.
pub(super) fn reserve(size: usize) -> io::Result<Mmap> {
    // SAFETY: the file has no content that could change; what is put there is put in whole, see `fill`.
    #[expect(unsafe_code)]
    unsafe {
        MmapOptions::new().len(size).no_reserve_swap().map(nothing()?)
    }
}

/// Puts bytes at reserved addresses, from the beginning of a page on. Whoever reads there sees all of them, or faults.
pub(super) fn fill(address: usize, bytes: &[u8]) -> io::Result<()> {
    let mut staged = MmapMut::map_anon(bytes.len())?;
    staged.copy_from_slice(bytes);
    let staged = staged.make_read_only()?;
    // SAFETY: the addresses were reserved for these bytes, and stay reserved while the file is open. The staged pages
    // move there in one step, so their own mapping must not be unmapped any more.
    #[expect(unsafe_code)]
    let moved = unsafe {
        libc::mremap(
            staged.as_ptr() as *mut libc::c_void,
            bytes.len(),
            bytes.len(),
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            address as *mut libc::c_void,
        )
    };
    if moved == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    std::mem::forget(staged);
    Ok(())
}

/// Gives back the memory of addresses, from the beginning of a page on: they fault again.
pub(super) fn empty(address: usize, length: usize) -> io::Result<()> {
    let nothing = nothing()?;
    // SAFETY: the addresses are reserved for a file that is open, and what is read there next is put there again by
    // `fill`, with the same bytes.
    #[expect(unsafe_code)]
    let mapped = unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            length,
            libc::PROT_READ,
            libc::MAP_FIXED | libc::MAP_SHARED | libc::MAP_NORESERVE,
            nothing.as_raw_fd(),
            0,
        )
    };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Wakes those who wait for a number to change; see [`wait`].
pub(super) fn wake(number: *const u32) {
    // SAFETY: the system looks at the address only as a name, whether or not it is still valid.
    #[expect(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_futex, number, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX);
    }
}

/// Waits while a number is this one, or shorter. May be called from a signal handler.
pub(super) fn wait(number: &std::sync::atomic::AtomicU32, while_it_is: u32) {
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the number lives until this returns.
    #[expect(unsafe_code)]
    unsafe {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, number.as_ptr(), operation, while_it_is, forever);
    }
}
