//! Statistics that arrive after their line was written.
//!
//! A line is written when its call happens, with room for the numbers that a device is still computing
//! (`journal/encode/rooms.rs`). They are written there when they arrive. That may be before their line is written, for
//! the gradients of a backward call, or on a different thread, or after the step was replaced by the next.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::journal::Journal;
use crate::journal::encode::rooms::{PlacedRoom, Room, place};
use crate::journal::encode::{Numbers, Ticket};

/// The tensors of one step whose statistics arrive later.
#[derive(Debug, Default)]
pub struct LateNumbers {
    tickets: AtomicU64,
    rooms: Mutex<Rooms>,
}

#[derive(Debug, Default)]
struct Rooms {
    /// The journal, once there is a line with room.
    file: Option<File>,
    tensors: HashMap<Ticket, Late>,
}

/// A tensor that has one of the two: room or numbers. With both it is written, and no longer listed.
#[derive(Debug)]
enum Late {
    /// Its rooms in the journal.
    Room(Vec<PlacedRoom>),
    /// Its line is not written yet.
    Numbers(Box<Numbers>),
}

/// A line with its rooms, for one offset in the journal.
#[derive(Debug)]
pub struct LineWithRoom {
    text: Vec<u8>,
    rooms: Vec<PlacedRoom>,
}

impl LineWithRoom {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.text.len() as u64
    }
}

impl LateNumbers {
    /// The ticket of a further tensor.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.tickets.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether lines may have room.
    pub fn has_tickets(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    /// Prepares a line, given in parts, for the end of the journal.
    pub fn place(&self, parts: &[&[u8]], journal: &Journal) -> LineWithRoom {
        let (text, rooms) = place(parts, journal.written());
        LineWithRoom { text, rooms }
    }

    /// Appends the prepared line. Numbers that have arrived are written to it.
    pub fn append(&self, line: LineWithRoom, journal: &mut Journal) -> io::Result<()> {
        journal.append(&[&line.text])?;
        if line.rooms.is_empty() {
            return Ok(());
        }
        let mut late = self.lock();
        if late.file.is_none() {
            late.file = Some(journal.file().try_clone()?);
        }
        // The summaries of a tensor say whether its numbers are there, and are written last.
        for placed in line.rooms.into_iter().rev() {
            match late.tensors.get_mut(&placed.ticket) {
                Some(Late::Room(rooms)) => rooms.push(placed),
                Some(Late::Numbers(numbers)) => {
                    let numbers = numbers.clone();
                    late.write(placed, Some(&numbers))?;
                    if placed.room == Room::Summaries {
                        late.tensors.remove(&placed.ticket);
                    }
                }
                None => {
                    late.tensors.insert(placed.ticket, Late::Room(vec![placed]));
                }
            }
        }
        Ok(())
    }

    /// Writes the numbers of a tensor, now or with its line.
    pub fn arrive(&self, ticket: Ticket, numbers: Numbers) -> io::Result<()> {
        let mut late = self.lock();
        match late.tensors.remove(&ticket) {
            Some(Late::Room(rooms)) => late.write_all(&rooms, Some(&numbers)),
            Some(Late::Numbers(_)) | None => {
                late.tensors.insert(ticket, Late::Numbers(Box::new(numbers)));
                Ok(())
            }
        }
    }

    /// Takes the numbers of a tensor that no line has room for, if they have arrived.
    pub fn take(&self, ticket: Ticket) -> Option<Numbers> {
        let mut late = self.lock();
        match late.tensors.get(&ticket) {
            Some(Late::Numbers(_)) => {}
            Some(Late::Room(_)) | None => return None,
        }
        match late.tensors.remove(&ticket) {
            Some(Late::Numbers(numbers)) => Some(*numbers),
            _ => None,
        }
    }

    /// Ends the wait: tensors whose numbers have not arrived are written as tensors without statistics. Returns how many
    /// there are.
    pub fn give_up(&self) -> io::Result<u64> {
        let mut late = self.lock();
        let tensors = std::mem::take(&mut late.tensors);
        let mut count = 0;
        for tensor in tensors.into_values() {
            if let Late::Room(rooms) = tensor {
                count += 1;
                late.write_all(&rooms, None)?;
            }
        }
        Ok(count)
    }

    fn lock(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    /// Fills the rooms of a tensor, in the order in which they are listed.
    fn write_all(&self, rooms: &[PlacedRoom], numbers: Option<&Numbers>) -> io::Result<()> {
        rooms.iter().try_for_each(|placed| self.write(*placed, numbers))
    }

    fn write(&self, placed: PlacedRoom, numbers: Option<&Numbers>) -> io::Result<()> {
        match &self.file {
            Some(file) if placed.room.has_text(numbers) => {
                write_at(file, &placed.room.text(numbers), placed.offset)
            }
            _ => Ok(()),
        }
    }
}

#[cfg(unix)]
fn write_at(file: &File, text: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, text, offset)
}

#[cfg(not(unix))]
fn write_at(mut file: &File, text: &[u8], offset: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    // Lines are written at their own position, too.
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(text)
}
