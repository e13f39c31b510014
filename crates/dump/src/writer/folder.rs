//! Folders of a dump that is written.
//!
//! The folders above a dump are the user's and may be links: `/data`, for example. The folders of the dump itself
//! are made by us. If one of them is a link, someone else put it there, and following it would write and delete
//! somewhere else. It is refused, as it is when a dump is read.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Folders of a dump above its files: that of the step, and in it that of the rank.
const OWN_LEVELS: usize = 2;

/// How often the folder of a rank is tried to be made.
const ATTEMPTS: usize = 100;

/// Makes the folder of a rank and those above it, if they are missing. Neither it nor that of its step may be a link.
pub(super) fn make_rank_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.ancestors().nth(OWN_LEVELS).filter(|above| !above.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    let own: Vec<&Path> = own_folders(folder).collect();
    let make_all = || own.iter().rev().try_for_each(|path| make(path));
    // A rank that leaves a step removes its folder if it is empty: perhaps just before another rank enters it.
    for _ in 1..ATTEMPTS {
        match make_all() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => std::thread::yield_now(),
            made => return made,
        }
    }
    make_all()
}

/// Refuses the folder of a rank if it or that of its step was replaced by a link.
pub(crate) fn check_rank_folder(folder: &Path) -> io::Result<()> {
    own_folders(folder).try_for_each(refuse_link)
}

/// The folder of a rank, and that of its step.
fn own_folders(folder: &Path) -> impl Iterator<Item = &Path> {
    folder.ancestors().take(OWN_LEVELS).filter(|path| !path.as_os_str().is_empty())
}

/// Makes a folder in an existing one, if it is missing.
fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => refuse_link(path),
        made => made,
    }
}

fn refuse_link(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_symlink() {
        let message = format!(
            "{} is a symbolic link, which may lead out of the dump: remove it, or choose another dump_path",
            path.display()
        );
        return Err(io::Error::other(message));
    }
    Ok(())
}

/// The folder of tensor files, kept open: creating a file in it does not walk the path, and a link that replaces the
/// folder has no effect.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    #[cfg_attr(not(target_os = "linux"), expect(dead_code))]
    open: Option<File>,
}

impl Folder {
    /// Makes a folder and those above it, if they are missing.
    pub(super) fn make(path: &Path) -> io::Result<Folder> {
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            fs::create_dir_all(above)?;
        }
        make(path)?;
        // On other systems, or if the folder is writable but not readable, its path is used.
        let open = if cfg!(target_os = "linux") { open_folder(path).ok() } else { None };
        Ok(Folder { path: path.to_owned(), open })
    }

    /// Sets its new path; it is the same folder.
    pub(super) fn moved_to(&mut self, path: &Path) {
        path.clone_into(&mut self.path);
    }

    /// Creates a file in it. The name must be free.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        #[cfg(target_os = "linux")]
        if let Some(open) = &self.open {
            return create_within(open, name);
        }
        OpenOptions::new().write(true).create_new(true).open(self.path.join(name))
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
fn open_folder(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;

    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_folder(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(target_os = "linux")]
fn create_within(folder: &File, name: &str) -> io::Result<File> {
    use std::ffi::CString;
    use std::os::fd::{AsRawFd, FromRawFd};

    /// Readable and writable, as far as the user's umask allows.
    const MODE: libc::mode_t = 0o666;
    let name = CString::new(name)?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the descriptor is that of an open folder, and the name ends in a zero byte and lives until the call returns.
    #[expect(unsafe_code)]
    let file = unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, MODE) };
    if file < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was opened just now, and nobody else has it.
    #[expect(unsafe_code)]
    Ok(unsafe { File::from_raw_fd(file) })
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn the_folder_of_a_step_may_be_removed_by_another_rank_while_one_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let step = folder.path().join("step3");
        let is_over = AtomicBool::new(false);
        // While one folder is made. Where the disk is slow, a removal may follow each attempt: as many ranks leave a step
        // at most as it has.
        let removals = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if removals.load(Ordering::Relaxed) < ATTEMPTS / 2 && fs::remove_dir(&step).is_ok() {
                        removals.fetch_add(1, Ordering::Relaxed);
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
            for _ in 0..20_000 {
                removals.store(0, Ordering::Relaxed);
                let made = make_rank_folder(&step.join("rank1"));
                let removed = made.and_then(|()| fs::remove_dir(step.join("rank1")));
                if removed.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                }
                removed.expect("made again");
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
