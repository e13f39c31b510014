//! Reads Excel workbooks.
//!
//! Cells are read one by one and never laid out as a grid first: two cells at opposite corners of a sheet cost two
//! cells.

use std::fs::File;
use std::io::BufReader;

use quick_xml::events::BytesStart;
use ulpscope_tensor::python_float_repr;
use zip::ZipArchive;
use zip::read::ZipFile;

use super::builder::Builder;
use super::error::{At, SheetError, shown};
use super::value::flag;
use super::workbook::{RELATIONS, Relations, WORKBOOK};
use super::xml::{Metered, Node, attribute, walk};
use super::{MAX_BYTES, MAX_CELLS, MAX_COLUMNS, MAX_UNPACKED};

/// Maximum characters of a number. The longest double without an exponent has fewer.
const MAX_NUMBER: usize = 1100;

/// Maximum digits of an integer that is exact in a spreadsheet, where it is a double.
const MAX_EXACT_DIGITS: usize = 16;

/// Memory of a separate text beside its bytes.
const TEXT_SIZE: u64 = 24 + 16;

type Archive = ZipArchive<BufReader<File>>;

pub(super) fn read(at: At<'_>, file: File, builder: &mut Builder<'_>) -> Result<(), SheetError> {
    let mut archive = ZipArchive::new(BufReader::new(file))
        .map_err(|error| at.malformed("a zip archive", shown(&error.to_string())))?;
    let mut unpacked = 0;
    let relations = {
        let at = At { path: at.path, place: RELATIONS };
        Relations::read(at, open(at, &mut archive, &mut unpacked)?)?
    };
    let sheets = {
        let at = At { path: at.path, place: WORKBOOK };
        relations.sheets(at, open(at, &mut archive, &mut unpacked)?)?
    };
    let mut shared = Vec::new();
    if let Some(part) = &relations.shared_texts {
        let at = At { path: at.path, place: part };
        shared = shared_texts(at, open(at, &mut archive, &mut unpacked)?, builder)?;
    }
    for (_, part) in &sheets {
        let at = At { path: at.path, place: part };
        builder.begin_part();
        read_sheet(at, open(at, &mut archive, &mut unpacked)?, &shared, builder)?;
        builder.end_part(at)?;
    }
    Ok(())
}

type Part<'a> = Metered<ZipFile<'a, BufReader<File>>>;

/// Opens the part of the archive that `at` names.
fn open<'a>(at: At<'_>, archive: &'a mut Archive, unpacked: &mut u64) -> Result<Part<'a>, SheetError> {
    let part = archive
        .by_name(at.place)
        .map_err(|error| at.malformed("this part in the archive of a workbook", shown(&error.to_string())))?;
    // A part that unpacks to more than the archive states is an error when it is read.
    *unpacked = unpacked.saturating_add(part.size());
    at.within("bytes in all parts", MAX_UNPACKED, *unpacked)?;
    Ok(Metered::new(part))
}

/// The texts that cells refer to by number.
fn shared_texts(at: At<'_>, input: Part<'_>, builder: &mut Builder<'_>) -> Result<Vec<String>, SheetError> {
    let mut texts = Vec::new();
    let mut bytes = 0;
    let mut text = Text::default();
    walk(at, input, |node| {
        match node {
            Node::Start { element, is_empty } => match element.local_name().as_ref() {
                "si" if is_empty => {
                    at.within("texts", MAX_CELLS, texts.len() as u64 + 1)?;
                    builder.charge(at, TEXT_SIZE)?;
                    texts.push(String::new());
                }
                name => text.start(name, is_empty),
            },
            Node::End("si") => {
                let text = text.take();
                bytes += text.len() as u64;
                at.within("bytes of text", MAX_BYTES, bytes)?;
                at.within("texts", MAX_CELLS, texts.len() as u64 + 1)?;
                builder.charge(at, TEXT_SIZE + text.len() as u64)?;
                texts.push(text);
            }
            Node::End(name) => text.end(name),
            Node::Text(piece) => text.add(piece),
        }
        Ok(())
    })?;
    Ok(texts)
}

/// The text of an element, joined from its runs, without pronunciation hints.
#[derive(Default)]
struct Text {
    pieces: String,
    in_text: bool,
    in_hint: bool,
}

impl Text {
    fn start(&mut self, name: &str, is_empty: bool) {
        match name {
            "t" | "v" => self.in_text = !is_empty,
            "rPh" => self.in_hint = !is_empty,
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        match name {
            "t" | "v" => self.in_text = false,
            "rPh" => self.in_hint = false,
            _ => {}
        }
    }

    fn add(&mut self, piece: &str) {
        if self.in_text && !self.in_hint {
            self.pieces.push_str(piece);
        }
    }

    fn take(&mut self) -> String {
        unescape(&std::mem::take(&mut self.pieces))
    }
}

/// A cell being read.
struct Cell {
    column: usize,
    kind: String,
}

fn read_sheet(
    at: At<'_>,
    input: Part<'_>,
    shared: &[String],
    builder: &mut Builder<'_>,
) -> Result<(), SheetError> {
    let mut row: Vec<String> = Vec::new();
    let mut row_number = 0_u64;
    let mut next_column = 0;
    let mut cell: Option<Cell> = None;
    let mut text = Text::default();
    walk(at, input, |node| {
        match node {
            Node::Start { element, is_empty } => match element.local_name().as_ref() {
                "row" => {
                    row_number += 1;
                    next_column = 0;
                    row.clear();
                }
                "c" => {
                    let found = begin_cell(at, element, next_column)?;
                    next_column = found.column + 1;
                    cell = (!is_empty).then_some(found);
                    text.take();
                }
                name => text.start(name, is_empty),
            },
            Node::Text(piece) if cell.is_some() => text.add(piece),
            Node::Text(_) => {}
            Node::End("c") => {
                let Some(Cell { column, kind }) = cell.take() else { return Ok(()) };
                let fail = |expected: String, found: String| {
                    let place = format!("{}: row {row_number}, column {}", at.place, column + 1);
                    At { path: at.path, place: &place }.malformed(expected, found)
                };
                let value =
                    resolve(&kind, text.take(), shared).map_err(|(expected, found)| fail(expected, found))?;
                if value.is_empty() {
                    return Ok(());
                }
                if row.len() > column {
                    return Err(fail(
                        "cells from left to right".into(),
                        "a cell left of the previous one".into(),
                    ));
                }
                while row.len() < column {
                    builder.count(at, "")?;
                    row.push(String::new());
                }
                builder.count(at, &value)?;
                row.push(value);
            }
            Node::End("row") => {
                let place = format!("{}: row {row_number}", at.place);
                let at = At { path: at.path, place: &place };
                // Empty cells at the end of a row are not in the file.
                while !row.is_empty() && builder.width().is_some_and(|width| row.len() < width) {
                    builder.count(at, "")?;
                    row.push(String::new());
                }
                builder.row(at, std::mem::take(&mut row))?;
            }
            Node::End(name) => text.end(name),
        }
        Ok(())
    })
}

fn begin_cell(at: At<'_>, element: &BytesStart<'_>, next_column: usize) -> Result<Cell, SheetError> {
    let column = match attribute(at, element, "r")? {
        None => next_column,
        Some(reference) => column_of(&reference)
            .ok_or_else(|| at.malformed("a cell such as 'B7', up to column XFD", shown(&reference)))?,
    };
    at.within("columns", MAX_COLUMNS as u64, column as u64 + 1)?;
    Ok(Cell { column, kind: attribute(at, element, "t")?.unwrap_or_default() })
}

/// The column in a reference such as `AB12`, counted from 0.
fn column_of(reference: &str) -> Option<usize> {
    let letters = reference.bytes().take_while(u8::is_ascii_uppercase);
    let mut column = 0_usize;
    for letter in letters {
        column = column * 26 + usize::from(letter - b'A') + 1;
        if column > MAX_COLUMNS {
            return None;
        }
    }
    column.checked_sub(1)
}

/// The text of a cell of this kind; or what was expected and found.
fn resolve(kind: &str, text: String, shared: &[String]) -> Result<String, (String, String)> {
    let value = match kind {
        "s" => text.trim().parse().ok().and_then(|index: usize| shared.get(index)).cloned(),
        "b" => match text.trim() {
            "" => Some(String::new()),
            "0" => Some(flag(false).into()),
            "1" => Some(flag(true).into()),
            _ => None,
        },
        "" | "n" => number(&text),
        // Inline texts, results of formulas, dates in ISO 8601 and the names of errors.
        _ => return Ok(text),
    };
    value.ok_or_else(|| {
        let expected = match kind {
            "s" => format!("the number of one of {} shared texts", shared.len()),
            "b" => "0 or 1".into(),
            _ => "a number".into(),
        };
        (expected, shown(&text))
    })
}

/// A number as Python prints it: an integer if the file has one with few enough digits, otherwise a float.
fn number(text: &str) -> Option<String> {
    let text = text.trim();
    if text.len() > MAX_NUMBER {
        return None;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    // Only a float can be a negative zero.
    let is_integer = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) && text != "-0";
    if text.is_empty() || (is_integer && digits.len() <= MAX_EXACT_DIGITS) {
        return Some(text.to_owned());
    }
    text.parse().ok().map(python_float_repr)
}

/// Decodes Excel's escapes, such as `_x000D_`, for characters that XML cannot contain.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("_x") {
        let escaped = rest.get(start + 2..start + 7).and_then(|code| {
            let digits = code.strip_suffix('_')?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)
        });
        out.push_str(&rest[..start]);
        match escaped {
            Some(character) => {
                out.push(character);
                rest = &rest[start + 7..];
            }
            None => {
                out.push_str("_x");
                rest = &rest[start + 2..];
            }
        }
    }
    out.push_str(rest);
    out
}
