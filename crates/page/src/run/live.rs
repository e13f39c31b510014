//! Details of calls of a run that a server makes on request.

use std::sync::{Arc, Mutex, PoisonError};

use ulpscope_dump::{Rank, RankPlace};
use ulpscope_formats::storage;

use crate::details::{CallPlace, detail};
use crate::page::{LiveParts, quickly};

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

    fn opened(&self, rank: usize) -> Result<Arc<Rank>, String> {
        let place = self.places.get(rank).ok_or("the run has no such rank")?;
        if !storage::exists(place.path()) {
            return Err(format!(
                "the dump is not at {} any more; put it back there, or start `ulpscope view` again where it is now",
                place.path().display()
            ));
        }
        let mut last = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, opened)) = &*last
            && *known == rank
        {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(place.open().map_err(|error| error.to_string())?);
        *last = Some((rank, Arc::clone(&opened)));
        Ok(opened)
    }
}

impl LiveParts for LiveRun {
    fn part(&self, name: &str) -> Result<Option<Vec<u8>>, String> {
        let named = || {
            let (rank, call) = name.strip_prefix("detail/")?.split_once('/')?;
            let (rank, call) = (rank.parse::<usize>().ok()?, call.parse::<usize>().ok()?);
            Some((rank, call, *self.rows.get(rank)?.get(call)?))
        };
        let Some((rank, call, rows)) = named() else { return Ok(None) };
        let opened = self.opened(rank)?;
        let place = CallPlace { sides: [Some((&opened, call)), None], rows, entries: &[] };
        quickly(detail(place).document.to_string().as_bytes())
    }
}
