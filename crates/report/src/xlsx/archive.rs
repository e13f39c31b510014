//! A zip archive whose parts are written as a stream.
//!
//! Data is deflated at once and written in pieces. Memory does not grow with a part, and nothing
//! is read or written twice: checksum and sizes follow each part and are repeated in the directory at
//! the end. This is the oldest layout (no zip64), which limits a part and the archive to 4 GiB.
//!
//! After the first failure every call fails, so that a file with a gap is never finished.

use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress, Status};

/// Maximum bytes of a part before it is deflated; the layout has 32 bits for them.
pub(super) const MAX_PART: u64 = u32::MAX as u64;

/// Maximum parts of an archive; the layout has 16 bits for their number.
const MAX_PARTS: usize = u16::MAX as usize;

/// Size of the output buffer in bytes.
const PIECE: usize = 1 << 16;

/// Compression level, of 9. On result sheets this takes half the time of the usual 6 for a seventh more bytes;
/// 1 saves another quarter of the time for a third more bytes.
const LEVEL: u32 = 2;

/// Version 2.0 of the format: deflated parts.
const VERSION: u16 = 20;

/// Sizes and checksum follow the part.
const SIZES_FOLLOW: u16 = 1 << 3;

const DEFLATED: u16 = 8;

/// 1 January 1980, the first date of the format: the same parts give the same bytes at any time.
const DATE: u16 = 1 << 5 | 1;

/// An archive under construction.
pub(super) struct Archive<W> {
    out: W,
    /// Bytes to write next.
    piece: Vec<u8>,
    /// Bytes written.
    written: u64,
    deflate: Compress,
    checksum: crc32fast::Hasher,
    parts: Vec<Part>,
    is_broken: bool,
}

/// A part, as the directory lists it.
struct Part {
    name: String,
    start: u32,
    checksum: u32,
    deflated: u32,
    size: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Archive<W> {
        Archive {
            out,
            piece: Vec::with_capacity(2 * PIECE),
            written: 0,
            deflate: Compress::new(Compression::new(LEVEL), false),
            checksum: crc32fast::Hasher::new(),
            parts: Vec::new(),
            is_broken: false,
        }
    }

    /// Starts a part; the previous one must have ended.
    pub(super) fn begin(&mut self, name: &str) -> io::Result<()> {
        if self.parts.len() == MAX_PARTS {
            return Err(self.too_large(&format!("at most {MAX_PARTS} parts")));
        }
        let start = self.fit(self.position())?;
        self.deflate.reset();
        self.checksum.reset();
        self.piece.extend_from_slice(b"PK\x03\x04");
        for field in [VERSION, SIZES_FOLLOW, DEFLATED, 0, DATE] {
            self.push_u16(field);
        }
        self.piece.extend_from_slice(&[0; 12]);
        self.push_u16(name.len() as u16);
        self.push_u16(0);
        self.piece.extend_from_slice(name.as_bytes());
        self.parts.push(Part { name: name.to_owned(), start, checksum: 0, deflated: 0, size: 0 });
        self.send(PIECE)
    }

    /// Bytes written to the current part.
    pub(super) fn part_size(&self) -> u64 {
        self.deflate.total_in()
    }

    /// Adds to the current part.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.part_size() + bytes.len() as u64 > MAX_PART {
            return Err(self.too_large(&format!("parts of at most {MAX_PART} bytes")));
        }
        self.checksum.update(bytes);
        self.deflate(bytes, FlushCompress::None)
    }

    /// Ends the current part.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.deflate(&[], FlushCompress::Finish)?;
        let size = self.fit(self.deflate.total_in())?;
        let deflated = self.fit(self.deflate.total_out())?;
        let checksum = self.checksum.clone().finalize();
        self.piece.extend_from_slice(b"PK\x07\x08");
        for field in [checksum, deflated, size] {
            self.push_u32(field);
        }
        if let Some(part) = self.parts.last_mut() {
            (part.checksum, part.deflated, part.size) = (checksum, deflated, size);
        }
        self.send(PIECE)
    }

    /// Writes the directory and returns the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let start = self.fit(self.position())?;
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            self.piece.extend_from_slice(b"PK\x01\x02");
            for field in [VERSION, VERSION, SIZES_FOLLOW, DEFLATED, 0, DATE] {
                self.push_u16(field);
            }
            for field in [part.checksum, part.deflated, part.size] {
                self.push_u32(field);
            }
            self.push_u16(part.name.len() as u16);
            self.piece.extend_from_slice(&[0; 12]);
            self.push_u32(part.start);
            self.piece.extend_from_slice(part.name.as_bytes());
            self.send(PIECE)?;
        }
        let size = self.fit(self.position() - u64::from(start))?;
        self.piece.extend_from_slice(b"PK\x05\x06");
        for field in [0, 0, parts.len() as u16, parts.len() as u16] {
            self.push_u16(field);
        }
        self.push_u32(size);
        self.push_u32(start);
        self.push_u16(0);
        self.send(0)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn deflate(&mut self, mut bytes: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            // The deflater continues only if there is capacity.
            self.piece.reserve(PIECE / 4);
            let before = self.deflate.total_in();
            let status =
                self.deflate.compress_vec(bytes, &mut self.piece, flush).map_err(io::Error::other)?;
            bytes = &bytes[(self.deflate.total_in() - before) as usize..];
            self.send(PIECE)?;
            let is_done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => bytes.is_empty(),
            };
            if is_done {
                return Ok(());
            }
        }
    }

    /// Writes the buffer if it has at least `least` bytes.
    fn send(&mut self, least: usize) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier part of the workbook could not be written"));
        }
        if self.piece.len() < least {
            return Ok(());
        }
        // After a failure it is unknown how much of a piece was written.
        self.is_broken = true;
        self.out.write_all(&self.piece)?;
        self.is_broken = false;
        self.written += self.piece.len() as u64;
        self.piece.clear();
        Ok(())
    }

    fn position(&self) -> u64 {
        self.written + self.piece.len() as u64
    }

    fn push_u16(&mut self, value: u16) {
        self.piece.extend_from_slice(&value.to_le_bytes());
    }

    fn push_u32(&mut self, value: u32) {
        self.piece.extend_from_slice(&value.to_le_bytes());
    }

    /// A size or offset in 32 bits.
    fn fit(&mut self, value: u64) -> io::Result<u32> {
        u32::try_from(value).map_err(|_| self.too_large("less than 4 GiB"))
    }

    fn too_large(&mut self, limit: &str) -> io::Error {
        self.is_broken = true;
        let message = format!("a workbook has {limit}, found more; write .csv instead");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    }
}
