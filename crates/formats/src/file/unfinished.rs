//! Files that are complete or absent.
//!
//! Where the system supports it, the bytes are written to a nameless file: a killed process leaves nothing.
//! Elsewhere they are written to a temporary file beside the target, which is removed if anything fails.
//! A finished file gets the target's name in one step and replaces any file of that name.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::storage;

/// A file that is being written and does not have its final name yet.
pub struct Unfinished {
    file: File,
    target: PathBuf,
    /// Its temporary name, if any.
    temporary: Option<PathBuf>,
}

impl Unfinished {
    /// A new file that will be named `target`, in the same folder.
    pub fn create(target: &Path) -> io::Result<Unfinished> {
        if target.file_name().is_none() {
            let message = "the path names no file; expected one that ends in a file's name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        storage::refuse_to_write(target)?;
        let target = target.to_owned();
        let mut options = OpenOptions::new();
        options.write(true);
        if let Some(file) = create_nameless(folder_of(&target), &options)? {
            return Ok(Unfinished { file, target, temporary: None });
        }
        let create = |name: &Path| OpenOptions::new().write(true).create_new(true).open(name);
        let (temporary, file) = under_free_name(&target, create)?;
        Ok(Unfinished { file, target, temporary: Some(temporary) })
    }

    /// The file to write to.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, or a numbered name if that name is taken by now. Returns the name.
    pub fn finish_beside(mut self) -> io::Result<PathBuf> {
        let wanted = self.target.clone();
        let stem = wanted.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let suffix =
            wanted.extension().map(|suffix| format!(".{}", suffix.to_string_lossy())).unwrap_or_default();
        let mut number = 0u32;
        loop {
            let name = match number {
                0 => wanted.clone(),
                number => wanted.with_file_name(format!("{stem}_{number}{suffix}")),
            };
            let taken = match &self.temporary {
                Some(temporary) => fs::hard_link(temporary, &name),
                None => link(&self.file, &name),
            };
            match taken {
                Ok(()) => {
                    if let Some(temporary) = self.temporary.take() {
                        fs::remove_file(temporary)?;
                    }
                    return Ok(name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> io::Result<()> {
        if self.temporary.is_none() {
            let (temporary, ()) = under_free_name(&self.target, |name| link(&self.file, name))?;
            self.temporary = Some(temporary);
        }
        let temporary = self.temporary.as_ref().expect("named just above");
        fs::rename(temporary, &self.target)?;
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The earlier failure is the one to report; a leftover file would only confuse.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A file in a folder that never gets a name: it is deleted when it is closed or when the process is killed. For
/// temporary data larger than memory.
pub fn nameless(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    if let Some(file) = create_nameless(folder, &options)? {
        return Ok(file);
    }
    options.create_new(true);
    let (name, file) = under_free_name(&folder.join("nameless"), |name| options.open(name))?;
    fs::remove_file(name)?;
    Ok(file)
}

/// Tries temporary names beside `target` until one is free.
fn under_free_name<T>(
    target: &Path,
    mut with: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        // Always short: a target name of maximum length has no room for a suffix.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = target.with_file_name(format!(".ulpscope-{}-{number}.tmp", std::process::id()));
        match with(&name) {
            Ok(done) => return Ok((name, done)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The folder where Linux lists the open files of this process by number.
#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// The folder that a file is in.
fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A nameless file in a folder; none if the folder or the system does not support it.
#[cfg(target_os = "linux")]
fn create_nameless(folder: &Path, options: &OpenOptions) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt;

    if !Path::new(OPEN_FILES).exists() {
        return Ok(None);
    }
    match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
        Ok(file) => Ok(Some(file)),
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
fn create_nameless(_folder: &Path, _options: &OpenOptions) -> io::Result<Option<File>> {
    Ok(None)
}

/// Gives a nameless file a name, which must be free.
#[cfg(target_os = "linux")]
fn link(file: &File, name: &Path) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;

    let open = CString::new(format!("{OPEN_FILES}/{}", file.as_raw_fd()))?;
    let name = CString::new(name.as_os_str().as_bytes())?;
    // SAFETY: both are strings that end in a zero byte and live until the call returns.
    #[expect(unsafe_code)]
    let status = unsafe {
        libc::linkat(libc::AT_FDCWD, open.as_ptr(), libc::AT_FDCWD, name.as_ptr(), libc::AT_SYMLINK_FOLLOW)
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _name: &Path) -> io::Result<()> {
    unreachable!("files without a name are made on Linux only")
}
