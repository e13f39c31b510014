//! One unit: what a worker is told, and what it does.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use ulpscope_dump::{AFTER_LAST_STEP, Inputs};

use super::compare_work::CompareWork;
use super::far_files::FileReader;
use super::scan_work::ScanWork;

/// Where the rows of a unit go.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RowTargets {
    /// The folder of the sheets; `None`: none are written.
    pub(crate) folder: Option<PathBuf>,
    /// In their names.
    pub(crate) timestamp: String,
    /// The names of the formats.
    pub(crate) formats: Vec<String>,
    /// Whether the answer has every row, and not only the first that differ.
    pub(crate) all_rows: bool,
}

/// Everything that a worker needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UnitJob {
    pub(crate) work: UnitWork,
    pub(crate) inputs: Vec<Inputs>,
    /// The nodes that have each of them.
    pub(crate) holders: Vec<Nodes>,
    /// How many bytes of tensors may be moved.
    pub(crate) move_limit: u64,
}

/// What is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum UnitWork {
    /// A pair of ranks is compared.
    Compare(Box<CompareWork>),
    /// A rank is scanned for NaN and infinities.
    Scan(Box<ScanWork>),
}

/// The nodes that have a rank; `None`: all.
pub(crate) type Nodes = Option<Vec<String>>;

/// Where a unit is answered.
#[derive(Clone, Copy, Default)]
pub struct Worker<'a> {
    /// The name of the node; `None`: one that sees everything.
    pub node: Option<&'a str>,
    /// Asks other nodes for files.
    pub reader: Option<&'a dyn FileReader>,
}

/// Where a unit is answered, and what is elsewhere.
pub(crate) struct UnitPlace<'a> {
    pub(crate) worker: Worker<'a>,
    pub(crate) holders: Vec<Nodes>,
    pub(crate) move_limit: u64,
}

/// What a worker returns.
#[derive(Debug)]
pub struct Answered {
    /// The answer as JSON.
    pub answer: String,
    /// Its rows, packed.
    pub rows: Vec<u8>,
    /// The sheets that were written.
    pub files: Vec<PathBuf>,
}

/// Answers the unit of a job. Sheets go to `folder` if there is one, else to the folder of the job. Fails only if the text
/// is no job, or files of a different node could not be had: a rank that cannot be read is an answer.
pub fn answer(job: &str, folder: Option<PathBuf>, worker: Worker<'_>) -> Result<Answered, String> {
    let job: UnitJob =
        serde_json::from_str(job).map_err(|error| format!("not a job of ulpscope: {error}"))?;
    let place = UnitPlace { worker, holders: job.holders, move_limit: job.move_limit };
    match job.work {
        UnitWork::Compare(work) => work.answer(job.inputs, &place, folder),
        UnitWork::Scan(work) => work.answer(job.inputs),
    }
}

/// A step in the name of a unit.
pub(crate) fn step_word(step: Option<u64>, is_after_last: bool) -> String {
    match step {
        Some(step) => format!("step{step}"),
        None if is_after_last => AFTER_LAST_STEP.to_owned(),
        None => "all".to_owned(),
    }
}
