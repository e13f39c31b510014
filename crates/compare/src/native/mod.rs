//! Our own way of comparing: every metric, and verdicts on calls.
//!
//! ```text
//! pairing ──► unit (two calls) ──► entries paired by role and position ──► measure ──► row, its verdict open
//!                                                                               └──► evidence: what is kept of it
//! all evidence ──► flow: who made what ──► expectation: how large errors should be, and how large they usually are
//!              ──► attribution: a class for each call, who introduced an error ──► final_results: do they agree?
//!              ──► correspondence: where two different programs part      ──► settle: the verdicts of the rows
//! ```
//! Limits on rows know neither the dtype nor the depth nor whether an error was made here or came along, so rows are
//! not judged by themselves. A call is: by what it was given, by what other calls of its kind do, and by what a second golden
//! run does, where there is one (noise).

mod attribution;
mod columns;
mod correspondence;
mod evidence;
pub(crate) mod expectation;
mod final_results;
mod judgement;
mod ports;
pub(crate) mod thresholds;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use ulpscope_dump::{Content, Entry, Error, Rank, Role, Task};

use crate::fact::Fact;
use crate::final_result::{EndDifference, FinalResult, UnexplainedStep};
use crate::finding::Finding;
use crate::note::Note;
use crate::pairing::{
    CallPair, EntryHow, EntryPair, EntryUnit, PairOptions, Pairing, Reason, Unit, pair, pair_entries,
};
use crate::proof::Proving;
use crate::region::Region;
use crate::run::Progress;
use crate::stack::CodeLines;
use crate::style::{Conclusions, Judged, Known, Partnerless, Plan, Side, Style, Verdict};
use crate::verdict::Class;
use attribution::amplified::{Amplified, amplified};
use attribution::blame::Origins;
use attribution::conclusion::Cause;
use attribution::conclusion_list::ConclusionList;
use attribution::proofs::Proofs;
use attribution::routes::Routes;
use attribution::side_branches::{ExactResult, side_branches};
use columns::Line;
pub use columns::{COLUMNS, PROOF_COLUMNS};
use correspondence::{Agreed, EndApart, EndKind, KeptTensors, Pieces, Unrelated};
use evidence::call_evidence::{
    CallEvidence, CallNumbers, EntryEvidence, EntryTraits, NewEntry, Prints, Source,
};
use evidence::entry_store::{EntryRange, EntryStore};
use evidence::flow::{Calls, Flow};
use evidence::measure::measure;
pub(crate) use evidence::measure::{numbers_of, recorded};
use evidence::shared_traits::Shared;
use evidence::values::plain;
pub(crate) use expectation::dtype_tolerance::limit;
use expectation::noise_floor::{Noise, NoiseFloor};
use final_results::final_parameters::{FinalParameters, LeftApart, Trained};
use final_results::guard::{Guarded, Unexplained};
use judgement::{Judgement, Runs};

/// The native style.
#[derive(Debug, Default)]
pub struct Native {
    /// How calls are put together.
    pub pairing: PairOptions,
}

impl Style for Native {
    fn plan<'a>(&'a self, target: &'a Rank, golden: &'a Rank) -> Result<Box<dyn Plan + 'a>, Error> {
        Ok(Box::new(NativePlan::of(&self.pairing, target, golden)))
    }

    fn plan_knowing<'a>(
        &'a self,
        target: &'a Rank,
        golden: &'a Rank,
        known: Known<'a>,
        progress: &dyn Progress,
    ) -> Result<Box<dyn Plan + 'a>, Error> {
        let plan = NativePlan::of(&self.pairing, target, golden);
        let floor =
            known.noise.map(|noise| NoiseFloor::measure(noise, golden, self.pairing.matching, progress));
        Ok(Box::new(NativePlan { floor, step: known.step, proving: known.proving, ..plan }))
    }

    fn advice(&self, first_failing: Option<(u64, &str)>) -> Option<String> {
        Some(crate::styles::advisor::advise(first_failing))
    }
}

struct NativePlan<'a> {
    target: Calls<'a>,
    golden: Calls<'a>,
    pairing: Pairing,
    options: &'a PairOptions,
    /// What a second golden run tells, where there is one.
    floor: Option<NoiseFloor>,
    step: Option<u64>,
    /// Makes blamed calls again, where that is wanted.
    proving: Option<Proving<'a>>,
    /// What was observed of each unit that was judged.
    observed: Vec<OnceLock<CallEvidence<EntryRange>>>,
    /// Their entries.
    entries: EntryStore,
    /// What entries of these have in common.
    traits: Shared<EntryTraits>,
    /// What two different programs need of the tensors of calls.
    kept_tensors: [KeptTensors; 2],
    /// By side: unpaired calls that returned NaN.
    lone_nan: [Mutex<HashSet<usize>>; 2],
    /// The sides whose dump was found to say where entries came from.
    says_sources: [AtomicBool; 2],
}

/// What is known once all units are.
struct Hindsight<'a> {
    observed: Vec<CallEvidence>,
    conclusions: ConclusionList,
    /// How many units inherited the error that a unit introduced.
    downstream: Vec<u64>,
    /// What is left in parameters.
    kept: FinalParameters,
    /// Other routes to the same results.
    routes: Routes,
    origins: Origins,
    /// Whether what units without partner gave went into calls that both sides have.
    joined: Vec<bool>,
    /// Units of one side that nothing of the run depends on.
    side_branches: Vec<usize>,
    /// Origins whose rounding a function makes much larger.
    amplified: Vec<Amplified>,
    /// What the guard found on final results, where no call is to blame.
    guarded: Guarded,
    /// Forward calls that were made in the backward pass.
    in_backward: HashSet<usize>,
    /// What replay says.
    proofs: Proofs<'a>,
    /// Whether final results agree, so that unpaired calls forbid nothing.
    is_vouched: bool,
    /// What agrees at the end of two different programs.
    agreed: Option<Agreed>,
    /// Inputs that are cut differently.
    pieces: Option<Pieces>,
    /// That two programs have next to nothing in common, if so.
    unrelated: Option<Unrelated>,
    /// The side whose results are NaN or infinite where two programs part, and the calls of both that return them.
    non_finite: Option<(Side, [usize; 2])>,
    /// The calls among which two programs part, and the unit of the first.
    region: Option<(usize, Region)>,
    /// A final result of two different programs that differs, where no call is to blame.
    end: Option<EndApart>,
}

impl Plan for NativePlan<'_> {
    fn columns(&self) -> Vec<String> {
        let of_proof = if self.proving.is_some() { &PROOF_COLUMNS[..] } else { &[] };
        COLUMNS.iter().chain(of_proof).map(|&(name, _)| name.to_owned()).collect()
    }

    fn units(&self) -> usize {
        self.pairing.units.len()
    }

    fn judge(&self, unit: usize) -> Judged {
        let (judged, observed) = self.judge_unit(unit);
        self.observed[unit].get_or_init(|| observed);
        judged
    }

    fn has_hindsight(&self) -> bool {
        true
    }

    fn conclude<'p>(mut self: Box<Self>) -> Conclusions<'p>
    where
        Self: 'p,
    {
        let known = self.hindsight();
        Conclusions {
            unexplained: self.unexplained(&known),
            are_final_results_bounded: known.guarded.is_complete || known.agreed.is_some(),
            hidden_error: known.guarded.hidden.or(known.agreed.as_ref().and_then(|agreed| agreed.hidden)),
            unjudged_final_results: known.guarded.unbounded.len() as u64 + u64::from(known.guarded.is_open),
            partnerless: Vec::new(),
            notes: self.notes(&known),
            problems: self.floor.as_ref().map(NoiseFloor::problems).unwrap_or_default(),
            settle: Box::new(move |unit, judged| self.settle(&known, unit, judged)),
        }
    }
}

impl<'a> NativePlan<'a> {
    fn of(options: &'a PairOptions, target: &'a Rank, golden: &'a Rank) -> NativePlan<'a> {
        let pairing = pair(target, golden, options);
        let (target, golden) = (Calls::of(target), Calls::of(golden));
        let kept_tensors = match ports::may_be_port(&pairing.units, [&target, &golden]) {
            true => [&target, &golden].map(KeptTensors::of_all),
            false => Default::default(),
        };
        NativePlan {
            target,
            golden,
            kept_tensors,
            observed: pairing.units.iter().map(|_| OnceLock::new()).collect(),
            entries: EntryStore::default(),
            traits: Shared::default(),
            pairing,
            options,
            floor: None,
            step: None,
            proving: None,
            lone_nan: Default::default(),
            says_sources: Default::default(),
        }
    }

    /// Whether the dump of a side is known to say where entries came from: then nobody asks what tells values apart.
    fn says_sources(&self, side: Side) -> bool {
        self.says_sources[side as usize].load(Ordering::Relaxed)
    }

    /// The entries of a call, numbered.
    fn shared(&self, mut entries: Vec<NewEntry>) -> Vec<EntryEvidence> {
        evidence::call_evidence::number_arguments(&mut entries);
        entries.into_iter().map(|entry| entry.sharing(&self.traits)).collect()
    }

    /// Remembers which sides say where entries came from, and keeps what tells values apart if one may not.
    fn keep_prints(&self, entries: &[EntryEvidence], prints: Vec<[u64; 2]>) -> Option<Box<Prints>> {
        for side in [Side::Target, Side::Golden] {
            let says = |entry: &EntryEvidence| entry.sources()[side as usize] != Source::Unsaid;
            if !self.says_sources(side) && entries.iter().any(says) {
                self.says_sources[side as usize].store(true, Ordering::Relaxed);
            }
        }
        let is_needed = prints.iter().any(|prints| *prints != [0; 2]);
        (is_needed && !(self.says_sources(Side::Target) && self.says_sources(Side::Golden)))
            .then(|| Box::new(Prints(prints)))
    }

    /// Concludes from what was observed of all units.
    fn hindsight(&mut self) -> Hindsight<'a> {
        for unit in 0..self.observed.len() {
            self.observed[unit].get_or_init(|| self.judge_unit(unit).1);
        }
        // What was observed has the numbers of the calls.
        self.pairing.units = Vec::new();
        let pieces = std::mem::take(&mut self.entries).into_pieces();
        // In one step, so that there are never two lists of all units.
        let observed = std::mem::take(&mut self.observed).into_iter().filter_map(OnceLock::into_inner);
        let mut observed: Vec<CallEvidence> = observed.map(|unit| unit.with_entries(&pieces)).collect();
        drop(pieces);
        let flow = Flow::of(&mut observed, (&self.target, &self.golden));
        let noise = self.floor.as_ref().map_or_else(Noise::default, |floor| floor.of_units(&observed));
        let trained = self.step.filter(|&step| step > 0);
        let trained = trained.map(|step| Trained::of(step, &observed, &self.target));
        let kept = FinalParameters::of(&observed, &flow, [&self.target, &self.golden], trained);
        let mut proofs = Proofs::of(self.proving);
        let mut joined = flow.joined(&observed, &kept);
        let side_branches = side_branches(&observed, &flow, &joined, |at| self.exact_results(&observed[at]));
        side_branches.iter().for_each(|&at| joined[at] = true);
        let runs = Runs {
            units: &observed,
            flow: &flow,
            kept: &kept,
            noise: &noise,
            trained,
            calls: [&self.target, &self.golden],
            kept_tensors: self.kept_tensors.each_ref(),
            all_joined: !joined.contains(&false),
            programs: OnceCell::new(),
        };
        let Judgement {
            conclusions,
            routes,
            origins,
            guarded,
            cut,
            agreed,
            is_vouched,
            pieces,
            unrelated,
            end,
        } = runs.judge(&mut proofs);
        let non_finite = cut.as_ref().and_then(|cut| Some((cut.non_finite?, cut.before)));
        let region = cut.and_then(|cut| {
            let first = flow.unit_of[0].of(*cut.target.first()?)?;
            Some((first, correspondence::named_region::named([&self.target, &self.golden], &cut)))
        });
        let mut downstream = vec![0; observed.len()];
        let is_inherited = |at: &usize| conclusions.class(*at) == Some(Class::Inherited);
        for from in (0..observed.len()).filter(is_inherited).filter_map(|at| conclusions.from(at)) {
            downstream[from] += 1;
        }
        Hindsight {
            amplified: amplified(&observed, &flow),
            joined,
            side_branches,
            kept,
            in_backward: flow.inside_backward.into_values().flatten().collect(),
            observed,
            conclusions,
            downstream,
            routes,
            origins,
            guarded,
            proofs,
            agreed,
            region,
            is_vouched,
            pieces,
            unrelated,
            non_finite,
            end,
        }
    }

    /// Applies to a unit what follows from other units.
    fn settle(&self, known: &Hindsight<'_>, unit: usize, judged: &mut Judged) {
        let conclusion = &known.conclusions.get(unit);
        let from = conclusion.from.map(|from| self.name(&known.observed[from]));
        let observed = &known.observed[unit];
        let origins = &known.origins;
        let is_left = |left: &&LeftApart| left.by == unit || conclusion.cause == Some(Cause::Updates);
        let left = known.kept.first_apart.as_ref().filter(is_left);
        let left = left.map(|left| known.kept.left_by(left, [&self.target, &self.golden]));
        let region = known.region.as_ref().filter(|(first, _)| *first == unit).map(|(_, region)| region);
        let settling = attribution::verdict::Settling {
            conclusion,
            observed,
            origins,
            from,
            left,
            region,
            name: self.name(observed),
        };
        judged.refuted = known.proofs.refuted(unit).and_then(|refuted| {
            let settling =
                attribution::verdict::Settling { conclusion: refuted, from: None, ..settling.clone() };
            Some(settling.refuted(known.proofs.proof(unit, observed, refuted)?, judged))
        });
        settling.settle(judged);
        if let Some(found) = known.guarded.unexplained.as_ref().filter(|found| found.unit == unit) {
            attribution::verdict::mark_unexplained(judged, observed.entries[found.entry].row as usize);
        }
        // An argument more or less is no difference where nothing comes of it, and what lies on another route is vouched for
        // by where it ends.
        let is_harmless = |entry: &EntryEvidence| {
            known.routes.is_on(unit)
                || known.kept.is_towards(unit)
                || entry.is_taken()
                    && matches!(conclusion.class, Class::Equal | Class::Noise | Class::NotComparable)
        };
        let entries = observed.entries.iter().filter(|entry| entry.is_tensor);
        let mut lone =
            entries.filter(|entry| matches!(entry.state, evidence::call_evidence::Relation::Lone(_)));
        for partnerless in &mut judged.partnerless {
            partnerless.is_joined = match observed.is_lone() {
                _ if known.is_vouched => true,
                true => known.joined[unit],
                false => lone.next().is_some_and(is_harmless),
            };
        }
        if let Some(finding) = &mut judged.finding {
            finding.downstream = known.downstream[unit];
            finding.in_backward |= known.in_backward.contains(&unit);
            finding.prove(known.proofs.proof(unit, observed, conclusion));
        }
        if known.proofs.is_asked() {
            let proven = [&judged.finding, &judged.refuted].into_iter().flatten();
            let proven: Vec<&Finding> = proven.collect();
            for (number, row) in judged.rows.iter_mut().enumerate() {
                let finding = proven.iter().find(|finding| finding.row == number);
                row.cells.extend(columns::proof_cells(finding.and_then(|finding| finding.proof.as_ref())));
            }
        }
    }

    /// The final result that differs most, if by more than accumulated rounding allows.
    fn unexplained(&self, known: &Hindsight<'_>) -> Option<FinalResult> {
        let Some(found) = &known.guarded.unexplained else { return self.end_apart(known.end.as_ref()?) };
        let Unexplained { unit, entry, error, allowed, step } = found;
        let observed = &known.observed[*unit];
        let step = step.map(|step| {
            let unit = &known.observed[step.unit];
            let call = unit.target().map(|call| (self.target.rank, call));
            let call = call.or_else(|| unit.golden().map(|call| (self.golden.rank, call)));
            let stack = call.and_then(|(rank, call)| rank.stack(call)).unwrap_or_default();
            let code = CodeLines::of(&stack);
            UnexplainedStep {
                call: self.name(unit),
                error: step.error,
                inputs: step.inputs,
                module: call.and_then(|(rank, call)| rank.parent(call)),
                code: code.own,
                inner_code: code.inner,
            }
        });
        Some(FinalResult {
            entry: self.entry_name(observed, &observed.entries[*entry]),
            error: *error,
            allowed: *allowed,
            step,
            difference: EndDifference::Numbers,
            place: None,
        })
    }

    /// A final result of two different programs that differs.
    fn end_apart(&self, EndApart { what, error, allowed }: &EndApart) -> Option<FinalResult> {
        let of_both =
            |target: String, golden: String| format!("{target} in the target, {golden} in the golden");
        let entry = match what {
            EndKind::Gradient { of, .. } => format!("the gradient of {of}"),
            EndKind::Parameter(name) => format!("the parameter {name}, as the step leaves it,"),
            EndKind::Buffer(name) => format!("the buffer {name}, as the step leaves it,"),
            EndKind::Value(Side::Target, call) | EndKind::AtPadding(call) => self.target.rank.name(*call),
            EndKind::Value(Side::Golden, call) => self.golden.rank.name(*call),
            EndKind::Returned(_, [target, golden]) | EndKind::Moved(_, [target, golden]) => {
                of_both(self.target.rank.name(*target), self.golden.rank.name(*golden))
            }
            EndKind::ReturnedOrigin(_, [target, golden]) => of_both(target.clone(), golden.clone()),
        };
        let place = match what {
            EndKind::Returned(place, _) | EndKind::Moved(place, _) | EndKind::ReturnedOrigin(place, _) => {
                Some(place.clone()).filter(|place| !place.is_empty())
            }
            _ => None,
        };
        let difference = match what {
            EndKind::Returned(..) | EndKind::ReturnedOrigin(..) => EndDifference::Variable,
            EndKind::Moved(..) => EndDifference::Places,
            EndKind::AtPadding(_) => EndDifference::Padding,
            _ => EndDifference::Numbers,
        };
        Some(FinalResult { entry, error: *error, allowed: *allowed, step: None, difference, place })
    }

    fn notes(&self, known: &Hindsight<'_>) -> Vec<Note> {
        let mut notes: Vec<Note> = self.unbounded(known).into_iter().collect();
        notes.extend(self.pairing.notes.iter().cloned().map(Note::Text));
        notes.extend(self.floor.iter().flat_map(|floor| floor.notes.iter().cloned()));
        notes.extend(attribution::remarks::remarks(self, known));
        notes.extend(match (self.target.rank.task, self.golden.rank.task) {
            (Task::Tensor, Task::Tensor) => None,
            (Task::Structure, _) | (_, Task::Structure) => Some(Note::OnlyNames),
            (Task::Statistics, Task::Statistics) => Some(Note::OnlyStatistics),
            _ => Some(Note::OneSideHasTensors),
        });
        notes
    }

    /// Judges a unit, and keeps what was observed of it.
    fn judge_unit(&self, unit: usize) -> (Judged, CallEvidence<EntryRange>) {
        match &self.pairing.units[unit] {
            Unit::Pair(pair) => self.judge_pair(pair),
            Unit::TargetOnly { call, reason } => self.judge_lone(Side::Target, *call, *reason),
            Unit::GoldenOnly { call, reason } => self.judge_lone(Side::Golden, *call, *reason),
        }
    }

    /// Final results that differ and were not judged.
    fn unbounded(&self, known: &Hindsight<'_>) -> Option<Note> {
        let (unit, entry) = *known.guarded.unbounded.first()?;
        let observed = &known.observed[unit];
        let first = self.entry_name(observed, &observed.entries[entry]);
        Some(Note::FinalResultsNotJudged { first, more: known.guarded.unbounded.len() as u64 - 1 })
    }

    fn judge_pair(&self, pair: &CallPair) -> (Judged, CallEvidence<EntryRange>) {
        let (target, golden) = (self.target.rank, self.golden.rank);
        let mut judged = Judged { target: Some(pair.target), golden: Some(pair.golden), ..Judged::default() };
        let mut observed = CallEvidence {
            calls: CallNumbers::of(judged.target, judged.golden),
            kind: target.calls()[pair.target].kind,
            entries: EntryRange::default(),
            prints: None,
            adds_nothing: false,
            is_unread: false,
            is_left_out: false,
        };
        let name = target.name(pair.target);
        let how = pair.how.word();
        judged.how = Some(how);
        match (target.entries(pair.target), golden.entries(pair.golden)) {
            (Ok(one), Ok(other)) => {
                self.kept_tensors[0].keep(&self.target, pair.target, &one);
                self.kept_tensors[1].keep(&self.golden, pair.golden, &other);
                observed.adds_nothing =
                    evidence::call_evidence::adds_nothing(&one, self.target.operation(pair.target))
                        && evidence::call_evidence::adds_nothing(&other, self.golden.operation(pair.golden));
                let (module, code) = self.place(pair);
                let units = pair_entries(&one, &other, &self.options.mapping);
                let mut entries = Vec::with_capacity(units.len());
                let mut prints = Vec::new();
                for (number, unit) in units.into_iter().enumerate() {
                    let mut line = Line { call: &name, how, ..Line::default() };
                    if number == 0 {
                        line.module = module.as_deref();
                        line.code = code.as_ref();
                    }
                    entries.push(self.judge_entry(line, unit, &mut judged, &mut prints));
                }
                let entries = self.shared(entries);
                observed.prints = self.keep_prints(&entries, prints);
                observed.entries = self.entries.push(entries);
            }
            (one, other) => {
                observed.is_unread = true;
                for error in [one.err(), other.err()].into_iter().flatten() {
                    judged.problems.push(error.to_string());
                }
                let line = Line { call: &name, how, ..Line::default() };
                judged.rows.push(line.row("not compared", Some(Fact::Unread), Verdict::NotCompared));
            }
        }
        (judged, observed)
    }

    /// The row of an entry, and what is kept of it; adds what tells its value from others.
    fn judge_entry<'e>(
        &self,
        mut line: Line<'e>,
        unit: EntryUnit<'e>,
        judged: &mut Judged,
        prints: &mut Vec<[u64; 2]>,
    ) -> NewEntry {
        let row = judged.rows.len();
        let print = |side: Side, of: &dyn Fn() -> u64| if self.says_sources(side) { 0 } else { of() };
        match unit {
            EntryUnit::TargetOnly { entry, reason } => {
                line.target = Some(entry);
                judge_lone_entry(&line, Side::Target, entry, reason.to_string(), judged);
                prints.push([print(Side::Target, &|| evidence::call_evidence::print_of_lone(entry)), 0]);
                NewEntry::lone(row, Side::Target, entry, source(&self.target, entry))
            }
            EntryUnit::GoldenOnly { entry, reason } => {
                line.golden = Some(entry);
                judge_lone_entry(&line, Side::Golden, entry, reason.to_string(), judged);
                prints.push([0, print(Side::Golden, &|| evidence::call_evidence::print_of_lone(entry))]);
                NewEntry::lone(row, Side::Golden, entry, source(&self.golden, entry))
            }
            EntryUnit::Pair(EntryPair { target, golden, how }) => {
                match how {
                    EntryHow::Place => {}
                    EntryHow::Order => line.how = "order of arguments",
                    EntryHow::Mapped => line.how = "mapped",
                }
                line.target = Some(target);
                line.golden = Some(golden);
                let mut measured = measure((self.target.rank, target), (self.golden.rank, golden));
                judged.bytes = judged.bytes.saturating_add(measured.bytes);
                judged.problems.append(&mut measured.problems);
                judged.undecided += u64::from(measured.is_undecided(target));
                let (word, verdict) = attribution::verdict::open(&measured, target);
                judged.rows.push(Line { measured: Some(&measured), ..line }.row(
                    word,
                    attribution::verdict::seen(&measured),
                    verdict,
                ));
                prints.push(match (&target.content, &golden.content) {
                    (Content::Tensor(one), Content::Tensor(other)) => [
                        print(Side::Target, &|| {
                            evidence::call_evidence::print_of(one, Some(&measured.target))
                        }),
                        print(Side::Golden, &|| {
                            evidence::call_evidence::print_of(other, Some(&measured.golden))
                        }),
                    ],
                    _ => [0; 2],
                });
                let sources = [source(&self.target, target), source(&self.golden, golden)];
                NewEntry::pair(row, target, golden, &measured, sources)
            }
        }
    }

    /// The module a call was made in, and the lines of code.
    fn place(&self, pair: &CallPair) -> (Option<String>, Option<CodeLines>) {
        let (target, golden) = (self.target.rank, self.golden.rank);
        let module = target.parent(pair.target).or_else(|| golden.parent(pair.golden));
        let stack = target.stack(pair.target).or_else(|| golden.stack(pair.golden));
        (module, stack.map(|stack| CodeLines::of(&stack)))
    }

    fn judge_lone(&self, side: Side, call: usize, reason: Reason) -> (Judged, CallEvidence<EntryRange>) {
        let calls = match side {
            Side::Target => &self.target,
            Side::Golden => &self.golden,
        };
        let rank = calls.rank;
        let name = rank.name(call);
        let text = reason.to_string();
        let mut judged = Judged::default();
        match side {
            Side::Target => judged.target = Some(call),
            Side::Golden => judged.golden = Some(call),
        }
        let code = rank.stack(call).map(|stack| CodeLines::of(&stack));
        let module = rank.parent(call);
        let line = Line { call: &name, module: module.as_deref(), code: code.as_ref(), ..Line::default() };
        judged.rows.push(line.row(only_in(side), Some(Fact::Unpaired(text.clone())), Verdict::Warn));
        judged.partnerless.push(Partnerless { side, name, reason: text, is_joined: false });
        let entries = match rank.entries(call) {
            Ok(entries) => entries,
            Err(error) => {
                judged.problems.push(error.to_string());
                Vec::new()
            }
        };
        self.kept_tensors[side as usize].keep(calls, call, &entries);
        if entries.iter().any(attribution::remarks::is_nan_result) {
            // A thread that panicked has left whole numbers behind.
            self.lone_nan[side as usize].lock().unwrap_or_else(PoisonError::into_inner).insert(call);
        }
        let seen = entries.iter().map(|entry| NewEntry::lone(0, side, entry, source(calls, entry)));
        let seen = self.shared(seen.collect());
        let prints = entries.iter().map(|entry| match side {
            _ if self.says_sources(side) => [0; 2],
            Side::Target => [evidence::call_evidence::print_of_lone(entry), 0],
            Side::Golden => [0, evidence::call_evidence::print_of_lone(entry)],
        });
        let observed = CallEvidence {
            calls: CallNumbers::of(judged.target, judged.golden),
            kind: rank.calls()[call].kind,
            adds_nothing: evidence::call_evidence::adds_nothing(&entries, calls.operation(call)),
            is_unread: false,
            is_left_out: matches!(reason, Reason::LeftOut { .. } | Reason::Compiled { .. }),
            prints: self.keep_prints(&seen, prints.collect()),
            entries: self.entries.push(seen),
        };
        (judged, observed)
    }

    /// The integers and truth values that the calls of a unit return.
    fn exact_results(&self, unit: &CallEvidence) -> Vec<ExactResult> {
        let target = unit.target().map(|call| self.target.rank.entries(call));
        let entries = target.or_else(|| unit.golden().map(|call| self.golden.rank.entries(call)));
        let entries = entries.and_then(Result::ok).unwrap_or_default();
        let exact = entries.into_iter().filter_map(|entry| match entry.content {
            Content::Tensor(tensor) if entry.role == Role::Output => {
                let is_exact =
                    tensor.dtype().is_some_and(|dtype| expectation::rounding::unit_roundoff(dtype) == 0.0);
                Some((tensor.dtype.clone(), tensor.count()?)).filter(|_| is_exact)
            }
            _ => None,
        });
        exact.collect()
    }

    /// The name of an entry in the target; that of its call, where it has none.
    fn entry_name(&self, unit: &CallEvidence, seen: &EntryEvidence) -> String {
        let entries = unit.target().and_then(|call| self.target.rank.entries(call).ok()).unwrap_or_default();
        let entry = entries
            .into_iter()
            .find(|entry| evidence::call_evidence::place(entry.role, &entry.path) == seen.place());
        entry.map_or_else(|| self.name(unit), |entry| entry.name)
    }

    fn name(&self, unit: &CallEvidence) -> String {
        let golden = || unit.golden().map(|call| self.golden.rank.name(call));
        unit.target().map(|call| self.target.rank.name(call)).or_else(golden).unwrap_or_default()
    }
}

fn source(calls: &Calls<'_>, entry: &Entry) -> Source {
    match &entry.content {
        Content::Tensor(tensor) => calls.source(tensor.source.as_deref()),
        _ => Source::Unsaid,
    }
}

/// An entry that one side lacks: a difference if it is a tensor. Plain values are left out and filled in at will.
fn judge_lone_entry(line: &Line<'_>, side: Side, entry: &Entry, reason: String, judged: &mut Judged) {
    let is_tensor = matches!(entry.content, Content::Tensor(_));
    if is_tensor {
        judged.rows.push(line.row(only_in(side), Some(Fact::Unpaired(reason.clone())), Verdict::Warn));
        judged.partnerless.push(Partnerless { side, name: entry.name.clone(), reason, is_joined: false });
    } else {
        let only = Fact::OnlyIn { side, value: plain(&entry.content) };
        judged.rows.push(line.row(only_in(side), Some(only), Verdict::NotCompared));
    }
}

fn only_in(side: Side) -> &'static str {
    match side {
        Side::Target => "only in target",
        Side::Golden => "only in golden",
    }
}
