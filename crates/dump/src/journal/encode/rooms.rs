//! Room in a line for statistics that arrive later: those of a tensor whose device has not measured it yet.
//!
//! While a line is being made, a room is a mark: a control character, which no JSON text contains, and the number of a
//! [`Ticket`]. [`place`] puts text of a fixed width there, once the position of the line in the journal is known:
//! statistics that are `null`, the key `pending`, and tabs, which every reader of JSON skips. The numbers replace it
//! when they arrive. One write does that, and a room never crosses a page: the system does not interrupt such a write,
//! so a kill leaves either text whole.

use std::sync::LazyLock;

use ulpscope_formats::json::push_text;
use ulpscope_kernels::{Digest, Statistic, Stats};

use super::tensors::{push_saved, push_statistic};
use super::values::{ObjectText, key};
use crate::writer::SavedTensor;

/// The number of a tensor whose statistics arrive later. Unique within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// The statistics of a tensor, arrived.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// What was measured.
    pub stats: Stats,
    /// Whether the tensor has no dimensions: then every summary is its value.
    pub is_scalar: bool,
    /// The digest of its elements, if its line has room for one.
    pub digest: Option<Digest>,
    /// Where its elements are saved, if its line has room for that.
    pub saved: Option<SavedTensor>,
}

/// The places of a tensor that have something that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Those that msprobe has too.
    Summaries,
    /// The digest.
    Digest,
    /// The file of its elements.
    Saved,
    /// The other statistics, which most tensors do not have.
    Others,
}

/// A room in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedRoom {
    pub(crate) ticket: Ticket,
    pub(crate) room: Room,
    /// Its offset in the journal.
    pub(crate) offset: u64,
}

/// The longest number: 17 digits with sign, point and exponent.
const NUMBER: usize = 24;

/// A comma, the key with its quotes and colon, and up to 32 hex digits in quotes.
const DIGEST: usize = 7 + 34;

/// The name of a file, or of a tensor in it, of 200 bytes that may be escaped; two numbers; a dtype; and the keys.
const SAVED: usize = 600;

/// Bytes that one write replaces without interruption, if they begin at a multiple.
pub(crate) const PAGE: u64 = 1 << 12;

/// The key that says that numbers have not arrived. It is in journals of killed runs only.
const PENDING: &[u8] = b",\"pending\":true";

/// Hexadecimal digits of the ticket in a mark.
const DIGITS: usize = 16;

/// The text of each room before the numbers arrive.
static PENDING_TEXTS: LazyLock<[Vec<u8>; Room::ALL.len()]> =
    LazyLock::new(|| Room::ALL.map(Room::pending_text));

impl Room {
    /// In the order of their marks, which begin with one.
    pub(crate) const ALL: [Room; 4] = [Room::Summaries, Room::Others, Room::Digest, Room::Saved];

    /// Its place among all.
    pub(crate) const fn index(self) -> usize {
        self.mark() as usize - 1
    }

    const fn mark(self) -> u8 {
        match self {
            Room::Summaries => 1,
            Room::Others => 2,
            Room::Digest => 3,
            Room::Saved => 4,
        }
    }

    fn of_mark(mark: u8) -> Option<Room> {
        Room::ALL.get(usize::from(mark).wrapping_sub(1)).copied()
    }

    fn statistics(self) -> &'static [Statistic] {
        let (summaries, others) = Statistic::summaries_and_others();
        match self {
            Room::Summaries => summaries,
            Room::Others => others,
            Room::Digest | Room::Saved => &[],
        }
    }

    fn width(self) -> usize {
        match self {
            Room::Digest => return DIGEST,
            Room::Saved => return SAVED,
            Room::Summaries | Room::Others => {}
        }
        // A comma, two quotes and a colon.
        self.statistics().iter().map(|statistic| statistic.key.len() + 4 + NUMBER).sum()
    }

    /// Appends its mark.
    pub(super) fn push_mark(self, ticket: Ticket, out: &mut Vec<u8>) {
        let mut mark = [self.mark(); 1 + DIGITS];
        for (position, digit) in mark[1..].iter_mut().rev().enumerate() {
            *digit = b"0123456789abcdef"[(ticket.0 >> (4 * position)) as usize & 15];
        }
        out.extend_from_slice(&mark);
    }

    /// Its text with these numbers; without numbers, as for a tensor that could not be read. Always of the same width.
    pub(crate) fn text(self, numbers: Option<&Numbers>) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.width());
        let mut object = ObjectText::reopened();
        let stats = numbers.map(|numbers| &numbers.stats);
        let is_scalar = numbers.is_some_and(|numbers| numbers.is_scalar);
        let is_there = |statistic: &&Statistic| match (self, stats) {
            (Room::Summaries, _) => true,
            (Room::Others, Some(stats)) => statistic.is_recorded_of(stats),
            (Room::Others, None) | (Room::Digest | Room::Saved, _) => false,
        };
        for statistic in self.statistics().iter().filter(is_there) {
            push_statistic(statistic, stats, is_scalar, &mut object, &mut text);
        }
        if let (Room::Digest, Some(digest)) = (self, numbers.and_then(|numbers| numbers.digest)) {
            object.known_key(key!("md5"), &mut text);
            push_text(&digest.to_string(), &mut text);
        }
        if let (Room::Saved, Some(saved)) = (self, numbers.and_then(|numbers| numbers.saved.as_ref())) {
            push_saved(saved, &mut object, &mut text);
        }
        self.filled(text)
    }

    /// Whether these numbers leave text in it.
    pub(crate) fn has_text(self, numbers: Option<&Numbers>) -> bool {
        match self {
            Room::Summaries => true,
            Room::Digest => numbers.is_some_and(|numbers| numbers.digest.is_some()),
            Room::Saved => numbers.is_some_and(|numbers| numbers.saved.is_some()),
            Room::Others => numbers.is_some_and(|numbers| numbers.stats.has_non_finite()),
        }
    }

    /// Its text before the numbers arrive.
    fn pending_text(self) -> Vec<u8> {
        let mut text = self.text(None);
        if self == Room::Summaries {
            text.truncate(text.trim_ascii_end().len());
            text.extend_from_slice(PENDING);
        }
        self.filled(text)
    }

    fn filled(self, mut text: Vec<u8>) -> Vec<u8> {
        debug_assert!(text.len() <= self.width(), "{}", text.escape_ascii());
        text.resize(self.width(), b'\t');
        text
    }
}

/// Appends a line with text instead of marks, for this offset of the journal, and its rooms. Both are empty before.
pub(crate) fn place(parts: &[&[u8]], start: u64, line: &mut Vec<u8>, rooms: &mut Vec<PlacedRoom>) {
    // A room is some times as long as its mark, which is long itself.
    line.reserve(4 * parts.iter().map(|part| part.len()).sum::<usize>());
    for part in parts {
        let mut rest = *part;
        while let Some(at) = find_mark(rest) {
            line.extend_from_slice(&rest[..at]);
            let digits = rest.get(at + 1..at + 1 + DIGITS);
            if let (Some(ticket), Some(room)) = (digits.map(ticket_of), Room::of_mark(rest[at])) {
                let left = PAGE - (start + line.len() as u64) % PAGE;
                if left < room.width() as u64 {
                    line.resize(line.len() + left as usize, b'\t');
                }
                rooms.push(PlacedRoom { ticket, room, offset: start + line.len() as u64 });
                line.extend_from_slice(&PENDING_TEXTS[room.index()]);
            }
            rest = rest.get(at + 1 + DIGITS..).unwrap_or_default();
        }
        line.extend_from_slice(rest);
    }
}

/// Appends a text whose rooms are for the tickets of another step: each is raised by that of the first tensor here.
pub fn add_with_tickets(text: &[u8], first: Ticket, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = find_mark(rest) {
        out.extend_from_slice(&rest[..at]);
        let digits = rest.get(at + 1..at + 1 + DIGITS);
        if let (Some(ticket), Some(room)) = (digits.map(ticket_of), Room::of_mark(rest[at])) {
            room.push_mark(Ticket(ticket.0 + first.0), out);
        }
        rest = rest.get(at + 1 + DIGITS..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// The place of the first mark in a text. Checks blocks of bytes with a few instructions each.
fn find_mark(text: &[u8]) -> Option<usize> {
    let is_mark = |byte: u8| byte.wrapping_sub(1) < Room::ALL.len() as u8;
    let (blocks, rest) = text.as_chunks::<32>();
    let has_mark = |block: &[u8; 32]| block.iter().fold(false, |has, &byte| has | is_mark(byte));
    let block = blocks.iter().position(has_mark);
    let (start, part) = match block {
        Some(block) => (32 * block, &blocks[block][..]),
        None => (text.len() - rest.len(), rest),
    };
    part.iter().position(|&byte| is_mark(byte)).map(|at| start + at)
}

/// The ticket of a mark.
fn ticket_of(digits: &[u8]) -> Ticket {
    // The last four bits of a letter are its place in the alphabet.
    let value = |digit: u8| if digit <= b'9' { digit & 15 } else { (digit & 15) + 9 };
    Ticket(digits.iter().fold(0, |number, &digit| number << 4 | u64::from(value(digit))))
}

/// How many tensors in a text wait for their numbers.
pub(in crate::journal) fn count_pending(text: &[u8]) -> usize {
    // The quotes of a key with this text inside a string would be escaped.
    text.windows(PENDING.len()).filter(|window| *window == PENDING).count()
}

/// The text without tabs, in pieces: room that was not needed. Strings contain no tabs, which are escaped there.
pub(in crate::journal) fn without_room(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\t').filter(|piece| !piece.is_empty())
}

/// Whether a text has tabs. Checks blocks of bytes with a few instructions each.
pub(in crate::journal) fn has_room(text: &[u8]) -> bool {
    let (blocks, rest) = text.as_chunks::<64>();
    let has_tab = |bytes: &[u8]| bytes.iter().fold(false, |has, &byte| has | (byte == b'\t'));
    blocks.iter().any(|block| has_tab(block)) || has_tab(rest)
}

#[cfg(test)]
mod tests {
    use ulpscope_tensor::DType;

    use super::*;
    use crate::writer::SavedPart;

    #[test]
    fn the_longest_place_of_a_tensor_has_room() {
        // 200 bytes of a name, all of which are escaped.
        let longest = "\"".repeat(200);
        let part = SavedPart {
            offset: u64::MAX,
            length: u64::MAX,
            name: Some(longest.clone()),
            dtype: Some(DType::F8E4M3FNUZ),
            shape: None,
        };
        let file = "tensors-00000.safetensors".to_owned();
        let alone = SavedTensor::alone(format!("{longest}.safetensors"));
        for saved in [SavedTensor { file, part: Some(part) }, alone] {
            let mut text = Vec::new();
            push_saved(&saved, &mut ObjectText::reopened(), &mut text);
            assert!(text.len() <= Room::Saved.width(), "{}", text.len());
        }
    }
}
