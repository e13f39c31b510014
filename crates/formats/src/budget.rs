//! How much memory the reader of one file may use.
//!
//! A file is untrusted data: the memory it needs must be proportional to its size. Each reader makes one budget from
//! the size of its file and charges it before it allocates: text by its bytes, objects by their size in memory plus
//! the overhead of their allocation. Bytes of the mapped file cost nothing. Neither do large inflated entries: they
//! are stored in a nameless file.

use std::cell::Cell;

use crate::error::Fault;

/// Bytes of memory for each byte of a file.
const PER_BYTE: u64 = 16;

/// Bytes of memory that every file may use, however small.
const FLOOR: u64 = 64 << 20;

/// Overhead of the allocator for each allocation, including rounding.
pub(crate) const PER_ALLOCATION: usize = 16;

/// The memory that an allocation of this many bytes uses. Small allocations all use the same amount.
pub(crate) fn allocated(bytes: usize) -> usize {
    const LEAST: usize = 32;
    if bytes == 0 { 0 } else { bytes.saturating_add(PER_ALLOCATION).max(LEAST) }
}

/// The memory limit of one file's reader, and how much of it is used.
#[derive(Debug)]
pub struct Budget {
    file_size: u64,
    used: Cell<u64>,
}

impl Budget {
    /// The budget of a file with this many bytes.
    pub fn of_file(size: usize) -> Budget {
        Budget { file_size: size as u64, used: Cell::new(0) }
    }

    /// Bytes of memory in total.
    pub fn limit(&self) -> u64 {
        self.file_size.saturating_mul(PER_BYTE).saturating_add(FLOOR)
    }

    /// Charges `bytes` for `what`, a plural such as "objects of a pickle". Fails when the budget is used up.
    pub fn charge(&self, what: &'static str, bytes: usize) -> Result<(), Fault> {
        let used = self.used.get().saturating_add(bytes as u64);
        self.used.set(used);
        if used <= self.limit() {
            return Ok(());
        }
        Err(Fault::OverBudget { what, file_size: self.file_size, limit: self.limit(), asked: used })
    }

    /// Charges the growth of a list of `len` items of `item_size` bytes when one item is added: nothing while it has
    /// spare capacity, otherwise its present size again.
    pub fn charge_push(&self, what: &'static str, len: usize, item_size: usize) -> Result<(), Fault> {
        const LEAST: usize = 4;
        match len {
            0 => self.charge(what, LEAST * item_size + PER_ALLOCATION),
            LEAST.. if len.is_power_of_two() => self.charge(what, len.saturating_mul(item_size)),
            _ => Ok(()),
        }
    }

    /// Charges the memory of a text that is allocated separately.
    pub fn charge_text(&self, what: &'static str, text: &str) -> Result<(), Fault> {
        self.charge(what, allocated(text.len()))
    }
}
