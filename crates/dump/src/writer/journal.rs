//! The append-only journal of one rank in one step.
//!
//! What is written must outlive the process that writes it. A write call per line does that, and takes a microsecond.
//! Memory of a mapped file does it, too, for the price of a copy, so lines go there: into a window at the end of the
//! file, whose blocks the file system has promised beforehand. (Without that promise a full disk would show as a fatal
//! signal; where there is none to be had, lines are written one by one.) Behind the last line lie zeros until the journal is trimmed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use memmap2::MmapMut;

use super::folder::{check_rank_folder, make_rank_folder};
use super::promise::{none_is_fine, promised};
use super::tensor_files::DATA_FOLDER;
use crate::journal::JOURNAL_FILE;

/// What an earlier run may have left in the folder of a rank, and would be taken for this run's.
const EARLIER: [&str; 6] =
    ["dump.json", "debug.json", "stack.json", "construct.json", "ledger.json", JOURNAL_FILE];

/// Bytes mapped at a time; a multiple of every page size.
const WINDOW: usize = 1 << 18;

/// Bytes behind the last line that the file system has promised, too: for the line that says that the disk is full.
const RESERVE: usize = 1 << 13;

/// The same of a journal that is short itself, which has less to say in that line: where files may not be large, half of
/// one is for calls.
const LEAST_RESERVE: usize = 1 << 9;

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: File,
    folder: PathBuf,
    written: u64,
    window: Option<Window>,
    /// Whether the file system promises blocks.
    is_mappable: bool,
    /// Whether lines may go where room was kept.
    is_ending: bool,
}

#[derive(Debug)]
struct Window {
    memory: MmapMut,
    /// Where in the file it begins.
    start: u64,
}

impl Journal {
    /// Makes the folder of a rank, clears it of what an earlier run left, and begins its journal.
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

    /// Appends whole lines, given in parts: after it has returned they outlive the process. Lines that cannot be had
    /// whole are not there at all.
    pub fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let before = self.written;
        let result = parts.iter().try_for_each(|part| self.append_part(part));
        if result.is_err() {
            self.written = before;
        }
        result
    }

    /// Appends the last lines, for which there is room even where there is none for others.
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

    /// Cuts the file off behind its last line. More may follow.
    pub fn trim(&mut self) -> io::Result<()> {
        self.window = None;
        self.file.set_len(self.written)
    }

    /// Moves the folder of the rank, with all that is in it, to where an earlier run may have left another: that goes, and
    /// whatever else is there stays.
    pub fn move_to(&mut self, folder: &Path) -> io::Result<()> {
        check_rank_folder(&self.folder)?;
        let is_there = fs::symlink_metadata(folder).is_ok();
        make_rank_folder(folder)?;
        if is_there {
            // What is moved in afterwards is looked up before anything is deleted.
            let own = names_in(&self.folder)?;
            clear(folder)?;
            for name in own {
                fs::rename(self.folder.join(&name), folder.join(&name))?;
            }
            // Whoever has put something there meanwhile keeps it.
            let _: io::Result<()> = fs::remove_dir(&self.folder);
        } else {
            // Takes the place of the empty folder that was made just now.
            fs::rename(&self.folder, folder)?;
        }
        if let Some(step) = self.folder.parent().filter(|step| Some(*step) != folder.parent()) {
            // Unless other ranks are in it.
            let _: io::Result<()> = fs::remove_dir(step);
        }
        folder.clone_into(&mut self.folder);
        Ok(())
    }

    /// The folder of the rank.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes appended so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The window that the next byte goes to; none where lines are to be written.
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
            // A torn line is left out by readers, should it be impossible to cut it off.
            let _ = self.file.set_len(self.written);
        })?;
        self.written += lines.len() as u64;
        Ok(())
    }
}

/// Maps a window of a file, once its blocks are promised; nothing where they cannot be, be it that the disk is nearly
/// full.
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
    // All pages at once cost a fraction of one at a time. Older systems cannot; then each comes when it is written to.
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
    // Its tensor files may be linked to each other: writing over one would change another.
    absent_is_fine(fs::remove_dir_all(folder.join(DATA_FOLDER)))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
