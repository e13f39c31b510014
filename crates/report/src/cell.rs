//! One value of a report, and records of named values.

use std::fmt;

use crate::escape;
use crate::number::{format_number, format_shortest, format_shortest_f32};

/// A value to show. Its column or field gives it a meaning.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is no such value (the mean of no elements, a ULP distance between dtypes).
    Missing,
    /// Text.
    Text(String),
    /// An integer, shown in full.
    Int(i128),
    /// A number, shown with up to six significant digits.
    Number(f64),
    /// An element, shown with as many digits as distinguish it from its neighbours.
    Exact(f64),
    /// An element of 32 bits or fewer, in the same way: 0.1 stays `0.1`.
    ExactSingle(f32),
    /// A share between 0 and 1, shown as a percentage.
    Share(f64),
    /// A complex element, shown like [`Cell::Exact`].
    Complex(f64, f64),
    /// A boolean.
    Flag(bool),
    /// Values in order: a shape, coordinates, the first elements of a tensor.
    List(Vec<Cell>),
    /// A position in a tensor: its coordinates for people, its row-major number for programs.
    Index {
        /// Row-major position.
        flat: u64,
        /// One number per dimension.
        coordinates: Vec<usize>,
    },
    /// Values with their own names.
    Record(Record),
}

/// Named values, in the order to show them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Name and value.
    pub fields: Vec<(&'static str, Cell)>,
}

impl Record {
    /// A record of these fields.
    pub fn new(fields: Vec<(&'static str, Cell)>) -> Record {
        Record { fields }
    }

    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Cell> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, cell)| cell)
    }

    /// Every plain value with its dotted name (`non_finite.mismatched`); nested records are flattened.
    pub fn flatten(&self) -> Vec<(String, &Cell)> {
        let mut found = Vec::new();
        for (name, cell) in &self.fields {
            match cell {
                Cell::Record(inner) => {
                    found.extend(
                        inner.flatten().into_iter().map(|(below, cell)| (format!("{name}.{below}"), cell)),
                    );
                }
                _ => found.push(((*name).to_owned(), cell)),
            }
        }
        found
    }
}

impl Cell {
    /// Text.
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// A count or size.
    pub fn count(count: u64) -> Cell {
        Cell::Int(count.into())
    }

    /// A shape, or other list of sizes.
    pub fn sizes(sizes: &[usize]) -> Cell {
        Cell::List(sizes.iter().map(|&size| Cell::Int(size as i128)).collect())
    }

    /// A value that may be missing.
    pub fn maybe<T>(value: Option<T>, cell: impl FnOnce(T) -> Cell) -> Cell {
        value.map_or(Cell::Missing, cell)
    }
}

/// Text for people. Text from a file cannot move the cursor or change colours: see [`escape`].
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Missing => f.write_str("-"),
            Cell::Text(text) => f.write_str(&escape::terminal(text)),
            Cell::Int(value) => write!(f, "{value}"),
            Cell::Number(value) => f.write_str(&format_number(*value)),
            Cell::Exact(value) => f.write_str(&format_shortest(*value)),
            Cell::ExactSingle(value) => f.write_str(&format_shortest_f32(*value)),
            Cell::Share(value) => write!(f, "{}%", format_number(*value * 100.0)),
            Cell::Complex(re, im) => {
                let sign = if im.is_sign_negative() { "" } else { "+" };
                write!(f, "{}{sign}{}j", format_shortest(*re), format_shortest(*im))
            }
            Cell::Flag(value) => write!(f, "{value}"),
            Cell::List(items) => list(f, items),
            Cell::Index { coordinates, .. } => list(f, coordinates),
            Cell::Record(record) => {
                for (index, (name, cell)) in record.fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{name} {cell}")?;
                }
                Ok(())
            }
        }
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    f.write_str("[")?;
    for (index, item) in items.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{item}")?;
    }
    f.write_str("]")
}
