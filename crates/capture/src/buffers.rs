//! Memory for lines, used again and again: a line is short, and there are several for every call.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// A buffer that grew larger than this is not kept.
const MAX_KEPT: usize = 1 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, which goes back where it came from.
#[derive(Debug)]
pub struct Buffer(Vec<u8>);

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new()
    }
}

impl Buffer {
    /// One that was used before, if there is one.
    pub fn new() -> Buffer {
        Buffer(FREE.with_borrow_mut(Vec::pop).unwrap_or_else(|| Vec::with_capacity(4096)))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        if memory.capacity() <= MAX_KEPT {
            memory.clear();
            // A thread that is ending has no place for it any more.
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
