//! Result sheets: their [formats](SheetFormat), and how they are read, ours and those of the older tools.
//!
//! A sheet is a header and rows of text. A number is returned as written in the file (`.csv`) or as Python would
//! print it (`.xlsx`), a boolean as `True` or `False`, a missing value as an empty text. A row without any value is
//! skipped. A workbook of several sheets is one table in parts, in the workbook's order, so all must have the same
//! header.
//!
//! ```text
//! path ──► csv_reader  ──┐
//!      ──► xlsx_reader ──┴──► Builder (limits, width of rows) ──► Sheet
//! ```
//!
//! Sheets are untrusted. Formulas are not computed; only their last result is read. References to anything
//! outside the file are not followed. Sizes are compared with the `MAX_…` here, and with the memory that the file's
//! size justifies, before memory is allocated, whatever the file claims.

mod builder;
mod csv_reader;
mod error;
mod format;
pub(crate) mod formula;
mod index;
mod row;
pub(crate) mod value;
mod workbook;
mod xlsx_reader;
mod xml;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

pub use error::SheetError;
pub use format::{SheetFormat, SheetWriter};
pub use index::{IndexedRow, IndexedRowReceiver, SheetIndex};
pub use row::SheetRow;

use builder::Builder;
use error::At;

/// Maximum bytes of a file, and of the text of its cells.
pub const MAX_BYTES: u64 = 1 << 30;

/// Maximum bytes of the unpacked parts of a workbook. They are not kept in memory.
pub const MAX_UNPACKED: u64 = 1 << 32;

/// Maximum cells of a sheet. Excel's longest sheet with the columns of a comparison has half as many.
pub const MAX_CELLS: u64 = 1 << 26;

/// Maximum columns of a sheet: as many as Excel has.
pub const MAX_COLUMNS: usize = 16_384;

/// Bytes of memory that a sheet may use for each byte of its file, as [for files of tensors](../../formats).
const MEMORY_PER_BYTE: u64 = 16;

/// Bytes of memory that every sheet may use.
const LEAST_MEMORY: u64 = 64 << 20;

/// The first bytes of workbooks of the nineties.
const OLE: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0];

/// A sheet that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// The header.
    pub columns: Vec<String>,
    /// The rows; each has one text per column.
    pub rows: Vec<SheetRow>,
}

/// Reads a sheet of any [format](SheetFormat). Its content decides which it is.
pub fn read(path: &Path) -> Result<Sheet, SheetError> {
    read_with(path, Builder::within)
}

/// Reads a sheet and passes its rows on one by one, each with the header. Returns the header.
pub fn each_row<'a>(
    path: &Path,
    receiver: &'a mut (dyn FnMut(&[String], SheetRow) + 'a),
) -> Result<Vec<String>, SheetError> {
    read_with(path, |memory| Builder::passing_on(memory, receiver)).map(|sheet| sheet.columns)
}

fn read_with<'a>(path: &Path, builder: impl FnOnce(u64) -> Builder<'a>) -> Result<Sheet, SheetError> {
    let lost = |cause| SheetError::Io { path: path.to_owned(), cause };
    let at = At { path, place: "the file" };
    let expected = || format!("a {} file", SheetFormat::extensions());
    let metadata = std::fs::metadata(path).map_err(lost)?;
    if !metadata.is_file() {
        return Err(at.malformed(expected(), "something that is not a file"));
    }
    at.within("bytes", MAX_BYTES, metadata.len())?;
    let mut file = File::open(path).map_err(lost)?;
    let mut start = Vec::new();
    file.by_ref().take(SheetFormat::START_BYTES).read_to_end(&mut start).map_err(lost)?;
    file.rewind().map_err(lost)?;
    let mut builder = builder(metadata.len() * MEMORY_PER_BYTE + LEAST_MEMORY);
    if start == OLE {
        return Err(at.malformed(expected(), "a .xls workbook; save it as .xlsx"));
    }
    SheetFormat::detect(path, &start).read(at, file, &mut builder)?;
    builder.finish(at)
}

/// The error of a writer for a row that does not match its header.
pub(crate) fn wrong_width(row: u64, expected: usize, found: usize) -> io::Error {
    let message = format!("row {row} of a sheet: expected {expected} cells, one per column, found {found}");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
