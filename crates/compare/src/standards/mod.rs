//! Judges the result of a call against the same call in raised precision.
//!
//! ```text
//! result, reference ──► own error ──► native: is it more than rounding explains?
//!                   └─► numbers of msprobe ──► its cascade (Status), and its standard for the API
//! ```
//! The native judgement needs no table of tolerances: the reference shows the error, and moved references show how
//! large the terms were that the call added up ([`ulpscope_kernels::replay_errors`]).

mod apis;
mod details;
mod msprobe;
mod native;

use serde::{Deserialize, Serialize};

pub use apis::Standard;
pub use details::{DetailsRow, RATIO_COLUMNS, RatioRow};
pub use msprobe::{COLUMNS, Ratios, StandardMeasurement, ratios};
pub use native::{Computation, OwnError, OwnErrorJudgement, own_error_of};

/// What a judgement says, in the words of the older tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Within what is allowed.
    Pass,
    /// Doubtful.
    Warning,
    /// Wrong.
    Error,
}

impl CheckStatus {
    /// The word in result files.
    pub fn word(self) -> &'static str {
        match self {
            CheckStatus::Pass => "pass",
            CheckStatus::Warning => "warning",
            CheckStatus::Error => "error",
        }
    }
}
