//! Writes archives: stored entries, one after the other, in a single pass.
//!
//! Payloads start on a 64-byte boundary, padded by an extra field in the entry's header as torch does. Checksum
//! and size follow each payload, so that nothing is read twice or kept in memory. Timestamps are fixed:
//! the same content gives the same bytes.

use std::io::{self, Write};

use crate::error::{Error, Fault};

/// Payloads start on multiples of this: a cache line, and the alignment of torch 2.11.
const ALIGNMENT: u64 = 64;

/// The extra field that pads a header, with torch's own tag.
const PADDING_FIELD: &[u8] = b"FB";

/// Sizes and offsets from this value on are stored in the 64-bit fields.
const LIMIT_32: u64 = u32::MAX as u64;
const LIMIT_16: u64 = u16::MAX as u64;

/// Names are UTF-8; checksum and sizes follow the data.
const FLAGS: u16 = 1 << 11 | 1 << 3;

const VERSION_PLAIN: u16 = 20;
const VERSION_ZIP64: u16 = 45;

/// 1 January 1980, the first date of the zip format.
const DATE: u16 = 1 << 5 | 1;

/// Writes an archive to a stream without seeking.
pub(crate) struct ArchiveWriter<'a> {
    out: &'a mut dyn Write,
    at: u64,
    written: Vec<Written>,
}

struct Written {
    name: String,
    header_at: u64,
    size: u64,
    crc: u32,
    /// Whether its sizes need 64 bits.
    wide: bool,
}

/// Counts and checksums the payload of one entry as it is written.
pub(crate) struct Payload<'a> {
    out: &'a mut dyn Write,
    size: u64,
    crc: crc32fast::Hasher,
}

impl Write for Payload<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        // In steps that stay in the cache between the copy and the checksum.
        const STEP: usize = 1 << 18;
        let count = self.out.write(&data[..data.len().min(STEP)])?;
        self.crc.update(&data[..count]);
        self.size += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<'a> ArchiveWriter<'a> {
    pub fn new(out: &'a mut dyn Write) -> ArchiveWriter<'a> {
        ArchiveWriter { out, at: 0, written: Vec::new() }
    }

    /// Adds an entry whose payload `fill` writes: at most `at_most` bytes.
    pub fn entry(
        &mut self,
        name: &str,
        at_most: u64,
        fill: impl FnOnce(&mut Payload<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let name_length = u16::try_from(name.len()).map_err(|_| {
            Error::whole(Fault::TooLarge {
                what: "length of an archive entry's name",
                limit: LIMIT_16,
                found: name.len() as u64,
            })
        })?;
        let header_at = self.at;
        let wide = at_most >= LIMIT_32;
        let mut header = Record::default();
        header.bytes(b"PK\x03\x04").u16(if wide { VERSION_ZIP64 } else { VERSION_PLAIN }).u16(FLAGS);
        header.u16(0).u16(0).u16(DATE).u32(0);
        // The sizes follow the data; all ones here mean that they have 64 bits there.
        let size = if wide { u32::MAX } else { 0 };
        header.u32(size).u32(size).u16(name_length);

        let mut extra = Record::default();
        if wide {
            extra.u16(1).u16(16).u64(0).u64(0);
        }
        let fixed = header.0.len() + 2 + name.len() + extra.0.len() + PADDING_FIELD.len() + 2;
        let padding = (header_at + fixed as u64).next_multiple_of(ALIGNMENT) - (header_at + fixed as u64);
        extra.bytes(PADDING_FIELD).u16(padding as u16);
        extra.0.resize(extra.0.len() + padding as usize, 0);
        header.u16(extra.0.len() as u16).bytes(name.as_bytes()).bytes(&extra.0);
        self.put(&header)?;

        let mut payload = Payload { out: &mut *self.out, size: 0, crc: crc32fast::Hasher::new() };
        fill(&mut payload).map_err(|error| error.in_part(name))?;
        let (size, crc) = (payload.size, payload.crc.finalize());
        if size > at_most {
            let fault = Fault::malformed(format!("at most {at_most} bytes to write"), size.to_string());
            return Err(Error::whole(fault).in_part(name));
        }
        self.at += size;

        let mut descriptor = Record::default();
        descriptor.bytes(b"PK\x07\x08").u32(crc);
        if wide {
            descriptor.u64(size).u64(size);
        } else {
            // Below the limit, which was checked against `at_most`.
            descriptor.u32(size as u32).u32(size as u32);
        }
        self.put(&descriptor)?;
        self.written.push(Written { name: name.to_owned(), header_at, size, crc, wide });
        Ok(())
    }

    /// Adds an entry from bytes in memory.
    pub fn small_entry(&mut self, name: &str, data: &[u8]) -> Result<(), Error> {
        self.entry(name, data.len() as u64, |payload| {
            payload.write_all(data).map_err(|error| Error::whole(Fault::from(error)))
        })
    }

    /// Writes the directory, which readers need to find the entries.
    pub fn finish(mut self) -> Result<(), Error> {
        let start = self.at;
        let entries = std::mem::take(&mut self.written);
        for entry in &entries {
            self.put(&directory_record(entry))?;
        }
        let (size, count) = (self.at - start, entries.len() as u64);
        let mut end = Record::default();
        if start >= LIMIT_32 || size >= LIMIT_32 || count >= LIMIT_16 {
            let wide_end_at = self.at;
            end.bytes(b"PK\x06\x06").u64(44).u16(VERSION_ZIP64).u16(VERSION_ZIP64).u32(0).u32(0);
            end.u64(count).u64(count).u64(size).u64(start);
            end.bytes(b"PK\x06\x07").u32(0).u64(wide_end_at).u32(1);
        }
        end.bytes(b"PK\x05\x06").u16(0).u16(0).clipped_u16(count).clipped_u16(count);
        end.clipped_u32(size).clipped_u32(start).u16(0);
        self.put(&end)?;
        self.out.flush().map_err(|error| Error::whole(Fault::from(error)))
    }

    fn put(&mut self, record: &Record) -> Result<(), Error> {
        self.out.write_all(&record.0).map_err(|error| Error::whole(Fault::from(error)))?;
        self.at += record.0.len() as u64;
        Ok(())
    }
}

/// The directory's record of an entry.
fn directory_record(entry: &Written) -> Record {
    let mut extra = Record::default();
    let wide = entry.wide || entry.header_at >= LIMIT_32;
    if wide {
        extra.u16(1).u16(24).u64(entry.size).u64(entry.size).u64(entry.header_at);
    }
    let version = if wide { VERSION_ZIP64 } else { VERSION_PLAIN };
    // Readers take a 64-bit field for each number that is all ones, hence all or none.
    let narrow = |number: u64| if wide { u32::MAX } else { number as u32 };
    let mut record = Record::default();
    record.bytes(b"PK\x01\x02").u16(version).u16(version).u16(FLAGS).u16(0).u16(0).u16(DATE);
    record.u32(entry.crc).u32(narrow(entry.size)).u32(narrow(entry.size));
    // Name lengths were checked when the entry was started.
    record.u16(entry.name.len() as u16).u16(extra.0.len() as u16).u16(0).u16(0).u16(0).u32(0);
    record.u32(narrow(entry.header_at)).bytes(entry.name.as_bytes()).bytes(&extra.0);
    record
}

/// A record of little-endian fields.
#[derive(Default)]
struct Record(Vec<u8>);

impl Record {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Record {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(&mut self, number: u16) -> &mut Record {
        self.bytes(&number.to_le_bytes())
    }

    fn u32(&mut self, number: u32) -> &mut Record {
        self.bytes(&number.to_le_bytes())
    }

    fn u64(&mut self, number: u64) -> &mut Record {
        self.bytes(&number.to_le_bytes())
    }

    /// A number, or all ones if it is in a 64-bit field instead.
    fn clipped_u16(&mut self, number: u64) -> &mut Record {
        self.u16(u16::try_from(number).unwrap_or(u16::MAX))
    }

    /// A number, or all ones if it is in a 64-bit field instead.
    fn clipped_u32(&mut self, number: u64) -> &mut Record {
        self.u32(u32::try_from(number).unwrap_or(u32::MAX))
    }
}
