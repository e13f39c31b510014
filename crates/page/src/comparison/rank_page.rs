//! One pair of ranks on the page.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::CLASSES;
use super::call_columns::{self, DumpColumns};
use super::chosen_details::DetailBudget;
use super::dump_parts::DumpParts;
use crate::calls::{CallCollector, CallRecord, Gravity};
use crate::dumps::NamedRank;
use crate::error::PageError;
use crate::first_screen::ChartPoint;
use crate::heat::{CallMark, Marks, NONE};
use crate::parts::Parts;
use crate::result::{IndexedSheet, ResultRows};
use crate::rows::{ColumnNames, RowChunks};

/// A pair of ranks: its calls, and what the dumps say of them.
#[derive(Debug)]
pub(crate) struct RankPage {
    pub(crate) calls: Arc<Vec<CallRecord>>,
    pub(crate) rows: u64,
    pub(crate) has_flow: bool,
    pub(crate) regions: usize,
    /// What the dumps say of each call; empty without them.
    from_dumps: DumpColumns,
    is_promised: bool,
}

impl RankPage {
    /// Reads the rows. Returns a note if these are not all.
    pub(crate) fn read(
        number: usize,
        of_rank: &Json,
        result: &dyn ResultRows,
        columns: &mut ColumnNames,
        parts: &mut Parts,
    ) -> Result<(RankPage, Option<String>), PageError> {
        let mut collector = CallCollector::default();
        let mut chunks = RowChunks::of(number, columns, parts);
        let mut note = None;
        if of_rank["error"].is_null() {
            note = result.each_row(number, &mut |headings, values| {
                collector.push(headings, values);
                chunks.push(headings, values);
            })?;
        }
        let rows = chunks.finish()?;
        add_of_result(&mut collector.calls, of_rank);
        Ok((RankPage::of(collector, rows), note))
    }

    /// Reads the rows for their calls, and returns the sheet, whose rows are read again on request.
    pub(crate) fn index(
        number: usize,
        of_rank: &Json,
        result: &dyn ResultRows,
        columns: &mut ColumnNames,
    ) -> Result<(RankPage, Option<IndexedSheet>, Option<String>), PageError> {
        let mut collector = CallCollector::default();
        let mut rows = 0;
        let (sheet, note) = result.each_row_indexed(number, &mut |headings, values| {
            collector.push(headings, values);
            columns.sample(rows, headings, values);
            rows += 1;
        })?;
        add_of_result(&mut collector.calls, of_rank);
        Ok((RankPage::of(collector, rows), sheet, note))
    }

    /// Reads the rows for their calls alone.
    pub(crate) fn read_calls(
        number: usize,
        of_rank: &Json,
        result: &dyn ResultRows,
    ) -> Result<RankPage, PageError> {
        let mut collector = CallCollector::default();
        result.each_row(number, &mut |headings, values| collector.push(headings, values))?;
        add_of_result(&mut collector.calls, of_rank);
        Ok(RankPage::of(collector, 0))
    }

    fn of(collector: CallCollector, rows: u64) -> RankPage {
        RankPage {
            calls: Arc::new(collector.calls),
            rows,
            has_flow: false,
            regions: 0,
            from_dumps: DumpColumns::default(),
            is_promised: false,
        }
    }

    /// What the map of ranks shows of each call.
    pub(crate) fn marks(&self, marks: &mut Marks) -> Vec<CallMark> {
        let mark = |call: &CallRecord| {
            let class = call.class.as_deref();
            let word = CLASSES.iter().position(|known| Some(*known) == class).map(|word| word as u8);
            let by_rows = match call.gravity {
                Gravity::Fail => 1,
                Gravity::Warn => 3,
                Gravity::NotCompared => 5,
                Gravity::Pass => 7,
            };
            let word = if call.class.is_some() { word.unwrap_or(NONE) } else { by_rows };
            CallMark { name: marks.name(&call.name), word, error: call.error }
        };
        self.calls.iter().map(mark).collect()
    }

    /// Says that a server makes details, data flow and stacks on request.
    pub(crate) fn promise_details(&mut self) {
        self.is_promised = true;
        self.has_flow = true;
        // How many there are is known on request.
        self.regions = usize::from(self.calls.iter().any(|call| call.side() != "both"));
    }

    /// Whether calls could have details that are not stored.
    pub(crate) fn lacks_details(&self) -> bool {
        self.from_dumps.details.iter().any(|has| !has)
    }

    /// Adds what the dumps say.
    pub(crate) fn add_dumps(
        &mut self,
        number: usize,
        opened: &[NamedRank; 2],
        of_rank: &Json,
        budget: &mut DetailBudget,
        parts: &mut Parts,
    ) -> Result<(), PageError> {
        let from = DumpParts::of(opened, &self.calls, of_rank);
        if let Some(flow) = from.flow_document() {
            parts.add_json(&format!("flow/{number}"), &flow)?;
            self.has_flow = true;
        }
        let regions = from.regions_document();
        self.regions = regions.len();
        if !regions.is_empty() {
            parts.add_json(&format!("regions/{number}"), &Json::Array(regions))?;
        }
        self.from_dumps = from.columns();
        let chosen = from.choose(of_rank);
        self.from_dumps.details = budget.write_details(number, &chosen, &from, parts)?;
        Ok(())
    }

    /// Writes the columns of calls.
    pub(crate) fn write_calls(&mut self, number: usize, parts: &mut Parts) -> Result<(), PageError> {
        call_columns::write(number, &self.calls, &mut self.from_dumps, self.is_promised, parts)?;
        Ok(())
    }

    /// The number of the call with a row.
    pub(crate) fn call_at(&self, row: u64) -> Option<usize> {
        let after = self.calls.partition_point(|call| call.row <= row);
        let at = after.checked_sub(1)?;
        (row < self.calls[at].row + self.calls[at].rows).then_some(at)
    }

    /// The number of a call by its name, looked for at a row first.
    pub(crate) fn find(&self, name: &str, row: Option<u64>) -> Option<usize> {
        let at = row.and_then(|row| self.call_at(row)).filter(|&at| self.calls[at].name == name);
        at.or_else(|| self.calls.iter().position(|call| call.name == name))
    }

    /// Errors by order of execution, for the first screen.
    pub(crate) fn chart(&self, manifest: &Json) -> Vec<ChartPoint> {
        let first = manifest["first"]["call"].as_u64();
        let points = (0..).zip(self.calls.iter()).filter_map(|(number, call)| {
            Some(ChartPoint {
                at: number,
                error: call.error?,
                expected: call.expected,
                is_backward: call.place.pass == "backward" || call.place.pass == "parameters_grad",
                is_first: first == Some(number),
            })
        });
        points.collect()
    }

    /// This pair of ranks in the manifest.
    pub(crate) fn manifest(&self, of_rank: &Json, several: bool) -> Json {
        let text = |name: &str| of_rank[name].as_str().unwrap_or_default();
        let step = of_rank["step"].as_u64().map(|step| format!("step{step} ")).unwrap_or_default();
        let (target, golden) = (text("target"), text("golden"));
        let label = match (several, target == golden) {
            (false, _) => String::new(),
            (true, true) => format!("{step}{target}"),
            (true, false) => format!("{step}{target} against {golden}"),
        };
        let label = label.strip_suffix(" rank").unwrap_or(&label).trim_end();
        let first = &of_rank["first_divergence"];
        let first = super::manifest::call_of_divergence(first, self);
        json!({
            "label": label,
            "step": of_rank["step"].as_u64(),
            "rank": target,
            "error": of_rank["error"].as_str(),
            "rows": self.rows,
            "calls": self.calls.len(),
            "counts": super::manifest::counts(of_rank),
            "classes": super::manifest::class_counts(&of_rank["classes"]),
            "has_flow": self.has_flow,
            "regions": self.regions,
            "first_call": first,
            "notes": of_rank["notes"].as_array().into_iter().flatten().filter(|note| note.is_string()).collect::<Vec<&Json>>(),
        })
    }
}

/// What the result says of calls, and their rows do not.
fn add_of_result(calls: &mut [CallRecord], of_rank: &Json) {
    add_sides(calls, of_rank);
    add_errors(calls, of_rank);
}

/// The errors of divergences whose calls have no numbers of their own: one side alone makes them, and what is computed from
/// them differs.
fn add_errors(calls: &mut [CallRecord], of_rank: &Json) {
    for divergence in of_rank["divergences"].as_array().into_iter().flatten() {
        let number = |name: &str| divergence[name].as_f64().filter(|number| number.is_finite());
        let row = row_of(divergence);
        let (Some(error), Some(row)) = (number("distance").or(number("error")), row) else { continue };
        let after = calls.partition_point(|call| call.row <= row);
        let call = after.checked_sub(1).map(|at| &mut calls[at]);
        if let Some(call) = call.filter(|call| call.error.is_none() && divergence["call"] == *call.name) {
            call.error = Some(error);
            call.expected = call.expected.or(number("floor"));
        }
    }
}

/// The sides of calls whose row has neither a name nor a word for them: those that diverged, and have no counterpart.
fn add_sides(calls: &mut [CallRecord], of_rank: &Json) {
    let lone = of_rank["partnerless"].as_array().map_or(&[] as &[Json], Vec::as_slice);
    let mut by_name: HashMap<&str, Vec<bool>> = HashMap::new();
    for one in lone.iter().rev() {
        if let Some(name) = one["name"].as_str() {
            by_name.entry(name).or_default().push(one["side"] == "target");
        }
    }
    for call in calls.iter_mut().filter(|call| call.sides == [false; 2]) {
        // Two of one name, one on each side, are listed in the order of their rows.
        if let Some(is_target) = by_name.get_mut(call.name.as_str()).and_then(Vec::pop) {
            call.sides = [is_target, !is_target];
        }
    }
}

/// The row of a divergence: sheets count lines, and the header is line 1.
pub(crate) fn row_of(divergence: &Json) -> Option<u64> {
    divergence["line"].as_u64()?.checked_sub(2)
}
