//! Whole dumps: pairs steps and ranks, and compares each pair.

use std::io;
use std::sync::Arc;

use rayon::prelude::*;
use ulpscope_dump::{AFTER_LAST_STEP, Dump, Error, Rank, RankPlace, Step};

use crate::proof::{Prover, Proving};
use crate::run::{CompareError, Progress, RankOutcome, Sink, compare_ranks_knowing};
use crate::style::{Known, Side, Style};
use crate::verdict::Divergence;

/// A rank of the target and the rank of the golden that it is compared with.
#[derive(Clone, Debug)]
pub struct RankPair<'a> {
    /// The number of the step, if it has one.
    pub step: Option<u64>,
    /// Whether it is what the run did after its last step.
    pub is_after_last: bool,
    /// How many steps came before, if known. The part after the last step has no number, and comes after all steps.
    pub place: Option<u64>,
    /// The target's.
    pub target: &'a RankPlace,
    /// The golden's.
    pub golden: &'a RankPlace,
    /// That of a second golden run, to measure noise.
    pub noise: Option<&'a RankPlace>,
    /// Whether there are several ranks, so that results are named by rank.
    pub several_ranks: bool,
    /// Likewise for steps.
    pub several_steps: bool,
    /// How many pairs are compared.
    pub pairs: usize,
}

impl RankPair<'_> {
    /// The pair with its result.
    pub fn answered<S>(&self, result: Result<(RankOutcome, S), CompareError>) -> RankResult<S> {
        RankResult {
            step: self.step,
            is_after_last: self.is_after_last,
            target: self.target.name.clone(),
            golden: self.golden.name.clone(),
            result,
        }
    }
}

/// The pairs of ranks, and the unpaired steps and ranks as text.
#[derive(Debug, Default)]
pub struct RankPairs<'a> {
    /// In order of steps, then ranks.
    pub pairs: Vec<RankPair<'a>>,
    /// Unpaired steps and ranks.
    pub lone: Vec<String>,
}

/// Pairs steps and ranks by number. If each side has just one, they are a pair whatever their numbers: a run on one
/// device has the number of its process.
pub fn pair_ranks<'a>(target: &'a Dump, golden: &'a Dump) -> RankPairs<'a> {
    let several_steps = target.steps.len() > 1;
    let (steps, lone) = matched_steps(target, golden);
    let mut found = RankPairs { lone, ..RankPairs::default() };
    for (one, other, place) in steps {
        let (ranks, lone) = matched(&one.ranks, &other.ranks, |rank: &RankPlace| rank.number);
        let several_ranks = one.ranks.len() > 1;
        found.lone.extend(lone.into_iter().map(|(side, rank)| {
            let step = if several_steps { format!("{}/", step_name(one)) } else { String::new() };
            only_in(side, &format!("{step}{}", rank.name))
        }));
        found.pairs.extend(ranks.into_iter().map(|(target, golden)| RankPair {
            step: one.number,
            is_after_last: one.is_after_last,
            place,
            target,
            golden,
            noise: None,
            several_ranks,
            several_steps,
            pairs: 0,
        }));
    }
    let pairs = found.pairs.len();
    found.pairs.iter_mut().for_each(|pair| pair.pairs = pairs);
    found
}

/// Steps of both sides with their place in the run, and the unpaired ones as text.
pub(crate) fn matched_steps<'a>(target: &'a Dump, golden: &'a Dump) -> MatchedSteps<'a> {
    let after_all = target.steps.iter().chain(&golden.steps).filter_map(|step| step.number).max();
    // The part after the last step comes after the steps of both sides.
    let place = |step: &Step| match step.number {
        None if step.is_after_last => after_all.map(|last| last.saturating_add(1)),
        number => number,
    };
    let (steps, lone) = matched(&target.steps, &golden.steps, place);
    let lone = lone.into_iter().map(|(side, step)| only_in(side, &step_name(step)));
    (steps.into_iter().map(|(one, other)| (one, other, place(one))).collect(), lone.collect())
}

impl<'a> RankPairs<'a> {
    /// Gives each pair the rank of a second golden run that matches its golden. Returns the pairs without one, as text;
    /// if that is every pair, the dump does not belong to the golden.
    pub fn with_noise(&mut self, noise: &'a Dump, golden: &'a Dump) -> Vec<String> {
        let found = pair_ranks(noise, golden).pairs;
        let mut without = Vec::new();
        for pair in &mut self.pairs {
            let partner = found.iter().find(|known| std::ptr::eq(known.golden, pair.golden));
            pair.noise = partner.map(|known| known.target);
            if pair.noise.is_none() {
                let step = pair.step.map(|step| format!("step{step}/")).unwrap_or_default();
                without.push(format!(
                    "--noise: the noise dump has nothing for {step}{} of the golden, which is judged without it",
                    pair.golden.name
                ));
            }
        }
        without
    }
}

fn only_in(side: Side, name: &str) -> String {
    match side {
        Side::Target => format!("{name} is only in the target; golden has no such number"),
        Side::Golden => format!("{name} is only in the golden; the target has no such number"),
    }
}

fn step_name(step: &Step) -> String {
    match step.number {
        Some(number) => format!("step{number}"),
        None if step.is_after_last => AFTER_LAST_STEP.to_owned(),
        None => "the step without a number".to_owned(),
    }
}

/// Pairs of steps with their place, and the unpaired ones as text.
type MatchedSteps<'a> = (Vec<(&'a Step, &'a Step, Option<u64>)>, Vec<String>);

type Matched<'a, T> = (Vec<(&'a T, &'a T)>, Vec<(Side, &'a T)>);

/// Pairs two lists by number. Both are sorted already.
fn matched<'a, T>(target: &'a [T], golden: &'a [T], number: impl Fn(&T) -> Option<u64>) -> Matched<'a, T> {
    if let ([one], [other]) = (target, golden) {
        return (vec![(one, other)], Vec::new());
    }
    let mut pairs = Vec::new();
    let mut lone = Vec::new();
    let mut taken = vec![false; golden.len()];
    for one in target {
        let partner = (0..golden.len())
            .find(|&other| !taken[other] && number(one).is_some() && number(&golden[other]) == number(one));
        match partner {
            Some(other) => {
                taken[other] = true;
                pairs.push((one, &golden[other]));
            }
            None => lone.push((Side::Target, one)),
        }
    }
    let left = golden.iter().zip(taken).filter(|(_, taken)| !taken);
    lone.extend(left.map(|(other, _)| (Side::Golden, other)));
    (pairs, lone)
}

/// Provides a sink for the rows of each pair of ranks.
pub trait Outputs: Sync {
    /// Receives the rows of one pair.
    type Sink: Sink + Send;

    /// Opens the sink of a pair.
    fn open(&self, pair: &RankPair<'_>) -> io::Result<Self::Sink>;
}

/// The result of one pair of ranks.
#[derive(Debug)]
pub struct RankResult<S> {
    /// The number of the step.
    pub step: Option<u64>,
    /// Whether it is what the run did after its last step.
    pub is_after_last: bool,
    /// The name of the target's rank.
    pub target: String,
    /// The name of the golden's.
    pub golden: String,
    /// The outcome, and the sink with the rows; or why the two could not be compared.
    pub result: Result<(RankOutcome, S), CompareError>,
}

/// The first divergence of a comparison, and its rank. Of the first step that has one, a rank where a call introduced
/// the error comes before a rank that may have received it from other ranks. Of several such ranks, the one that had made
/// fewest collectives comes first: later errors may have come from it.
pub fn first_divergence<S>(ranks: &[RankResult<S>]) -> Option<(&RankResult<S>, &Divergence)> {
    let found =
        || ranks.iter().filter_map(|rank| Some((rank, rank.result.as_ref().ok()?.0.first_divergence()?)));
    let (first, divergence) = found().next()?;
    let of_step =
        found().take_while(|(rank, _)| (rank.step, rank.is_after_last) == (first.step, first.is_after_last));
    let own = of_step.filter(|(_, divergence)| !divergence.may_come_from_another_rank());
    own.min_by_key(|(_, divergence)| divergence.collectives_before).or(Some((first, divergence)))
}

/// The ranks of a pair, opened.
#[derive(Debug)]
pub struct OpenedPair {
    /// The target's.
    pub target: Rank,
    /// The golden's.
    pub golden: Rank,
    /// That of a second golden run, if there is one; or why it cannot be read.
    pub noise: Option<Result<Rank, Error>>,
}

impl OpenedPair {
    /// Opens the ranks of a pair on this machine.
    pub fn open(pair: &RankPair<'_>) -> Result<OpenedPair, Error> {
        let (target, golden) = rayon::join(|| pair.target.open(), || pair.golden.open());
        Ok(OpenedPair { target: target?, golden: golden?, noise: pair.noise.map(RankPlace::open) })
    }
}

/// Compares one pair. Fails in its result only.
pub fn compare_pair<O: Outputs>(
    style: &dyn Style,
    pair: &RankPair<'_>,
    outputs: &O,
    progress: &dyn Progress,
    prover: Option<&dyn Prover>,
) -> RankResult<O::Sink> {
    let opened = OpenedPair::open(pair).map_err(CompareError::from);
    pair.answered(opened.and_then(|opened| compare_opened(style, pair, opened, outputs, progress, prover)))
}

/// Compares the ranks of a pair.
pub fn compare_opened<O: Outputs>(
    style: &dyn Style,
    pair: &RankPair<'_>,
    opened: OpenedPair,
    outputs: &O,
    progress: &dyn Progress,
    prover: Option<&dyn Prover>,
) -> Result<(RankOutcome, O::Sink), CompareError> {
    // If a noise dump cannot be read, the comparison continues without it.
    let (noise, unread) = match opened.noise.transpose() {
        Ok(noise) => (noise, None),
        Err(error) => (None, Some(error)),
    };
    let (target, golden) = (Arc::new(opened.target), Arc::new(opened.golden));
    let proving = prover.map(|prover| Proving { prover, ranks: [&target, &golden] });
    let known = Known { noise: noise.as_ref(), step: pair.place, proving };
    let mut sink = outputs.open(pair)?;
    let mut outcome = compare_ranks_knowing(style, &target, &golden, known, &mut sink, progress)?;
    unread.into_iter().for_each(|error| outcome.problems.note(format!("--noise: {error}")));
    outcome.sheet = sink.sheet();
    Ok((outcome, sink))
}

/// Compares every pair; results are in the order of the pairs. Pairs are compared in parallel, but one after another with
/// a prover: what it runs has threads of its own, and may wait for those of the comparison.
pub fn compare_dumps<O: Outputs>(
    style: &dyn Style,
    pairs: &[RankPair<'_>],
    outputs: &O,
    progress: &dyn Progress,
    prover: Option<&dyn Prover>,
) -> Vec<RankResult<O::Sink>> {
    let compare = |pair: &RankPair<'_>| compare_pair(style, pair, outputs, progress, prover);
    match prover {
        Some(_) => pairs.iter().map(compare).collect(),
        None => pairs.par_iter().map(compare).collect(),
    }
}
