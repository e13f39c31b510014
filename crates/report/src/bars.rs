//! Counts as horizontal bars: a histogram that fits between two tables.

use crate::cell::Cell;
use crate::table::{Align, Emphasis, Table};

/// Characters of the longest bar.
const BAR_WIDTH: usize = 40;

/// A histogram to show, one bar per label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bars {
    /// What is counted.
    pub title: String,
    /// Label and count, in the order to show.
    pub counts: Vec<(String, u64)>,
}

impl Bars {
    /// The bars as a table of three columns: label, count, bar. A count that is not zero always shows.
    pub fn to_table(&self) -> Table {
        let most = self.counts.iter().map(|&(_, count)| count).max().unwrap_or(0);
        let mut table =
            Table::new(self.title.as_str(), &[("", Align::Right), ("", Align::Right), ("", Align::Left)]);
        for (label, count) in &self.counts {
            let share = *count as f64 / most.max(1) as f64;
            let length = ((share * BAR_WIDTH as f64).round() as usize).max(usize::from(*count > 0));
            table.push(
                vec![Cell::text(label), Cell::count(*count), Cell::Text("▇".repeat(length))],
                Emphasis::Plain,
            );
        }
        table
    }
}
