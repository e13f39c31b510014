//! Result sheets read back: ours, and those of the older tools.
//!
//! A sheet is a header and rows of text. A number is given as the file spells it (`.csv`) or as Python would print
//! it (`.xlsx`), a truth value as `True` or `False`, a missing value as nothing. A row without any value is none.
//! A workbook of several sheets is one table in parts, in the workbook's order, so all must have the same header.
//!
//! ```text
//! path ──► csv_reader  ──┐
//!      ──► xlsx_reader ──┴──► Builder (limits, width of rows) ──► Sheet
//! ```
//!
//! Sheets come from elsewhere. Formulas are not computed, only their last result is read; references to anything
//! outside the file are not followed; sizes are compared with the `MAX_…` here, and with the memory that the file's
//! size justifies, before memory is taken, whatever the file claims.

mod builder;
mod csv_reader;
mod error;
pub(crate) mod formula;
mod row;
pub(crate) mod value;
mod workbook;
mod xlsx_reader;
mod xml;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

pub use error::SheetError;
pub use row::SheetRow;

use builder::Builder;
use error::At;

/// Bytes of a file, and of the text of its cells.
pub const MAX_BYTES: u64 = 1 << 30;

/// Bytes of the parts of a workbook when they are unpacked. They are read in passing, not kept.
pub const MAX_UNPACKED: u64 = 1 << 32;

/// Cells of a sheet. Excel's longest sheet with the columns of a comparison has half as many.
pub const MAX_CELLS: u64 = 1 << 26;

/// Columns of a sheet: as many as Excel has.
pub const MAX_COLUMNS: usize = 16_384;

/// Bytes of memory that a sheet may take for each byte of its file, as [for files of tensors](../../formats).
const MEMORY_PER_BYTE: u64 = 16;

/// Bytes of memory that every sheet may take.
const LEAST_MEMORY: u64 = 64 << 20;

/// How a workbook begins: it is a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// How the workbooks of the nineties begin.
const OLE: &[u8] = &[0xd0, 0xcf, 0x11, 0xe0];

/// A sheet that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sheet {
    /// The header.
    pub columns: Vec<String>,
    /// The rows; each has one text per column.
    pub rows: Vec<SheetRow>,
}

/// Reads a `.csv` or `.xlsx` file; its content tells which it is.
pub fn read(path: &Path) -> Result<Sheet, SheetError> {
    let lost = |cause| SheetError::Io { path: path.to_owned(), cause };
    let at = At { path, place: "the file" };
    let metadata = std::fs::metadata(path).map_err(lost)?;
    if !metadata.is_file() {
        return Err(at.malformed("a .csv or .xlsx file", "something that is not a file"));
    }
    at.within("bytes", MAX_BYTES, metadata.len())?;
    let mut file = File::open(path).map_err(lost)?;
    let mut start = Vec::new();
    file.by_ref().take(4).read_to_end(&mut start).map_err(lost)?;
    file.rewind().map_err(lost)?;
    let mut builder = Builder::within(metadata.len() * MEMORY_PER_BYTE + LEAST_MEMORY);
    if start == ZIP {
        xlsx_reader::read(at, file, &mut builder)?;
    } else if start == OLE {
        return Err(at.malformed("a .csv or .xlsx file", "a .xls workbook; save it as .xlsx"));
    } else {
        csv_reader::read(at, file, &mut builder)?;
    }
    builder.finish(at)
}

/// A row that does not fit its header, for those who write sheets.
pub(crate) fn wrong_width(row: u64, expected: usize, found: usize) -> io::Error {
    let message = format!("row {row} of a sheet: expected {expected} cells, one per column, found {found}");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
