//! One rank, scanned for NaN and infinities on a worker.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{Inputs, RankPlace};
use ulpscope_formats::Watch;

use super::answer::UnitAnswer;
use super::job::Answered;
use super::rank_units::rank_label;
use crate::Language;
use crate::overflow_search::ScannedRank;

/// A rank to scan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ScanWork {
    pub(crate) step: Option<u64>,
    pub(crate) is_after_last: bool,
    pub(crate) place: RankPlace,
    pub(crate) language: Language,
}

impl ScanWork {
    /// The name of the unit.
    pub(crate) fn key(&self) -> String {
        rank_label(self.step, self.is_after_last, &self.place)
    }

    /// Scans it. A rank that cannot be read is an answer.
    pub(crate) fn answer(self, inputs: Vec<Inputs>) -> Result<Answered, String> {
        let start = Instant::now();
        let watch = Watch::start();
        let scanned = ScannedRank::of(self.step, &self.place, self.language);
        let mut answer = UnitAnswer::of(self.key(), inputs);
        match watch.check().and(scanned) {
            Ok(scanned) => answer.found = Some(scanned),
            Err(error) => answer.error = Some(error.to_string()),
        }
        answer.seconds = start.elapsed().as_secs_f64();
        let answer = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
        Ok(Answered { answer, rows: Vec::new(), files: Vec::new() })
    }
}
