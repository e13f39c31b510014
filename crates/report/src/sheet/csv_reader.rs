//! Sheets as comma-separated values.

use std::fs::File;
use std::io::Read;

use super::builder::Builder;
use super::error::{At, SheetError, shown};
use super::formula::restore;
use super::{MAX_BYTES, MAX_COLUMNS};

pub(super) fn read(at: At<'_>, file: File, builder: &mut Builder<'_>) -> Result<(), SheetError> {
    // The file may have grown since it was measured.
    let file = file.take(MAX_BYTES);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
    let mut record = csv::ByteRecord::new();
    loop {
        let more = reader.read_byte_record(&mut record).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(cause) => SheetError::Io { path: at.path.to_owned(), cause },
            other => at.malformed("comma-separated values", format!("{other:?}")),
        })?;
        if !more {
            return Ok(());
        }
        let line = record.position().map_or(0, csv::Position::line);
        let place = format!("line {line}");
        let at = At { path: at.path, place: &place };
        at.within("columns", MAX_COLUMNS as u64, record.len() as u64)?;
        let mut cells = Vec::with_capacity(record.len());
        for field in &record {
            let text = std::str::from_utf8(field)
                .map_err(|_| at.malformed("text in UTF-8", shown(&String::from_utf8_lossy(field))))?;
            builder.count(at, text)?;
            cells.push(restore(text).into_owned());
        }
        builder.row(at, cells)?;
    }
}
