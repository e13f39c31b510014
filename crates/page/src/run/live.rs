//! Details of calls of a run that a server makes on request.

use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_dump::{Rank, RankPlace};

use crate::details::{CallPlace, detail};
use crate::page::LiveParts;

/// The ranks of a run.
pub(super) struct LiveRun {
    places: Vec<RankPlace>,
    /// The first row of each call, and how many it has.
    rows: Vec<Vec<(u64, u64)>>,
    /// The rank that was opened last.
    opened: Mutex<Option<(usize, Arc<Rank>)>>,
}

impl LiveRun {
    pub(super) fn of(places: Vec<RankPlace>, rows: Vec<Vec<(u64, u64)>>) -> LiveRun {
        LiveRun { places, rows, opened: Mutex::new(None) }
    }

    fn opened(&self, rank: usize) -> Option<Arc<Rank>> {
        let mut last = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, opened)) = &*last
            && *known == rank
        {
            return Some(Arc::clone(opened));
        }
        let opened = Arc::new(self.places.get(rank)?.open().ok()?);
        *last = Some((rank, Arc::clone(&opened)));
        Some(opened)
    }
}

impl LiveParts for LiveRun {
    fn part(&self, name: &str) -> Option<Vec<u8>> {
        let (rank, call) = name.strip_prefix("detail/")?.split_once('/')?;
        let (rank, call) = (rank.parse::<usize>().ok()?, call.parse::<usize>().ok()?);
        let rows = *self.rows.get(rank)?.get(call)?;
        let opened = self.opened(rank)?;
        let place = CallPlace { sides: [Some((&opened, call)), None], rows, entries: &[] };
        Some(detail(place).document.to_string().into_bytes())
    }
}
