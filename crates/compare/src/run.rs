//! Runs a plan: unit by unit on all cores, rows handed on in order.

use std::io;

use rayon::prelude::*;
use ulpscope_dump::{Error, Problems, Rank};

use crate::style::{Judged, Partnerless, Row, Style, Verdict};

/// Units measured before their rows are handed on: enough to keep all cores busy, few enough to forget.
const BATCH: usize = 1024;

/// A batch ends early once it reads this much: progress is told between batches.
const BATCH_BYTES: u64 = 256 << 20;

/// Takes the rows of a comparison, in order.
pub trait Sink {
    /// The headings; called once, first.
    fn columns(&mut self, columns: &[String]) -> io::Result<()>;

    /// The next row.
    fn row(&mut self, row: &Row) -> io::Result<()>;
}

/// Hears how far a comparison is.
pub trait Progress: Sync {
    /// How much there is to do.
    fn start(&self, units: u64, bytes: u64);

    /// How much more has been done.
    fn advance(&self, units: u64, bytes: u64);
}

/// Nobody wants to know.
pub struct NoProgress;

impl Progress for NoProgress {
    fn start(&self, _units: u64, _bytes: u64) {}
    fn advance(&self, _units: u64, _bytes: u64) {}
}

/// Rows by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All of them.
    pub rows: u64,
    /// In agreement.
    pub passed: u64,
    /// Worth a look.
    pub warned: u64,
    /// Not in agreement.
    pub failed: u64,
    /// Not compared.
    pub not_compared: u64,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        self.rows += 1;
        *match verdict {
            Verdict::Pass => &mut self.passed,
            Verdict::NotCompared => &mut self.not_compared,
            Verdict::Warn => &mut self.warned,
            Verdict::Fail => &mut self.failed,
        } += 1;
    }
}

/// What came of comparing two ranks, once the rows have been handed on.
#[derive(Clone, Debug, Default)]
pub struct RankOutcome {
    /// Rows by verdict.
    pub counts: Counts,
    /// What only one side has.
    pub partnerless: Vec<Partnerless>,
    /// What could not be read, on either side.
    pub problems: Problems,
    /// The advice of the style, where it gives any.
    pub advice: Option<String>,
    /// Bytes of tensors compared, both sides counted.
    pub bytes: u64,
}

/// What went wrong with a comparison as a whole.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A dump cannot be compared in this style.
    #[error(transparent)]
    Dump(#[from] Error),
    /// The rows cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
}

/// Compares two ranks in a style; rows go to the sink in order.
pub fn compare_ranks(
    style: &dyn Style,
    target: &Rank,
    golden: &Rank,
    sink: &mut dyn Sink,
    progress: &dyn Progress,
) -> Result<RankOutcome, CompareError> {
    let plan = style.plan(target, golden)?;
    sink.columns(&plan.columns())?;
    let sizes: Vec<u64> = (0..plan.units()).into_par_iter().map(|unit| plan.bytes(unit)).collect();
    let mut outcome = RankOutcome { bytes: sizes.iter().sum(), ..RankOutcome::default() };
    progress.start(sizes.len() as u64, outcome.bytes);
    let mut first_failing: Option<(u64, String)> = None;
    let mut start = 0;
    while start < sizes.len() {
        let (end, bytes) = batch(&sizes, start);
        let judged: Vec<Judged> = (start..end).into_par_iter().map(|unit| plan.judge(unit)).collect();
        for unit in judged {
            for problem in unit.problems {
                outcome.problems.note(problem);
            }
            for row in &unit.rows {
                outcome.counts.add(row.verdict);
                sink.row(row)?;
                if row.verdict == Verdict::Fail && first_failing.is_none() {
                    let name = row.cells.first().map(ToString::to_string).unwrap_or_default();
                    first_failing = Some((outcome.counts.rows + 1, name));
                }
            }
        }
        progress.advance((end - start) as u64, bytes);
        start = end;
    }
    outcome.partnerless = plan.partnerless();
    outcome.problems.extend(target.problems());
    outcome.problems.extend(golden.problems());
    outcome.advice = style.advice(first_failing.as_ref().map(|(line, name)| (*line, name.as_str())));
    Ok(outcome)
}

/// The end of the batch that begins at `start`, and how much it reads.
fn batch(sizes: &[u64], start: usize) -> (usize, u64) {
    let mut bytes = 0;
    let mut end = start;
    while end < sizes.len() && end - start < BATCH && bytes < BATCH_BYTES {
        bytes += sizes[end];
        end += 1;
    }
    (end, bytes)
}
