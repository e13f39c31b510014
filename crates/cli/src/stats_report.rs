//! The output of `stats`, block by block: memory does not grow with the number of files or tensors.
//!
//! ```text
//! tensor, tensor, summary, … ──► JSON: one object, written as they come; summaries wait for the end of the tensors
//!                            └─► tables: one for each BLOCK of tensors, each with its headings
//! ```

use std::path::Path;

use serde_json::json;
use ulpscope_report::{Align, Cell, Emphasis, Record, Table, escape};

use crate::output::Output;
use crate::source::label;
use crate::spool::Spool;

/// Tensors, and files without any, per table: a whole table is in memory to find its column widths.
const BLOCK: usize = 4096;

/// The fields of a row if there are several tensors; JSON, and the view of a single tensor, have all.
const COLUMNS: [&str; 11] =
    ["shape", "dtype", "max", "min", "mean", "norm", "nan", "pos_inf", "neg_inf", "zeros", "subnormals"];

/// Where results go.
pub(crate) enum StatsReport {
    Json { tensors: u64, summaries: Spool, waiting: u64 },
    Tables(Tables),
}

/// Rows of the next table.
pub(crate) struct Tables {
    /// Fields shown in addition to the usual ones.
    more_columns: Vec<&'static str>,
    rows: Vec<(String, Record)>,
    /// Files without tensors, and their summaries.
    others: Vec<(String, Option<Record>)>,
    /// Tensors and files that were shown.
    shown: usize,
}

impl StatsReport {
    /// A report as one JSON object, written as it is made.
    pub(crate) fn json(output: &mut Output) -> anyhow::Result<StatsReport> {
        output.piece("{\"tensors\": [")?;
        Ok(StatsReport::Json { tensors: 0, summaries: Spool::default(), waiting: 0 })
    }

    /// A report as tables, with these fields in addition to the usual ones.
    pub(crate) fn tables(more_columns: Vec<&'static str>) -> StatsReport {
        StatsReport::Tables(Tables { more_columns, rows: Vec::new(), others: Vec::new(), shown: 0 })
    }

    /// One tensor of a file.
    pub(crate) fn tensor(
        &mut self,
        path: &Path,
        name: String,
        record: Record,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        match self {
            StatsReport::Json { tensors, .. } => {
                let mut fields = vec![("file", file_cell(path)), ("name", Cell::text(name))];
                fields.extend(record.fields);
                let comma = if *tensors == 0 { "" } else { "," };
                output.piece(&format!("{comma}\n{}", Record::new(fields).to_json()))?;
                *tensors += 1;
            }
            StatsReport::Tables(tables) => {
                tables.rows.push((label(path, &name), record));
                tables.flush_if_full(output)?;
            }
        }
        Ok(())
    }

    /// A file with records and its summary, or an empty file.
    pub(crate) fn without_tensors(
        &mut self,
        path: &Path,
        summary: Option<Record>,
        output: &mut Output,
    ) -> anyhow::Result<()> {
        match self {
            StatsReport::Json { summaries, waiting, .. } => {
                let Some(summary) = summary else { return Ok(()) };
                let mut fields = vec![("file", file_cell(path))];
                fields.extend(summary.fields);
                let comma = if *waiting == 0 { "" } else { "," };
                // Escaped here: the spool is read in pieces that may end within a character.
                let text = format!("{comma}\n{}", Record::new(fields).to_json());
                summaries.push(&escape::json(&text))?;
                *waiting += 1;
            }
            StatsReport::Tables(tables) => {
                tables.others.push((path.display().to_string(), summary));
                tables.flush_if_full(output)?;
            }
        }
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(
        self,
        notes: &[String],
        errors: &[String],
        output: &mut Output,
    ) -> anyhow::Result<()> {
        match self {
            StatsReport::Json { summaries, .. } => {
                output.piece("\n], \"records\": [")?;
                summaries.drain(|piece| output.escaped_bytes(piece))?;
                let (notes, errors) = (json!(notes), json!(errors));
                output.piece(&format!("\n], \"notes\": {notes}, \"errors\": {errors}}}\n"))?;
            }
            StatsReport::Tables(mut tables) => tables.flush(output)?,
        }
        Ok(())
    }
}

fn file_cell(path: &Path) -> Cell {
    Cell::text(path.display().to_string())
}

impl Tables {
    fn flush_if_full(&mut self, output: &mut Output) -> anyhow::Result<()> {
        if self.rows.len() + self.others.len() < BLOCK { Ok(()) } else { self.flush(output) }
    }

    fn flush(&mut self, output: &mut Output) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        match rows.as_slice() {
            [] => {}
            [(name, record)] if self.shown == 0 => {
                output.table(&Table::of_record(name.as_str(), record))?;
            }
            rows => output.table(&self.overview(rows))?,
        }
        self.shown += rows.len();
        for (name, summary) in std::mem::take(&mut self.others) {
            match summary {
                Some(summary) => {
                    if self.shown > 0 {
                        output.line("")?;
                    }
                    output.table(&Table::of_record(name, &summary))?;
                }
                None => output.line(&format!("{name}: holds no tensors"))?,
            }
            self.shown += 1;
        }
        Ok(())
    }

    fn overview(&self, rows: &[(String, Record)]) -> Table {
        let mut fields = COLUMNS.to_vec();
        fields.extend(&self.more_columns);
        let mut columns = vec![("name", Align::Left)];
        columns.extend(fields.iter().map(|&field| {
            (field, if matches!(field, "shape" | "dtype" | "first") { Align::Left } else { Align::Right })
        }));
        let mut table = Table::new("", &columns);
        for (name, record) in rows {
            let bad = ["nan", "pos_inf", "neg_inf"]
                .iter()
                .any(|field| record.get(field).is_some_and(|cell| *cell != Cell::Int(0)));
            let mut cells = vec![Cell::text(name)];
            cells.extend(fields.iter().map(|field| record.get(field).cloned().unwrap_or(Cell::Missing)));
            table.push(cells, if bad { Emphasis::Bad } else { Emphasis::Plain });
        }
        table
    }
}
