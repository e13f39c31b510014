//! One unit, compared: what a worker does.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use ulpscope_compare::{CompareError, NoProgress, Outputs, RankPair, Row, Sink, compare_opened, pack_row};
use ulpscope_dump::moved::MoveError;
use ulpscope_dump::{Inputs, RankPlace};
use ulpscope_formats::Watch;
use ulpscope_report::SheetFormat;

use super::answer::UnitAnswer;
use super::gathered::{Gathered, Worker};
use super::store::SCHEMA;
use crate::Request;
use crate::files::{FileOutputs, FileSink};

/// A pair of ranks, without what it borrows from its dumps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Unit {
    pub(crate) step: Option<u64>,
    pub(crate) is_after_last: bool,
    pub(crate) place: Option<u64>,
    pub(crate) several_ranks: bool,
    pub(crate) several_steps: bool,
    pub(crate) pairs: usize,
    pub(crate) target: RankPlace,
    pub(crate) golden: RankPlace,
    pub(crate) noise: Option<RankPlace>,
}

impl Unit {
    pub(crate) fn of(pair: &RankPair<'_>) -> Unit {
        Unit {
            step: pair.step,
            is_after_last: pair.is_after_last,
            place: pair.place,
            several_ranks: pair.several_ranks,
            several_steps: pair.several_steps,
            pairs: pair.pairs,
            target: pair.target.clone(),
            golden: pair.golden.clone(),
            noise: pair.noise.cloned(),
        }
    }

    pub(crate) fn pair(&self) -> RankPair<'_> {
        RankPair {
            step: self.step,
            is_after_last: self.is_after_last,
            place: self.place,
            target: &self.target,
            golden: &self.golden,
            noise: self.noise.as_ref(),
            several_ranks: self.several_ranks,
            several_steps: self.several_steps,
            pairs: self.pairs,
        }
    }

    /// Its name: for people, and for the file of its answer.
    pub(crate) fn key(&self) -> String {
        let step = match self.step {
            Some(step) => format!("step{step}"),
            None if self.is_after_last => ulpscope_dump::AFTER_LAST_STEP.to_owned(),
            None => "all".to_owned(),
        };
        let name =
            |place: &RankPlace| if place.name.is_empty() { "rank".to_owned() } else { place.name.clone() };
        let (target, golden) = (name(&self.target), name(&self.golden));
        if target == golden { format!("{step}_{target}") } else { format!("{step}_{target}-{golden}") }
    }
}

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
    pub(crate) request: Request,
    pub(crate) unit: Unit,
    pub(crate) inputs: Vec<Inputs>,
    /// The nodes that have each of them.
    pub(crate) holders: Vec<Nodes>,
    pub(crate) rows: RowTargets,
    /// How many bytes of tensors may be moved.
    pub(crate) move_limit: u64,
}

/// The nodes that have a rank; `None`: all.
pub(crate) type Nodes = Option<Vec<String>>;

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

/// Compares the unit of a job. Sheets go to `folder` if there is one, else to the folder of the job. Fails only if the
/// text is no job, or files of a different node could not be had: a pair that cannot be compared is an answer.
pub fn answer(job: &str, folder: Option<PathBuf>, worker: Worker<'_>) -> Result<Answered, String> {
    let job: UnitJob =
        serde_json::from_str(job).map_err(|error| format!("not a job of ulpscope: {error}"))?;
    let start = Instant::now();
    let watch = Watch::start();
    let formats = job
        .rows
        .formats
        .iter()
        .filter_map(|name| SheetFormat::ALL.into_iter().find(|format| format.name() == name));
    // The driver's name of a sheet is the one in the answer.
    let own_folder = job.rows.folder.as_ref().map(|named| folder.clone().unwrap_or_else(|| named.clone()));
    let sheets = FileOutputs::named(own_folder, job.request.style, formats.collect(), &job.rows.timestamp);
    let mut gathered = Gathered::default();
    let opened = match gathered.open(&job.unit.pair(), &job.holders, job.move_limit, worker) {
        Ok(opened) => Ok(opened),
        Err(MoveError::Dump(error)) => Err(error.into()),
        Err(MoveError::NotMoved(why)) => return Err(why),
    };
    let outputs = UnitOutputs { sheets, all_rows: job.rows.all_rows, gathered: &gathered };
    let mut answer = UnitAnswer {
        schema: SCHEMA.to_owned(),
        ulpscope: env!("CARGO_PKG_VERSION").to_owned(),
        unit: job.unit.key(),
        inputs: job.inputs,
        outcome: None,
        error: None,
        columns: Vec::new(),
        files: Vec::new(),
        failures: Vec::new(),
        seconds: 0.0,
    };
    let mut rows = Vec::new();
    let mut written = Vec::new();
    let style = job.request.style().map_err(CompareError::from);
    let result = style.and_then(|style| opened.map(|opened| (style, opened))).and_then(|(style, opened)| {
        let pair = job.unit.pair();
        let compared = compare_opened(style.as_ref(), &pair, opened, &outputs, &NoProgress, None);
        watch.check()?;
        compared
    });
    match result {
        Err(error) => answer.error = Some(error.to_string()),
        Ok((mut outcome, mut sink)) => {
            outcome.notes.extend(gathered.notes.iter().cloned());
            answer.outcome = Some(outcome);
            let (files, failures) = sink.sheets.finish();
            let named = |path: &PathBuf| match (&job.rows.folder, path.file_name()) {
                (Some(folder), Some(name)) => folder.join(name),
                _ => path.clone(),
            };
            answer.files = files.iter().map(named).collect();
            answer.failures = failures.iter().map(ToString::to_string).collect();
            answer.columns = std::mem::take(&mut sink.sheets.columns);
            rows = match job.rows.all_rows {
                true => sink.packed,
                false => sink.sheets.kept.iter().fold(Vec::new(), |mut packed, row| {
                    pack_row(row, &mut packed);
                    packed
                }),
            };
            written = files;
        }
    }
    answer.seconds = start.elapsed().as_secs_f64();
    let answer = gathered.translated(&answer).map_err(|error| error.to_string())?;
    Ok(Answered { answer, rows, files: written })
}

/// Sheets, and every row if the answer has them all.
struct UnitOutputs<'a> {
    sheets: FileOutputs,
    all_rows: bool,
    gathered: &'a Gathered,
}

struct UnitSink<'a> {
    sheets: FileSink,
    all_rows: bool,
    packed: Vec<u8>,
    gathered: &'a Gathered,
}

impl<'a> Outputs for UnitOutputs<'a> {
    type Sink = UnitSink<'a>;

    fn open(&self, pair: &RankPair<'_>) -> io::Result<UnitSink<'a>> {
        let (all_rows, gathered) = (self.all_rows, self.gathered);
        Ok(UnitSink { sheets: self.sheets.open(pair)?, all_rows, packed: Vec::new(), gathered })
    }
}

impl Sink for UnitSink<'_> {
    fn columns(&mut self, columns: &[String]) -> io::Result<()> {
        self.sheets.columns(columns)
    }

    fn row(&mut self, mut row: Row) -> io::Result<()> {
        self.gathered.translate_row(&mut row);
        if self.all_rows {
            pack_row(&row, &mut self.packed);
        }
        self.sheets.row(row)
    }

    fn sheet(&self) -> Option<String> {
        self.sheets.sheet()
    }
}
