//! A sink that keeps what a comparison writes, for tests to look at.

#![allow(dead_code)] // Each test file uses its own part.

use ulpscope_compare::{Row, Sink};

/// The results, kept.
#[derive(Debug, Default)]
pub struct Kept {
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

impl Sink for Kept {
    fn columns(&mut self, columns: &[String]) -> std::io::Result<()> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, row: Row) -> std::io::Result<()> {
        assert_eq!(row.cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(row);
        Ok(())
    }
}

impl Kept {
    /// The place of a column in each row.
    pub fn column(&self, name: &str) -> usize {
        self.columns.iter().position(|column| column == name).unwrap()
    }
}
