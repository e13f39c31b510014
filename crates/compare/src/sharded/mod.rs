//! A run of several ranks, compared with one process that computes the same.
//!
//! ```text
//! ranks ──► survey: how the tensors of each entry make the golden's ──► rules, parameters that are not the golden's
//!       ──► transport: calls that only move values between ranks     ──► left out
//!       ──► Merged: the ranks as one rank, entry by entry            ──► compared like any other rank
//!                                                                    ──► faults: which rank, where one stands out
//! ```
//! What is merged is compared with the golden by the style, so one judgement serves all runs.

mod completion;
mod decide;
mod faults;
mod members;
mod merged;
mod pairs;
mod parallel;
mod parameters;
mod passes;
mod ranks;
mod rule;
mod shard_fault;
mod stage_faults;
mod stage_names;
mod stages;
mod survey;
mod transport;

use std::sync::Arc;

use rayon::prelude::*;
use ulpscope_dump::{Dump, Error, Rank, RankPlace, Step};
use ulpscope_formats::Fault;

use crate::job::{Outputs, RankPair, RankResult, matched_steps};
use crate::mapping::Mapping;
use crate::native::Native;
use crate::note::Note;
use crate::pairing::PairOptions;
use crate::run::{CompareError, Progress, RankOutcome, Sink, compare_ranks_knowing};
use crate::style::Known;

use completion::Completions;
use faults::LineFinder;
use merged::Merged;
use parallel::Grid;
pub use parallel::{BadParallel, Layout, Parallel};
pub use parameters::{ParameterFault, ParameterFaultKind, ParameterSlice, StagePlace};
use ranks::{Ranks, Stages};
pub use shard_fault::ShardFault;
use survey::SurveyedCall;
use transport::Transports;

/// The ranks of a step that are merged, and the rank of the golden that they are compared with.
#[derive(Debug)]
pub struct RankGroup<'a> {
    /// The first rank, with the golden's.
    pub pair: RankPair<'a>,
    /// All ranks.
    pub targets: Vec<&'a RankPlace>,
    /// How they share the work.
    pub layout: Layout,
}

impl RankGroup<'_> {
    /// The group with its result, which is named by the number of ranks.
    pub fn answered<S>(&self, result: Result<(RankOutcome, S), CompareError>) -> RankResult<S> {
        RankResult { target: format!("{} ranks", self.targets.len()), ..self.pair.answered(result) }
    }
}

/// The groups of ranks, and the unpaired steps as text.
#[derive(Debug, Default)]
pub struct RankGroups<'a> {
    /// In order of steps.
    pub groups: Vec<RankGroup<'a>>,
    /// Unpaired steps.
    pub lone: Vec<String>,
}

/// Groups the ranks of each step of the target for the one rank of the golden. The axes are those that the user named, or
/// those of the mesh that capture recorded with distributed tensors. Nothing if neither says that ranks belong together.
pub fn group_ranks<'a>(
    target: &'a Dump,
    golden: &'a Dump,
    parallel: Option<&Parallel>,
) -> Result<Option<RankGroups<'a>>, Error> {
    let refused = |dump: &Dump, expected: String, found: String| {
        Err(Error::whole(Fault::malformed(expected, found)).in_file(&dump.path))
    };
    let several = |step: &Step| step.ranks.len() > 1;
    let layout = match parallel {
        Some(parallel) => {
            let wanted = parallel.ranks();
            if let Some(step) = target.steps.iter().find(|step| Some(step.ranks.len()) != wanted) {
                let expected =
                    format!("as many ranks as --parallel {parallel} has ({})", wanted.unwrap_or(0));
                return refused(target, expected, format!("{} ranks", step.ranks.len()));
            }
            if let Some(step) = golden.steps.iter().find(|step| several(step)) {
                let expected = "one rank, to compare several ranks with (--parallel)".to_owned();
                return refused(golden, expected, format!("{} ranks", step.ranks.len()));
            }
            target.steps.first().map(|step| parallel.layout(numbers(step)))
        }
        None if golden.steps.iter().any(several) || !target.steps.iter().all(several) => None,
        None => target.steps.first().and_then(recorded_grid).map(|grid| Layout { grid, pipeline: None }),
    };
    let Some(layout) = layout else { return Ok(None) };
    let (steps, lone) = matched_steps(target, golden);
    let several_steps = target.steps.len() > 1;
    let groups = steps.into_iter().filter_map(|(ours, theirs, place)| {
        let pair = RankPair {
            step: ours.number,
            is_after_last: ours.is_after_last,
            place,
            target: ours.ranks.first()?,
            golden: theirs.ranks.first()?,
            noise: None,
            several_ranks: false,
            several_steps,
            pairs: 0,
        };
        let grid = Grid { numbers: numbers(ours), ..layout.grid.clone() };
        let layout = Layout { grid, ..layout };
        Some(RankGroup { pair, targets: ours.ranks.iter().collect(), layout })
    });
    let mut groups: Vec<RankGroup<'_>> = groups.collect();
    let pairs = groups.len();
    groups.iter_mut().for_each(|group| group.pair.pairs = pairs);
    Ok(Some(RankGroups { groups, lone }))
}

fn numbers(step: &Step) -> Vec<u64> {
    step.ranks.iter().enumerate().map(|(place, rank)| rank.number.unwrap_or(place as u64)).collect()
}

/// The axes of the largest mesh that a rank recorded, if it has all ranks of the step.
fn recorded_grid(step: &Step) -> Option<Grid> {
    let numbers = numbers(step);
    let rank = step.ranks.first()?.open().ok()?;
    let is_whole = |call: &usize| -> Option<Grid> {
        let entries = rank.entries(*call).ok()?;
        let mut meshes =
            entries.iter().filter_map(survey::tensor).filter_map(|tensor| tensor.mesh.as_deref());
        let mesh = meshes.find(|mesh| mesh.ranks == numbers)?;
        let sizes = mesh.sizes.iter().filter(|&&size| size > 1).map(|&size| size as usize).collect();
        Some(Grid { sizes, numbers: numbers.clone(), has_pieces: false })
    };
    (0..rank.calls().len()).into_par_iter().find_map_first(|call| is_whole(&call))
}

/// Compares each group with its golden, in order.
pub fn compare_groups<O: Outputs>(
    options: &PairOptions,
    groups: &[RankGroup<'_>],
    outputs: &O,
    progress: &dyn Progress,
) -> Vec<RankResult<O::Sink>> {
    groups.iter().map(|group| group.answered(compare_group(options, group, outputs, progress))).collect()
}

/// Merges the ranks of a group, and compares them with their golden.
pub fn compare_group<O: Outputs>(
    options: &PairOptions,
    group: &RankGroup<'_>,
    outputs: &O,
    progress: &dyn Progress,
) -> Result<(RankOutcome, O::Sink), CompareError> {
    let opened: Vec<Arc<Rank>> =
        group.targets.par_iter().map(|place| place.open().map(Arc::new)).collect::<Result<_, Error>>()?;
    let golden = group.pair.golden.open()?;
    let is_cut = opened.iter().any(|rank| rank.is_cut());
    let ranks = Arc::new(Ranks::of(&group.layout, opened, &golden));
    let calls = Arc::new(ranks.survey(&golden, options));
    let transports = Transports::find(&calls);
    let completions = Completions::find(&ranks, &golden, &calls, &transports);
    let shown: Vec<u32> =
        (0..calls.len() as u32).filter(|&call| !transports.is_left_out[call as usize]).collect();
    let counts = Counted::of(&ranks, &calls, &transports);
    let mut found = faults::find(&ranks, &calls, &transports);
    found.extend(stage_faults::find(&ranks, &golden, &calls));
    let view = Merged { ranks: Arc::clone(&ranks), calls: Arc::clone(&calls), transports, completions };
    let merged = Arc::clone(&ranks.ranks[0]).viewed(shown, Box::new(view));
    let mut sink = outputs.open(&group.pair)?;
    let known = Known { step: group.pair.place, ..Known::default() };
    let mut lines = LineFinder::of(&mut sink, &found);
    let pairs =
        calls.iter().filter_map(|call| Some((call.name.clone(), golden.name(call.partner? as usize))));
    let mapping = Mapping::default().with_calls(pairs.collect());
    let style = Native { pairing: PairOptions { mapping, ..options.clone() } };
    let mut outcome = compare_ranks_knowing(&style, &merged, &golden, known, &mut lines, progress)?;
    let lines = lines.found();
    faults::explain(&mut outcome, found, &lines, (&merged, &golden), (&ranks, &calls));
    outcome.is_cut |= is_cut;
    outcome.undecided = outcome.undecided.saturating_sub(counts.unknown_sums);
    if counts.unknown_sums > 0 {
        faults::withdraw_gradients(&mut outcome);
    }
    faults::withdraw_updates(&mut outcome, &ranks, &calls);
    outcome.notes.extend(counts.notes(&ranks));
    outcome.sheet = sink.sheet();
    Ok((outcome, sink))
}

/// What is said of stages and pieces.
fn joined_words(stages: usize, joined: &Stages) -> Vec<String> {
    let mut words = vec![format!(
        "the ranks are {}, and each computes its part of the batch in {}; calls are numbered as one process would make them",
        if stages == 1 { "1 stage".to_owned() } else { format!("{stages} stages") },
        match joined.pieces {
            1 => "one piece".to_owned(),
            pieces => format!("{pieces} micro-batches"),
        }
    )];
    let renamed = joined.names.iter().enumerate().find_map(|(stage, names)| Some((stage, names.renamed()?)));
    words.extend(renamed.map(|(stage, (own, golden))| {
        format!("stages have names of their own: {own} of stage {stage} is {golden} in the golden")
    }));
    words
}

/// How many entries were merged in which way.
#[derive(Default)]
struct Counted {
    replicated: u64,
    sharded: u64,
    summed: u64,
    /// Entries whose parts do not belong together, the first by name.
    unmerged: Option<(String, u64)>,
    /// Sums whose statistics do not follow from those of the parts.
    unknown_sums: u64,
    left_out: u64,
    /// Calls that not every rank makes, the first by name.
    not_everywhere: Option<(String, u64)>,
}

impl Counted {
    fn of(ranks: &Ranks, calls: &[SurveyedCall], transports: &Transports) -> Counted {
        let mut counted = Counted::default();
        let count = |of: &mut Option<(String, u64)>, name: &str| {
            of.get_or_insert_with(|| (name.to_owned(), 0)).1 += 1;
        };
        for (number, call) in calls.iter().enumerate() {
            if transports.is_left_out[number] {
                counted.left_out += 1;
                continue;
            }
            if !ranks.has_call(number) {
                count(&mut counted.not_everywhere, &call.name);
            }
            for entry in call.entries.iter().filter(|entry| entry.decision.is_some()) {
                match &entry.rule {
                    Some(rule) if rule.is_sum() => {
                        counted.summed += 1;
                        let source = || transports.resolved(entry.source.clone());
                        let named = if entry.is_output { Some(entry.name.clone()) } else { source() };
                        let is_exchanged = named.is_some_and(|named| transports.sums.contains_key(&named));
                        let is_one = entry.shape.iter().product::<u64>() == 1;
                        counted.unknown_sums +=
                            u64::from(entry.is_paired && entry.sum.is_none() && !is_exchanged && !is_one);
                    }
                    Some(rule) if rule.is_sharded() => counted.sharded += 1,
                    Some(_) => counted.replicated += 1,
                    None => count(&mut counted.unmerged, &entry.name),
                }
            }
        }
        counted
    }

    fn notes(&self, ranks: &Ranks) -> Vec<Note> {
        let mut notes = vec![format!(
            "{} ranks were merged: {} tensors are replicated, {} sharded, {} partial sums; {} calls that only move values \
             between ranks were left out",
            ranks.recorded.len(),
            self.replicated,
            self.sharded,
            self.summed,
            self.left_out
        )];
        if let Some(joined) = &ranks.joined {
            notes.extend(joined_words(ranks.stages(), joined));
        }
        if self.unknown_sums > 0 {
            notes.push(format!(
                "{} partial sums were not compared: the statistics of parts do not give those of their sum (record tensors to \
                 compare them)",
                self.unknown_sums
            ));
        }
        let others = |(first, count): &(String, u64)| match count {
            1 => first.clone(),
            count => format!("{first} and {} others", count - 1),
        };
        notes.extend(self.unmerged.as_ref().map(|found| {
            format!("not merged, because the ranks differ and neither shapes nor data flow say how they belong together: {}", others(found))
        }));
        notes.extend(self.not_everywhere.as_ref().map(|found| {
            format!("not made by every rank, so the first rank's is compared: {}", others(found))
        }));
        notes.into_iter().map(Note::Text).collect()
    }
}
