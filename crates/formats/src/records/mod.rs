//! Converts the JSON-lines dumps of the oldest tools to `dump.json`, and back.
//!
//! A line of a `.pkl` describes one argument or result; an entry of `dump.json` describes a call with all of
//! them. Both are converted to one row per argument or result, and rows to either. What the target cannot
//! express is not guessed: it is dropped, counted and named in the [`Report`].
//!
//! ```text
//! dump.pkl  ──► Line ──► Row ──► Call ──► dump.json,  stacks ──► stack.json      pkl_to_msprobe
//! dump.json ──► Call ──► Row ──► Line ──► dump.pkl  ◄── stacks ── stack.json     msprobe_to_pkl
//! ```
//!
//! | | torch_npu.hooks | ptdbg_ascend before 6.0 | 6.0 | msprobe |
//! |---|---|---|---|---|
//! | name of a call | `Functional_conv2d_forward` | `Functional_conv2d_0_forward` | `Functional.conv2d.0.forward` | the same |
//! | of a module's | – | `Module_Conv2d_0_forward` | `conv.Conv2d.0.forward` | `Module.conv.Conv2d.forward.0` |
//! | number of a call | none: counted here, backward calls answering the last forward one | in the name | in the name | in the name |
//! | backward `input` | gradient of the input | gradient of the output | the same | the same |
//! | keyword arguments | – | – | after the positional ones | by name |
//! | arguments left out | a gap in the positions | the same | the same | `null` |

mod from_pkl;

mod open_call;
mod row;
mod stacks;
mod to_pkl;

pub use from_pkl::{ToMsprobe, pkl_to_msprobe};
pub use stacks::{frame_info_to_line, frame_to_line, line_to_frame};
pub use to_pkl::{LineData, PklStyle, SeeLine, append_pkl_lines, msprobe_to_pkl, pkl_lines_with_data};

use std::collections::BTreeMap;

use crate::error::Error;

/// Errors kept in a [`Report`]; further ones are only counted.
pub const MAX_ERRORS: usize = 100;

/// The result of a conversion, and what it could not convert.
#[derive(Debug, Default)]
pub struct Report {
    /// Calls written.
    pub calls: u64,
    /// Arguments and results written.
    pub entries: u64,
    /// Calls whose stack was written.
    pub stacks: u64,
    /// What the target cannot express: the reason, and how many.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Calls whose number was already used, and which got the next free one.
    pub renumbered: u64,
    /// Parts of the source that could not be read: the first [`MAX_ERRORS`] of them.
    pub errors: Vec<Error>,
    /// Their total number.
    pub error_count: u64,
}

impl Report {
    fn drop_entry(&mut self, why: &'static str) {
        *self.dropped.entry(why).or_default() += 1;
    }

    fn error(&mut self, error: Error) {
        self.error_count += 1;
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }
}
