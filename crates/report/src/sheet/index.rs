//! A sheet that is read where somebody looks: a million rows need not be in memory to show a few of them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::csv_reader::each_record;
use super::error::{At, SheetError};
use super::formula::restore;
use super::{MAX_BYTES, MAX_CELLS};

/// A row of a [`SheetIndex`].
#[derive(Debug)]
pub struct IndexedRow<'a> {
    record: &'a csv::StringRecord,
    /// Its texts, if some of them were disarmed.
    restored: Vec<String>,
}

impl<'a> IndexedRow<'a> {
    fn of(record: &'a csv::StringRecord) -> IndexedRow<'a> {
        let restored = match record.as_byte_record().as_slice().contains(&b'\'') {
            true => record.iter().map(|text| restore(text).into_owned()).collect(),
            false => Vec::new(),
        };
        IndexedRow { record, restored }
    }

    /// The text of a column; empty if there is none.
    pub fn text(&self, column: usize) -> &str {
        self.restored.get(column).map_or_else(|| self.record.get(column).unwrap_or_default(), String::as_str)
    }
}

/// Receives the header and a row.
pub type IndexedRowReceiver<'a> = dyn FnMut(&[String], &IndexedRow<'_>) + 'a;

/// A `.csv` whose rows can be read from the middle. It keeps where every so many rows begin, and no row. The file stays
/// open: it may be moved, and what replaces it is not read.
#[derive(Debug)]
pub struct SheetIndex {
    path: PathBuf,
    file: File,
    columns: Vec<String>,
    chunk_rows: usize,
    /// Where each chunk begins, in bytes.
    starts: Vec<u64>,
    rows: u64,
}

impl SheetIndex {
    /// Reads a file once, and passes its rows on. An index has a place for every `chunk_rows` rows.
    pub fn of(
        path: &Path,
        chunk_rows: usize,
        receive: &mut IndexedRowReceiver<'_>,
    ) -> Result<SheetIndex, SheetError> {
        let lost = |cause| SheetError::Io { path: path.to_owned(), cause };
        let file = File::open(path).map_err(lost)?;
        let length = file.metadata().map_err(lost)?.len();
        At { path, place: "the file" }.within("bytes", MAX_BYTES, length)?;
        let mut header: Option<Vec<String>> = None;
        let (mut starts, mut rows, mut cells) = (Vec::new(), 0, 0);
        each_record(path, FileFrom { file: &file, at: 0 }, &mut |at, record| {
            let Some(columns) = &header else {
                header = Some(record.iter().map(|text| restore(text).into_owned()).collect());
                return Ok(true);
            };
            if is_blank(record) {
                return Ok(true);
            }
            cells += record.len() as u64;
            at.within("cells", MAX_CELLS, cells)?;
            check_width(at, columns, record)?;
            if rows % chunk_rows as u64 == 0 {
                starts.push(record.position().map_or(0, csv::Position::byte));
            }
            rows += 1;
            receive(columns, &IndexedRow::of(record));
            Ok(true)
        })?;
        let columns = header
            .ok_or_else(|| At { path, place: "the file" }.malformed("a header row", "an empty file"))?;
        Ok(SheetIndex { path: path.to_owned(), file, columns, chunk_rows, starts, rows })
    }

    /// The header.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// How many rows there are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Passes on the rows of a chunk; none if there is no such chunk.
    pub fn each_row_of(&self, chunk: usize, receive: &mut IndexedRowReceiver<'_>) -> Result<(), SheetError> {
        let Some(&start) = self.starts.get(chunk) else { return Ok(()) };
        let mut left = self.chunk_rows;
        each_record(&self.path, FileFrom { file: &self.file, at: start }, &mut |at, record| {
            if is_blank(record) {
                return Ok(true);
            }
            check_width(at, &self.columns, record)?;
            receive(&self.columns, &IndexedRow::of(record));
            left -= 1;
            Ok(left > 0)
        })
    }
}

/// A row without any value is skipped.
fn is_blank(record: &csv::StringRecord) -> bool {
    record.as_byte_record().as_slice().is_empty()
}

fn check_width(at: At<'_>, columns: &[String], record: &csv::StringRecord) -> Result<(), SheetError> {
    if record.len() == columns.len() {
        return Ok(());
    }
    Err(at.malformed(format!("{} cells, as in the header", columns.len()), record.len().to_string()))
}

/// A file from a place on. Several may read one file at a time.
struct FileFrom<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FileFrom<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
