//! The formats of result sheets: one row for each, one writer and one reader.
//!
//! Every interface takes its formats from here: `--format` of `compare`, the sheets that `merge` reads and writes,
//! `Comparison.save` of Python, the messages that name them. A new format is a row of the list, an arm of
//! [`SheetFormat::open`] and one of [`SheetFormat::read`]. A test writes and reads back every format of the list.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::builder::Builder;
use super::error::{At, SheetError};
use super::{csv_reader, xlsx_reader};
use crate::csv::CsvWriter;
use crate::table::Row;
use crate::xlsx::XlsxWriter;

/// Writes a sheet row by row. The header was written when the sheet was opened.
pub trait SheetWriter: Send {
    /// Writes a row. It must have one cell per column.
    fn row(&mut self, row: &Row) -> io::Result<()>;

    /// Writes what is left. A sheet that was not finished is incomplete.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Makes the enum and the table of its rows, so that neither can lack what the other has.
macro_rules! sheet_formats {
    ($($(#[$doc:meta])+ $format:ident: $row:expr;)+) => {
        /// A format of result sheets.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SheetFormat {
            $($(#[$doc])+ $format,)+
        }

        impl SheetFormat {
            /// Every format. If a comparison was written in several, the first of them is the one to read.
            pub const ALL: [SheetFormat; COUNT] = [$(SheetFormat::$format),+];
        }

        const COUNT: usize = [$(stringify!($format)),+].len();

        /// In the order of the enum.
        static ROWS: [FormatRow; COUNT] = [$($row),+];
    };
}

/// What is known of a format.
struct FormatRow {
    /// Its name on the command line, and the extension of its files.
    name: &'static str,
    /// What `--help` says of it.
    about: &'static str,
    /// The first bytes of its files; empty if they are text.
    start: &'static [u8],
}

sheet_formats! {
    /// Comma-separated values.
    Csv: FormatRow { name: "csv", about: "compare_result_{timestamp}.csv", start: b"" };
    /// An Excel workbook, which is a zip archive.
    Xlsx: FormatRow { name: "xlsx", about: "The same as a workbook, with colours", start: b"PK\x03\x04" };
}

impl SheetFormat {
    /// Bytes at the start of a file that are enough to detect its format.
    pub(super) const START_BYTES: u64 = 4;

    /// The name on the command line, which is also the extension of its files.
    pub fn name(self) -> &'static str {
        ROWS[self as usize].name
    }

    /// What it is, in a few words.
    pub fn about(self) -> &'static str {
        ROWS[self as usize].about
    }

    /// The format that a file's name promises.
    pub fn of_extension(path: &Path) -> Option<SheetFormat> {
        let extension = path.extension()?;
        SheetFormat::ALL.into_iter().find(|format| extension == format.name())
    }

    /// The extensions of all formats, for messages: `.csv or .xlsx`.
    pub fn extensions() -> String {
        let names = SheetFormat::ALL.map(|format| format!(".{}", format.name()));
        match names.as_slice() {
            [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            names => names.concat(),
        }
    }

    /// Starts a sheet with these columns.
    pub fn open<'a>(
        self,
        out: impl Write + Send + 'a,
        columns: &[impl AsRef<str>],
    ) -> io::Result<Box<dyn SheetWriter + 'a>> {
        Ok(match self {
            SheetFormat::Csv => Box::new(CsvWriter::new(out, columns)?),
            SheetFormat::Xlsx => Box::new(XlsxWriter::new(out, columns)?),
        })
    }

    /// Reads the rows of a file.
    pub(super) fn read(self, at: At<'_>, file: File, builder: &mut Builder<'_>) -> Result<(), SheetError> {
        match self {
            SheetFormat::Csv => csv_reader::read(at, file, builder),
            SheetFormat::Xlsx => xlsx_reader::read(at, file, builder),
        }
    }

    /// The format of a file by its first bytes. Its name decides only between formats that are text.
    pub(super) fn detect(path: &Path, start: &[u8]) -> SheetFormat {
        let is_text = |format: &SheetFormat| ROWS[*format as usize].start.is_empty();
        let by_start = SheetFormat::ALL
            .into_iter()
            .find(|format| !is_text(format) && start.starts_with(ROWS[*format as usize].start));
        by_start.or_else(|| SheetFormat::of_extension(path).filter(is_text)).unwrap_or(SheetFormat::Csv)
    }
}
