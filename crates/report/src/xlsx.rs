//! Result sheets as Excel workbooks, row by row.
//!
//! Rows go to a temporary file as they come and into the workbook at the end, so memory does not grow with them. The
//! header is bold, stays in sight and has filters; a row is filled by its [`Emphasis`], in the colours that users
//! know from the older tools. Numbers are numbers (NaN and infinities, which Excel has not, are text), and text is
//! always text: nothing in it can run.
//!
//! Excel ends at 1,048,576 rows. What does not fit goes on in another sheet with the same header: one sheet is
//! called `Sheet1`, several `part_0`, `part_1`, …, or as [`SheetNames`] says. A text longer than Excel's 32,767
//! characters is cut, and says so at its end.

use std::borrow::Cow;
use std::io::{self, Seek, Write};

use rust_xlsxwriter::{Color, DocProperties, ExcelDateTime, Format, Workbook, Worksheet, XlsxError};
use ulpscope_tensor::python_float_repr;

use crate::sheet::value::{Value, flag};
use crate::sheet::wrong_width;
use crate::table::{Emphasis, Row};

/// Rows of a sheet, the header among them.
pub const MAX_SHEET_ROWS: u32 = 1_048_576;

/// Columns of a sheet.
pub const MAX_SHEET_COLUMNS: usize = 16_384;

/// Characters of a cell, counted as Excel does: in units of UTF-16.
pub const MAX_CELL_CHARACTERS: usize = 32_767;

/// Largest integer below which a double holds every one; longer ones are written as text.
const MAX_EXACT_INTEGER: i128 = 1 << 53;

/// Rows that decide how wide the columns are.
const SAMPLED_ROWS: u32 = 100;

/// Characters of the narrowest and of the widest column, and of the arrow of a filter.
const NARROWEST: usize = 8;
const WIDEST: usize = 60;
const FILTER_ARROW: usize = 3;

const RED: Color = Color::RGB(0xFF_00_00);
const YELLOW: Color = Color::RGB(0xFF_FF_00);

/// What the sheets of a workbook are called. Excel allows 31 characters, none of them `[ ] : * ? / \`.
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

/// Writes a workbook.
pub struct XlsxWriter {
    workbook: Workbook,
    sheet: Worksheet,
    columns: Vec<String>,
    widths: Vec<usize>,
    names: SheetNames,
    /// Rows a sheet may have, the header among them.
    sheet_rows: u32,
    /// Sheets that are full.
    full: usize,
    /// The row of the sheet that comes next.
    next: u32,
    rows: u64,
    fills: Fills,
}

/// The formats, made once.
struct Fills {
    header: Format,
    warn: Format,
    bad: Format,
}

impl XlsxWriter {
    /// A workbook with these columns.
    pub fn new(columns: &[impl AsRef<str>]) -> io::Result<XlsxWriter> {
        XlsxWriter::with_names(columns, SheetNames::default(), MAX_SHEET_ROWS)
    }

    /// A workbook whose sheets have names of the caller's, and at most `sheet_rows` rows each, the header among
    /// them.
    pub fn with_names(
        columns: &[impl AsRef<str>],
        names: SheetNames,
        sheet_rows: u32,
    ) -> io::Result<XlsxWriter> {
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
        let mut workbook = Workbook::new();
        // The same rows give the same file, whenever it is written.
        let created = ExcelDateTime::from_ymd(2000, 1, 1).map_err(failed)?;
        workbook.set_properties(&DocProperties::new().set_creation_datetime(&created));
        let columns: Vec<String> = columns.iter().map(|column| column.as_ref().to_owned()).collect();
        let widths = columns.iter().map(|name| width(name) + FILTER_ARROW).collect();
        let fills = Fills {
            header: Format::new().set_bold(),
            warn: Format::new().set_background_color(YELLOW),
            bad: Format::new().set_background_color(RED),
        };
        let sheet = new_sheet(&mut workbook, &columns, &fills)?;
        Ok(XlsxWriter {
            workbook,
            sheet,
            columns,
            widths,
            names,
            sheet_rows,
            full: 0,
            next: 1,
            rows: 0,
            fills,
        })
    }

    /// Adds a row. It must have one cell per column.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        if row.cells.len() != self.columns.len() {
            return Err(wrong_width(self.rows, self.columns.len(), row.cells.len()));
        }
        if self.next == self.sheet_rows {
            self.next_sheet()?;
        }
        let fill = match row.emphasis {
            Emphasis::Plain | Emphasis::Good => None,
            Emphasis::Warn => Some(&self.fills.warn),
            Emphasis::Bad => Some(&self.fills.bad),
        };
        for (column, cell) in row.cells.iter().enumerate() {
            let value = Value::of(cell);
            if self.rows < u64::from(SAMPLED_ROWS) {
                self.widths[column] = self.widths[column].max(value_width(&value));
            }
            write_value(&mut self.sheet, self.next, column as u16, value, fill).map_err(failed)?;
        }
        self.next += 1;
        self.rows += 1;
        Ok(())
    }

    /// Writes the workbook, and gives the output back.
    pub fn finish<W: Write + Seek + Send>(mut self, mut out: W) -> io::Result<W> {
        let name = if self.full == 0 { self.names.single.clone() } else { self.part_name() };
        self.close_sheet(&name)?;
        self.workbook.push_worksheet(self.sheet);
        self.workbook.save_to_writer(&mut out).map_err(failed)?;
        out.flush()?;
        Ok(out)
    }

    fn next_sheet(&mut self) -> io::Result<()> {
        let name = self.part_name();
        self.close_sheet(&name)?;
        let next = new_sheet(&mut self.workbook, &self.columns, &self.fills)?;
        self.workbook.push_worksheet(std::mem::replace(&mut self.sheet, next));
        self.full += 1;
        self.next = 1;
        Ok(())
    }

    fn part_name(&self) -> String {
        format!("{}{}", self.names.part, self.full)
    }

    fn close_sheet(&mut self, name: &str) -> io::Result<()> {
        self.sheet.set_name(name).map_err(failed)?;
        self.sheet.set_freeze_panes(1, 0).map_err(failed)?;
        for (column, width) in self.widths.iter().enumerate() {
            let width = (*width).clamp(NARROWEST, WIDEST) as f64;
            self.sheet.set_column_width(column as u16, width).map_err(failed)?;
        }
        if let Some(last) = self.columns.len().checked_sub(1) {
            self.sheet.autofilter(0, 0, self.next - 1, last as u16).map_err(failed)?;
        }
        Ok(())
    }
}

fn new_sheet(workbook: &mut Workbook, columns: &[String], fills: &Fills) -> io::Result<Worksheet> {
    let mut sheet = workbook.new_worksheet_with_constant_memory().map_err(failed)?;
    for (column, name) in columns.iter().enumerate() {
        sheet.write_string_with_format(0, column as u16, fit(name), &fills.header).map_err(failed)?;
    }
    Ok(sheet)
}

fn write_value(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    value: Value<'_>,
    fill: Option<&Format>,
) -> Result<(), XlsxError> {
    let text = match value {
        Value::Missing => {
            if let Some(fill) = fill {
                sheet.write_blank(row, column, fill)?;
            }
            return Ok(());
        }
        Value::Flag(value) => {
            match fill {
                Some(fill) => sheet.write_boolean_with_format(row, column, value, fill)?,
                None => sheet.write_boolean(row, column, value)?,
            };
            return Ok(());
        }
        Value::Number(value) if value.is_finite() => return write_number(sheet, row, column, value, fill),
        Value::Int(value) if value.abs() <= MAX_EXACT_INTEGER => {
            return write_number(sheet, row, column, value as f64, fill);
        }
        Value::Number(value) => Cow::Owned(python_float_repr(value)),
        Value::Int(value) => Cow::Owned(value.to_string()),
        Value::Text(text) => text,
    };
    match fill {
        Some(fill) => sheet.write_string_with_format(row, column, fit(&text), fill)?,
        None => sheet.write_string(row, column, fit(&text))?,
    };
    Ok(())
}

fn write_number(
    sheet: &mut Worksheet,
    row: u32,
    column: u16,
    value: f64,
    fill: Option<&Format>,
) -> Result<(), XlsxError> {
    match fill {
        Some(fill) => sheet.write_number_with_format(row, column, value, fill)?,
        None => sheet.write_number(row, column, value)?,
    };
    Ok(())
}

/// The text, cut to what a cell holds.
fn fit(text: &str) -> Cow<'_, str> {
    // UTF-8 never takes fewer bytes than UTF-16 has units.
    if text.len() <= MAX_CELL_CHARACTERS {
        return Cow::Borrowed(text);
    }
    let length = text.encode_utf16().count();
    if length <= MAX_CELL_CHARACTERS {
        return Cow::Borrowed(text);
    }
    let mark = format!(" … [cut: {length} characters]");
    let mut room = MAX_CELL_CHARACTERS - mark.encode_utf16().count();
    let kept = text.chars().take_while(|character| {
        let fits = character.len_utf16() <= room;
        room = room.saturating_sub(character.len_utf16());
        fits
    });
    Cow::Owned(kept.chain(mark.chars()).collect())
}

fn width(text: &str) -> usize {
    text.lines().next().map_or(0, |line| line.chars().take(WIDEST).count())
}

fn value_width(value: &Value<'_>) -> usize {
    match value {
        Value::Missing => 0,
        Value::Text(text) => width(text),
        Value::Int(value) => value.to_string().len(),
        Value::Number(value) => python_float_repr(*value).len(),
        Value::Flag(value) => flag(*value).len(),
    }
}

fn refused(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn failed(error: XlsxError) -> io::Error {
    match error {
        XlsxError::IoError(error) => error,
        XlsxError::TempFileError(folder, error) => {
            let message = format!("cannot keep rows in the temporary folder {}: {error}", folder.display());
            io::Error::new(error.kind(), message)
        }
        other => io::Error::other(other),
    }
}
