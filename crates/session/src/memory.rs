//! Rows kept in memory, for programs.

use std::io;

use ulpscope_compare::{Outputs, RankPair, Row, Sink};

/// Keeps the rows of every pair of ranks.
#[derive(Debug, Default)]
pub struct MemoryOutputs;

/// The rows of one pair.
#[derive(Debug, Default)]
pub struct MemorySink {
    /// The headings.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Outputs for MemoryOutputs {
    type Sink = MemorySink;

    fn open(&self, _pair: &RankPair<'_>) -> io::Result<MemorySink> {
        Ok(MemorySink::default())
    }
}

impl Sink for MemorySink {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, row: Row) -> io::Result<()> {
        self.rows.push(row);
        Ok(())
    }
}
