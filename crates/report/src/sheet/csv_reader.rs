//! Sheets as comma-separated values.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::builder::Builder;
use super::error::{At, SheetError, shown};
use super::formula::restore;
use super::{MAX_BYTES, MAX_COLUMNS};

pub(super) fn read(at: At<'_>, file: File, builder: &mut Builder<'_>) -> Result<(), SheetError> {
    each_record(at.path, file, &mut |at, record| {
        let mut cells = Vec::with_capacity(record.len());
        for text in record {
            builder.count(at, text)?;
            cells.push(restore(text).into_owned());
        }
        builder.row(at, cells)?;
        Ok(true)
    })
}

/// Passes on the records of a file, until the receiver has enough.
pub(super) fn each_record(
    path: &Path,
    file: impl Read,
    receive: &mut dyn FnMut(At<'_>, &csv::StringRecord) -> Result<bool, SheetError>,
) -> Result<(), SheetError> {
    // The file may have grown since it was measured.
    let file = file.take(MAX_BYTES);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .buffer_capacity(1 << 17)
        .from_reader(file);
    let mut record = csv::ByteRecord::new();
    let mut place = String::new();
    loop {
        let at = At { path, place: "the file" };
        let more = reader.read_byte_record(&mut record).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(cause) => SheetError::Io { path: path.to_owned(), cause },
            other => at.malformed("comma-separated values", format!("{other:?}")),
        })?;
        if !more {
            return Ok(());
        }
        place.clear();
        let _ = std::fmt::Write::write_fmt(
            &mut place,
            format_args!("line {}", record.position().map_or(0, csv::Position::line)),
        );
        let at = At { path, place: &place };
        at.within("columns", MAX_COLUMNS as u64, record.len() as u64)?;
        let text = match csv::StringRecord::from_byte_record(std::mem::take(&mut record)) {
            Ok(text) => text,
            Err(error) => {
                let bytes = error.into_byte_record();
                let wrong = bytes.iter().find(|field| std::str::from_utf8(field).is_err());
                let wrong = String::from_utf8_lossy(wrong.unwrap_or_default()).into_owned();
                return Err(at.malformed("text in UTF-8", shown(&wrong)));
            }
        };
        if !receive(at, &text)? {
            return Ok(());
        }
        record = text.into_byte_record();
    }
}
