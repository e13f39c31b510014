//! The page of a comparison: rows and calls of each pair of ranks, and what the dumps add to them.

mod call_columns;
mod chosen_details;
mod dump_parts;
mod live;
mod live_rows;
mod manifest;
mod rank_page;

use std::sync::Arc;

use serde_json::{Value as Json, json};
use ulpscope_report::page::Effort;
use ulpscope_session::Language;

use crate::dumps::{DumpPlaces, Dumps};
use crate::error::PageError;
use crate::first_screen::{self, ChartPoint};
use crate::heat::Marks;
use crate::page::{LiveParts, Page};
use crate::parts::Parts;
use crate::result::{IndexedSheet, ResultRows};
use crate::rows::ColumnNames;
use crate::trends::{Point, Trend};

pub(crate) use chosen_details::DetailBudget;
use live::LiveComparison;
use live_rows::LiveRows;
pub(crate) use manifest::SCHEMA;
use rank_page::RankPage;

/// Classes of calls, gravest first.
pub(crate) const CLASSES: [&str; 8] = [
    "non-finite born here",
    "diverged here",
    "origin differs",
    "different program",
    "inherited",
    "not comparable",
    "noise",
    "equal",
];

/// How a page of a comparison is made.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// Whether stacks, data flow and values are read from the dumps, and where these are.
    pub dumps: Option<DumpPlaces>,
    /// Whether everything is read on request, as a server does, and not in advance.
    pub on_demand: bool,
    /// The language of the explanation; `None`: the one of the result.
    pub language: Option<Language>,
}

/// Makes the page of a result. What the dumps add is left out if they are not there any more, and the page says so.
pub fn page_of_result(result: &dyn ResultRows, options: PageOptions) -> Result<Page, PageError> {
    let document = result.document();
    let dumps = match &options.dumps {
        Some(places) => Dumps::of_document(document, places),
        None => Err("the dumps that the result names were not read; --dumps reads them".to_owned()),
    };
    let mut builder = ComparisonBuilder {
        parts: Parts::with(if options.on_demand { Effort::Quick } else { Effort::Small }),
        columns: ColumnNames::default(),
        marks: Marks::default(),
        trend: Trend::default(),
        pages: Vec::new(),
        indexed: Vec::new(),
        notes: result.notes().to_vec(),
    };
    let ranks = manifest::ranks_of(document);
    for (number, of_rank) in ranks.iter().enumerate() {
        builder.rank(number, of_rank, result, ranks.len() > 1, options.on_demand)?;
    }
    let mut missing = dumps.as_ref().err().map(|why| no_details(why));
    builder.notes.extend(missing.clone());
    if options.on_demand {
        if dumps.is_ok() {
            builder.pages.iter_mut().for_each(RankPage::promise_details);
        }
    } else if let Ok(dumps) = &dumps {
        missing = builder.add_dumps(dumps, document, ranks)?;
    }
    builder.finish(result, &options, missing, dumps.ok())
}

/// The first screen of the page of a result alone, as html that runs no script.
pub fn first_screen_of_result(result: &dyn ResultRows) -> Result<String, PageError> {
    let document = result.document();
    let ranks = manifest::ranks_of(document);
    let mut pages = Vec::new();
    for (number, of_rank) in ranks.iter().enumerate() {
        pages.push(RankPage::read_calls(number, of_rank, result)?);
    }
    let about = manifest::manifest(document, &pages, &ColumnNames::default(), None);
    Ok(first_screen::html(&about, &chart(&about, &pages)))
}

/// The points of the rank to look at first.
fn chart(about: &Json, pages: &[RankPage]) -> Vec<ChartPoint> {
    let rank = about["first"]["rank"].as_u64().unwrap_or(0) as usize;
    pages.get(rank).map(|page| page.chart(about)).unwrap_or_default()
}

fn no_details(why: &str) -> String {
    format!("No stacks, data flow and values of tensors: {why}.")
}

struct ComparisonBuilder {
    parts: Parts,
    columns: ColumnNames,
    marks: Marks,
    trend: Trend,
    pages: Vec<RankPage>,
    /// The sheets whose rows are read on request.
    indexed: Vec<Option<IndexedSheet>>,
    notes: Vec<String>,
}

impl ComparisonBuilder {
    /// Reads the rows of a pair of ranks.
    fn rank(
        &mut self,
        number: usize,
        of_rank: &Json,
        result: &dyn ResultRows,
        several: bool,
        on_demand: bool,
    ) -> Result<(), PageError> {
        let has_index = on_demand && of_rank["error"].is_null() && result.has_index(number);
        let (page, sheet, note) = if has_index {
            RankPage::index(number, of_rank, result, &mut self.columns)?
        } else {
            let (page, note) = RankPage::read(number, of_rank, result, &mut self.columns, &mut self.parts)?;
            (page, None, note)
        };
        self.indexed.push(sheet);
        self.notes.extend(note);
        let marks = if several { page.marks(&mut self.marks) } else { Vec::new() };
        if let Some(step) = of_rank["step"].as_u64().filter(|_| several) {
            let rank = of_rank["target"].as_str().unwrap_or_default();
            for (call, record) in page.calls.iter().enumerate() {
                if let Some(value) = record.error.filter(|error| *error > 0.0) {
                    self.trend.push(rank, &record.name, Point { step, rank: number, call, value });
                }
            }
        }
        self.marks.ranks.push(marks);
        self.pages.push(page);
        Ok(())
    }

    /// Adds what the dumps know. Returns why something is missing.
    fn add_dumps(
        &mut self,
        dumps: &Dumps,
        document: &Json,
        ranks: &[Json],
    ) -> Result<Option<String>, PageError> {
        let first = manifest::rank_of_first(document, ranks);
        let mut order: Vec<usize> = (0..self.pages.len()).collect();
        // The rank to look at first gets the larger part of the budget.
        order.sort_by_key(|&rank| Some(rank) != first);
        let mut budget = DetailBudget::default();
        let mut missing = None;
        for (left, rank) in (1..=order.len()).rev().zip(order) {
            match dumps.ranks(&ranks[rank]) {
                Ok(opened) => {
                    let share = budget.share(left);
                    let mut rest = share;
                    self.pages[rank].add_dumps(rank, &opened, &ranks[rank], &mut rest, &mut self.parts)?;
                    budget.take(share, rest);
                }
                Err(why) => missing = Some(no_details(&why)),
            }
        }
        if missing.is_none() && self.pages.iter().any(RankPage::lacks_details) {
            missing =
                Some("Values of tensors are stored for what is most likely to be looked at.".to_owned());
        }
        Ok(missing)
    }

    fn finish(
        mut self,
        result: &dyn ResultRows,
        options: &PageOptions,
        missing: Option<String>,
        dumps: Option<Dumps>,
    ) -> Result<Page, PageError> {
        let document = result.document();
        if !options.on_demand {
            for (number, page) in self.pages.iter_mut().enumerate() {
                page.write_calls(number, &mut self.parts)?;
            }
        }
        let (mut heat, mut trends) = (false, Vec::new());
        if self.pages.len() > 1 {
            self.parts.add_json("heat", &self.marks.heat(&CLASSES))?;
            heat = true;
            let divergences = manifest::ranks_of(document)
                .iter()
                .filter_map(|rank| rank["divergences"].as_array())
                .flatten();
            let diverging = divergences.filter_map(|one| one["call"].as_str()).collect();
            let (chart, series) = self.trend.to_json(&diverging);
            if series > 0 {
                self.parts.add_json("trends/error", &chart)?;
                trends.push(json!({
                    "key": "error", "title": "Error by step", "log": true, "series": series,
                }));
            }
        }
        let mut about = manifest::manifest(document, &self.pages, &self.columns, options.language);
        let divergences = manifest::divergences(document, &self.pages);
        about["divergences"] = json!(divergences.len());
        if !divergences.is_empty() {
            self.parts.add_json("divergences", &Json::Array(divergences))?;
        }
        about["heat"] = json!(heat);
        about["trends"] = Json::Array(trends);
        about["details_on_demand"] = json!(options.on_demand && dumps.is_some());
        about["missing_details"] = json!(missing);
        about["view_command"] =
            json!(result.view_command().filter(|_| !options.on_demand || dumps.is_none()));
        if let Some(notes) = about["notes"].as_array_mut() {
            let more = self.notes.iter().filter(|note| Some(*note) != missing.as_ref());
            notes.extend(more.map(|note| json!(note)));
        }
        let screen = first_screen::html(&about, &chart(&about, &self.pages));
        let live = options.on_demand.then(|| self.live(&about, document, dumps));
        Page::of(self.parts, &about, screen, live, self.notes)
    }

    /// What is made on request.
    fn live(&mut self, about: &Json, document: &Json, dumps: Option<Dumps>) -> Box<dyn LiveParts> {
        let is_shown = |number: &usize| about["columns"][*number]["shown"] == true;
        let shown: Vec<usize> = (0..self.columns.names.len()).filter(is_shown).collect();
        let rows = std::mem::take(&mut self.indexed)
            .into_iter()
            .enumerate()
            .map(|(rank, sheet)| Some(LiveRows::of(rank, sheet?, &self.columns.names, shown.clone())));
        let calls = self.pages.iter().map(|page| Arc::clone(&page.calls)).collect();
        let ranks = document["ranks"].as_array().cloned().unwrap_or_default();
        Box::new(LiveComparison::of(dumps, ranks, calls, rows.collect()))
    }
}
