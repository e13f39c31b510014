//! Reads archives: checks names, refuses overlaps, returns stored entries in place, and limits compressed ones.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::ops::Range;

use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use super::{is_plain_name, unfolded};
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, shortened};

/// More entries than any dump or checkpoint has; torch writes one per storage.
const MAX_ENTRIES: usize = 1 << 20;

/// The maximum ratio of deflate. A larger claim is false.
const MAX_DEFLATE_RATIO: u64 = 1032;

/// All compressed entries of one archive together may inflate to this size, whatever the size of the archive: a
/// mask or a fresh optimizer state is all zeros and shrinks a thousandfold. Large entries are inflated to disk, not
/// to memory.
const INFLATED_FREELY: u64 = 4 << 30;

/// Beyond that, they may inflate to this many times the archive's size. Computed numbers shrink to a half
/// or a tenth; only a zip bomb, or tensors of zeros, need more.
const MAX_INFLATION: u64 = 64;

/// Compressed entries of at least this size are inflated into a nameless file: memory stays small however well
/// tensors compress.
const UNFOLDED_ON_DISK: u64 = 1 << 20;

/// Smaller ones too, once the entries in memory take `KEPT_IN_MEMORY` together; but none smaller than this:
/// a mapping costs the system as much.
const WORTH_A_FILE: u64 = 64 << 10;

const KEPT_IN_MEMORY: u64 = 16 << 20;

/// Memory of one entry of the list: in the zip library and here.
const ENTRY_SIZE: usize = 640;

/// An opened archive.
pub(crate) struct Archive<'a> {
    bytes: &'a Bytes,
    zip: ZipArchive<Cursor<&'a [u8]>>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    inflated: u64,
    /// Bytes of the inflated entries in memory.
    in_memory: u64,
    budget: &'a Budget,
}

struct Entry {
    name: String,
    /// From the local header to the end of the data.
    extent: Range<u64>,
    data: Range<usize>,
    size: u64,
    method: CompressionMethod,
    encrypted: bool,
}

impl<'a> Archive<'a> {
    /// Reads the list of entries and checks it as a whole. The list, and entries inflated in memory, are charged to
    /// `budget`.
    pub fn open(bytes: &'a Bytes, budget: &'a Budget) -> Result<Archive<'a>, Error> {
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let mut zip = ZipArchive::with_config(config, Cursor::new(&bytes[..])).map_err(|error| {
            let found = format!("a cut or damaged one ({error})");
            Error::whole(Fault::malformed("a complete zip archive", found))
        })?;
        if zip.len() > MAX_ENTRIES {
            return Err(Error::whole(Fault::TooLarge {
                what: "number of archive entries",
                limit: MAX_ENTRIES as u64,
                found: zip.len() as u64,
            }));
        }
        if zip.has_duplicate_names() {
            return Err(Error::whole(Fault::malformed(
                "one archive entry per name",
                "two entries of the same name",
            )));
        }
        let mut entries = Vec::with_capacity(zip.len());
        let mut by_name = HashMap::with_capacity(zip.len());
        for index in 0..zip.len() {
            let entry = entry(&mut zip, index, bytes.len())?;
            budget.charge("archive entries", ENTRY_SIZE + 2 * entry.name.len()).map_err(Error::whole)?;
            if by_name.insert(entry.name.clone(), index).is_some() {
                let fault = Fault::malformed("one archive entry per name", "a second one");
                return Err(part(&entry.name, fault));
            }
            entries.push(entry);
        }
        refuse_overlaps(&entries, zip.central_directory_start())?;
        Ok(Archive { bytes, zip, entries, by_name, inflated: 0, in_memory: 0, budget })
    }

    /// Entry names, in the order of the archive's directory.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// Whether an entry has this name.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The bytes of an entry: a slice of the file if stored, separate memory if compressed.
    ///
    /// The checksum of a stored entry is not verified: that would read every byte of the file, which is mapped so
    /// that only the bytes in use are read. Compressed entries are verified while they are inflated.
    pub fn read(&mut self, name: &str) -> Result<Bytes, Error> {
        let Some(&index) = self.by_name.get(name) else {
            let found = format!("none among {}", self.entries.len());
            return Err(Error::whole(Fault::malformed(
                format!("an archive entry {:?}", shortened(name)),
                found,
            )));
        };
        let entry = &self.entries[index];
        if entry.encrypted {
            return Err(part(name, Fault::Unsupported("the entry is encrypted".to_owned())));
        }
        let stored = entry.data.len() as u64;
        match entry.method {
            CompressionMethod::Stored if stored != entry.size => Err(part(
                name,
                Fault::malformed(
                    format!("{stored} bytes, as many as are stored"),
                    format!("a size of {}", entry.size),
                ),
            )),
            CompressionMethod::Stored => Ok(self.bytes.slice(entry.data.clone())),
            CompressionMethod::Deflated => self.inflate(index).map_err(|fault| part(name, fault)),
            other => Err(part(
                name,
                Fault::Unsupported(format!(
                    "the entry is compressed by {other:?}; only stored and deflated ones are read"
                )),
            )),
        }
    }

    fn inflate(&mut self, index: usize) -> Result<Bytes, Fault> {
        let entry = &self.entries[index];
        let limit = (entry.data.len() as u64).saturating_mul(MAX_DEFLATE_RATIO);
        if entry.size > limit {
            return Err(Fault::TooLarge { what: "size of the inflated entry", limit, found: entry.size });
        }
        let total = self.inflated.saturating_add(entry.size);
        let limit = INFLATED_FREELY.max((self.bytes.len() as u64).saturating_mul(MAX_INFLATION));
        if total > limit {
            return Err(Fault::TooLarge { what: "size of all inflated entries", limit, found: total });
        }
        self.inflated = total;
        let size = entry.size;
        let corrupt = |error: String| Fault::malformed(format!("{size} bytes of deflated data"), error);
        let source = self.zip.by_index(index).map_err(|error| corrupt(error.to_string()))?;
        // One byte more than announced is enough to detect an excess.
        let mut source = source.take(size.saturating_add(1));
        let check = |found: u64| match found.cmp(&size) {
            Ordering::Less => Err(corrupt(found.to_string())),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(corrupt("more".to_owned())),
        };
        let is_memory_full = self.in_memory.saturating_add(size) > KEPT_IN_MEMORY;
        if size >= UNFOLDED_ON_DISK || size >= WORTH_A_FILE && is_memory_full {
            return unfolded::on_disk(self.bytes, &mut source, |error| corrupt(error.to_string()), check);
        }
        self.budget.charge("inflated archive entries", size as usize)?;
        self.in_memory = self.in_memory.saturating_add(size);
        let mut data = Vec::new();
        source.read_to_end(&mut data).map_err(|error| corrupt(error.to_string()))?;
        check(data.len() as u64)?;
        Ok(data.into())
    }
}

fn part(name: &str, fault: Fault) -> Error {
    Error::whole(fault).in_part(name)
}

fn entry(zip: &mut ZipArchive<Cursor<&[u8]>>, index: usize, file_size: usize) -> Result<Entry, Error> {
    let broken = |error: zip::result::ZipError| {
        Error::whole(Fault::malformed("a readable archive entry", error.to_string()))
            .in_part(&format!("archive entry {index}"))
    };
    let file = zip.by_index_raw(index).map_err(broken)?;
    let name = file.name().map_err(broken)?.into_owned();
    if !is_plain_name(&name) || file.is_symlink() {
        return Err(Error::whole(Fault::EscapesFolder(shortened(&name))));
    }
    let start = file.data_start().unwrap_or(u64::MAX);
    let end = start.saturating_add(file.compressed_size());
    if end > file_size as u64 {
        let fault =
            Fault::truncated(format!("data up to byte {end}"), format!("a file of {file_size} bytes"));
        return Err(part(&name, fault));
    }
    Ok(Entry {
        extent: file.header_start()..end,
        // Both are within the file, whose size is a usize.
        data: start as usize..end as usize,
        size: file.size(),
        method: file.compression(),
        encrypted: file.encrypted(),
        name,
    })
}

/// Overlapping entries are how a small archive inflates into a huge one.
fn refuse_overlaps(entries: &[Entry], directory_start: u64) -> Result<(), Error> {
    let mut in_order: Vec<&Entry> = entries.iter().collect();
    in_order.sort_by_key(|entry| (entry.extent.start, entry.extent.end));
    for pair in in_order.windows(2) {
        if pair[0].extent.end > pair[1].extent.start {
            let fault = Fault::malformed(
                "entries that do not overlap",
                format!("one within {:?}", shortened(&pair[0].name)),
            );
            return Err(part(&pair[1].name, fault));
        }
    }
    if let Some(last) = in_order.last().filter(|last| last.extent.end > directory_start) {
        let fault = Fault::malformed(
            "data before the archive's directory",
            format!("its end at {}", last.extent.end),
        );
        return Err(part(&last.name, fault));
    }
    Ok(())
}
