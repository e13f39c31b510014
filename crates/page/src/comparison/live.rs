//! Parts that a server makes on request, while the dumps are there.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use super::dump_parts::{DumpParts, numbers, place};
use crate::calls::CallRecord;
use crate::details::detail;
use crate::dumps::{Dumps, NamedRank};
use crate::page::LiveParts;

/// The dumps of a comparison.
pub(super) struct LiveComparison {
    dumps: Dumps,
    ranks: Vec<Json>,
    calls: Vec<Arc<Vec<CallRecord>>>,
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
    pub(super) fn of(dumps: Dumps, ranks: Vec<Json>, calls: Vec<Arc<Vec<CallRecord>>>) -> LiveComparison {
        LiveComparison { dumps, ranks, calls, opened: Mutex::new(None), made: Mutex::new(None) }
    }

    fn opened(&self, rank: usize) -> Option<Arc<[NamedRank; 2]>> {
        let mut last = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, opened)) = &*last
            && *known == rank
        {
            return Some(Arc::clone(opened));
        }
        let opened = Arc::new(self.dumps.ranks(self.ranks.get(rank)?).ok()?);
        *last = Some((rank, Arc::clone(&opened)));
        Some(opened)
    }

    fn made(&self, rank: usize) -> Option<Made> {
        let opened = self.opened(rank)?;
        let mut last = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, made)) = &*last
            && *known == rank
        {
            return Some(made.clone());
        }
        let from = DumpParts::of(&opened, &self.calls[rank], &self.ranks[rank]);
        let text = |document: Json| Arc::new(document.to_string().into_bytes());
        let made = Made {
            flow: from.flow_document().map(text),
            regions: text(Json::Array(from.regions_document())),
            region: Arc::new(from.columns().region.take_bytes()),
        };
        *last = Some((rank, made.clone()));
        Some(made)
    }
}

impl LiveParts for LiveComparison {
    fn part(&self, name: &str) -> Option<Vec<u8>> {
        let mut words = name.split('/');
        let (kind, rank) = (words.next()?, words.next()?.parse::<usize>().ok()?);
        let of = words.next();
        if words.next().is_some() {
            return None;
        }
        let calls = self.calls.get(rank)?;
        if kind == "detail" {
            let call = calls.get(of?.parse::<usize>().ok()?)?;
            let opened = self.opened(rank)?;
            let document = detail(place(call, numbers(call, &opened), &opened)).document;
            return Some(document.to_string().into_bytes());
        }
        let bytes = match (kind, of) {
            ("flow", None) => self.made(rank)?.flow?,
            ("regions", None) => self.made(rank)?.regions,
            ("calls", Some("region")) => self.made(rank)?.region,
            ("calls", Some(column @ ("stack" | "golden_stack" | "golden_code"))) => {
                let opened = self.opened(rank)?;
                let mut columns = DumpParts::without_flow(&opened, calls).columns();
                return Some(match column {
                    "stack" => columns.stack.take_bytes(),
                    "golden_stack" => columns.golden_stack.take_bytes(),
                    _ => columns.golden_code.take_bytes(),
                });
            }
            _ => return None,
        };
        Some(bytes.as_ref().clone())
    }
}
