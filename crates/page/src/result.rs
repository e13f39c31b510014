//! The rows of a comparison: from the sheets beside a `result.json`, or from memory.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use ulpscope_formats::{Access, Bytes};
use ulpscope_report::page::ColumnValue;
use ulpscope_report::{Cell, Row, sheet};
use ulpscope_session::{bounded_json, quoted};

use crate::error::PageError;

/// The common prefix of all schema versions of results.
const SCHEMA: &str = "ulpscope.compare/";

/// Receives the headings and a row.
pub(crate) type RowReceiver<'a> = dyn FnMut(&[String], &[ColumnValue<'_>]) + 'a;

/// A result: its document, and the rows of each pair of ranks.
pub trait ResultRows {
    /// The document of `result.json`.
    fn document(&self) -> &Json;

    /// Passes on the rows of a pair of ranks, by its number in the document. Returns a note if these are not all rows.
    fn each_row(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Result<Option<String>, PageError>;

    /// The command that shows all details, if there is one.
    fn view_command(&self) -> Option<String> {
        None
    }
}

/// A `result.json` and the sheets beside it.
#[derive(Debug)]
pub struct ResultFolder {
    path: PathBuf,
    document: Json,
}

impl ResultFolder {
    /// Reads a `result.json`.
    pub fn open(path: &Path) -> Result<ResultFolder, PageError> {
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        let expected = "the JSON document that ulpscope compare writes";
        let document = bounded_json::read(&bytes, expected).map_err(|error| error.in_file(path))?;
        match document["schema"].as_str() {
            Some(schema) if schema.starts_with(SCHEMA) => {
                Ok(ResultFolder { path: path.to_owned(), document })
            }
            found => Err(PageError::Result {
                path: path.to_owned(),
                expected: format!(
                    "expected a document of the schema {SCHEMA}1, which `ulpscope compare TARGET GOLDEN -o DIR` writes"
                ),
                found: found.map_or_else(|| "no schema".to_owned(), |found| format!("{found:?}")),
            }),
        }
    }

    /// The sheet of a pair of ranks, if it is beside the document. The document may have been moved with its folder, and
    /// names of others lead nowhere else.
    fn sheet(&self, rank: usize) -> Option<PathBuf> {
        let files = self.document["ranks"][rank]["files"].as_array()?;
        let folder = self.path.parent()?;
        let names = files.iter().filter_map(|file| Path::new(file.as_str()?).file_name());
        names.map(|name| folder.join(name)).find(|path| {
            ulpscope_report::SheetFormat::of_extension(path).is_some()
                && path.symlink_metadata().is_ok_and(|kind| kind.is_file())
        })
    }
}

impl ResultRows for ResultFolder {
    fn document(&self) -> &Json {
        &self.document
    }

    fn each_row(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Result<Option<String>, PageError> {
        let is_native = self.document["style"] == "native";
        let Some(path) = self.sheet(rank) else { return Ok(self.kept_rows(rank, receive)) };
        sheet::each_row(&path, &mut |columns, row| {
            let texts = columns.iter().zip(row.iter());
            let values: Vec<ColumnValue<'_>> =
                texts.map(|(column, text)| value_of_text(column, text, is_native)).collect();
            receive(columns, &values);
        })?;
        Ok(None)
    }

    fn view_command(&self) -> Option<String> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Some(format!("ulpscope view {} --dumps", quoted(folder.unwrap_or(Path::new(".")))))
    }
}

impl ResultFolder {
    /// The differing rows in the document itself, where there is no sheet.
    fn kept_rows(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Option<String> {
        let of_rank = &self.document["ranks"][rank];
        let all = of_rank["rows"].as_u64().unwrap_or(0);
        let rows = of_rank["rows_to_look_at"].as_array()?;
        for row in rows.iter().filter_map(Json::as_object) {
            let columns: Vec<String> = row.keys().cloned().collect();
            let values: Vec<ColumnValue<'_>> = row.values().map(value_of_json).collect();
            receive(&columns, &values);
        }
        (all > rows.len() as u64).then(|| {
            format!(
                "the sheet with all {all} rows is not beside {}: the page shows {} that differ",
                self.path.display(),
                rows.len()
            )
        })
    }
}

fn value_of_json(value: &Json) -> ColumnValue<'_> {
    match value {
        Json::String(text) if text == "NaN" => ColumnValue::Number(f64::NAN),
        Json::String(text) if text == "Infinity" => ColumnValue::Number(f64::INFINITY),
        Json::String(text) if text == "-Infinity" => ColumnValue::Number(f64::NEG_INFINITY),
        Json::String(text) => ColumnValue::Text(text),
        Json::Number(number) => number.as_f64().map_or(ColumnValue::Missing, ColumnValue::Number),
        Json::Bool(flag) => ColumnValue::Text(if *flag { "True" } else { "False" }),
        Json::Null | Json::Array(_) | Json::Object(_) => ColumnValue::Missing,
    }
}

/// Columns of the native style that hold text, whatever it looks like.
const TEXTS: [&str; 19] = [
    "call",
    "entry",
    "verdict",
    "why",
    "class",
    "basis",
    "how",
    "target_name",
    "golden_name",
    "target_dtype",
    "golden_dtype",
    "target_shape",
    "golden_shape",
    "target_digest",
    "golden_digest",
    "module",
    "code",
    "proof",
    "wrong_side",
];

/// Whether a column holds text.
pub(crate) fn is_text(column: &str) -> bool {
    TEXTS.contains(&column)
}

/// A cell of a sheet. In the native style the column says what it is. Elsewhere text is a number if the number prints as
/// the same text, so that no digit is lost.
fn value_of_text<'a>(column: &str, text: &'a str, is_native: bool) -> ColumnValue<'a> {
    if text.is_empty() {
        return ColumnValue::Missing;
    }
    if is_text(column) {
        return ColumnValue::Text(text);
    }
    match text.parse::<f64>() {
        Ok(number) if is_native || prints_as(number, text) => ColumnValue::Number(number),
        _ => ColumnValue::Text(text),
    }
}

fn prints_as(number: f64, text: &str) -> bool {
    ulpscope_tensor::python_float_repr(number) == text || number.to_string() == text
}

/// Rows in memory.
#[derive(Debug)]
pub struct MemoryRows<'a> {
    /// The document of `result.json`.
    pub document: &'a Json,
    /// For each pair of ranks that was compared: its number, its headings and its rows.
    pub sheets: Vec<(usize, &'a [String], &'a [Row])>,
}

impl ResultRows for MemoryRows<'_> {
    fn document(&self) -> &Json {
        self.document
    }

    fn each_row(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Result<Option<String>, PageError> {
        let Some((_, columns, rows)) = self.sheets.iter().find(|(number, ..)| *number == rank) else {
            return Ok(None);
        };
        for row in *rows {
            let texts: Vec<String> = row.cells.iter().map(text_of_cell).collect();
            let cells = row.cells.iter().zip(&texts);
            let values: Vec<ColumnValue<'_>> = cells.map(|(cell, text)| value_of_cell(cell, text)).collect();
            receive(columns, &values);
        }
        Ok(None)
    }
}

/// The text of a cell that is no number.
fn text_of_cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(_) | Cell::Complex(..) | Cell::List(_) | Cell::Index { .. } | Cell::Record(_) => {
            cell.to_string()
        }
        Cell::Flag(flag) => if *flag { "True" } else { "False" }.to_owned(),
        _ => String::new(),
    }
}

fn value_of_cell<'a>(cell: &Cell, text: &'a str) -> ColumnValue<'a> {
    match cell {
        Cell::Missing => ColumnValue::Missing,
        Cell::Int(value) => ColumnValue::Number(*value as f64),
        Cell::Number(value) | Cell::Exact(value) | Cell::Share(value) => ColumnValue::Number(*value),
        Cell::ExactSingle(value) => ColumnValue::Number(f64::from(*value)),
        _ if text.is_empty() => ColumnValue::Missing,
        _ => ColumnValue::Text(text),
    }
}
