//! `ulpscope merge`: chosen rows and metrics of several results, one column per rank.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use ulpscope_formats::file::Unfinished;
use ulpscope_formats::natural;
use ulpscope_report::csv::CsvWriter;
use ulpscope_report::sheet::{self, Sheet};
use ulpscope_report::xlsx::XlsxWriter;
use ulpscope_report::{Align, Cell, Emphasis, Table};

use crate::args::MergeArgs;
use crate::exit::Exit;

use crate::output::Output;

/// Columns that name a row, the best first: ours, the older tools'.
const NAME_COLUMNS: [&str; 3] = ["target_name", "NPU Name", "call"];

/// What is shown when no metric is asked for: those of them that the results have.
const USUAL_METRICS: [&str; 8] =
    ["verdict", "rel_l2", "max_abs", "Cosine", "MaxAbsErr", "Max diff", "L2norm diff", "Result"];

/// Where an older tool has no value, these two say more than that.
const EXTREMA: [&str; 2] = ["NPU max", "Bench max"];

/// How the names of results begin.
const RESULT: &str = "compare_result";

/// What `merge` has been asked for.
pub(crate) struct Merge {
    results: Vec<PathBuf>,
    filters: Vec<String>,
    metrics: Vec<String>,
    output: Option<PathBuf>,
    json: bool,
}

impl From<MergeArgs> for Merge {
    fn from(args: MergeArgs) -> Merge {
        Merge {
            results: args.results,
            filters: args.filter,
            metrics: args.metric,
            output: args.output,
            json: args.json,
        }
    }
}

/// One result: its rank, and its rows by name.
struct RankSheet {
    rank: String,
    sheet: Sheet,
    name: usize,
}

impl Merge {
    pub(crate) fn run(self, output: &mut Output) -> anyhow::Result<Exit> {
        let files = self.files()?;
        let mut sheets = Vec::new();
        let mut errors = Vec::new();
        for file in files {
            match read(&file) {
                Ok(sheet) => sheets.push(sheet),
                Err(error) => errors.push(format!("{error:#}")),
            }
        }
        if sheets.is_empty() {
            output.notes_and_errors(&[], &errors);
            bail!("none of the results can be read");
        }
        sheets.sort_by(|one, other| natural::compare(one.rank.as_bytes(), other.rank.as_bytes()));
        let metrics = self.metrics(&sheets)?;
        let table = self.merge(&sheets, &metrics);
        if table.rows.is_empty() {
            errors.push(format!("no row's name contains any of {:?}", self.filters));
        }
        match &self.output {
            Some(path) => {
                write(path, &table).with_context(|| format!("cannot write {}", path.display()))?;
                output.line(&format!("wrote {} ({} rows)", path.display(), table.rows.len()))?;
            }
            None if self.json => output.json(&to_json(&table))?,
            None => output.table(&table)?,
        }
        output.notes_and_errors(&[], &errors);
        Ok(if errors.is_empty() { Exit::Done } else { Exit::Failed })
    }

    /// The files named, and the results in the folders named.
    fn files(&self) -> anyhow::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for result in &self.results {
            if !result.is_dir() {
                files.push(result.clone());
                continue;
            }
            let entries = fs::read_dir(result).with_context(|| result.display().to_string())?;
            let before = files.len();
            for entry in entries {
                let path = entry.with_context(|| result.display().to_string())?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let sheet = path.extension().is_some_and(|suffix| suffix == "csv" || suffix == "xlsx");
                if name.starts_with(RESULT) && sheet {
                    files.push(path);
                }
            }
            if files.len() == before {
                bail!("{}: expected {RESULT}*.csv or .xlsx in the folder, found none", result.display());
            }
        }
        files.sort_by(|one, other| {
            natural::compare(one.as_os_str().as_encoded_bytes(), other.as_os_str().as_encoded_bytes())
        });
        Ok(files)
    }

    /// The metrics asked for, each of which some result must have; or the usual ones.
    fn metrics(&self, sheets: &[RankSheet]) -> anyhow::Result<Vec<String>> {
        let has = |metric: &str| sheets.iter().any(|sheet| sheet.column(metric).is_some());
        if self.metrics.is_empty() {
            return Ok(USUAL_METRICS.into_iter().filter(|metric| has(metric)).map(str::to_owned).collect());
        }
        if let Some(unknown) = self.metrics.iter().find(|metric| !has(metric)) {
            let columns = sheets.first().map(|sheet| sheet.sheet.columns.join(", ")).unwrap_or_default();
            bail!("no result has a column {unknown:?}; there are: {columns}");
        }
        Ok(self.metrics.clone())
    }

    fn merge(&self, sheets: &[RankSheet], metrics: &[String]) -> Table {
        let mut columns = vec![("name", Align::Left), ("metric", Align::Left)];
        columns.extend(sheets.iter().map(|sheet| (sheet.rank.as_str(), Align::Right)));
        let mut table = Table::new("", &columns);
        let mut order: Vec<&str> = Vec::new();
        let mut rows: HashMap<&str, Vec<Option<usize>>> = HashMap::new();
        for (number, sheet) in sheets.iter().enumerate() {
            for (row, cells) in sheet.sheet.rows.iter().enumerate() {
                let name = cells[sheet.name].as_str();
                if !self.filters.is_empty() && !self.filters.iter().any(|filter| name.contains(filter)) {
                    continue;
                }
                let of_rank = rows.entry(name).or_insert_with(|| {
                    order.push(name);
                    vec![None; sheets.len()]
                });
                of_rank[number].get_or_insert(row);
            }
        }
        for name in order {
            for metric in metrics {
                let mut cells = vec![Cell::text(name), Cell::text(metric.as_str())];
                let values = sheets.iter().zip(&rows[name]);
                cells.extend(
                    values.map(|(sheet, row)| row.map_or(Cell::Missing, |row| sheet.value(row, metric))),
                );
                table.push(cells, Emphasis::Plain);
            }
        }
        table
    }
}

impl RankSheet {
    fn column(&self, name: &str) -> Option<usize> {
        self.sheet.columns.iter().position(|column| column == name)
    }

    /// A cell, as a number where it is one. Where the tool had no value, the two maxima stand for it, as in msprobe's
    /// own merged sheets.
    fn value(&self, row: usize, metric: &str) -> Cell {
        let cells = &self.sheet.rows[row];
        let Some(text) = self.column(metric).map(|column| cells[column].as_str()) else {
            return Cell::Missing;
        };
        if text == "N/A"
            && let [Some(npu), Some(bench)] = EXTREMA.map(|name| self.column(name))
        {
            return Cell::Text(format!("NPU:{}  Bench:{}", cells[npu], cells[bench]));
        }
        match text.parse() {
            _ if text.is_empty() => Cell::Missing,
            Ok(number) => Cell::Exact(number),
            Err(_) => Cell::text(text),
        }
    }
}

fn read(path: &Path) -> anyhow::Result<RankSheet> {
    let sheet = sheet::read(path)?;
    let name = NAME_COLUMNS.iter().find_map(|name| sheet.columns.iter().position(|column| column == name));
    let Some(name) = name else {
        let expected = NAME_COLUMNS.join(", ");
        bail!("{}: expected a column named one of {expected}, found none", path.display());
    };
    Ok(RankSheet { rank: rank_of(path), sheet, name })
}

/// What a file's name says of its rank: `compare_result_step0_rank1-rank1_20261115093059.csv` → `step0_rank1-rank1`.
fn rank_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let middle = stem.strip_prefix(RESULT).unwrap_or(&stem).trim_start_matches('_');
    let middle = middle.rsplit_once('_').map_or("", |(middle, _)| middle);
    match middle.split_once('-') {
        Some((one, other)) if one == other => one.to_owned(),
        _ if middle.is_empty() => stem.into_owned(),
        _ => middle.to_owned(),
    }
}

fn write(path: &Path, table: &Table) -> anyhow::Result<()> {
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let unfinished = match path.extension().and_then(|suffix| suffix.to_str()) {
        Some("csv") => {
            let unfinished = Unfinished::create(path)?;
            let mut writer = CsvWriter::new(unfinished.file(), &columns)?;
            table.rows.iter().try_for_each(|row| writer.row(row))?;
            writer.finish()?;
            unfinished
        }
        Some("xlsx") => {
            let unfinished = Unfinished::create(path)?;
            let mut writer = XlsxWriter::new(unfinished.file(), &columns)?;
            table.rows.iter().try_for_each(|row| writer.row(row))?;
            writer.finish()?;
            unfinished
        }
        _ => bail!("expected a name that ends in .csv or .xlsx"),
    };
    Ok(unfinished.finish()?)
}

/// A list of rows, each by name, metric and rank.
fn to_json(table: &Table) -> Value {
    let row = |cells: &[Cell]| {
        let fields = table.columns.iter().zip(cells);
        fields.map(|(column, cell)| (column.name.clone(), cell.to_json())).collect::<Map<_, _>>()
    };
    json!({ "rows": table.rows.iter().map(|each| row(&each.cells)).collect::<Vec<_>>() })
}
