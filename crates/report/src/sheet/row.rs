//! A row of a sheet in compact form: sheets have millions of cells, most of them a few characters long.

use std::fmt;
use std::ops::Index;

/// The texts of a row, one per column.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SheetRow {
    text: Box<str>,
    /// Where each cell ends in the text.
    ends: Box<[u32]>,
}

impl SheetRow {
    /// The memory of a row of these cells.
    pub(super) fn size_of(cells: &[String]) -> u64 {
        const ALLOCATIONS: usize = 2 * 16;
        let text: usize = cells.iter().map(String::len).sum();
        (size_of::<SheetRow>() + ALLOCATIONS + size_of::<u32>() * cells.len() + text) as u64
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|column| &self[column])
    }
}

/// Packs cells. Their texts together have less than 4 GiB: [`super::MAX_BYTES`] is less.
impl From<Vec<String>> for SheetRow {
    fn from(cells: Vec<String>) -> SheetRow {
        let mut end = 0_u32;
        let ends = cells.iter().map(|cell| {
            end = end.saturating_add(u32::try_from(cell.len()).unwrap_or(u32::MAX));
            end
        });
        SheetRow { ends: ends.collect(), text: cells.concat().into() }
    }
}

impl Index<usize> for SheetRow {
    type Output = str;

    fn index(&self, column: usize) -> &str {
        let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[column] as usize]
    }
}

impl<T: AsRef<str>, const N: usize> PartialEq<[T; N]> for SheetRow {
    fn eq(&self, other: &[T; N]) -> bool {
        self.iter().eq(other.iter().map(T::as_ref))
    }
}

impl<T: AsRef<str>> PartialEq<Vec<T>> for SheetRow {
    fn eq(&self, other: &Vec<T>) -> bool {
        self.iter().eq(other.iter().map(T::as_ref))
    }
}

impl fmt::Debug for SheetRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
