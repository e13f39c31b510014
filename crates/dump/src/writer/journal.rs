//! The append-only journal of one rank in one step.
//!
//! Written lines must outlive the process. A write call per line achieves that, but takes a microsecond. Memory of
//! a mapped file achieves it too, for the price of a copy. So lines are copied into a mapped window at the end of
//! the file, whose disk blocks are allocated in advance. (Otherwise a full disk would raise a fatal signal. If
//! blocks cannot be allocated, lines are written one by one.) Zeros follow the last line until the journal is
//! trimmed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use super::folder::{check_rank_folder, make_rank_folder};
use super::promise::{none_is_fine, promised};
use super::tensor_files::DATA_FOLDER;
use crate::journal::JOURNAL_FILE;

/// Files that an earlier run may have left in the folder of a rank, and that could be mistaken for this run's.
const EARLIER: [&str; 6] =
    ["dump.json", "debug.json", "stack.json", "construct.json", "ledger.json", JOURNAL_FILE];

/// Bytes mapped at a time; a multiple of every page size.
const WINDOW: usize = 1 << 18;

/// Bytes after the last line that are allocated too: for the line that says that the disk is full.
const RESERVE: usize = 1 << 13;

/// The same for a short journal, which needs less for that line: if the file size is limited, half of it is for
/// calls.
const LEAST_RESERVE: usize = 1 << 9;

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    folder: PathBuf,
    written: u64,
    window: Option<Window>,
    /// Whether the file system can allocate blocks.
    is_mappable: bool,
    /// Whether lines may use the reserve.
    is_ending: bool,
}

#[derive(Debug)]
struct Window {
    memory: MmapMut,
    /// Its offset in the file.
    start: u64,
}

impl Journal {
    /// Makes the folder of a rank, removes what an earlier run left there, and starts its journal.
    pub fn create(folder: &Path) -> io::Result<Journal> {
        make_rank_folder(folder)?;
        clear(folder)?;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).open(folder.join(JOURNAL_FILE))?;
        Ok(Journal {
            file,
            folder: folder.to_owned(),
            written: 0,
            window: None,
            is_mappable: true,
            is_ending: false,
        })
    }

    /// Appends whole lines, given in parts. When it returns, they outlive the process. Lines are written completely
    /// or not at all.
    pub fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let before = self.written;
        let result = parts.iter().try_for_each(|part| self.append_part(part));
        if result.is_err() {
            self.written = before;
        }
        result
    }

    /// Appends the last lines, which may use the reserve.
    pub fn append_last(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        self.is_ending = true;
        let result = self.append(parts);
        self.is_ending = false;
        result
    }

    fn append_part(&mut self, part: &[u8]) -> io::Result<()> {
        let mut rest = part;
        while !rest.is_empty() {
            let written = self.written;
            let Some(window) = self.window() else {
                self.write(rest)?;
                break;
            };
            let at = (written - window.start) as usize;
            let room = &mut window.memory[at..];
            let count = room.len().min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.written += count as u64;
        }
        Ok(())
    }

    /// Truncates the file after its last line. More lines may follow.
    pub fn trim(&mut self) -> io::Result<()> {
        self.window = None;
        self.file.set_len(self.written)
    }

    /// Moves the folder of the rank with its content. The dump of an earlier run at the target is removed; other
    /// files there stay.
    pub fn move_to(&mut self, folder: &Path) -> io::Result<()> {
        check_rank_folder(&self.folder)?;
        let is_there = fs::symlink_metadata(folder).is_ok();
        make_rank_folder(folder)?;
        if is_there {
            // The files that will be moved in are listed before anything is deleted.
            let own = names_in(&self.folder)?;
            clear(folder)?;
            for name in own {
                fs::rename(self.folder.join(&name), folder.join(&name))?;
            }
            // If someone has put a file there meanwhile, it is kept.
            let _: io::Result<()> = fs::remove_dir(&self.folder);
        } else {
            // Replaces the empty folder that was just made.
            fs::rename(&self.folder, folder)?;
        }
        if let Some(step) = self.folder.parent().filter(|step| Some(*step) != folder.parent()) {
            // Unless it contains other ranks.
            let _: io::Result<()> = fs::remove_dir(step);
        }
        folder.clone_into(&mut self.folder);
        Ok(())
    }

    /// The folder of the rank.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file, for writing to lines that are there: it stays the same file wherever its folder moves.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The window for the next byte; none if lines are to be written one by one.
    fn window(&mut self) -> Option<&mut Window> {
        let is_inside = |window: &Window| self.written < window.start + WINDOW as u64;
        if !self.window.as_ref().is_some_and(is_inside) {
            let start = self.written / WINDOW as u64 * WINDOW as u64;
            self.window = None;
            if self.is_mappable {
                self.window = map(&self.file, start);
                self.is_mappable = self.window.is_some();
            }
        }
        self.window.as_mut()
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        if !self.is_ending {
            let reserve = usize::try_from(self.written).map_or(RESERVE, |written| written.min(RESERVE));
            let length = lines.len() + reserve.max(LEAST_RESERVE);
            promised(&self.file, self.written, length).or_else(none_is_fine)?;
        }
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(lines).inspect_err(|_| {
            // If a partial line cannot be truncated, readers ignore it.
            let _ = self.file.set_len(self.written);
        })?;
        self.written += lines.len() as u64;
        Ok(())
    }
}

/// Maps a window of a file after its blocks are allocated; nothing if that fails, for example because the disk is
/// nearly full.
#[cfg(target_os = "linux")]
fn map(file: &File, start: u64) -> Option<Window> {
    promised(file, start, WINDOW + RESERVE).ok()?;
    let mut options = memmap2::MmapOptions::new();
    options.offset(start).len(WINDOW);
    // SAFETY: the file was made by us in a folder of our own, and has blocks for the whole window, each of which is
    // written once. Nobody but us has a reason to write to it or shorten it while the run goes on; readers see lines as
    // they come.
    #[expect(unsafe_code)]
    let mapped = unsafe { options.map_mut(file) };
    let memory = mapped.ok()?;
    // Populating all pages at once costs a fraction of one at a time. Older systems cannot do that; then each page
    // comes with its first write.
    let _: io::Result<()> = memory.advise(memmap2::Advice::PopulateWrite);
    Some(Window { memory, start })
}

#[cfg(not(target_os = "linux"))]
fn map(_file: &File, _start: u64) -> Option<Window> {
    None
}

/// What is in a folder.
fn names_in(folder: &Path) -> io::Result<Vec<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// Removes what an earlier run left in the folder of a rank.
fn clear(folder: &Path) -> io::Result<()> {
    for name in EARLIER {
        absent_is_fine(fs::remove_file(folder.join(name)))?;
    }
    // Its tensor files may be hard links to each other: overwriting one would change another.
    absent_is_fine(fs::remove_dir_all(folder.join(DATA_FOLDER)))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
