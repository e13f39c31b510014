//! Statistics that arrive after their line was written.
//!
//! A line is written when its call happens, with room for the numbers that a device is still computing
//! (`journal/encode/rooms.rs`). They are written there when they arrive. That may be before their line is written, for
//! the gradients of a backward call, or on a different thread, or after the step was replaced by the next.
//!
//! Each write is a call of the system. So numbers that arrive together are written together, page by page, and the lock
//! on what is expected is not held meanwhile: the program needs it for its next line.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::journal::Journal;
use crate::journal::encode::rooms::{PAGE, PlacedRoom, Room, place};
use crate::journal::encode::{Numbers, Ticket};

/// The tensors of one step whose statistics arrive later.
#[derive(Debug, Default)]
pub struct LateNumbers {
    tickets: AtomicU64,
    tensors: Mutex<ByTicket<Late>>,
    /// The journal, once there is a line with room. Locked after `tensors`, or alone.
    file: Mutex<Option<File>>,
}

/// A map by ticket. Tickets are consecutive numbers that nobody chooses: a product with an odd number spreads them.
type ByTicket<V> = HashMap<Ticket, V, BuildHasherDefault<TicketHasher>>;

#[derive(Debug, Default)]
struct TicketHasher(u64);

impl Hasher for TicketHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2⁶⁴ divided by the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A tensor that has one of the two: room or numbers. With both it is written, and no longer listed.
#[derive(Debug)]
enum Late {
    /// Its rooms in the journal.
    Room(RoomsOfTensor),
    /// Its line is not written yet.
    Numbers(Box<Numbers>),
}

/// The offset of each room of a tensor in the journal, where its line has it. No line begins with a room, so that none is
/// at zero.
#[derive(Debug, Default)]
struct RoomsOfTensor([u64; Room::ALL.len()]);

impl RoomsOfTensor {
    fn add(&mut self, placed: PlacedRoom) {
        self.0[placed.room.index()] = placed.offset;
    }

    fn placed(&self, ticket: Ticket) -> impl Iterator<Item = PlacedRoom> {
        let rooms = Room::ALL.into_iter().zip(self.0).filter(|(_, offset)| *offset > 0);
        rooms.map(move |(room, offset)| PlacedRoom { ticket, room, offset })
    }
}

/// A line with its rooms, for one offset in the journal.
#[derive(Debug)]
pub struct LineWithRoom {
    text: Vec<u8>,
    rooms: Vec<PlacedRoom>,
}

/// Memory for lines that is larger than this is not used again.
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    /// Memory of the last line: each is some KiB long, which the system's allocator takes long to find.
    static USED: RefCell<(Vec<u8>, Vec<PlacedRoom>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

impl Drop for LineWithRoom {
    fn drop(&mut self) {
        let mut used = (std::mem::take(&mut self.text), std::mem::take(&mut self.rooms));
        if used.0.capacity() <= MAX_KEPT {
            used.0.clear();
            used.1.clear();
            // A thread that is ending has none any more.
            let _ = USED.try_with(|kept| kept.replace(used));
        }
    }
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

    /// How many tickets there are.
    pub fn tickets(&self) -> u64 {
        self.tickets.load(Ordering::Relaxed)
    }

    /// The first of the tickets of so many further tensors.
    pub fn take_tickets(&self, count: u64) -> Ticket {
        Ticket(self.tickets.fetch_add(count, Ordering::Relaxed))
    }

    /// Whether lines may have room.
    pub fn has_tickets(&self) -> bool {
        self.tickets.load(Ordering::Relaxed) > 0
    }

    /// Prepares a line, given in parts, for the end of the journal.
    pub fn place(&self, parts: &[&[u8]], journal: &Journal) -> LineWithRoom {
        let (mut text, mut rooms) = USED.take();
        place(parts, journal.written(), &mut text, &mut rooms);
        LineWithRoom { text, rooms }
    }

    /// Appends the prepared line. Numbers that have arrived are written to it.
    pub fn append(&self, line: LineWithRoom, journal: &mut Journal) -> io::Result<()> {
        journal.append(&[&line.text])?;
        if line.rooms.is_empty() {
            return Ok(());
        }
        let mut texts = Texts::default();
        {
            let mut tensors = lock(&self.tensors);
            let mut file = lock(&self.file);
            if file.is_none() {
                *file = Some(journal.file().try_clone()?);
            }
            for &placed in &line.rooms {
                match tensors.get_mut(&placed.ticket) {
                    Some(Late::Room(rooms)) => rooms.add(placed),
                    Some(Late::Numbers(numbers)) => texts.add(placed, Some(numbers)),
                    None => {
                        let mut rooms = RoomsOfTensor::default();
                        rooms.add(placed);
                        tensors.insert(placed.ticket, Late::Room(rooms));
                    }
                }
            }
            for placed in &texts.summaries {
                tensors.remove(&placed.ticket);
            }
        }
        self.write(texts)
    }

    /// Writes the numbers of a tensor, now or with its line.
    pub fn arrive(&self, ticket: Ticket, numbers: Numbers) -> io::Result<()> {
        self.arrive_together([(ticket, numbers)])
    }

    /// The same for several tensors, with fewer writes.
    pub fn arrive_together(&self, arrived: impl IntoIterator<Item = (Ticket, Numbers)>) -> io::Result<()> {
        let mut expected = Vec::new();
        {
            let mut tensors = lock(&self.tensors);
            for (ticket, numbers) in arrived {
                match tensors.remove(&ticket) {
                    Some(Late::Room(rooms)) => expected.push((ticket, rooms, numbers)),
                    Some(Late::Numbers(_)) | None => {
                        tensors.insert(ticket, Late::Numbers(Box::new(numbers)));
                    }
                }
            }
        }
        let mut texts = Texts::default();
        for (ticket, rooms, numbers) in expected {
            rooms.placed(ticket).for_each(|placed| texts.add(placed, Some(&numbers)));
        }
        self.write(texts)
    }

    /// Takes the numbers of a tensor that no line has room for, if they have arrived.
    pub fn take(&self, ticket: Ticket) -> Option<Numbers> {
        let mut tensors = lock(&self.tensors);
        match tensors.get(&ticket) {
            Some(Late::Numbers(_)) => {}
            Some(Late::Room(_)) | None => return None,
        }
        match tensors.remove(&ticket) {
            Some(Late::Numbers(numbers)) => Some(*numbers),
            _ => None,
        }
    }

    /// Ends the wait: tensors whose numbers have not arrived are written as tensors without statistics. Returns how many
    /// there are.
    pub fn give_up(&self) -> io::Result<u64> {
        let tensors = std::mem::take(&mut *lock(&self.tensors));
        let (mut texts, mut count) = (Texts::default(), 0);
        for (ticket, tensor) in tensors {
            if let Late::Room(rooms) = tensor {
                count += 1;
                rooms.placed(ticket).for_each(|placed| texts.add(placed, None));
            }
        }
        self.write(texts)?;
        Ok(count)
    }

    /// Writes texts to their places. The summaries of a tensor say whether its numbers are there, and come last.
    fn write(&self, texts: Texts) -> io::Result<()> {
        let file = lock(&self.file);
        let Some(file) = &*file else { return Ok(()) };
        write_pages(file, texts.others)?;
        write_pages(file, texts.summaries)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text of a room, and where it belongs.
#[derive(Debug)]
struct PlacedText {
    ticket: Ticket,
    offset: u64,
    text: Vec<u8>,
}

/// What is about to be written.
#[derive(Debug, Default)]
struct Texts {
    others: Vec<PlacedText>,
    summaries: Vec<PlacedText>,
}

impl Texts {
    /// Adds the text of a room, if these numbers leave any.
    fn add(&mut self, placed: PlacedRoom, numbers: Option<&Numbers>) {
        if placed.room.has_text(numbers) {
            let texts = if placed.room == Room::Summaries { &mut self.summaries } else { &mut self.others };
            let PlacedRoom { ticket, room, offset } = placed;
            texts.push(PlacedText { ticket, offset, text: room.text(numbers) });
        }
    }
}

/// Writes texts, those of a page together: between them are lines that nobody else changes.
fn write_pages(file: &File, mut texts: Vec<PlacedText>) -> io::Result<()> {
    texts.sort_unstable_by_key(|placed| placed.offset);
    let mut page = Vec::new();
    for together in texts.chunk_by(|one, next| one.offset / PAGE == next.offset / PAGE) {
        let ([first, ..], [.., last]) = (together, together) else { continue };
        if together.len() == 1 {
            write_at(file, &first.text, first.offset)?;
            continue;
        }
        page.resize((last.offset - first.offset) as usize + last.text.len(), 0);
        read_at(file, &mut page, first.offset)?;
        for placed in together {
            let start = (placed.offset - first.offset) as usize;
            page[start..start + placed.text.len()].copy_from_slice(&placed.text);
        }
        write_at(file, &page, first.offset)?;
    }
    Ok(())
}

#[cfg(unix)]
fn read_at(file: &File, text: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, text, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, text: &mut [u8], offset: u64) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    // Lines are written at their own position, too.
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(text)
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
