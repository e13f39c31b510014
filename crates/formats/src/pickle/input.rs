//! Reads the bytes of a pickle piece by piece, never beyond their end.

use crate::bytes::Bytes;
use crate::error::Fault;

pub(super) struct Input<'a> {
    source: &'a Bytes,
    at: usize,
}

impl<'a> Input<'a> {
    pub fn new(source: &'a Bytes, start: usize) -> Input<'a> {
        Input { source, at: start.min(source.len()) }
    }

    /// The position of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Fault> {
        let rest = &self.source[self.at..];
        if count > rest.len() {
            let bytes = if count == 1 { "byte" } else { "bytes" };
            return Err(Fault::truncated(format!("{what} of {count} {bytes}"), rest.len().to_string()));
        }
        self.at += count;
        Ok(&rest[..count])
    }

    pub fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, what)?);
        Ok(array)
    }

    /// A little-endian unsigned number of up to 8 bytes.
    pub fn number(&mut self, width: usize, what: &str) -> Result<u64, Fault> {
        let mut array = [0; 8];
        array[..width].copy_from_slice(self.take(width, what)?);
        Ok(u64::from_le_bytes(array))
    }

    /// Bytes after their count, which has `width` bytes.
    pub fn counted(&mut self, width: usize, what: &str) -> Result<Bytes, Fault> {
        let count = self.number(width, "a length")?;
        // A count beyond the address space is beyond the file too.
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.take(count, what)?;
        Ok(self.source.slice(self.at - count..self.at))
    }

    /// The bytes up to the next line end, which is consumed.
    pub fn line(&mut self) -> Result<&'a [u8], Fault> {
        let rest = &self.source[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            return Err(Fault::truncated("a line", format!("{} bytes without a line end", rest.len())));
        };
        self.at += end + 1;
        let line = &rest[..end];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The module and the name that an opcode has on two lines.
    pub fn two_lines(&mut self) -> Result<(String, String), Fault> {
        let module = String::from_utf8_lossy(self.line()?).into_owned();
        let name = String::from_utf8_lossy(self.line()?).into_owned();
        Ok((module, name))
    }
}
