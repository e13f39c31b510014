//! Buffers the bytes of one tensor.
//!
//! An encoder passes them in pieces: a head of a few hundred bytes, the payload, a tail. One write call for each
//! costs too much: the system keeps a file in groups of pages, each as large as the write and its offset in the
//! file allow, so after a write that ends within a page the groups are small again. Therefore small pieces wait for
//! the next ones, and a write ends where a group of pages may end. Blocks of a large file are allocated in advance,
//! all at once instead of page by page.

use std::fs::File;
use std::io::{self, IoSlice, Write};

use super::promise::{none_is_fine, promised};

/// Pieces that are shorter in total wait; whole files below this size are written with one call.
const MAX_WAITING: usize = 32 << 10;

/// Writes end at a multiple of the first if there is one ahead, else of the second.
const GROUP: u64 = 256 << 10;
const PAGE: u64 = 4 << 10;

/// Allocating in advance pays from this many bytes on.
const MIN_PROMISE: usize = 512 << 10;

/// The end of a file, to which a tensor is written.
pub(super) struct Outgoing<'a> {
    file: &'a File,
    /// Bytes that precede the next ones and are not in the file yet.
    waiting: &'a mut Vec<u8>,
    written: u64,
    /// The present length of the file.
    length: u64,
}

impl<'a> Outgoing<'a> {
    /// About `size` bytes from `start` on, where the file is positioned. Small pieces wait in `memory`.
    pub(super) fn new(
        file: &'a File,
        memory: &'a mut Vec<u8>,
        start: u64,
        size: usize,
    ) -> io::Result<Outgoing<'a>> {
        memory.clear();
        let mut length = start;
        if size >= MIN_PROMISE {
            match promised(file, start, size) {
                Ok(()) => length = start + size as u64,
                Err(error) => none_is_fine(error)?,
            }
        }
        Ok(Outgoing { file, waiting: memory, written: start, length })
    }

    /// Writes the waiting bytes and truncates excess blocks. Returns the size of the file.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.flush()?;
        if self.length > self.written {
            self.file.set_len(self.written)?;
        }
        Ok(self.written)
    }

    /// How many of `count` bytes after the waiting ones are written now.
    fn up_to_boundary(&self, count: usize) -> usize {
        let start = self.written + self.waiting.len() as u64;
        let end = start + count as u64;
        let last = |step: u64| end / step * step;
        let boundary = [last(GROUP), last(PAGE)].into_iter().find(|&boundary| boundary > start);
        // Within `count`, because the boundary is not after the end.
        boundary.map_or(count, |boundary| (boundary - start) as usize)
    }
}

impl Write for Outgoing<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.waiting.len() + data.len() < MAX_WAITING {
            self.waiting.extend_from_slice(data);
            return Ok(data.len());
        }
        let data = &data[..self.up_to_boundary(data.len())];
        loop {
            let count = self.file.write_vectored(&[IoSlice::new(self.waiting), IoSlice::new(data)])?;
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.written += count as u64;
            let waited = self.waiting.len().min(count);
            self.waiting.drain(..waited);
            if count > waited {
                return Ok(count - waited);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(self.waiting)?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }
}
