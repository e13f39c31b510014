//! Result sheets as comma-separated values, row by row.
//!
//! The file is what pandas' `to_csv(index=False)` and Python's `csv` module with `QUOTE_MINIMAL` write for the same
//! texts: UTF-8 without a byte order mark and `\n` at line ends. Quotes are only around a text that contains a
//! comma, a quote or a line break, and around an empty text that is alone in its row. Characters that Python would
//! keep and a terminal would act on are [escaped](escape): `\u{1b}`, `\r`.
//!
//! | cell | written as |
//! |---|---|
//! | missing | nothing |
//! | number, share | Python's `repr` of the float: `1.0`, `1e-07`, `nan`, `-inf` |
//! | boolean | `True`, `False` |
//! | shape, position | `[2, 8, 96]` |
//! | text | itself, with a `'` before anything that a spreadsheet would run: `'=cmd()` |
//!
//! [`sheet::read`](crate::sheet::read) removes that `'` again. Numbers in text are not changed.

use std::io::{self, Write};

use ulpscope_tensor::push_python_float;

use crate::escape;
use crate::sheet::formula::disarm;
use crate::sheet::value::{Value, flag};
use crate::sheet::{SheetWriter, wrong_width};
use crate::table::Row;

/// Writes a sheet; memory does not grow with its rows.
pub struct CsvWriter<W: Write> {
    out: csv::Writer<W>,
    columns: usize,
    rows: u64,
    /// The number being written.
    digits: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Writes the header.
    pub fn new(out: W, columns: &[impl AsRef<str>]) -> io::Result<CsvWriter<W>> {
        let mut out = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(out);
        for column in columns {
            out.write_field(disarm(&escape::sheet(column.as_ref())).as_bytes())?;
        }
        out.write_record(None::<&[u8]>)?;
        Ok(CsvWriter { out, columns: columns.len(), rows: 0, digits: Vec::new() })
    }

    /// Writes a row. It must have one cell per column.
    pub fn row(&mut self, row: &Row) -> io::Result<()> {
        if row.cells.len() != self.columns {
            return Err(wrong_width(self.rows, self.columns, row.cells.len()));
        }
        for cell in &row.cells {
            match Value::of(cell) {
                Value::Missing => self.out.write_field([])?,
                Value::Text(text) => self.out.write_field(disarm(&text).as_bytes())?,
                Value::Int(value) => self.out.write_field(value.to_string())?,
                Value::Number(value) => {
                    self.digits.clear();
                    push_python_float(value, &mut self.digits);
                    self.out.write_field(&self.digits)?;
                }
                Value::Flag(value) => self.out.write_field(flag(value))?,
            }
        }
        self.out.write_record(None::<&[u8]>)?;
        self.rows += 1;
        Ok(())
    }

    /// Flushes the buffer and returns the output.
    pub fn finish(self) -> io::Result<W> {
        self.out.into_inner().map_err(|error| {
            let error = error.error();
            io::Error::new(error.kind(), error.to_string())
        })
    }
}

impl<W: Write + Send> SheetWriter for CsvWriter<W> {
    fn row(&mut self, row: &Row) -> io::Result<()> {
        CsvWriter::row(self, row)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        CsvWriter::finish(*self).map(drop)
    }
}
