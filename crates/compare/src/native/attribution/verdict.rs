//! Verdicts of rows, and the finding of a call that introduced an error.

use ulpscope_dump::{CallKind, Content, Entry};
use ulpscope_kernels::Comparison;
use ulpscope_report::{Cell, Emphasis};

use crate::fact::{ArgumentDifference, Fact, Likeness, NonFiniteCount, Plain};
use crate::finding::{
    CauseDetails, Finding, FindingCause, FindingKind, LeftDetails, Measure, Part, Precision,
};
use crate::native::attribution::blame::Origins;
use crate::native::attribution::conclusion::{Cause, Conclusion};
use crate::native::columns::{self, CLASS, EXPECTED, VERDICT, WHY};
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::measure::{Measured, State};
use crate::native::evidence::tensor_error::ratio;
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::expectation::noise_floor::NoiseSample;
use crate::native::expectation::rounding::{ACCUMULATOR, looks_like};
use crate::native::thresholds::rounding::{LIKE_PRECISION_PEAK, LIKE_PRECISION_SHARED};
use crate::native::thresholds::{confidence, likeness};
use crate::origins::TakenOrigin;
use crate::proof::Proof;
use crate::region::Region;
use crate::style::{Judged, Row, Side, Verdict};
use crate::verdict::Class;
use crate::words;

/// The verdict of a row before anything is concluded: final for what is equal or cannot be compared.
pub(in crate::native) fn open(measured: &Measured, entry: &Entry) -> (&'static str, Verdict) {
    match measured.state {
        State::Equal => ("equal", Verdict::Pass),
        State::Apart => ("noise", Verdict::Pass),
        State::Differs(_) | State::Unlike(_) => ("differs", Verdict::Warn),
        State::NonFinite(_) => ("not finite", Verdict::Warn),
        State::BothNan(_) => ("both NaN", Verdict::Warn),
        State::Unknown(_) if matches!(entry.content, Content::Tensor(_)) => ("not compared", Verdict::Warn),
        State::Unknown(_) | State::Blank => ("not compared", Verdict::NotCompared),
    }
}

/// What was measured, as a value.
pub(in crate::native) fn seen(measured: &Measured) -> Option<Fact> {
    let fact = match &measured.state {
        State::Equal => None,
        State::Apart => Some(match &measured.comparison {
            Some(comparison) => Fact::Elements {
                distance: comparison.distances.rel_l2,
                largest: comparison.distances.max_abs,
                likeness: looks_like_mistake(measured, comparison),
            },
            None => Fact::Statistics { target: measured.target, golden: measured.golden },
        }),
        State::Differs(how) | State::Unlike(how) | State::Unknown(how) => Some(how.clone()),
        State::Blank => Some(Fact::Uninitialised),
        State::NonFinite(count) => Some(non_finite(*count, measured)),
        State::BothNan(elements) => Some(Fact::BothNan { elements: *elements }),
    };
    match &measured.reshaped {
        None => fact,
        Some([target, golden]) => Some(Fact::Reshaped {
            target: target.clone(),
            golden: golden.clone(),
            elements: fact.map(Box::new),
        }),
    }
}

/// On which side, and what.
fn non_finite(elements: u64, measured: &Measured) -> Fact {
    let Some(comparison) = &measured.comparison else {
        let is_broken = measured.target.iter().flatten().any(|number| !number.is_finite());
        return Fact::NonFiniteStatistics(if is_broken { Side::Target } else { Side::Golden });
    };
    let bad = &comparison.distances.non_finite;
    let target = NonFiniteCount { nan: bad.target_nan, infinite: bad.target_pos_inf + bad.target_neg_inf };
    let golden = NonFiniteCount { nan: bad.golden_nan, infinite: bad.golden_pos_inf + bad.golden_neg_inf };
    Fact::NonFinite { elements, counts: [target, golden] }
}

/// What kind of mistake would give this error.
fn looks_like_mistake(measured: &Measured, comparison: &Comparison) -> Option<Likeness> {
    let distances = &comparison.distances;
    // Noise looks like nothing.
    if distances.rel_l2 < likeness::NOISE.get() {
        return None;
    }
    let few = (distances.count as f64 / likeness::FEW.get()) as u64;
    if (1..=few.max(1)).contains(&comparison.over_tolerance)
        && distances.count as f64 >= likeness::LEAST_ELEMENTS.get()
    {
        return Some(Likeness::FewElements { differ: comparison.over_tolerance, of: distances.count });
    }
    let (target, golden) = (measured.target[3]?, measured.golden[3]?);
    if target == 0.0 && golden > 0.0 {
        return Some(Likeness::Zero);
    }
    let cosine = distances.cosine.filter(|cosine| 1.0 - cosine.abs() < likeness::FACTOR.get())?;
    let factor = cosine.signum() * target / golden;
    if (factor + 1.0).abs() < likeness::SIGN.get() {
        return Some(Likeness::SignFlipped);
    }
    Some(Likeness::Factor(factor))
}

/// Marks the row of a final result that is too far apart although no call is to blame.
pub(in crate::native) fn mark_unexplained(judged: &mut Judged, row: usize) {
    let Some(row) = judged.rows.get_mut(row) else { return };
    row.cells[VERDICT] = Cell::text("unexplained");
    row.cells[WHY] = Cell::text(words::fact(&Fact::Unexplained));
    row.verdict = Verdict::Fail;
    row.emphasis = emphasis(row.verdict);
}

/// A unit about to get its verdicts.
#[derive(Clone)]
pub(in crate::native) struct Settling<'a> {
    pub(in crate::native) conclusion: &'a Conclusion,
    pub(in crate::native) observed: &'a CallEvidence,
    /// How far apart parameters and the like are in this run.
    pub(in crate::native) origins: &'a Origins,
    /// The name of the call that its error comes from.
    pub(in crate::native) from: Option<String>,
    /// What it leaves as another.
    pub(in crate::native) left: Option<LeftDetails>,
    /// The calls among which the two programs part, if it is the first of them.
    pub(in crate::native) region: Option<&'a Region>,
    /// Its own name.
    pub(in crate::native) name: String,
}

impl Settling<'_> {
    pub(in crate::native) fn settle(&self, judged: &mut Judged) {
        judged.class = Some(self.conclusion.class);
        let shown = self.conclusion.entry.map(|entry| self.observed.entries[entry].row as usize);
        for seen in &self.observed.entries {
            if let Some(row) = judged.rows.get_mut(seen.row as usize)
                && !matches!(seen.state, Relation::Lone(_))
            {
                self.settle_row(seen, row, shown == Some(seen.row as usize));
            }
        }
        judged.origins = self.taken_origins(judged);
        if let Some(cause) = self.conclusion.cause {
            judged.finding = Some(self.finding(cause, shown.unwrap_or(0), judged));
        }
        for (number, row) in judged.rows.iter_mut().enumerate() {
            row.cells[CLASS] = Cell::text(self.conclusion.class.words());
            if self.conclusion.expected.whole > 0.0 && shown == Some(number) {
                row.cells[EXPECTED] = Cell::Exact(self.conclusion.expected.whole);
            }
            if let Some(finding) = judged.finding.as_ref().filter(|finding| finding.row == number) {
                row.cells[VERDICT] = Cell::text(self.conclusion.class.words());
                row.cells[WHY] = Cell::text(finding.why());
                row.verdict = Verdict::Fail;
            } else {
                row.cells[WHY] = Cell::maybe(row.fact.as_deref(), |fact| Cell::text(words::fact(fact)));
            }
            row.fact = None;
            row.emphasis = emphasis(row.verdict);
        }
    }

    /// The finding of a call that was blamed until replay refuted it.
    pub(in crate::native) fn refuted(&self, proof: Proof, judged: &Judged) -> Finding {
        let shown = self.conclusion.entry.map_or(0, |entry| self.observed.entries[entry].row as usize);
        let cause = self.conclusion.cause.unwrap_or(Cause::Made);
        Finding { proof: Some(proof), confidence: 0.0, ..self.finding(cause, shown, judged) }
    }

    fn settle_row(&self, seen: &EntryEvidence, row: &mut Row, is_shown: bool) {
        if is_shown && self.conclusion.cause.is_some() || seen.state == Relation::Equal {
            return;
        }
        let differs = !matches!(seen.state, Relation::Unknown | Relation::Blank | Relation::Missing);
        let (word, verdict) = match self.conclusion.class {
            // Of no error that anybody introduced: a decision that fell the other way within the noise.
            Class::Inherited if differs && self.from.is_none() => ("inherited", Verdict::Warn),
            Class::Inherited if differs => ("inherited", Verdict::Fail),
            Class::DivergedHere
            | Class::NonFiniteBornHere
            | Class::OriginDiffers
            | Class::DifferentProgram
                if differs && !seen.is_taken() =>
            {
                ("differs", Verdict::Fail)
            }
            Class::NotComparable if differs => ("not compared", Verdict::NotCompared),
            _ => return self.clear(seen, row),
        };
        row.cells[VERDICT] = Cell::text(word);
        row.verdict = verdict;
        if let (Class::Inherited, Some(from)) = (self.conclusion.class, &self.from) {
            row.fact = Some(Box::new(Fact::InheritedFrom(from.clone())));
        }
    }

    /// What is noise needs no reason.
    fn clear(&self, seen: &EntryEvidence, row: &mut Row) {
        if seen.state == Relation::Apart && row.verdict == Verdict::Pass {
            row.fact = None;
        }
    }

    fn finding(&self, cause: Cause, row: usize, judged: &Judged) -> Finding {
        let conclusion = self.conclusion;
        let shown = judged.rows.get(row);
        let entry = shown.and_then(columns::name).map_or_else(|| self.name.clone(), str::to_owned);
        let cause = cause.complete(self.cause_details(judged));
        // Nothing was measured on a call that one side lacks, and of an argument the cause tells.
        let is_argument = matches!(cause, FindingCause::Arguments(_) | FindingCause::ArgumentsInBackward(_));
        let is_told = self.observed.is_lone() || is_argument && conclusion.is_of_taker;
        let seen = shown.and_then(|row| row.fact.as_deref()).filter(|_| !is_told).cloned();
        let (error, expected) = (conclusion.error, conclusion.expected);
        let measure = (error.whole > 0.0).then_some(Measure {
            distance: shown
                .filter(|_| conclusion.entry.is_some() && !conclusion.is_of_taker)
                .and_then(|row| row.fact.as_deref()?.distance()),
            part: part(error, expected),
            error: error.whole,
            floor: expected.whole,
            is_behind: conclusion.is_of_taker,
            arguments: conclusion.taken,
        });
        let looks_like = self.looks_like().filter(|_| cause == FindingCause::Made);
        Finding {
            row,
            kind: match conclusion.class {
                Class::OriginDiffers => FindingKind::OriginDiffers,
                Class::NonFiniteBornHere => FindingKind::NonFiniteBornHere,
                Class::DifferentProgram => FindingKind::DifferentProgram,
                Class::DivergedHere
                | Class::Equal
                | Class::Noise
                | Class::Inherited
                | Class::NotComparable => FindingKind::DivergedHere,
            },
            cause,
            entry,
            seen,
            looks_like,
            confidence: believed(conclusion.confidence * self.trust(), measure.as_ref()),
            measure,
            downstream: 0,
            in_backward: matches!(self.observed.kind, CallKind::Backward | CallKind::ParametersGrad),
            proof: None,
        }
    }

    /// The precision that the error looks like: one of all elements alike, of a dtype that is finer.
    fn looks_like(&self) -> Option<Precision> {
        let (error, expected) = (self.conclusion.error, self.conclusion.expected);
        let extent = self.observed.entries[self.conclusion.entry?].numbers.as_ref()?;
        let is_even = error.drift < LIKE_PRECISION_SHARED.get() * error.whole
            && error.peak * expected.whole <= LIKE_PRECISION_PEAK.get() * error.whole * expected.peak;
        let is_fine = extent.by_elements && extent.unit() <= ACCUMULATOR;
        if is_even && is_fine { looks_like(error.whole) } else { None }
    }

    /// What the dump does not hold cannot make one sure.
    fn trust(&self) -> f64 {
        let extent = self.conclusion.entry.and_then(|entry| self.observed.entries[entry].numbers.as_ref());
        if extent.is_some_and(|extent| !extent.by_elements) { confidence::BY_STATISTICS } else { 1.0 }
    }

    fn cause_details(&self, judged: &Judged) -> CauseDetails {
        CauseDetails {
            is_gradient_sum: self.observed.kind == CallKind::ParametersGrad,
            arguments: self.other_arguments(judged),
            cut_side: self.cut_side(),
            lone_side: self.lone_side(),
            left: self.left.clone().unwrap_or_default(),
            input_shape_differs: self.works_on_unlike(),
            region: self.region.cloned(),
        }
    }

    /// The parameters and buffers among its arguments, of a call that both sides make.
    fn taken_origins(&self, judged: &Judged) -> Vec<TakenOrigin> {
        if self.observed.is_lone() || self.observed.kind != CallKind::Forward {
            return Vec::new();
        }
        let entries = self.observed.entries.iter();
        let is_kept = |source: &Source| matches!(source, Source::Origin | Source::Buffer);
        let taken = entries.filter(|seen| seen.is_taken() && seen.sources().iter().all(is_kept));
        let named = taken.filter_map(|seen| {
            let is_other = match (seen.state, &seen.numbers) {
                (Relation::Equal, _) => false,
                (Relation::Apart, Some(extent)) => {
                    extent.mismatched > 0 || !self.origins.is_ordinary(extent, NoiseSample::default())
                }
                (Relation::Differs | Relation::Unlike, _) => true,
                _ => return None,
            };
            let entry = judged.rows.get(seen.row as usize).and_then(columns::target_name)?;
            Some(TakenOrigin { entry: entry.to_owned(), is_other })
        });
        named.collect()
    }

    /// The side of a call that the other lacks.
    fn lone_side(&self) -> Side {
        if self.observed.target().is_some() { Side::Target } else { Side::Golden }
    }

    /// The side on which no gradient passes.
    fn cut_side(&self) -> Side {
        let wants =
            self.observed.entries.iter().find(|entry| entry.is_cut_off()).map(|entry| entry.wants_gradient);
        match wants {
            Some([_, Some(false)]) => Side::Golden,
            None if self.observed.target().is_none() => Side::Golden,
            _ => Side::Target,
        }
    }

    fn works_on_unlike(&self) -> bool {
        self.observed
            .entries
            .iter()
            .any(|seen| seen.is_taken() && seen.is_tensor && seen.state == Relation::Unlike)
    }

    /// The scalar arguments that differ.
    fn other_arguments(&self, judged: &Judged) -> Option<Vec<ArgumentDifference>> {
        let entries = self.observed.entries.iter();
        let others = entries.filter(|seen| seen.is_other_argument() || seen.is_own_argument());
        let rows = others.filter_map(|seen| Some((seen, judged.rows.get(seen.row as usize)?)));
        let named: Vec<ArgumentDifference> = rows
            .map(|(seen, row)| ArgumentDifference {
                entry: columns::entry(row).to_owned(),
                fact: match seen.state {
                    Relation::Lone(side) if seen.is_tensor => {
                        Some(Fact::OnlyIn { side, value: Plain::Tensor(columns::dtype(row).to_owned()) })
                    }
                    _ => row.fact.as_deref().cloned(),
                },
            })
            .collect();
        (!named.is_empty()).then_some(named)
    }
}

/// No confidence is stated that the numbers beside it contradict.
fn believed(sure: f64, measure: Option<&Measure>) -> f64 {
    let is_contradicted =
        measure.is_some_and(|measure| measure.part.1 <= 1.0 && measure.error <= measure.floor);
    if is_contradicted { sure.min(confidence::GUESS) } else { sure }
}

/// In what an error is furthest beyond what was expected, and by how much.
fn part(error: ErrorProfile, expected: ErrorProfile) -> (Part, f64) {
    let parts = [
        (Part::Whole, ratio(error.whole, expected.whole)),
        (Part::WorstElement, ratio(error.peak, expected.peak)),
        (Part::CommonFactor, ratio(error.drift, expected.drift)),
    ];
    let told = parts.into_iter().filter(|(_, times)| times.is_finite());
    told.reduce(|most, one| if one.1 > most.1 { one } else { most }).unwrap_or(parts[0])
}

/// Colour for a verdict.
pub(in crate::native) fn emphasis(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Fail => Emphasis::Bad,
        Verdict::Warn => Emphasis::Warn,
        Verdict::Pass | Verdict::NotCompared => Emphasis::Plain,
    }
}
