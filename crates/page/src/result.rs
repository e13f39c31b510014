//! The rows of a comparison: from the sheets beside a `result.json`, or from memory.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use ulpscope_compare::Answer;
use ulpscope_dump::Select;
use ulpscope_formats::{Access, Bytes};
use ulpscope_report::page::ColumnValue;
use ulpscope_report::sheet::{IndexedRow, SheetIndex, SheetRow};
use ulpscope_report::{Cell, Row, SheetFormat, format_count, sheet};
use ulpscope_session::{bounded_json, quoted};

use crate::error::PageError;
use crate::rows::CHUNK_ROWS;
use crate::selection;

/// The common prefix of all schema versions of results.
const SCHEMA: &str = "ulpscope.compare/";

/// The verdicts of a result.
const ANSWERS: [Answer; 3] = [Answer::Agree, Answer::Differ, Answer::Inconclusive];

/// The values of a row, each made when somebody asks for it: most columns of most rows are never looked at.
pub trait RowValues {
    /// The value of a column.
    fn value(&self, column: usize) -> ColumnValue<'_>;
}

impl RowValues for &[ColumnValue<'_>] {
    fn value(&self, column: usize) -> ColumnValue<'_> {
        self.get(column).copied().unwrap_or(ColumnValue::Missing)
    }
}

/// Receives the headings and a row.
pub(crate) type RowReceiver<'a> = dyn FnMut(&[String], &dyn RowValues) + 'a;

/// A result: its document, and the rows of each pair of ranks.
pub trait ResultRows {
    /// The document of `result.json`.
    fn document(&self) -> &Json;

    /// Passes on the rows of a pair of ranks, by its number in the document. Returns a note if these are not all rows.
    fn each_row(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Result<Option<String>, PageError>;

    /// Likewise, and returns the sheet, if its rows can be read again from the middle.
    fn each_row_indexed(
        &self,
        rank: usize,
        receive: &mut RowReceiver<'_>,
    ) -> Result<(Option<IndexedSheet>, Option<String>), PageError> {
        Ok((None, self.each_row(rank, receive)?))
    }

    /// Whether the rows of a pair of ranks can be read again from the middle.
    fn has_index(&self, _rank: usize) -> bool {
        false
    }

    /// What to know of the result itself.
    fn notes(&self) -> &[String] {
        &[]
    }

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
    notes: Vec<String>,
}

/// A sheet whose rows are read on request.
#[derive(Debug)]
pub struct IndexedSheet {
    index: SheetIndex,
    is_native: bool,
}

impl IndexedSheet {
    pub(crate) fn columns(&self) -> &[String] {
        self.index.columns()
    }

    /// Passes on the rows of a chunk.
    pub(crate) fn each_row_of(&self, chunk: usize, receive: &mut RowReceiver<'_>) -> Result<(), PageError> {
        let kinds = TextColumns::of(self.columns(), self.is_native);
        self.index.each_row_of(chunk, &mut |columns, row| {
            receive(columns, &SheetValues { row, kinds: &kinds });
        })?;
        Ok(())
    }
}

/// Which columns of a sheet hold text, whatever it looks like.
struct TextColumns {
    is_text: Vec<bool>,
    is_native: bool,
}

impl TextColumns {
    fn of(columns: &[String], is_native: bool) -> TextColumns {
        TextColumns { is_text: columns.iter().map(|column| is_text(column)).collect(), is_native }
    }
}

/// The texts of a row.
trait RowTexts {
    fn text(&self, column: usize) -> &str;
}

impl RowTexts for IndexedRow<'_> {
    fn text(&self, column: usize) -> &str {
        IndexedRow::text(self, column)
    }
}

impl RowTexts for SheetRow {
    fn text(&self, column: usize) -> &str {
        if column < self.len() { &self[column] } else { "" }
    }
}

/// A row of a sheet.
struct SheetValues<'a, R> {
    row: &'a R,
    kinds: &'a TextColumns,
}

impl<R: RowTexts> RowValues for SheetValues<'_, R> {
    fn value(&self, column: usize) -> ColumnValue<'_> {
        let is_text = self.kinds.is_text.get(column).copied().unwrap_or(true);
        value_of_text(is_text, self.row.text(column), self.kinds.is_native)
    }
}

impl ResultFolder {
    /// Reads a `result.json`.
    pub fn open(path: &Path) -> Result<ResultFolder, PageError> {
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        let expected = "the JSON document that ulpscope compare writes";
        let document = bounded_json::read(&bytes, expected).map_err(|error| error.in_file(path))?;
        let found = match document["schema"].as_str() {
            None => "no schema".to_owned(),
            Some(schema) if !schema.starts_with(SCHEMA) => format!("{schema:?}"),
            Some(_) if !document["ranks"].is_array() => "no list of ranks".to_owned(),
            Some(_) if !ANSWERS.iter().any(|answer| document["agreement"] == answer.word()) => {
                "no verdict".to_owned()
            }
            Some(_) => return Ok(ResultFolder { path: path.to_owned(), document, notes: Vec::new() }),
        };
        Err(PageError::Result {
            path: path.to_owned(),
            expected: format!(
                "expected a document of the schema {SCHEMA}1, which `ulpscope compare TARGET GOLDEN -o DIR` writes"
            ),
            found,
        })
    }

    /// Some steps and ranks of the result alone.
    pub fn select(mut self, select: &Select) -> Result<ResultFolder, PageError> {
        self.notes = selection::narrow(&self.path, &mut self.document, select)?;
        Ok(self)
    }

    /// The sheets that the result names for a pair of ranks. The document may have been moved with its folder, and names
    /// of others lead nowhere else. Sheets of other comparisons may be in that folder, too.
    fn sheets(&self, rank: usize) -> impl Iterator<Item = PathBuf> {
        let files = self.document["ranks"][rank]["files"].as_array().into_iter().flatten();
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let names = files.filter_map(|file| Path::new(file.as_str()?).file_name());
        names.map(|name| folder.join(name)).filter(|path| SheetFormat::of_extension(path).is_some())
    }

    /// The first of them that is there.
    fn sheet(&self, rank: usize) -> Option<PathBuf> {
        self.sheets(rank).find(|path| path.symlink_metadata().is_ok_and(|kind| kind.is_file()))
    }

    /// What to know if a sheet does not have the rows that the result counts.
    fn other_rows(&self, rank: usize, path: &Path, rows: u64) -> Option<String> {
        let expected = self.document["ranks"][rank]["rows"].as_u64()?;
        (expected != rows).then(|| {
            format!(
                "{} has {} rows, and the result counts {}: it was changed or cut off; compare again for all rows",
                path.display(),
                format_count(rows),
                format_count(expected)
            )
        })
    }
}

impl ResultRows for ResultFolder {
    fn document(&self) -> &Json {
        &self.document
    }

    fn each_row(&self, rank: usize, receive: &mut RowReceiver<'_>) -> Result<Option<String>, PageError> {
        Ok(self.each_row_indexed(rank, receive)?.1)
    }

    fn each_row_indexed(
        &self,
        rank: usize,
        receive: &mut RowReceiver<'_>,
    ) -> Result<(Option<IndexedSheet>, Option<String>), PageError> {
        let is_native = self.document["style"] == "native";
        let Some(path) = self.sheet(rank) else { return Ok((None, self.kept_rows(rank, receive))) };
        let mut kinds: Option<TextColumns> = None;
        if SheetFormat::of_extension(&path) == Some(SheetFormat::Csv) {
            let index = SheetIndex::of(&path, CHUNK_ROWS, &mut |columns, row| {
                let kinds = kinds.get_or_insert_with(|| TextColumns::of(columns, is_native));
                receive(columns, &SheetValues { row, kinds });
            })?;
            let note = self.other_rows(rank, &path, index.rows());
            return Ok((Some(IndexedSheet { index, is_native }), note));
        }
        let mut rows = 0;
        sheet::each_row(&path, &mut |columns, row| {
            let kinds = kinds.get_or_insert_with(|| TextColumns::of(columns, is_native));
            rows += 1;
            receive(columns, &SheetValues { row: &row, kinds });
        })?;
        Ok((None, self.other_rows(rank, &path, rows)))
    }

    fn has_index(&self, rank: usize) -> bool {
        self.sheet(rank).is_some_and(|path| SheetFormat::of_extension(&path) == Some(SheetFormat::Csv))
    }

    fn notes(&self) -> &[String] {
        &self.notes
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
            receive(&columns, &values.as_slice());
        }
        let name = |path: PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let missing = match self.sheets(rank).find_map(name) {
            Some(name) => format!("{name}, the sheet with all {} rows, is not beside", format_count(all)),
            None => format!("no sheet with all {} rows is named in", format_count(all)),
        };
        (all > rows.len() as u64).then(|| {
            format!(
                "{missing} {}: the page shows {} that differ; put the sheet back, or compare again with -o",
                self.path.display(),
                format_count(rows.len() as u64)
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
fn value_of_text(is_text: bool, text: &str, is_native: bool) -> ColumnValue<'_> {
    if text.is_empty() {
        return ColumnValue::Missing;
    }
    if is_text {
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
            receive(columns, &values.as_slice());
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
