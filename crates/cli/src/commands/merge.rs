//! `ulpscope merge`: selected rows and metrics of several results, one column per rank.
//!
//! ```text
//! files and folders ──► files, each once ──► a label for each ──► sheets ──► rows paired by name ──► table
//! ```
//! No column and no row is lost: labels are made longer until all differ, and rows of the same name are paired in
//! order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use ulpscope_formats::file::Unfinished;
use ulpscope_report::sheet::{self, Sheet, SheetRow};
use ulpscope_report::{Align, Cell, Emphasis, Row, SheetFormat, Table};
use ulpscope_tensor::python_float_repr;

use crate::args::MergeArgs;
use crate::exit::Exit;
use crate::output::Output;
use crate::result_files;

/// Columns that name a row, ours and the older tools'; the first non-empty one counts. For a row that only the golden
/// has, the target's column is empty or `N/A`.
const NAME_COLUMNS: [&str; 4] = ["target_name", "golden_name", "NPU Name", "Bench Name"];

/// The name columns of rows for a call that only one side has, or that could not be read.
const CALL_COLUMNS: [&str; 2] = ["call", "entry"];

/// The older tools' text for a missing value.
const ABSENT: &str = "N/A";

/// Columns of the merged sheet before those of the ranks.
const NAME: &str = "name";
const METRIC: &str = "metric";

/// The default metrics, if the results have them.
const USUAL_METRICS: [&str; 8] =
    ["verdict", "rel_l2", "max_abs", "Cosine", "MaxAbsErr", "Max diff", "L2norm diff", "Result"];

/// Shown instead if an older tool has no value.
const EXTREMA: [&str; 2] = ["NPU max", "Bench max"];

/// The column that says what was compared.
const BASIS: &str = "basis";

/// The request of `merge`.
pub(crate) struct Merge {
    results: Vec<PathBuf>,
    filters: Vec<String>,
    metrics: Vec<String>,
    all: bool,
    output: Option<PathBuf>,
    json: bool,
}

impl From<MergeArgs> for Merge {
    fn from(args: MergeArgs) -> Merge {
        Merge {
            results: args.results,
            filters: args.filter,
            metrics: args.metric,
            all: args.all,
            output: args.output,
            json: args.json,
        }
    }
}

/// One result: the name of its column, and its rows.
struct RankSheet {
    label: String,
    sheet: Sheet,
}

impl Merge {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let mut notes = Vec::new();
        let files = result_files::named(&self.results, self.all, &mut notes)?;
        let mut sheets = Vec::new();
        let mut errors = Vec::new();
        for (label, file) in result_files::labels(&files, &[NAME, METRIC]).into_iter().zip(&files) {
            match read(file) {
                Ok(sheet) => sheets.push(RankSheet { label, sheet }),
                Err(error) => errors.push(format!("{error:#}")),
            }
        }
        if sheets.is_empty() {
            // Each error names its file, and the last ends the command.
            let last = errors.pop().unwrap_or_else(|| "there is no result to read".to_owned());
            output.notes_and_errors(&notes, &errors);
            bail!(last);
        }
        // A metric may be missing because its sheet is: report read errors first.
        let metrics = self.metrics(&sheets).inspect_err(|_| output.notes_and_errors(&notes, &errors))?;
        let merged = Merged { together: self.together(&sheets), sheets: &sheets, metrics: &metrics };
        if merged.is_empty() {
            notes.push(self.nothing(&sheets));
        } else {
            let empty = metrics.iter().filter(|metric| !has_values(&sheets, metric));
            let why = why_no_value(&sheets);
            notes.extend(empty.map(|metric| format!("no row has a value of {metric:?}{why}")));
        }
        match &self.output {
            // Keep an existing sheet instead of replacing it with an empty one.
            Some(_) if merged.is_empty() => {}
            Some(path) => {
                write(path, &merged).with_context(|| format!("cannot write {}", path.display()))?;
                output.line(&format!("wrote {} ({} rows)", path.display(), merged.len()))?;
            }
            None if self.json => merged.write_json(&notes, &errors, output)?,
            None => output.table(&merged.table())?,
        }
        output.notes_and_errors(&notes, &errors);
        let matched = if merged.is_empty() { Exit::NoMatch } else { Exit::Done };
        Ok(matched.max(Exit::of_reading(&errors)))
    }

    /// Why there is no row to show.
    fn nothing(&self, sheets: &[RankSheet]) -> String {
        let mut note = if sheets.iter().all(|sheet| sheet.sheet.rows.is_empty()) {
            "the results have no rows, only headings".to_owned()
        } else {
            let filters: Vec<String> = self.filters.iter().map(|filter| format!("{filter:?}")).collect();
            format!("no row's name contains {}", filters.join(" or "))
        };
        if let Some(path) = &self.output {
            note += &format!("; {} is not written", path.display());
        }
        note
    }

    /// The requested metrics, each of which some result must have; or the default ones that have values.
    fn metrics(&self, sheets: &[RankSheet]) -> anyhow::Result<Vec<String>> {
        let has = |metric: &str| sheets.iter().any(|sheet| sheet.column(metric).is_some());
        let columns = || sheets.first().map(|sheet| sheet.sheet.columns.join(", ")).unwrap_or_default();
        if self.metrics.is_empty() {
            let mut usual: Vec<&str> = USUAL_METRICS.into_iter().filter(|metric| has(metric)).collect();
            if usual.is_empty() {
                let expected = USUAL_METRICS.join(", ");
                bail!("no result has a column of {expected}; choose with --metric from: {}", columns());
            }
            if usual.iter().any(|metric| has_values(sheets, metric)) {
                usual.retain(|metric| has_values(sheets, metric));
            }
            return Ok(usual.into_iter().map(str::to_owned).collect());
        }
        if let Some(unknown) = self.metrics.iter().find(|metric| !has(metric)) {
            bail!("no result has a column {unknown:?}; there are: {}", columns());
        }
        let has_rows = sheets.iter().any(|sheet| !sheet.sheet.rows.is_empty());
        if has_rows && !self.metrics.iter().any(|metric| has_values(sheets, metric)) {
            let asked: Vec<String> = self.metrics.iter().map(|metric| format!("{metric:?}")).collect();
            bail!(
                "no row has a value of {}{}; columns that have values: {}",
                asked.join(" or "),
                why_no_value(sheets),
                columns_with_values(sheets).join(", ")
            );
        }
        Ok(self.metrics.clone())
    }

    /// The selected rows by name, with the row number in each sheet. The first row of a name is paired with the first
    /// in the other sheets, the second with the second.
    fn together<'a>(&self, sheets: &'a [RankSheet]) -> Together<'a> {
        let mut found: Together<'a> = Vec::new();
        let mut places: HashMap<Cow<'a, str>, Vec<usize>> = HashMap::new();
        for (number, sheet) in sheets.iter().enumerate() {
            let names = sheet.names();
            let mut met: HashMap<Cow<'a, str>, usize> = HashMap::new();
            for (row, cells) in sheet.sheet.rows.iter().enumerate() {
                let name = names.of(cells);
                if !self.filters.is_empty() && !self.filters.iter().any(|filter| name.contains(filter)) {
                    continue;
                }
                let occurrence = met.entry(name.clone()).or_default();
                let places = places.entry(name.clone()).or_default();
                if *occurrence == places.len() {
                    places.push(found.len());
                    found.push((name, vec![None; sheets.len()]));
                }
                found[places[*occurrence]].1[number] = Some(row);
                *occurrence += 1;
            }
        }
        found
    }
}

/// Rows of one name, with the row number in each sheet.
type Together<'a> = Vec<(Cow<'a, str>, Vec<Option<usize>>)>;

/// The merged sheet; its rows are created when they are written.
struct Merged<'a> {
    together: Together<'a>,
    sheets: &'a [RankSheet],
    metrics: &'a [String],
}

impl Merged<'_> {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.together.len() * self.metrics.len()
    }

    fn columns(&self) -> Vec<(&str, Align)> {
        let ranks = self.sheets.iter().map(|sheet| (sheet.label.as_str(), Align::Right));
        [(NAME, Align::Left), (METRIC, Align::Left)].into_iter().chain(ranks).collect()
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.together.iter().flat_map(move |(name, rows)| {
            self.metrics.iter().map(move |metric| {
                let mut cells = vec![Cell::text(name.as_ref()), Cell::text(metric.as_str())];
                let values = self.sheets.iter().zip(rows);
                cells.extend(
                    values.map(|(sheet, row)| row.map_or(Cell::Missing, |row| sheet.value(row, metric))),
                );
                Row { cells, emphasis: Emphasis::Plain }
            })
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new("", &self.columns());
        table.rows.extend(self.rows());
        table
    }

    /// A list of rows by name, metric and rank, with the notes and the read errors.
    fn write_json(&self, notes: &[String], errors: &[String], output: &mut Output) -> anyhow::Result<()> {
        let columns = self.columns();
        output.piece("{\"rows\": [")?;
        for (number, row) in self.rows().enumerate() {
            let fields = columns.iter().zip(&row.cells);
            let fields: Map<String, Value> =
                fields.map(|((name, _), cell)| ((*name).to_owned(), cell.to_json())).collect();
            let comma = if number == 0 { "" } else { "," };
            output.piece(&format!("{comma}\n{}", Value::Object(fields)))?;
        }
        let (notes, errors) = (json!(notes), json!(errors));
        Ok(output.piece(&format!("\n], \"notes\": {notes}, \"errors\": {errors}}}\n"))?)
    }
}

/// The columns with the names of a sheet's rows.
struct Names {
    names: Vec<usize>,
    call: Vec<usize>,
}

impl Names {
    fn of<'a>(&self, cells: &'a SheetRow) -> Cow<'a, str> {
        let says = |text: &&str| !text.is_empty() && *text != ABSENT;
        let mut names = self.names.iter().map(|&column| &cells[column]);
        if let Some(name) = names.find(says) {
            return Cow::Borrowed(name);
        }
        let parts: Vec<&str> = self.call.iter().map(|&column| &cells[column]).filter(says).collect();
        Cow::Owned(parts.join(" "))
    }
}

impl RankSheet {
    fn column(&self, name: &str) -> Option<usize> {
        self.sheet.columns.iter().position(|column| column == name)
    }

    fn names(&self) -> Names {
        let columns = |names: &[&str]| names.iter().filter_map(|name| self.column(name)).collect();
        Names { names: columns(&NAME_COLUMNS), call: columns(&CALL_COLUMNS) }
    }

    /// A cell, as a number if it is one. If the tool had no value, the two maxima are shown instead, as in msprobe's
    /// own merged sheets.
    fn value(&self, row: usize, metric: &str) -> Cell {
        let cells = &self.sheet.rows[row];
        let Some(text) = self.column(metric).map(|column| &cells[column]) else {
            return Cell::Missing;
        };
        if text == ABSENT
            && let [Some(npu), Some(bench)] = EXTREMA.map(|name| self.column(name))
        {
            return Cell::Text(format!("NPU:{}  Bench:{}", &cells[npu], &cells[bench]));
        }
        if text.is_empty() { Cell::Missing } else { number(text).unwrap_or_else(|| Cell::text(text)) }
    }
}

/// Whether any row of any sheet has a value of a metric.
fn has_values(sheets: &[RankSheet], metric: &str) -> bool {
    sheets.iter().any(|sheet| {
        let column = sheet.column(metric);
        column.is_some_and(|column| sheet.sheet.rows.iter().any(|row| !row[column].is_empty()))
    })
}

fn columns_with_values(sheets: &[RankSheet]) -> Vec<String> {
    let columns = sheets.first().map(|sheet| sheet.sheet.columns.as_slice()).unwrap_or_default();
    columns.iter().filter(|column| has_values(sheets, column)).cloned().collect()
}

/// Why a metric may have no value, if the sheets say what was compared.
fn why_no_value(sheets: &[RankSheet]) -> &'static str {
    let mut bases = sheets.iter().flat_map(|sheet| {
        let column = sheet.column(BASIS);
        sheet.sheet.rows.iter().filter_map(move |row| column.map(|column| &row[column]))
    });
    let mut by_statistics = false;
    let all_by_statistics = bases.all(|basis| {
        by_statistics |= basis == "statistics";
        matches!(basis, "statistics" | "value" | "")
    });
    if all_by_statistics && by_statistics {
        ": the dumps were compared by their statistics, which have no such metric"
    } else {
        ""
    }
}

/// The text as a number, if it is one: the digest `00000012` is not, and neither is `12e45678`.
fn number(text: &str) -> Option<Cell> {
    if let Ok(value) = text.parse::<i128>() {
        return (value.to_string() == text).then_some(Cell::Int(value));
    }
    let value: f64 = text.parse().ok()?;
    (python_float_repr(value) == text).then_some(Cell::Exact(value))
}

fn read(path: &Path) -> anyhow::Result<Sheet> {
    let sheet = sheet::read(path)?;
    let names = || NAME_COLUMNS.iter().chain(&CALL_COLUMNS[..1]);
    if !sheet.columns.iter().any(|column| names().any(|name| column == name)) {
        let expected: Vec<&str> = names().copied().collect();
        bail!("{}: expected a column named one of {}, found none", path.display(), expected.join(", "));
    }
    Ok(sheet)
}

fn write(path: &Path, merged: &Merged<'_>) -> anyhow::Result<()> {
    let columns: Vec<&str> = merged.columns().into_iter().map(|(name, _)| name).collect();
    let Some(format) = SheetFormat::of_extension(path) else {
        bail!("expected a name that ends in {}", SheetFormat::extensions());
    };
    let unfinished = Unfinished::create(path)?;
    let mut writer = format.open(unfinished.file(), &columns)?;
    merged.rows().try_for_each(|row| writer.row(&row))?;
    writer.finish()?;
    Ok(unfinished.finish()?)
}
