//! The measured noise floor: how far a second golden run is from the golden.
//!
//! ```text
//! noise, golden ──► paired as target and golden are ──► entry by entry measured ──► Floor: errors by golden's call and place
//! units of target and golden ──► NoiseNoiseFloor::of_units ──► NoiseSample: what an entry may be off because a healthy run is as well
//! ```
//! Rounding and siblings say what a healthy run should look like; another kernel, thread count or seed, or inputs moved by
//! a unit in the last place, show what one does look like. Only errors are kept, and only where there are any.

use rayon::prelude::*;
use ulpscope_dump::{Problems, Rank};

use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, NewEntry, Relation, place};
use crate::native::evidence::measure::{State, measure};
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::thresholds::noise::{DROWNED, MARGIN};
use crate::note::Note;
use crate::pairing::{CallPair, EntryPair, EntryUnit, Matching, PairOptions, Unit, pair, pair_entries};
use crate::run::Progress;

/// What was heard of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::native) struct NoiseSample {
    /// The relative errors that the second golden run has.
    pub(in crate::native) apart: ErrorProfile,
    /// Whether exact values differ there: indices, masks, digests.
    pub(in crate::native) differs: bool,
}

impl NoiseSample {
    /// The relative errors that are allowed for.
    pub(in crate::native) fn allowed(&self) -> ErrorProfile {
        let ErrorProfile { whole, peak, drift } = self.apart;
        ErrorProfile { whole: MARGIN.get() * whole, peak: MARGIN.get() * peak, drift: MARGIN.get() * drift }
    }

    fn is_silent(&self) -> bool {
        *self == NoiseSample::default()
    }
}

/// The noise of the units of a comparison; silence, where none was measured.
#[derive(Debug, Default)]
pub(in crate::native) struct Noise(Vec<Vec<NoiseSample>>);

impl Noise {
    /// What was heard of an entry, by the number of its unit and its number there.
    pub(in crate::native) fn of(&self, unit: usize, entry: usize) -> NoiseSample {
        self.0.get(unit).and_then(|entries| entries.get(entry)).copied().unwrap_or_default()
    }
}

/// What a second golden run tells.
#[derive(Debug, Default)]
pub(in crate::native) struct NoiseFloor {
    /// By the golden's call: place of an entry and what was heard there, in the order of its entries.
    calls: Vec<Vec<(u64, NoiseSample)>>,
    pub(in crate::native) notes: Vec<Note>,
    problems: Problems,
}

/// What was heard of a call.
#[derive(Default)]
struct Listened {
    call: usize,
    heard: Vec<(u64, NoiseSample)>,
    /// Tensors that had errors to measure, even if there were none.
    measured: usize,
    /// Tensors of which nothing but statistics was compared.
    by_statistics: usize,
    /// Tensors that are NaN or infinite on one side only.
    non_finite: usize,
    problems: Vec<String>,
}

impl NoiseFloor {
    /// Measures. `golden` is the rank that the target is held against.
    pub(in crate::native) fn measure(
        noise: &Rank,
        golden: &Rank,
        matching: Matching,
        progress: &dyn Progress,
    ) -> NoiseFloor {
        // What a mapping file says is about the target: a golden run has golden's names.
        let options = PairOptions { matching, ..PairOptions::default() };
        let pairing = pair(noise, golden, &options);
        let pairs: Vec<CallPair> = pairing
            .units
            .iter()
            .filter_map(|unit| match unit {
                Unit::Pair(pair) => Some(*pair),
                _ => None,
            })
            .collect();
        progress.start(pairs.len() as u64);
        let listen = |pair: &CallPair| {
            let (listened, bytes) = listen(noise, golden, *pair, &options);
            progress.advance(bytes);
            listened
        };
        let listened: Vec<Listened> = pairs.par_iter().map(listen).collect();
        let mut floor = NoiseFloor { calls: vec![Vec::new(); golden.calls().len()], ..NoiseFloor::default() };
        floor.describe(&listened, noise, golden);
        for one in listened {
            one.problems.into_iter().for_each(|problem| floor.problems.note(format!("--noise: {problem}")));
            floor.calls[one.call] = one.heard;
        }
        // Parts of the dump that could not be read at all.
        for problem in noise.problems().listed() {
            floor.problems.note(format!("--noise: {problem}"));
        }
        floor.notes.extend(noise.notes().iter().map(|note| Note::Text(format!("--noise: {note}"))));
        floor
    }

    /// What could not be read of the noise dump, or not be used.
    pub(in crate::native) fn problems(&self) -> Vec<String> {
        let mut all = self.problems.listed().to_vec();
        let more = self.problems.unlisted();
        if more > 0 {
            all.push(format!("--noise: and {more} more could not be read"));
        }
        all
    }

    /// What was heard of every entry of every unit.
    pub(in crate::native) fn of_units(&self, units: &[CallEvidence]) -> Noise {
        let of_entry = |heard: &[(u64, NoiseSample)], entry: &EntryEvidence| {
            let known = heard.iter().find(|(place, _)| *place == entry.golden_place());
            known.map_or_else(NoiseSample::default, |(_, heard)| *heard)
        };
        let of_unit = |unit: &CallEvidence| match unit.golden().and_then(|call| self.calls.get(call)) {
            Some(heard) if !heard.is_empty() => {
                unit.entries.iter().map(|entry| of_entry(heard, entry)).collect()
            }
            _ => Vec::new(),
        };
        Noise(units.iter().map(of_unit).collect())
    }

    /// Says with which floor the target is judged, and what the noise dump cannot tell.
    fn describe(&mut self, listened: &[Listened], noise: &Rank, golden: &Rank) {
        let path = noise.path.display();
        let heard = listened.iter().filter(|one| one.measured > 0).count();
        if heard == 0 {
            self.problems.note(format!(
                "--noise {path}: nothing of the noise dump could be measured against the golden: expected a second run of \
                 the golden's program with statistics or tensors, found no tensor that both have; verdicts are drawn \
                 without it"
            ));
            return;
        }
        let of_call =
            |one: &Listened| one.heard.iter().map(|(_, heard)| heard.apart.whole).fold(0.0, f64::max);
        let mut errors: Vec<f64> = listened.iter().filter(|one| one.measured > 0).map(of_call).collect();
        errors.sort_by(f64::total_cmp);
        let calls = golden.calls().len();
        let loudest = errors.last().copied().unwrap_or(0.0);
        let first = listened.iter().find(|one| one.measured > 0 && of_call(one) == loudest);
        self.notes.push(Note::NoiseFloor {
            path: path.to_string(),
            measured: heard as u64,
            calls: calls as u64,
            median: errors[errors.len() / 2],
            largest: loudest,
            at: first.filter(|_| loudest > 0.0).map(|one| golden.name(one.call)),
        });
        if 2 * heard < calls {
            self.notes.push(Note::NoiseLacksCalls { lacking: (calls - heard) as u64, calls: calls as u64 });
        }
        if loudest == 0.0 {
            self.notes.push(Note::NoiseIsZero);
        }
        let drowned = errors.iter().filter(|error| **error > DROWNED.get()).count();
        if drowned > 0 {
            // A few are what cancels out, as the gradient of a bias in front of a normalisation does.
            self.notes.push(Note::NoiseIsLarge { calls: drowned as u64, is_most: 2 * drowned > heard });
        }
        let (measured, by_statistics) =
            listened.iter().fold((0, 0), |(all, some), one| (all + one.measured, some + one.by_statistics));
        if by_statistics > 0 {
            self.notes.push(Note::NoiseByStatistics { tensors: by_statistics as u64, of: measured as u64 });
        }
        let non_finite: usize = listened.iter().map(|one| one.non_finite).sum();
        if non_finite > 0 {
            self.notes.push(Note::NoiseNonFinite(non_finite as u64));
        }
    }
}

/// Measures two calls; also tells how many bytes were read.
fn listen(noise: &Rank, golden: &Rank, pair: CallPair, options: &PairOptions) -> (Listened, u64) {
    let mut listened = Listened { call: pair.golden, ..Listened::default() };
    let mut bytes = 0u64;
    let (one, other) = match (noise.entries(pair.target), golden.entries(pair.golden)) {
        (Ok(one), Ok(other)) => (one, other),
        (one, _) => {
            // What is wrong with the golden is told when the target is held against it.
            listened.problems.extend(one.err().map(|error| error.to_string()));
            return (listened, bytes);
        }
    };
    for unit in pair_entries(&one, &other, &options.mapping) {
        let EntryUnit::Pair(EntryPair { target: entry, golden: known, .. }) = unit else { continue };
        let mut measured = measure((noise, entry), (golden, known));
        bytes = bytes.saturating_add(measured.bytes);
        listened.problems.append(&mut measured.problems);
        if matches!(measured.state, State::NonFinite(_) | State::BothNan(_)) {
            listened.non_finite += usize::from(matches!(measured.state, State::NonFinite(_)));
            continue;
        }
        let seen = NewEntry::pair(0, entry, known, &measured, Default::default());
        if !seen.traits.is_tensor {
            continue;
        }
        let mut heard =
            NoiseSample { apart: ErrorProfile::default(), differs: seen.traits.state == Relation::Differs };
        listened.measured += usize::from(heard.differs || seen.traits.state == Relation::Equal);
        if let Some(extent) = seen.numbers.as_ref().filter(|_| seen.traits.state == Relation::Apart) {
            let apart = ErrorProfile::relative(extent);
            listened.measured += 1;
            listened.by_statistics += usize::from(!extent.by_elements);
            // An error without a size to hold it against would allow for everything.
            if apart.whole.is_finite() && apart.peak.is_finite() {
                heard.apart = apart;
            }
        }
        if !heard.is_silent() {
            listened.heard.push((place(known.role, &known.path), heard));
        }
    }
    (listened, bytes)
}
