//! The style of msprobe 1.x: calls matched by queues, a verdict per row, coloured rows, advice.
//!
//! ```text
//! Rank, Rank ──► Signatures of calls ──► queues ──► rows of target, with their partners
//!      rows ──► slices ──► Drafts, measured ──► colours ──► Rows
//! ```
//! Later releases share its readings of dumps, which are in the style of 26.x.

mod colours;
mod columns;
mod matching;
mod plan;
mod real;
mod row;
mod signature;
pub(super) mod slices;

use ulpscope_dump::{Error, Rank};

use super::advisor::advise;
use super::msprobe::mode::Mode;
use crate::style::{Plan, Style};
use plan::Plan1;

/// Compares as msprobe 1.1 does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Msprobe1 {
    /// Match calls whose names agree except for the number of the call (`-f`).
    pub fuzzy: bool,
    /// Names of target's rows and of the golden rows to compare them with (`-dm`); nothing else is compared then.
    pub data_mapping: Option<Vec<(String, String)>>,
    /// Show where calls were made (`-s`).
    pub stack: bool,
}

impl Default for Msprobe1 {
    fn default() -> Msprobe1 {
        Msprobe1 { fuzzy: false, data_mapping: None, stack: true }
    }
}

impl Style for Msprobe1 {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        let mode = Mode::of(target, golden);
        Ok(Box::new(match &self.data_mapping {
            Some(pairs) => Plan1::of_names(target, golden, mode, pairs, self.stack),
            None => Plan1::of_calls(target, golden, mode, self.fuzzy, self.stack),
        }))
    }

    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String> {
        // The tool counts from 0 at the first row, below a header that is line 1.
        Some(advise(first_failing.map(|(line, name)| (line.saturating_sub(2), name))))
    }
}
