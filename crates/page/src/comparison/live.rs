//! Parts that a server makes on request: rows and calls from the sheets, the rest while the dumps are there.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;
use ulpscope_report::page::ColumnBuilder;

use super::call_columns;
use super::dump_parts::{DumpParts, lack_modules, numbers, place};
use super::live_rows::LiveRows;
use crate::calls::CallRecord;
use crate::details::detail;
use crate::dumps::{Dumps, NamedRank};
use crate::page::{LiveParts, quickly};

/// A comparison that is served.
pub(super) struct LiveComparison {
    dumps: Option<Dumps>,
    ranks: Vec<Json>,
    calls: Vec<Arc<Vec<CallRecord>>>,
    /// The rows of each rank, if they are read on request.
    rows: Vec<Option<LiveRows>>,
    /// The ranks that were opened last: requests for one rank follow each other.
    opened: Mutex<Option<(usize, Arc<[NamedRank; 2]>)>>,
    /// Flow and regions of the rank that was asked for last: all of them follow from one pass over its calls.
    made: Mutex<Option<(usize, Made)>>,
}

/// What follows from the data flow of a rank, not compressed.
#[derive(Clone)]
struct Made {
    flow: Option<Arc<Vec<u8>>>,
    regions: Arc<Vec<u8>>,
    region: Arc<Vec<u8>>,
}

impl LiveComparison {
    pub(super) fn of(
        dumps: Option<Dumps>,
        ranks: Vec<Json>,
        calls: Vec<Arc<Vec<CallRecord>>>,
        rows: Vec<Option<LiveRows>>,
    ) -> LiveComparison {
        LiveComparison { dumps, ranks, calls, rows, opened: Mutex::new(None), made: Mutex::new(None) }
    }

    /// The ranks of the dumps; nothing without dumps.
    fn opened(&self, rank: usize) -> Result<Option<Arc<[NamedRank; 2]>>, String> {
        let Some(dumps) = &self.dumps else { return Ok(None) };
        // Their indexes may be in memory still, and their tensors are not.
        if let Some(why) = dumps.moved() {
            return Err(why);
        }
        let mut last = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, opened)) = &*last
            && *known == rank
        {
            return Ok(Some(Arc::clone(opened)));
        }
        let Some(of_rank) = self.ranks.get(rank) else { return Ok(None) };
        let opened = Arc::new(dumps.ranks(of_rank)?);
        *last = Some((rank, Arc::clone(&opened)));
        Ok(Some(opened))
    }

    fn made(&self, rank: usize) -> Result<Option<Made>, String> {
        let Some(opened) = self.opened(rank)? else { return Ok(None) };
        let mut last = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, made)) = &*last
            && *known == rank
        {
            return Ok(Some(made.clone()));
        }
        let from = DumpParts::of(&opened, &self.calls[rank], &self.ranks[rank]);
        let text = |document: Json| Arc::new(document.to_string().into_bytes());
        let made = Made {
            flow: from.flow_document().map(text),
            regions: text(Json::Array(from.regions_document())),
            region: Arc::new(from.columns().region.take_bytes()),
        };
        *last = Some((rank, made.clone()));
        Ok(Some(made))
    }

    /// A column of calls.
    fn column(&self, rank: usize, field: &str) -> Result<Option<Vec<u8>>, String> {
        let calls = &self.calls[rank];
        let has_detail = |_: usize| self.dumps.is_some();
        let mut column = match field {
            // A page opens without them, where the dumps were moved.
            "region" => match self.made(rank) {
                Ok(Some(made)) => return quickly(&made.region),
                Ok(None) | Err(_) => return Ok(None),
            },
            "path" if lack_modules(calls) => match self.opened(rank) {
                Ok(Some(opened)) => Some(DumpParts::without_flow(&opened, calls).columns().path),
                Ok(None) | Err(_) => call_columns::column(field, calls, &has_detail),
            },
            "stack" | "golden_stack" | "golden_code" => {
                let Some(opened) = self.opened(rank)? else { return Ok(None) };
                let columns = DumpParts::without_flow(&opened, calls).columns();
                Some(match field {
                    "stack" => columns.stack,
                    "golden_stack" => columns.golden_stack,
                    _ => columns.golden_code,
                })
            }
            _ => call_columns::column(field, calls, &has_detail),
        };
        match column.as_mut().filter(|column| !column.is_blank()).map(ColumnBuilder::take_bytes) {
            Some(bytes) => quickly(&bytes),
            None => Ok(None),
        }
    }

    fn detail(&self, rank: usize, call: usize) -> Result<Option<Vec<u8>>, String> {
        let Some(call) = self.calls[rank].get(call) else { return Ok(None) };
        let Some(opened) = self.opened(rank)? else { return Ok(None) };
        let document = detail(place(call, numbers(call, &opened), &opened)).document;
        quickly(document.to_string().as_bytes())
    }
}

impl LiveParts for LiveComparison {
    fn part(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let words: Vec<&str> = name.split('/').collect();
        let number = |word: &str| word.parse::<usize>().ok();
        let rank = words.get(1).and_then(|word| number(word)).filter(|rank| *rank < self.calls.len());
        let Some(rank) = rank else { return Ok(None) };
        match words.as_slice() {
            ["rows", _, column, chunk] => match (&self.rows[rank], number(column), number(chunk)) {
                (Some(rows), Some(column), Some(chunk)) => rows.part(column, chunk),
                _ => Ok(None),
            },
            ["calls", _, field] => self.column(rank, field),
            ["detail", _, call] => number(call).map_or(Ok(None), |call| self.detail(rank, call)),
            ["flow", _] => match self.made(rank)?.and_then(|made| made.flow) {
                Some(flow) => quickly(&flow),
                None => Ok(None),
            },
            ["regions", _] => match self.made(rank) {
                Ok(Some(made)) => quickly(&made.regions),
                Ok(None) | Err(_) => quickly(b"[]"),
            },
            _ => Ok(None),
        }
    }
}
