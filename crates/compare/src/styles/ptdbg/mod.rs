//! The tables of ptdbg_ascend: `compare_result_{timestamp}.csv` of releases before 6.0, `.xlsx` of 6.0.
//!
//! ```text
//! rank ──lines──► operations (ops) ──queues──► pairs ──plan──► rows, cut into units
//!                                                                  │ unit by unit
//!                                  metrics, fields ──► table ──► colours ──► Row
//! ```
//! What the tool measures, and what it says where it measures nothing, is in `metrics`; `docs/styles/ptdbg.md` tells
//! where this differs from its guide.

mod colours;
mod fields;
mod metrics;
mod names;
mod ops;
mod plan;
mod stat_columns;
mod table;

use ulpscope_dump::{Error, Rank};

use self::plan::PtdbgPlan;
use super::advisor::advise;
use crate::style::{Plan, Style};

/// Whose tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// Those of 4.0.T2, and of other releases before 6.0.
    V4,
    /// Those of 6.0.
    V6,
}

/// Compares as ptdbg_ascend does.
#[derive(Clone, Copy, Debug)]
pub struct Ptdbg {
    /// In which release.
    pub release: Release,
    /// Whether calls are matched without regard to their numbers.
    pub fuzzy: bool,
}

impl Style for Ptdbg {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        Ok(Box::new(PtdbgPlan::new(self, target, golden)?))
    }

    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String> {
        // 6.0 counts rows from 0; before, lines were those of the csv, of which the header is the first.
        let skipped = match self.release {
            Release::V4 => 0,
            Release::V6 => 2,
        };
        Some(advise(first_failing.map(|(line, name)| (line.saturating_sub(skipped), name))))
    }
}
