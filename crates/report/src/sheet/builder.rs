//! Builds a sheet from rows, within limits.

use super::error::{At, SheetError, shown};
use super::{MAX_BYTES, MAX_CELLS, MAX_COLUMNS, Sheet, SheetRow};

/// Receives the header and a row.
pub(super) type RowReceiver<'a> = dyn FnMut(&[String], SheetRow) + 'a;

/// A sheet under construction.
pub(super) struct Builder<'a> {
    sheet: Option<Sheet>,
    /// Who gets the rows, if they are not kept.
    receiver: Option<&'a mut RowReceiver<'a>>,
    memory_limit: u64,
    memory: u64,
    cells: u64,
    bytes: u64,
    /// Whether the header of the current part was read.
    in_part: bool,
}

impl<'a> Builder<'a> {
    /// A sheet that may use this many bytes of memory.
    pub(super) fn within(memory_limit: u64) -> Builder<'a> {
        Builder { sheet: None, receiver: None, memory_limit, memory: 0, cells: 0, bytes: 0, in_part: false }
    }

    /// A sheet whose rows are passed on one by one.
    pub(super) fn passing_on(memory_limit: u64, receiver: &'a mut RowReceiver<'a>) -> Builder<'a> {
        Builder { receiver: Some(receiver), ..Builder::within(memory_limit) }
    }

    /// Charges this many more bytes, or fails.
    pub(super) fn charge(&mut self, at: At<'_>, bytes: u64) -> Result<(), SheetError> {
        self.memory = self.memory.saturating_add(bytes);
        at.within("bytes of memory (16 × the file's size + 64 MiB)", self.memory_limit, self.memory)
    }

    /// Starts a part of the sheet: its first row is the header again.
    pub(super) fn begin_part(&mut self) {
        self.in_part = false;
    }

    /// Ends a part of the sheet; it must have had a header.
    pub(super) fn end_part(&self, at: At<'_>) -> Result<(), SheetError> {
        if self.in_part { Ok(()) } else { Err(at.malformed("a header row", "no rows")) }
    }

    /// Checks the limits before a cell is added. One text may be in many cells of a workbook, so the
    /// sizes of its parts do not limit the size of the sheet.
    pub(super) fn count(&mut self, at: At<'_>, text: &str) -> Result<(), SheetError> {
        self.cells += 1;
        self.bytes += text.len() as u64;
        at.within("cells", MAX_CELLS, self.cells)?;
        at.within("bytes of text", MAX_BYTES, self.bytes)
    }

    /// Adds a row. All its cells were counted.
    pub(super) fn row(&mut self, at: At<'_>, cells: Vec<String>) -> Result<(), SheetError> {
        if cells.iter().all(String::is_empty) {
            return Ok(());
        }
        if self.receiver.is_none() || self.sheet.is_none() {
            self.charge(at, SheetRow::size_of(&cells))?;
        }
        let Some(sheet) = &mut self.sheet else {
            at.within("columns", MAX_COLUMNS as u64, cells.len() as u64)?;
            self.sheet = Some(Sheet { columns: cells, rows: Vec::new() });
            self.in_part = true;
            return Ok(());
        };
        let width = sheet.columns.len();
        if cells.len() != width {
            return Err(at.malformed(format!("{width} cells, as in the header"), format!("{}", cells.len())));
        }
        if !self.in_part {
            self.in_part = true;
            if let Some((expected, found)) =
                sheet.columns.iter().zip(&cells).find(|(expected, found)| expected != found)
            {
                let expected = format!("the columns of the first sheet, {} among them", shown(expected));
                return Err(at.malformed(expected, shown(found)));
            }
            return Ok(());
        }
        match &mut self.receiver {
            Some(receiver) => receiver(&sheet.columns, cells.into()),
            None => sheet.rows.push(cells.into()),
        }
        Ok(())
    }

    /// The number of columns of the header, once it was read.
    pub(super) fn width(&self) -> Option<usize> {
        self.sheet.as_ref().map(|sheet| sheet.columns.len())
    }

    /// The sheet.
    pub(super) fn finish(self, at: At<'_>) -> Result<Sheet, SheetError> {
        self.sheet.ok_or_else(|| at.malformed("a header row", "an empty file"))
    }
}
