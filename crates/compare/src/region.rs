//! A region: the calls of two programs that lie between values that agree and the first that do not.

use serde::{Deserialize, Serialize};

/// Calls of both sides that lie between values that agree and the first that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Calls of the target, the most suspect first.
    pub target: RegionCalls,
    /// Likewise of the golden.
    pub golden: RegionCalls,
    /// The golden's call that takes the place of the first.
    pub partner: Option<String>,
    /// Calls whose results go into it and agree, the nearest first: of the target, and what corresponds to it in the
    /// golden.
    pub after: Vec<[RegionCall; 2]>,
    /// The calls at its end, whose results do not agree.
    pub before: [RegionCall; 2],
    /// Whether it may begin earlier: its first call only moves or selects elements, and of what goes into it the statistics alone
    /// agree.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_begin_earlier: bool,
    /// Whether statistics alone were recorded, on either side.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_statistics: bool,
}

/// Calls of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCalls {
    /// Those that compute, the most suspect first.
    pub computing: Vec<RegionCall>,
    /// Those that only move elements, or compute from no parameter: masks, positions.
    pub others: Vec<RegionCall>,
}

/// A call, its place in the program and its results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionCall {
    /// Its name.
    pub name: String,
    /// How many calls its run recorded before it.
    pub at: u64,
    /// The module that made it.
    pub module: Option<String>,
    /// The line that made it, where the dump says: the innermost outside of torch.
    pub code: Option<String>,
    /// The tensors that it returned.
    pub results: Vec<RegionResult>,
}

/// A tensor that a call returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionResult {
    /// Its dtype, by torch's name where it has one.
    pub dtype: String,
    /// Its dimensions; `None` where the dump does not say.
    pub shape: Option<Vec<u64>>,
}
