//! The page of one run: statistics by call, step and rank, what is conspicuous in them, and how they change over steps.

mod columns;
mod findings;
mod live;
mod manifest;
mod numbers;
mod rank_reading;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::{Value as Json, json};
use ulpscope_compare::overflow::non_finite_origins;
use ulpscope_dump::{CallKind, Dump, Problems, RankPlace, Select, Step};
use ulpscope_report::page::Effort;
use ulpscope_session::Language;

use crate::comparison::DetailBudget;
use crate::details::{CallPlace, detail};
use crate::dumps::NamedRank;
use crate::error::PageError;
use crate::first_screen;
use crate::heat::{CallMark, Marks, NONE};
use crate::page::{LiveParts, Page};
use crate::parts::Parts;
use crate::rows::ColumnNames;
use crate::trends::{Point, Trend};
use crate::words::Noun;

pub(crate) use columns::joined_stack;
use findings::{FINDINGS, RunFinding, RunFindingKind, gradients_that_stand_out};
use live::LiveRun;
use rank_reading::{RankReading, RunCall};

/// Findings listed in a page.
const MAX_FINDINGS: usize = 1000;

/// Makes the page of a dump. `on_demand`: details of calls are made on request, as a server does.
pub fn page_of_dump(
    path: &Path,
    select: &Select,
    on_demand: bool,
    language: Option<Language>,
) -> Result<Page, PageError> {
    let dump = Dump::open(path, select)?;
    let mut problems = dump.problems.clone();
    let mut notes = dump.notes.clone();
    let effort = if on_demand { Effort::Quick } else { Effort::Small };
    let mut builder = RunBuilder {
        parts: Parts::with(effort),
        is_saved: true,
        left: numbers::MAX_MEASURED,
        ..RunBuilder::default()
    };
    builder.add_origins(&dump, &mut notes, &mut problems);
    let places: Vec<(&Step, &RankPlace)> =
        dump.steps.iter().flat_map(|step| step.ranks.iter().map(move |rank| (step, rank))).collect();
    let several = places.len() > 1;
    let mut budget = DetailBudget::default();
    for (number, (step, place)) in places.iter().enumerate() {
        let share = budget.share(places.len() - number);
        let mut rest = share;
        let details = if on_demand { None } else { Some(&mut rest) };
        builder.rank(number, step, place, several, details)?;
        budget.take(share, rest);
    }
    let places: Vec<RankPlace> = places.iter().map(|(_, place)| (*place).clone()).collect();
    notes.extend(problems.listed().iter().cloned());
    builder.notes.splice(0..0, notes);
    let live: Option<Box<dyn LiveParts>> =
        if on_demand { Some(Box::new(LiveRun::of(places, builder.rows_of_calls()))) } else { None };
    builder.finish(path, live, language.unwrap_or_default())
}

#[derive(Default)]
struct RunBuilder {
    parts: Parts,
    columns: ColumnNames,
    marks: Marks,
    trends: Trends,
    findings: Vec<RunFinding>,
    /// What is said of calls that produce NaN or infinity: step, rank, call.
    origins: HashMap<(Option<u64>, String, String), String>,
    ranks: Vec<Json>,
    /// The first row of each call, and how many it has.
    rows: Vec<Vec<(u64, u64)>>,
    /// Calls of the first rank, for the first screen.
    chart: Vec<first_screen::ChartPoint>,
    rows_in_all: u64,
    /// Whether there are tensors without calls alone, as in a checkpoint.
    is_saved: bool,
    lacks_details: bool,
    /// Elements that may still be measured.
    left: u64,
    /// Tensors of floats of which it is not known whether all elements are finite.
    unmeasured: u64,
    notes: Vec<String>,
}

/// What changes over steps.
#[derive(Default)]
struct Trends {
    losses: Trend,
    gradients: Trend,
    all_gradients: Trend,
    outputs: Trend,
}

impl RunBuilder {
    fn add_origins(&mut self, dump: &Dump, notes: &mut Vec<String>, problems: &mut Problems) {
        for origin in non_finite_origins(dump, notes, problems).origins {
            let text = ulpscope_session::anomaly_sentence(&origin);
            self.origins.insert((origin.step, origin.rank, origin.call), text);
        }
    }

    fn rank(
        &mut self,
        number: usize,
        step: &Step,
        place: &RankPlace,
        several: bool,
        details: Option<&mut DetailBudget>,
    ) -> Result<(), PageError> {
        let opened = match place.open() {
            Ok(rank) => NamedRank::of(rank),
            Err(error) => {
                self.ranks.push(manifest::unread_rank(step, place, several, &error.to_string()));
                self.marks.ranks.push(Vec::new());
                self.rows.push(Vec::new());
                return Ok(());
            }
        };
        let mut reading =
            RankReading::of(number, &opened, &mut self.columns, &mut self.left, &mut self.parts)?;
        self.judge(number, step, place, &mut reading.calls);
        let has_flow = columns::write_flow(number, &opened, &reading, &mut self.parts)?;
        let is_promised = details.is_none();
        let stored = match details {
            None => Vec::new(),
            Some(budget) => {
                let chosen = reading.by_importance();
                let of = |call: usize| {
                    let rows = (reading.calls[call].row, reading.calls[call].rows);
                    detail(CallPlace { sides: [Some((&opened.rank, call)), None], rows, entries: &[] })
                };
                budget.write(number, &chosen, of, &mut self.parts)?
            }
        };
        self.lacks_details |= !is_promised && stored.iter().filter(|has| **has).count() < reading.calls.len();
        columns::write_calls(number, &opened, &reading.calls, &stored, is_promised, &mut self.parts)?;
        self.mark(number, step, place, &reading.calls);
        self.rows.push(reading.calls.iter().map(|call| (call.row, call.rows)).collect());
        self.rows_in_all += reading.rows;
        self.unmeasured += reading.unmeasured;
        self.is_saved &= reading.calls.iter().all(|call| call.kind == CallKind::Saved);
        self.ranks.push(manifest::rank(step, place, several, &opened.rank, &reading, has_flow));
        for problem in opened.rank.problems().listed() {
            self.notes.push(problem.clone());
        }
        Ok(())
    }

    /// Finds what is conspicuous.
    fn judge(&mut self, number: usize, step: &Step, place: &RankPlace, calls: &mut [RunCall]) {
        let standing_out = gradients_that_stand_out(calls);
        for (at, call) in calls.iter_mut().enumerate() {
            let key = (step.number, place.name.clone(), call.name.clone());
            let mut found = Vec::new();
            match self.origins.get(&key) {
                Some(text) => found.push((RunFindingKind::NotFinite, None, text.clone())),
                // No call made what a checkpoint holds.
                None => found.extend(call.holds_non_finite()),
            }
            found.extend(call.findings());
            found.extend(standing_out.get(&at).cloned());
            let spread = call.spreads_non_finite().then_some(RunFindingKind::NonFiniteInherited);
            call.finding = found.iter().map(|(kind, ..)| *kind).chain(spread).min();
            for (kind, entry, text) in found {
                let code = call.code.clone();
                self.findings.push(RunFinding { kind, rank: number, call: at, entry, text, code });
            }
        }
    }

    /// What the map of ranks and the trends show.
    fn mark(&mut self, number: usize, step: &Step, place: &RankPlace, calls: &[RunCall]) {
        let mark = |call: &RunCall| CallMark {
            name: self.marks.name(&call.name),
            word: call.finding.map_or(NONE, |kind| kind as u8),
            error: call.shown().norm,
        };
        let marks = calls.iter().map(mark).collect();
        self.marks.ranks.push(marks);
        if number == 0 {
            self.chart = manifest::chart(calls);
        }
        let Some(step) = step.number else { return };
        let mut squares = 0.0;
        for (at, call) in calls.iter().enumerate() {
            let point = |value: f64| Point { step, rank: number, call: at, value };
            if let Some(loss) = call.loss() {
                self.trends.losses.push(&place.name, &call.name, point(loss));
            }
            for (parameter, norm) in &call.gradients {
                squares += norm * norm;
                self.trends.gradients.push(&place.name, parameter, point(*norm));
            }
            if call.is_module_result()
                && let Some(norm) = call.shown().norm
            {
                self.trends.outputs.push(&place.name, &call.name, point(norm));
            }
        }
        if squares > 0.0 || squares.is_nan() {
            let all = Point { step, rank: number, call: 0, value: squares.sqrt() };
            self.trends.all_gradients.push(&place.name, "all parameters", all);
        }
    }

    fn rows_of_calls(&self) -> Vec<Vec<(u64, u64)>> {
        self.rows.clone()
    }

    fn finish(
        mut self,
        path: &Path,
        live: Option<Box<dyn LiveParts>>,
        language: Language,
    ) -> Result<Page, PageError> {
        let charts = [
            ("loss", "Loss by step", false, &self.trends.losses),
            ("all_gradients", "Norm of all gradients by step", true, &self.trends.all_gradients),
            ("gradients", "Norm of gradients by step", true, &self.trends.gradients),
            ("outputs", "Norm of outputs by step", true, &self.trends.outputs),
        ];
        let mut trends = Vec::new();
        for (key, title, log, trend) in charts {
            let (chart, series) = trend.to_json(&BTreeSet::new());
            if series > 0 {
                self.parts.add_json(&format!("trends/{key}"), &chart)?;
                trends.push(json!({ "key": key, "title": title, "log": log, "series": series }));
            }
        }
        // Without findings, all ranks look the same.
        let has_heat = self.ranks.len() > 1 && !self.findings.is_empty();
        if has_heat {
            self.parts.add_json("heat", &self.marks.heat(&FINDINGS.map(RunFindingKind::word)))?;
        }
        self.findings.sort_by_key(|finding| (finding.kind, finding.rank, finding.call));
        let missing = (live.is_none() && self.lacks_details).then_some(
            "Values are stored for what is most likely to be looked at; `ulpscope view` shows all of them.",
        );
        let noun = match self.is_saved {
            true => Noun::of_saved(&path.display().to_string(), self.marks.names.iter().map(String::as_str)),
            false => Noun::Call,
        };
        let about = manifest::RunAbout { path, noun, language, unmeasured: self.unmeasured };
        let mut about = manifest::manifest(&about, self.ranks, &self.columns, &self.findings);
        about["counts"] = json!({ "rows": self.rows_in_all });
        about["heat"] = json!(has_heat);
        about["trends"] = Json::Array(trends);
        about["notes"] = json!(self.notes);
        about["details_on_demand"] = json!(live.is_some());
        about["missing_details"] = json!(missing);
        let screen = first_screen::html(&about, &self.chart);
        Page::of(self.parts, &about, screen, live, self.notes)
    }
}
