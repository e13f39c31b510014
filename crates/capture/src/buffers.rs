//! Reused memory for lines: a line is short, and every call has several.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// A buffer that grew larger than this is not kept.
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, returned to the pool when dropped.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new()
    }
}

impl Buffer {
    /// A used one, if there is one.
    pub fn new() -> Buffer {
        Buffer(FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(4096)))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        if memory.capacity() <= MAX_KEPT {
            memory.clear();
            // A thread that is ending has no pool any more.
            let _ = FREE.try_with(|free| free.borrow_mut().push(memory));
        }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}
