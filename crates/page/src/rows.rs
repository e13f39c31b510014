//! Rows as columns in chunks, written while they are read.

use std::io;

use ulpscope_report::page::{ColumnBuilder, ColumnValue};

use crate::parts::Parts;
use crate::result::RowValues;

/// Rows in a chunk: a few hundred kilobytes for a column of numbers.
pub(crate) const CHUNK_ROWS: usize = 1 << 15;

/// The columns of all ranks together. Those of older tools depend on what a rank recorded.
#[derive(Debug, Default)]
pub(crate) struct ColumnNames {
    pub(crate) names: Vec<String>,
    /// Whether most values are numbers.
    pub(crate) numbers: Vec<bool>,
}

impl ColumnNames {
    pub(crate) fn number(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.numbers.push(false);
            self.names.len() - 1
        })
    }
}

/// Rows whose values say which columns hold numbers, where not all rows are looked at: the first, and some of all.
const SAMPLED: u64 = 4096;
const SAMPLE_STEP: u64 = 64;

impl ColumnNames {
    /// Looks at a row of a rank whose rows are not stored.
    pub(crate) fn sample(&mut self, row: u64, headings: &[String], values: &dyn RowValues) {
        if row >= SAMPLED && !row.is_multiple_of(SAMPLE_STEP) {
            return;
        }
        for (at, name) in headings.iter().enumerate() {
            let column = self.number(name);
            self.numbers[column] |= matches!(values.value(at), ColumnValue::Number(_));
        }
    }
}

/// Collects the rows of a rank.
pub(crate) struct RowChunks<'a> {
    rank: usize,
    columns: &'a mut ColumnNames,
    parts: &'a mut Parts,
    /// The headings of the last row, and their numbers.
    headings: (Vec<String>, Vec<usize>),
    builders: Vec<ColumnBuilder>,
    /// Rows in the current chunk.
    filled: usize,
    pub(crate) rows: u64,
    failed: io::Result<()>,
}

impl<'a> RowChunks<'a> {
    pub(crate) fn of(rank: usize, columns: &'a mut ColumnNames, parts: &'a mut Parts) -> RowChunks<'a> {
        let headings = (Vec::new(), Vec::new());
        RowChunks { rank, columns, parts, headings, builders: Vec::new(), filled: 0, rows: 0, failed: Ok(()) }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, headings: &[String], values: &dyn RowValues) {
        if self.failed.is_err() {
            return;
        }
        if self.headings.0 != headings {
            let numbers = headings.iter().map(|name| self.columns.number(name)).collect();
            self.headings = (headings.to_vec(), numbers);
        }
        self.builders.resize_with(self.columns.names.len(), ColumnBuilder::default);
        for (at, &column) in self.headings.1.iter().enumerate() {
            let value = values.value(at);
            let builder = &mut self.builders[column];
            // A column that this row is the first to have.
            while builder.len() < self.filled {
                builder.push(ColumnValue::Missing);
            }
            self.columns.numbers[column] |= matches!(value, ColumnValue::Number(_));
            builder.push(value);
        }
        self.filled += 1;
        self.rows += 1;
        for builder in self.builders.iter_mut().filter(|builder| builder.len() < self.filled) {
            while builder.len() < self.filled {
                builder.push(ColumnValue::Missing);
            }
        }
        if self.filled == CHUNK_ROWS {
            self.failed = self.write_chunk();
        }
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let chunk = (self.rows - 1) as usize / CHUNK_ROWS;
        let rank = self.rank;
        self.parts.add_columns(&mut self.builders, |column| format!("rows/{rank}/{column}/{chunk}"))?;
        self.filled = 0;
        Ok(())
    }

    /// Writes what is left, and returns how many rows there were.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        if self.filled > 0 {
            self.write_chunk()?;
        }
        Ok(self.rows)
    }
}
