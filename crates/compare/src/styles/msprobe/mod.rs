//! The style of msprobe 26.x (`mindstudio-probe`): its rows, its columns, its words.
//!
//! ```text
//! Rank, Rank ──► Mode (elements, statistics, digests) ──► Calls: keys ──► Pairing
//!      a call of target ──► Items and their partners ──► Drafts, measured ──► verdicts ──► Rows
//! ```
//! Where the tool's guide and the tool disagree, the tool is followed; `docs/styles/msprobe.md` lists where.

pub(crate) mod columns;
pub(crate) mod item;
pub(crate) mod mode;
pub(crate) mod pairing;
mod plan;
pub(crate) mod real;
pub(crate) mod row;
mod side;
mod statistics;
mod verdicts;

use ulpscope_dump::{Error, Rank};

use crate::mapping::Mapping;
use crate::pairing::{Matching, PairOptions, row_pairs};
use crate::style::{Plan, Style};
use mode::Mode;
use side::Calls;

/// Compares as msprobe 26.x does.
#[derive(Clone, Debug)]
pub struct Msprobe {
    /// Pair rows whose names agree except for the number of the call (`-fm`).
    pub fuzzy: bool,
    /// Names of target's rows and of the golden rows to compare them with, with any dtypes (`-dm`). Takes precedence
    /// over everything else.
    pub data_mapping: Option<Vec<(String, String)>>,
    /// Other names of modules (`-cm`) or layers (`-lm`): rows are joined under these. As in the tool, dtypes do not
    /// matter with a layer mapping.
    pub modules: Mapping,
    /// Show where calls were made, if target's dump says so. The tool always does.
    pub stack: bool,
}

impl Default for Msprobe {
    fn default() -> Msprobe {
        Msprobe { fuzzy: false, data_mapping: None, modules: Mapping::default(), stack: true }
    }
}

impl Style for Msprobe {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        let mode = Mode::of(target, golden);
        let by_modules = (self.data_mapping.is_none() && self.modules.renames_modules()).then(|| {
            let mapping = self.modules.clone();
            row_pairs(target, golden, &PairOptions { matching: Matching::Exact, mapping })
        });
        let (by_modules, notes) = by_modules.unzip();
        let mut notes = notes.unwrap_or_default();
        let mut problems = Vec::new();
        let mapping = self.data_mapping.as_ref().or(by_modules.as_ref());
        let renumber = mapping.is_some() || !self.fuzzy;
        let sides = (Calls::new(target, renumber), Calls::new(golden, renumber));
        let pairing = match mapping {
            Some(mapping) => {
                let notes = self.data_mapping.is_some().then_some(&mut notes);
                pairing::mapped(&sides.0, &sides.1, mapping, notes, &mut problems)
            }
            None if self.fuzzy => pairing::fuzzy(&sides.0, &sides.1, &mut problems),
            None => pairing::exact(&sides.0, &sides.1),
        };
        let stack = self.stack && target.has_stacks();
        let any_dtype = self.data_mapping.is_some() || self.modules.layers.is_some();
        let told = plan::Told { notes, problems };
        Ok(Box::new(plan::MsprobePlan::new(sides, mode, pairing, any_dtype, stack, told)))
    }

    fn advice(&self, _first_failing: Option<(u64, &str)>) -> Option<String> {
        None
    }
}
