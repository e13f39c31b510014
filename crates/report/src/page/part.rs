//! A part of a page's data: raw deflate, which browsers open without a library.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// How hard to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// For a file that is sent to others.
    #[default]
    Small,
    /// For a server on the same machine.
    Quick,
}

/// Compresses a part.
pub fn deflate(bytes: &[u8], effort: Effort) -> io::Result<Vec<u8>> {
    let level = match effort {
        Effort::Small => 6,
        Effort::Quick => 1,
    };
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(level));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Opens a part that [`deflate`] made.
pub fn inflate(part: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(part).read_to_end(&mut bytes)?;
    Ok(bytes)
}
