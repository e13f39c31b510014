//! Result sheets as Excel workbooks, row by row.
//!
//! Rows are written as they come, so memory does not grow with them. Only the first rows are held back, until they
//! have decided how wide the columns are. The header is bold, stays visible and has filters. A row has the fill of
//! its [`Emphasis`], in the colours that users know from the older tools. Numbers are numbers, except for NaN and
//! infinities, which Excel does not have, and integers that it would round: those are text. Text is always text:
//! nothing in it can run. An empty text is a missing value.
//!
//! Excel's limit is 1,048,576 rows, and a sheet of 4 GiB exceeds its file format. The rest continues in
//! another sheet with the same header. A single sheet is named `Sheet1`, several `part_0`, `part_1`, …, or as
//! [`SheetNames`] says. A text longer than Excel's 32,767 characters is shortened, and says so at its end.
//!
//! ```text
//! Row ──► cell (XML) ──► pending ──► archive (deflate) ──► out
//!                  first rows wait ┘      └ parts: head and tail of a sheet; the list of sheets at the end
//! ```

mod archive;
mod cell;
mod parts;

use std::borrow::Cow;
use std::io::{self, Write};

use crate::escape;
use crate::sheet::value::Value;
use crate::sheet::{SheetWriter, wrong_width};
use crate::table::{Emphasis, Row};

use archive::{Archive, MAX_PART};
use cell::{Style, push_cell, text_width, value_width};
use parts::{Range, WrittenSheet};

/// Maximum rows of a sheet, including the header.
pub const MAX_SHEET_ROWS: u32 = 1_048_576;

/// Maximum columns of a sheet.
pub const MAX_SHEET_COLUMNS: usize = 16_384;

/// Maximum characters of a cell, counted as in Excel: in units of UTF-16.
pub const MAX_CELL_CHARACTERS: usize = 32_767;

/// Maximum characters of the name of a sheet, counted in the same way.
pub const MAX_NAME_CHARACTERS: usize = 31;

/// Rows that decide the widths of the columns: this many, or fewer if they have more than this many bytes together.
const SAMPLED_ROWS: u64 = 100;
const SAMPLED_BYTES: usize = 1 << 20;

/// Bytes of rows that are deflated at once.
const BATCH: usize = 1 << 16;

/// Maximum bytes of a sheet, with space for the widths of every column of Excel.
const MAX_SHEET_BYTES: u64 = MAX_PART - (1 << 22);

/// Characters of the arrow of a filter.
const FILTER_ARROW: usize = 3;

/// The highest part number for which a part's name must have space from the start.
const FORESEEN_PARTS: usize = 999;

/// The names of the sheets of a workbook. Excel allows 31 characters, none of them `[ ] : * ? / \`, and no `'`
/// at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SheetNames {
    /// The only sheet.
    pub single: String,
    /// One of several; its number follows, counted from 0.
    pub part: String,
}

impl Default for SheetNames {
    fn default() -> SheetNames {
        SheetNames { single: "Sheet1".into(), part: "part_".into() }
    }
}

/// Writes a workbook; memory does not grow with its rows. The output receives large pieces and needs no buffer.
pub struct XlsxWriter<W: Write> {
    archive: Archive<W>,
    columns: Vec<String>,
    /// The letters of the columns.
    letters: Vec<String>,
    /// The widths of the columns, in characters.
    widths: Vec<usize>,
    names: SheetNames,
    /// Maximum rows of a sheet, including the header.
    sheet_rows: u32,
    /// Maximum bytes of a sheet.
    sheet_bytes: u64,
    /// The last row of each full sheet.
    full: Vec<u32>,
    /// The last row of the current sheet.
    last: u32,
    rows: u64,
    /// Rows that the archive does not have yet.
    pending: Vec<u8>,
    /// Whether rows still decide the widths of the columns; until then the current sheet has no head.
    is_sampling: bool,
}

impl<W: Write> XlsxWriter<W> {
    /// Starts a workbook with these columns.
    pub fn new(out: W, columns: &[impl AsRef<str>]) -> io::Result<XlsxWriter<W>> {
        XlsxWriter::with_names(out, columns, SheetNames::default(), MAX_SHEET_ROWS)
    }

    /// Starts a workbook with the caller's sheet names and at most `sheet_rows` rows per sheet, including the header.
    pub fn with_names(
        out: W,
        columns: &[impl AsRef<str>],
        names: SheetNames,
        sheet_rows: u32,
    ) -> io::Result<XlsxWriter<W>> {
        if columns.len() > MAX_SHEET_COLUMNS {
            let found = columns.len();
            return Err(refused(format!(
                "an Excel sheet has at most {MAX_SHEET_COLUMNS} columns, found {found}; write .csv instead"
            )));
        }
        if !(2..=MAX_SHEET_ROWS).contains(&sheet_rows) {
            return Err(refused(format!(
                "an Excel sheet has 2 to {MAX_SHEET_ROWS} rows with its header, found {sheet_rows}"
            )));
        }
        check_name(&names.single)?;
        check_name(&format!("{}{FORESEEN_PARTS}", names.part))?;
        let columns: Vec<String> =
            columns.iter().map(|column| escape::sheet(column.as_ref()).into_owned()).collect();
        let mut writer = XlsxWriter {
            archive: Archive::new(out),
            letters: (0..columns.len()).map(parts::letters).collect(),
            widths: columns.iter().map(|name| text_width(name) + FILTER_ARROW).collect(),
            columns,
            names,
            sheet_rows,
            sheet_bytes: MAX_SHEET_BYTES,
            full: Vec::new(),
            last: 1,
            rows: 0,
            pending: Vec::new(),
            is_sampling: true,
        };
        writer.part(parts::ROOT, &parts::root())?;
        writer.part(parts::STYLES, &parts::styles())?;
        writer.begin_sheet()?;
        Ok(writer)
    }

    /// Adds a row. It must have one cell per column.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        if row.cells.len() != self.columns.len() {
            return Err(wrong_width(self.rows, self.columns.len(), row.cells.len()));
        }
        if self.last == self.sheet_rows {
            self.next_sheet()?;
        }
        if self.is_sampling {
            for (width, cell) in self.widths.iter_mut().zip(&row.cells) {
                *width = (*width).max(value_width(&Value::of(cell)));
            }
        }
        let start = self.pending.len();
        self.push_row(row);
        if self.last > 1 && self.archive.part_size() + self.pending.len() as u64 > self.sheet_bytes {
            self.pending.truncate(start);
            self.next_sheet()?;
            self.push_row(row);
        }
        self.last += 1;
        self.rows += 1;
        let is_enough = if self.is_sampling {
            self.rows >= SAMPLED_ROWS || self.pending.len() >= SAMPLED_BYTES
        } else {
            self.pending.len() >= BATCH
        };
        if is_enough { self.hand_over() } else { Ok(()) }
    }

    /// Writes the buffered rows and the list of sheets, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_sheet()?;
        let sheets = self.full.iter().enumerate().map(|(index, &last)| {
            let name = if self.full.len() == 1 { self.names.single.clone() } else { self.part_name(index) };
            WrittenSheet { name, filtered: self.filtered(last) }
        });
        let sheets: Vec<WrittenSheet> = sheets.collect();
        self.part(parts::WORKBOOK, &parts::workbook(&sheets))?;
        self.part(parts::RELATIONS, &parts::relations(sheets.len()))?;
        self.part(parts::CONTENT_TYPES, &parts::content_types(sheets.len()))?;
        self.archive.finish()
    }

    fn push_row(&mut self, row: &Row) {
        let style = match row.emphasis {
            Emphasis::Plain | Emphasis::Good => Style::PLAIN,
            Emphasis::Warn => Style::WARN,
            Emphasis::Bad => Style::BAD,
        };
        let values = row.cells.iter().map(Value::of);
        push_row(&mut self.pending, &self.letters, self.last + 1, style, values);
    }

    fn begin_sheet(&mut self) -> io::Result<()> {
        self.archive.begin(&parts::sheet_part(self.full.len()))?;
        self.last = 1;
        if !self.is_sampling {
            self.head()?;
        }
        let names = self.columns.iter().map(|name| Value::Text(Cow::Borrowed(name)));
        push_row(&mut self.pending, &self.letters, 1, Style::HEADER, names);
        Ok(())
    }

    fn next_sheet(&mut self) -> io::Result<()> {
        check_name(&self.part_name(self.full.len() + 1))?;
        self.end_sheet()?;
        self.begin_sheet()
    }

    fn end_sheet(&mut self) -> io::Result<()> {
        self.hand_over()?;
        let tail = parts::sheet_tail(self.filtered(self.last).as_ref());
        self.archive.write(tail.as_bytes())?;
        self.archive.end()?;
        self.full.push(self.last);
        Ok(())
    }

    fn head(&mut self) -> io::Result<()> {
        let head = parts::sheet_head(&self.widths, self.full.is_empty());
        self.archive.write(head.as_bytes())
    }

    /// Passes pending rows to the archive; after that the widths are fixed.
    fn hand_over(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_sampling) {
            self.head()?;
        }
        self.archive.write(&self.pending)?;
        self.pending.clear();
        // Memory for one row of long texts must not be kept until the end.
        self.pending.shrink_to(2 * BATCH);
        Ok(())
    }

    fn part(&mut self, name: &str, xml: &str) -> io::Result<()> {
        self.archive.begin(name)?;
        self.archive.write(xml.as_bytes())?;
        self.archive.end()
    }

    fn part_name(&self, index: usize) -> String {
        format!("{}{index}", self.names.part)
    }

    fn filtered(&self, row: u32) -> Option<Range> {
        self.letters.last().map(|column| Range { column: column.clone(), row })
    }
}

impl<W: Write + Send> SheetWriter for XlsxWriter<W> {
    fn row(&mut self, row: &Row) -> io::Result<()> {
        XlsxWriter::row(self, row)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        XlsxWriter::finish(*self).map(drop)
    }
}

fn push_row<'a>(
    out: &mut Vec<u8>,
    letters: &[String],
    number: u32,
    style: Style,
    values: impl Iterator<Item = Value<'a>>,
) {
    let number = number.to_string();
    for piece in ["<row r=\"", &number, "\">"] {
        out.extend_from_slice(piece.as_bytes());
    }
    for (column, value) in letters.iter().zip(values) {
        push_cell(out, column, &number, style, value);
    }
    out.extend_from_slice(b"</row>");
}

fn check_name(name: &str) -> io::Result<()> {
    let is_allowed = |character: char| {
        !character.is_control() && !matches!(character, '[' | ']' | ':' | '*' | '?' | '/' | '\\')
    };
    let is_good = (1..=MAX_NAME_CHARACTERS).contains(&name.encode_utf16().count())
        && name.chars().all(is_allowed)
        && !name.starts_with('\'')
        && !name.ends_with('\'');
    if is_good {
        return Ok(());
    }
    Err(refused(format!(
        "the name of an Excel sheet has 1 to {MAX_NAME_CHARACTERS} characters, none of them a control character or one of \
         [ ] : * ? / \\, and no ' at either end, found {name:?}; choose another name"
    )))
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::cell::Cell;

    /// Writing a sheet of 4 GiB takes too long; the test lowers the limit instead.
    #[test]
    fn a_sheet_of_too_many_bytes_goes_on_in_another() {
        let mut writer = XlsxWriter::new(Vec::new(), &["text"]).unwrap();
        writer.sheet_bytes = 10_000;
        for _ in 0..5 {
            let cells = vec![Cell::text("x".repeat(4_000))];
            writer.row(&Row { cells, emphasis: Emphasis::Plain }).unwrap();
        }
        // A row that exceeds the limit gets its own sheet; the archive decides whether it fits.
        let cells = vec![Cell::text("x".repeat(20_000))];
        writer.row(&Row { cells, emphasis: Emphasis::Plain }).unwrap();
        assert_eq!((writer.full.as_slice(), writer.last), ([3, 3, 2].as_slice(), 2));
        writer.finish().unwrap();
    }
}
