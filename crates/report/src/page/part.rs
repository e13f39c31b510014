//! A part of a page's data: raw deflate, which browsers open without a library.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Compresses a part.
pub fn deflate(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::new(6));
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Opens a part that [`deflate`] made.
pub fn inflate(part: &[u8]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(part).read_to_end(&mut bytes)?;
    Ok(bytes)
}
