//! Compares two dumps, for the command and for Python: the request, the result, and its explanation.
//!
//! ```text
//! Request ──► Dump, Dump ──► pairs of ranks ──► Engine: Style ──► rows ──► Outputs (files, or memory)
//!                                                    └──► Compared ──► summary, result.json, advisor.txt
//!                                                                 └──► explanation (statements), and its words in a language
//! ```

mod advisor;
pub mod bounded_json;
mod cause;
mod deviating;
mod diff_analyze;
mod documents;
mod engine;
pub mod explanation;
mod files;
pub mod instruction;
mod limitations;
mod memory;
mod network;
mod next_step;
mod non_finite;
mod number_ranges;
mod origin;
mod other_divergences;
mod overflow;
mod overflow_search;
pub mod region;
pub mod result_json;
pub mod statement;
mod style_name;
mod summary;
mod tensors;
mod timestamp;
pub mod units;
mod unpaired;
pub mod words;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use ulpscope_compare::{
    Agreement, ClassCounts, CompareError, Counts, Matching, Paired, Parallel, RankGroups, RankResult, Side,
    Surroundings, agreement, first_divergence, group_ranks, pair_ranks,
};
use ulpscope_dump::{AFTER_LAST_STEP, Dump, Error, Problems, Select};
use ulpscope_formats::{Fault, Watch};

pub use deviating::{Deviating, deviating};
pub use documents::{Written, write};
pub use engine::{Engine, Threads, Work};
pub use files::{FileOutputs, FileSink};
pub use memory::{MemoryOutputs, MemorySink};
pub use network::{
    ComparedNetwork, DivergingOp, NetworkOutcome, NetworkOutputs, UnmatchedTensor, execute_network,
    network_summary,
};
pub use next_step::quoted;
pub use number_ranges::NumberRanges;
pub use overflow::{DEVICE_OVERFLOWS, anomaly_document, anomaly_lines, anomaly_sentence};
pub use overflow_search::{
    DetectedText, OverflowFound, OverflowRequest, ScanEngine, ScanHere, ScannedRank, TakeStep,
    search_overflow,
};
pub use style_name::{MappingFiles, StyleName};
pub use summary::{Block, summary};
pub use words::Language;

/// What to compare, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// The side under suspicion.
    pub target: PathBuf,
    /// The trusted side.
    pub golden: PathBuf,
    /// The folder of the target's tensors, if it is not beside the records.
    pub target_data: Option<PathBuf>,
    /// Likewise for the golden.
    pub golden_data: Option<PathBuf>,
    /// How rows are measured and judged.
    pub style: StyleName,
    /// How calls are paired; `None`: the style's own way.
    pub matching: Option<Matching>,
    /// Mapping files for pairing.
    pub mapping: MappingFiles,
    /// Whether msprobe 1.x rows get a column with the stack.
    pub stack_column: bool,
    /// A second golden run, to measure noise.
    pub noise: Option<PathBuf>,
    /// Which steps and ranks.
    pub select: Select,
    /// How the ranks of the target share the work of the golden's one process; `None`: as capture recorded it, if it did.
    pub parallel: Option<Parallel>,
    /// The language of the explanation and the summary.
    pub language: Language,
}

/// The result, except for the rows.
pub struct Compared<S> {
    /// The request.
    pub request: Request,
    /// The overall verdict.
    pub agreement: Agreement,
    /// One per pair of ranks, in order.
    pub ranks: Vec<RankResult<S>>,
    /// Steps and ranks that only one side has, as text.
    pub lone_ranks: Vec<String>,
    /// What could not be read, in addition to the problems of each rank.
    pub problems: Problems,
    /// Folders in which nothing was recorded.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Compares. Fails only if nothing can be compared, or a file shrank in the meantime; the failure of one rank is part
/// of the result.
pub fn execute<E: Engine>(request: Request, engine: &E) -> Result<Compared<E::Sink>, Error> {
    let start = Instant::now();
    let watch = Watch::start();
    let open = |path: &Path, data: &Option<PathBuf>| {
        let dump = engine.find(path, &request.select)?;
        match data {
            Some(folder) => dump.with_data(folder),
            None => Ok(dump),
        }
    };
    let target = open(&request.target, &request.target_data)?;
    let golden = open(&request.golden, &request.golden_data)?;
    let style = request.style()?;
    let noise = request.noise.as_ref().map(|path| open(path, &None)).transpose()?;
    let mut unmeasured = Vec::new();
    let mut pairs = pair_ranks(&target, &golden);
    let ranks = match groups(&request, &target, &golden, engine.unfit_to_merge())? {
        Some(groups) => {
            pairs.lone = groups.lone;
            engine.answer_merged(&request, &groups.groups)?
        }
        None => {
            unmeasured = noise.as_ref().map(|noise| pairs.with_noise(noise, &golden)).unwrap_or_default();
            unmeasured.extend(shared_work(&request, &target, &golden).filter(|_| pairs.pairs.is_empty()));
            engine.answer(&Work { request: &request, style: style.as_ref(), pairs: &pairs.pairs })?
        }
    };
    watch.check()?;
    let mut problems = target.problems.clone();
    problems.extend(golden.problems.clone());
    if let (Some(noise), Some(path)) = (&noise, &request.noise) {
        problems.extend(noise.problems.clone());
        if !unmeasured.is_empty() && pairs.pairs.iter().all(|pair| pair.noise.is_none()) {
            problems.note(format!(
                "--noise {}: none of its steps and ranks is one of the golden's that were compared: expected a second run \
                 of the same steps and ranks; verdicts are drawn without it",
                path.display()
            ));
        }
        unmeasured.extend(noise.notes.clone());
    }
    if target.is_acl() && golden.is_tensorflow() {
        unmeasured.push(format!(
            "{} is the dump of an Ascend device and {} is TensorFlow's: the names of their operators differ, and only the \
             graph of the device pairs them: add --graph GRAPH",
            target.path.display(),
            golden.path.display()
        ));
    }
    let rule = (request.style != StyleName::Native).then(|| request.style.to_string());
    let around = Surroundings {
        lone_ranks: pairs.lone.len() as u64,
        problems: problems.count(),
        rule: rule.as_deref(),
    };
    let verdict = agreement(&ranks, around);
    Ok(Compared {
        request,
        agreement: verdict,
        ranks,
        lone_ranks: pairs.lone,
        problems,
        notes: [target.notes, golden.notes, unmeasured].concat(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// What to do where several ranks and one were given.
fn shared_work(request: &Request, target: &Dump, golden: &Dump) -> Option<String> {
    let ranks = target.steps.iter().map(|step| step.ranks.len()).min().filter(|&ranks| ranks > 1)?;
    let is_one = golden.steps.iter().all(|step| step.ranks.len() == 1) && !golden.steps.is_empty();
    (is_one && request.style == StyleName::Native && request.noise.is_none()).then(|| {
        format!(
            "the target has {ranks} ranks and the golden one: if they share its work, say how, as in --parallel dp={ranks} or \
             --parallel tp={ranks}"
        )
    })
}

/// The ranks that are merged for the comparison with a single process; nothing, if ranks are compared with ranks.
fn groups<'a>(
    request: &Request,
    target: &'a Dump,
    golden: &'a Dump,
    unfit: Option<&str>,
) -> Result<Option<RankGroups<'a>>, Error> {
    let asked = [(request.style != StyleName::Native, "--style"), (request.noise.is_some(), "--noise")];
    let unfit = asked.into_iter().find_map(|(is_asked, option)| is_asked.then_some(option)).or(unfit);
    match (unfit, &request.parallel) {
        (None, parallel) => group_ranks(target, golden, parallel.as_ref()),
        (Some(_), None) => Ok(None),
        (Some(option), Some(_)) => {
            let why = format!(
                "--parallel cannot be combined with {option}: it merges ranks for the native style; leave out one"
            );
            Err(Error::whole(Fault::Unsupported(why)))
        }
    }
}

impl<S> Compared<S> {
    /// Rows by verdict, over all ranks.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.outcomes().for_each(|outcome| counts.add(&outcome.counts));
        counts
    }

    /// The outcomes of the compared ranks, in order.
    pub fn outcomes(&self) -> impl Iterator<Item = &ulpscope_compare::RankOutcome> {
        self.ranks.iter().filter_map(|rank| rank.result.as_ref().ok().map(|(outcome, _)| outcome))
    }

    /// The ranks that could not be compared, and why.
    pub fn errors(&self) -> impl Iterator<Item = (&RankResult<S>, &CompareError)> {
        self.ranks.iter().filter_map(|rank| rank.result.as_ref().err().map(|error| (rank, error)))
    }

    /// The first divergence, and its rank.
    pub fn first_divergence(&self) -> Option<(&RankResult<S>, &ulpscope_compare::Divergence)> {
        first_divergence(&self.ranks)
    }

    /// Calls by class, over all ranks; `None` in a style that judges rows.
    pub fn classes(&self) -> Option<ClassCounts> {
        let mut of_ranks = self.outcomes().filter_map(|outcome| outcome.classes);
        let first = of_ranks.next()?;
        Some(of_ranks.fold(first, |mut all, more| {
            all.add(&more);
            all
        }))
    }

    /// How calls were paired, over all ranks.
    pub fn paired(&self) -> Vec<Paired> {
        let mut all = Vec::new();
        self.outcomes().flat_map(|outcome| outcome.paired.clone()).for_each(|paired| paired.add_to(&mut all));
        all
    }

    /// How many calls or entries only one side has, over all ranks.
    pub fn only_in(&self, side: Side) -> usize {
        self.outcomes().map(|outcome| outcome.only_in(side)).sum()
    }

    /// How many things could not be read, over all ranks.
    pub fn problem_count(&self) -> u64 {
        self.problems.count() + self.outcomes().map(|outcome| outcome.problems.count()).sum::<u64>()
    }
}

/// The name of a pair of ranks for people: `step0 rank1`, `step0` without ranks; empty if there is only one pair.
pub fn rank_label<S>(rank: &RankResult<S>, several: bool) -> String {
    let name = rank_name(rank, several);
    // A program without ranks has one folder of this name in each step.
    name.strip_suffix(" rank").map(str::to_owned).unwrap_or(name)
}

/// The name of a pair of ranks in names of files, with spaces: `step0 rank1`, `step0 rank` without ranks.
pub(crate) fn rank_name<S>(rank: &RankResult<S>, several: bool) -> String {
    if !several {
        return String::new();
    }
    let step = match rank.step {
        Some(step) => format!("step{step} "),
        None if rank.is_after_last => format!("{AFTER_LAST_STEP} "),
        None => String::new(),
    };
    if rank.target == rank.golden {
        format!("{step}{}", rank.target)
    } else {
        format!("{step}{} against {}", rank.target, rank.golden)
    }
}
