//! Rows of cells under named columns.

use crate::cell::{Cell, Record};

/// A table to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The title; empty for none.
    pub title: String,
    /// The columns. A table whose names are all empty is shown without a header.
    pub columns: Vec<Column>,
    /// The rows; each has one cell per column.
    pub rows: Vec<Row>,
}

/// A column's heading.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Heading, and key of the values in JSON.
    pub name: String,
    /// The alignment of the values.
    pub align: Align,
}

/// The alignment of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A row and its emphasis.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One cell per column.
    pub cells: Vec<Cell>,
    /// The colour, if colour is used. The cells say the same in words.
    pub emphasis: Emphasis,
}

/// Why a row is important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// Nothing.
    #[default]
    Plain,
    /// All is well.
    Good,
    /// Worth a look.
    Warn,
    /// Something is wrong.
    Bad,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[(&str, Align)]) -> Table {
        let columns = columns.iter().map(|&(name, align)| Column { name: name.to_owned(), align }).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// A record as two columns without headings: name, value.
    pub fn of_record(title: impl Into<String>, record: &Record) -> Table {
        let mut table = Table::new(title, &[("", Align::Left), ("", Align::Left)]);
        for (name, cell) in record.flatten() {
            table.push(vec![Cell::Text(name), cell.clone()], Emphasis::Plain);
        }
        table
    }

    /// Adds a row.
    pub fn push(&mut self, cells: Vec<Cell>, emphasis: Emphasis) {
        self.rows.push(Row { cells, emphasis });
    }

    /// Whether any column has a heading.
    pub(crate) fn has_header(&self) -> bool {
        self.columns.iter().any(|column| !column.name.is_empty())
    }
}
