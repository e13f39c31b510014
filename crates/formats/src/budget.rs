//! How much memory the reader of one file may take.
//!
//! A file is data from elsewhere: what it unfolds into must follow from its size. Each reader makes one budget from
//! the size of its file and charges it before it allocates: text by its bytes, objects by their size in memory with
//! the overhead of their allocation. Bytes of the mapped file cost nothing, and neither do large inflated entries,
//! which lie in a file without a name.

use std::cell::Cell;

use crate::error::Fault;

/// Bytes of memory for each byte of a file.
const PER_BYTE: u64 = 16;

/// Bytes of memory that every file may take, however small.
const FLOOR: u64 = 64 << 20;

/// What the allocator keeps beside each allocation, rounding included.
pub(crate) const PER_ALLOCATION: usize = 16;

/// The memory of an allocation of so many bytes; small ones take the same.
pub(crate) fn allocated(bytes: usize) -> usize {
    const LEAST: usize = 32;
    if bytes == 0 { 0 } else { bytes.saturating_add(PER_ALLOCATION).max(LEAST) }
}

/// The memory that the reader of one file may take, and has taken.
#[derive(Debug)]
pub struct Budget {
    file_size: u64,
    used: Cell<u64>,
}

impl Budget {
    /// The budget of a file of so many bytes.
    pub fn of_file(size: usize) -> Budget {
        Budget { file_size: size as u64, used: Cell::new(0) }
    }

    /// Bytes of memory in all.
    pub fn limit(&self) -> u64 {
        self.file_size.saturating_mul(PER_BYTE).saturating_add(FLOOR)
    }

    /// Takes `bytes` for `what`, a plural such as "objects of a pickle"; refused once the budget is used up.
    pub fn charge(&self, what: &'static str, bytes: usize) -> Result<(), Fault> {
        let used = self.used.get().saturating_add(bytes as u64);
        self.used.set(used);
        if used <= self.limit() {
            return Ok(());
        }
        Err(Fault::OverBudget { what, file_size: self.file_size, limit: self.limit(), asked: used })
    }

    /// Takes what a list of `len` items of `item_size` bytes asks for when one more is added: nothing while there is
    /// room, then as much as it has.
    pub fn charge_push(&self, what: &'static str, len: usize, item_size: usize) -> Result<(), Fault> {
        const LEAST: usize = 4;
        match len {
            0 => self.charge(what, LEAST * item_size + PER_ALLOCATION),
            LEAST.. if len.is_power_of_two() => self.charge(what, len.saturating_mul(item_size)),
            _ => Ok(()),
        }
    }

    /// Takes the memory of a text of its own.
    pub fn charge_text(&self, what: &'static str, text: &str) -> Result<(), Fault> {
        self.charge(what, allocated(text.len()))
    }
}
