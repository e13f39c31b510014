//! The words: verdicts of rows, and what is said of a call that introduced an error.

use ulpscope_dump::{CallKind, Content, Entry};
use ulpscope_kernels::Comparison;
use ulpscope_report::{Cell, Emphasis, format_apart, format_digits, format_short};

use super::blame::Origins;
use super::columns::{CLASS, COLUMNS, ENTRY, EXPECTED, GOLDEN_NAME, TARGET_NAME, VERDICT, WHY};
use super::conclusion::{Cause, Conclusion};
use super::expect::Apart;
use super::extent::ratio;
use super::measure::{Basis, Measured, Numbers, State};
use super::noise::Heard;
use super::observed::{Observed, Seeing, Seen, Source};
use super::rounding::{ACCUMULATOR, looks_like};
use crate::origins::TakenOrigin;
use crate::prose::{Argument, evidence};
use crate::style::{
    Finding, FindingCause, FindingKind, Judged, Measure, Part, Precision, Row, Side, Verdict,
};
use crate::verdict::Class;

/// The columns with what kind of value each side has.
const TYPES: [usize; 2] = [10, 11];

/// The verdict of a row before anything is concluded: final for what is equal or cannot be compared.
pub(super) fn open(measured: &Measured, entry: &Entry) -> (&'static str, Verdict) {
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

/// What was measured, for a person.
pub(super) fn why(measured: &Measured) -> String {
    let reason = match &measured.state {
        State::Equal => String::new(),
        State::Apart => match &measured.comparison {
            Some(comparison) => elements(measured, comparison),
            None => statistics_apart(&measured.target, &measured.golden),
        },
        State::Differs(_) if measured.basis == Basis::Statistics => {
            statistics_apart(&measured.target, &measured.golden)
        }
        State::Differs(how) if measured.basis == Basis::Elements => format!("{how} differ"),
        State::Differs(how) | State::Unlike(how) | State::Unknown(how) => how.clone(),
        State::Blank => "memory that nothing was written to yet".to_owned(),
        State::NonFinite(count) => non_finite(*count, measured),
        State::BothNan(0) => "NaN among the statistics of both sides: nothing can be said".to_owned(),
        State::BothNan(1) => "1 element is NaN on both sides; all others agree".to_owned(),
        State::BothNan(count) => format!("{count} elements are NaN on both sides; all others agree"),
    };
    match &measured.reshaped {
        None => reason,
        Some(shapes) if reason.is_empty() => format!("{shapes}, compared in order"),
        Some(shapes) => format!("{reason}; {shapes}, compared in order"),
    }
}

/// On which side, and what.
fn non_finite(count: u64, measured: &Measured) -> String {
    let Some(comparison) = &measured.comparison else {
        let is_broken = measured.target.iter().flatten().any(|number| !number.is_finite());
        let side = if is_broken { Side::Target } else { Side::Golden };
        return format!("NaN or infinite statistics in the {} only", side.word());
    };
    let bad = &comparison.distances.non_finite;
    let counted = |nan: u64, infinite: u64| match (nan, infinite) {
        (0, 0) => "none".to_owned(),
        (nan, 0) => format!("{nan} NaN"),
        (0, infinite) => format!("{infinite} infinite"),
        (nan, infinite) => format!("{nan} NaN and {infinite} infinite"),
    };
    let target = counted(bad.target_nan, bad.target_pos_inf + bad.target_neg_inf);
    let golden = counted(bad.golden_nan, bad.golden_pos_inf + bad.golden_neg_inf);
    let elements = if count == 1 { "1 element is".to_owned() } else { format!("{count} elements are") };
    format!("{elements} NaN or infinite on one side only: {target} in the target, {golden} in the golden")
}

/// Distance and largest error, and what the error looks like where it looks like something.
fn elements(measured: &Measured, comparison: &Comparison) -> String {
    let distances = &comparison.distances;
    let (distance, error) = (format_short(distances.rel_l2), format_short(distances.max_abs));
    let text = format!("relative distance {distance}, largest error {error}");
    match likeness(measured, comparison) {
        Some(likeness) => format!("{text}, {likeness}"),
        None => text,
    }
}

/// What kind of mistake would give this error.
fn likeness(measured: &Measured, comparison: &Comparison) -> Option<String> {
    let distances = &comparison.distances;
    // Noise looks like nothing.
    if distances.rel_l2 < 1e-3 {
        return None;
    }
    let few = distances.count / 100;
    if (1..=few.max(1)).contains(&comparison.over_tolerance) && distances.count >= 16 {
        return Some(format!("in {} of {} elements", comparison.over_tolerance, distances.count));
    }
    let (target, golden) = (measured.target[3]?, measured.golden[3]?);
    if target == 0.0 && golden > 0.0 {
        return Some("as if it were zero".to_owned());
    }
    let cosine = distances.cosine.filter(|cosine| 1.0 - cosine.abs() < 1e-6)?;
    let factor = cosine.signum() * target / golden;
    if (factor + 1.0).abs() < 1e-3 {
        return Some("as if its sign were flipped".to_owned());
    }
    // Of a factor near 1, how far it is from 1 is what tells.
    let digits = if (factor - 1.0).abs() < 0.1 { 4 } else { 3 };
    Some(format!("as if multiplied by {}", format_apart(factor, 1.0, digits).0))
}

/// The statistics that look different, with as few digits as show a difference at all.
fn statistics_apart(target: &Numbers, golden: &Numbers) -> String {
    let pairs = || ["max", "min", "mean", "norm"].into_iter().zip(target.iter().zip(golden));
    let apart = |digits: usize| -> Vec<String> {
        let shown = pairs().filter_map(|(name, (one, other))| Some((name, one.as_ref()?, other.as_ref()?)));
        let shown = shown
            .map(|(name, one, other)| (name, format_digits(*one, digits), format_digits(*other, digits)));
        let differ = shown.filter(|(_, one, other)| one != other);
        differ.map(|(name, one, other)| format!("{name} {one} against {other}")).collect()
    };
    let apart = (3..=17).map(apart).find(|apart| !apart.is_empty()).unwrap_or_default();
    format!("by statistics: {}", apart.join(", "))
}

/// Marks the row of a final result that is too far apart although no call is to blame.
pub(super) fn mark_unexplained(judged: &mut Judged, row: usize) {
    let Some(row) = judged.rows.get_mut(row) else { return };
    row.cells[VERDICT] = Cell::text("unexplained");
    row.cells[WHY] = Cell::text(
        "a final result differs by more than accumulated rounding allows, and no call explains it",
    );
    row.verdict = Verdict::Fail;
    row.emphasis = emphasis(row.verdict);
}

/// A unit about to get its verdicts.
pub(super) struct Settling<'a> {
    pub(super) conclusion: &'a Conclusion,
    pub(super) observed: &'a Observed,
    /// How far apart parameters and the like are in this run.
    pub(super) origins: &'a Origins,
    /// The name of the call that its error comes from.
    pub(super) from: Option<String>,
    /// What it leaves as another.
    pub(super) left: Option<&'a str>,
    /// Its own name.
    pub(super) name: String,
}

impl Settling<'_> {
    pub(super) fn settle(&self, judged: &mut Judged) {
        judged.class = Some(self.conclusion.class);
        let shown = self.conclusion.entry.map(|entry| self.observed.entries[entry].row as usize);
        for seen in &self.observed.entries {
            if let Some(row) = judged.rows.get_mut(seen.row as usize)
                && !matches!(seen.state, Seeing::Lone(_))
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
                row.cells[WHY] = Cell::text(finding.why.as_str());
                row.verdict = Verdict::Fail;
            }
            row.emphasis = emphasis(row.verdict);
        }
    }

    fn settle_row(&self, seen: &Seen, row: &mut Row, is_shown: bool) {
        if is_shown && self.conclusion.cause.is_some() || seen.state == Seeing::Equal {
            return;
        }
        let differs = !matches!(seen.state, Seeing::Unknown | Seeing::Blank | Seeing::Missing);
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
            row.cells[WHY] = Cell::text(format!("from {from}"));
        }
    }

    /// What is noise needs no reason.
    fn clear(&self, seen: &Seen, row: &mut Row) {
        if seen.state == Seeing::Apart && row.verdict == Verdict::Pass {
            row.cells[WHY] = Cell::Missing;
        }
    }

    fn finding(&self, cause: Cause, row: usize, judged: &Judged) -> Finding {
        let conclusion = self.conclusion;
        let shown = judged.rows.get(row);
        let cell = |column: usize| match shown.map(|row| &row.cells[column]) {
            Some(Cell::Text(text)) => text.clone(),
            _ => String::new(),
        };
        let seen = cell(WHY);
        let target_name = cell(TARGET_NAME);
        let entry = [target_name, cell(GOLDEN_NAME), self.name.clone()];
        let entry = entry.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
        let cause = self.cause(cause, judged);
        // Nothing was measured on a call that one side lacks, and of an argument the cause tells.
        let is_argument = matches!(cause, FindingCause::Arguments(_) | FindingCause::ArgumentsInBackward(_));
        let is_told = self.observed.is_lone() || is_argument && conclusion.is_of_taker;
        let seen = if is_told { String::new() } else { seen };
        let (error, expected) = (conclusion.error, conclusion.expected);
        let measure = (error.whole > 0.0).then_some(Measure {
            distance: shown
                .filter(|_| conclusion.entry.is_some() && !conclusion.is_of_taker)
                .and_then(rel_l2),
            part: part(error, expected),
            error: error.whole,
            floor: expected.whole,
            is_behind: conclusion.is_of_taker,
            arguments: conclusion.taken,
        });
        let mut why = evidence(&cause, &seen, measure.as_ref());
        let looks_like = self.looks_like().filter(|_| cause == FindingCause::Made);
        if let Some(precision) = looks_like {
            why = format!("{why}; as much as if it were computed in {}", precision.words());
        }
        Finding {
            row,
            kind: match conclusion.class {
                Class::OriginDiffers => FindingKind::OriginDiffers,
                Class::NonFiniteBornHere => FindingKind::NonFiniteBornHere,
                Class::DifferentProgram => FindingKind::DifferentProgram,
                _ => FindingKind::DivergedHere,
            },
            cause,
            entry,
            why,
            seen,
            looks_like,
            confidence: conclusion.confidence * self.trust(),
            measure,
            downstream: 0,
            in_backward: matches!(self.observed.kind, CallKind::Backward | CallKind::ParametersGrad),
        }
    }

    /// The precision that the error looks like: one of all elements alike, of a dtype that is finer.
    fn looks_like(&self) -> Option<Precision> {
        let (error, expected) = (self.conclusion.error, self.conclusion.expected);
        let extent = self.observed.entries[self.conclusion.entry?].numbers.as_ref()?;
        let is_even = error.drift < error.whole / 4.0
            && error.peak * expected.whole <= 2.0 * error.whole * expected.peak;
        let is_fine = extent.by_elements && extent.unit <= ACCUMULATOR;
        if is_even && is_fine { looks_like(error.whole) } else { None }
    }

    /// What the dump does not hold cannot make one sure.
    fn trust(&self) -> f64 {
        let extent = self.conclusion.entry.and_then(|entry| self.observed.entries[entry].numbers.as_ref());
        if extent.is_some_and(|extent| !extent.by_elements) { 0.8 } else { 1.0 }
    }

    fn cause(&self, cause: Cause, judged: &Judged) -> FindingCause {
        match cause {
            Cause::Made if self.observed.kind == CallKind::ParametersGrad => FindingCause::Sum,
            Cause::Made => FindingCause::Made,
            Cause::Argument => {
                self.other_arguments(judged).map_or(FindingCause::Made, FindingCause::Arguments)
            }
            Cause::ArgumentInBackward => {
                let arguments = self.other_arguments(judged);
                arguments.map_or(FindingCause::Made, FindingCause::ArgumentsInBackward)
            }
            Cause::Cut => FindingCause::Cut(self.cut_side()),
            Cause::Origin => FindingCause::Origin,
            Cause::Cast => FindingCause::Cast,
            Cause::Draw => FindingCause::Draw,
            Cause::Between => FindingCause::Between,
            Cause::Lone => FindingCause::Lone(self.lone_side()),
            Cause::Left => {
                FindingCause::Left(self.lone_side(), self.left.unwrap_or("parameter").replacen(':', " ", 1))
            }
            Cause::Wiring => FindingCause::Wiring,
            Cause::Shape if self.works_on_unlike() => FindingCause::GivenShape,
            Cause::Shape => FindingCause::Shape,
            Cause::NonFinite => FindingCause::NonFinite,
            Cause::BothBroken => FindingCause::BothNonFinite,
        }
    }

    /// The parameters and buffers among its arguments, of a call that both sides make.
    fn taken_origins(&self, judged: &Judged) -> Vec<TakenOrigin> {
        if self.observed.is_lone() || self.observed.kind != CallKind::Forward {
            return Vec::new();
        }
        let entries = self.observed.entries.iter();
        let is_kept = |source: &Source| matches!(source, Source::Origin | Source::Buffer);
        let taken = entries.filter(|seen| seen.is_taken() && seen.sources.iter().all(is_kept));
        let named = taken.filter_map(|seen| {
            let is_other = match (seen.state, &seen.numbers) {
                (Seeing::Equal, _) => false,
                (Seeing::Apart, Some(extent)) => {
                    extent.mismatched > 0 || !self.origins.is_ordinary(extent, Heard::default())
                }
                (Seeing::Differs | Seeing::Unlike, _) => true,
                _ => return None,
            };
            match judged.rows.get(seen.row as usize).map(|row| &row.cells[TARGET_NAME]) {
                Some(Cell::Text(entry)) => Some(TakenOrigin { entry: entry.clone(), is_other }),
                _ => None,
            }
        });
        named.collect()
    }

    /// The side of a call that the other lacks.
    fn lone_side(&self) -> Side {
        if self.observed.target.is_some() { Side::Target } else { Side::Golden }
    }

    /// The side on which no gradient passes.
    fn cut_side(&self) -> Side {
        let wants =
            self.observed.entries.iter().find(|entry| entry.is_cut_off()).map(|entry| entry.wants_gradient);
        match wants {
            Some([_, Some(false)]) => Side::Golden,
            None if self.observed.target.is_none() => Side::Golden,
            _ => Side::Target,
        }
    }

    fn works_on_unlike(&self) -> bool {
        self.observed
            .entries
            .iter()
            .any(|seen| seen.is_taken() && seen.is_tensor && seen.state == Seeing::Unlike)
    }

    /// The plain arguments that differ, in words.
    fn other_arguments(&self, judged: &Judged) -> Option<String> {
        let entries = self.observed.entries.iter();
        let others = entries.filter(|seen| seen.is_other_argument() || seen.is_own_argument());
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            _ => String::new(),
        };
        let named: Vec<String> = others
            .filter_map(|seen| Some((seen, judged.rows.get(seen.row as usize)?)))
            .map(|(seen, row)| {
                let entry = text(&row.cells[ENTRY]);
                if let Seeing::Lone(side) = seen.state
                    && seen.is_tensor
                {
                    return format!("{entry}, a tensor, in the {} only", side.word());
                }
                let said = text(&row.cells[WHY]);
                let kinds = TYPES.map(|kind| text(&row.cells[kind]));
                Argument { entry: &entry, said: &said, kinds: [&kinds[0], &kinds[1]] }.words()
            })
            .collect();
        (!named.is_empty()).then(|| named.join(", "))
    }
}

/// In what an error is furthest beyond what was expected, and by how much.
fn part(error: Apart, expected: Apart) -> (Part, f64) {
    let parts = [
        (Part::Whole, ratio(error.whole, expected.whole)),
        (Part::WorstElement, ratio(error.peak, expected.peak)),
        (Part::CommonFactor, ratio(error.drift, expected.drift)),
    ];
    let told = parts.into_iter().filter(|(_, times)| times.is_finite());
    told.reduce(|most, one| if one.1 > most.1 { one } else { most }).unwrap_or(parts[0])
}

/// The distance that a row tells.
fn rel_l2(row: &Row) -> Option<f64> {
    let column = COLUMNS.iter().position(|(name, _)| *name == "rel_l2")?;
    match row.cells.get(column) {
        Some(Cell::Exact(distance)) if distance.is_finite() => Some(*distance),
        _ => None,
    }
}

/// Colour for a verdict.
pub(super) fn emphasis(verdict: Verdict) -> Emphasis {
    match verdict {
        Verdict::Fail => Emphasis::Bad,
        Verdict::Warn => Emphasis::Warn,
        Verdict::Pass | Verdict::NotCompared => Emphasis::Plain,
    }
}
