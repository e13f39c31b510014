//! Rows that a server reads from the sheet when somebody looks at them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use ulpscope_report::page::{ColumnBuilder, ColumnValue, Effort};

use crate::parts::Parts;
use crate::result::IndexedSheet;

/// Chunks that are read at a time; a request for one of them waits for it.
const AT_ONCE: usize = 4;

/// The rows of a rank.
pub(super) struct LiveRows {
    rank: usize,
    sheet: IndexedSheet,
    /// The column of the sheet, for each one of the page.
    places: Vec<Option<usize>>,
    /// Columns that the table shows at first. Whoever asks for one of them asks for the others, too.
    shown: Vec<usize>,
    made: Mutex<MadeRows>,
    making: [Mutex<()>; AT_ONCE],
}

struct MadeRows {
    parts: Parts,
    /// Chunk and column, also of columns without any value.
    known: HashSet<(usize, usize)>,
}

impl LiveRows {
    pub(super) fn of(rank: usize, sheet: IndexedSheet, columns: &[String], shown: Vec<usize>) -> LiveRows {
        let place = |name: &String| sheet.columns().iter().position(|own| own == name);
        let places = columns.iter().map(place).collect();
        let made = MadeRows { parts: Parts::with(Effort::Quick), known: HashSet::new() };
        LiveRows { rank, sheet, places, shown, made: Mutex::new(made), making: Default::default() }
    }

    /// A chunk of a column, compressed; nothing if it has no value. An error says why it cannot be read.
    pub(super) fn part(&self, column: usize, chunk: usize) -> Result<Option<Vec<u8>>, String> {
        if self.places.get(column).copied().flatten().is_none() {
            return Ok(None);
        }
        let _turn = self.making[chunk % AT_ONCE].lock().unwrap_or_else(PoisonError::into_inner);
        if !self.made().known.contains(&(chunk, column)) {
            self.make(column, chunk)?;
        }
        self.made().parts.get(&self.name(column, chunk)).map_err(|error| error.to_string())
    }

    fn made(&self) -> std::sync::MutexGuard<'_, MadeRows> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, column: usize, chunk: usize) -> String {
        format!("rows/{}/{column}/{chunk}", self.rank)
    }

    fn make(&self, column: usize, chunk: usize) -> Result<(), String> {
        let wanted = if self.shown.contains(&column) { self.shown.clone() } else { vec![column] };
        let mut builders = vec![ColumnBuilder::default(); wanted.len()];
        let places: Vec<Option<usize>> =
            wanted.iter().map(|column| self.places.get(*column).copied().flatten()).collect();
        let read = self.sheet.each_row_of(chunk, &mut |_, values| {
            for (builder, place) in builders.iter_mut().zip(&places) {
                builder.push(place.map_or(ColumnValue::Missing, |place| values.value(place)));
            }
        });
        read.map_err(|error| format!("{error}; put the sheet back, and start `ulpscope view` again"))?;
        let mut made = self.made();
        made.parts
            .add_columns(&mut builders, |at| self.name(wanted[at], chunk))
            .map_err(|error| error.to_string())?;
        made.known.extend(wanted.iter().map(|column| (chunk, *column)));
        Ok(())
    }
}
