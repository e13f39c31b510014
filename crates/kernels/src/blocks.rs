//! The fixed shape of every pass: blocks within spans, merged in order.
//!
//! A block is small enough to stay in the first-level cache, so that a pass which finds something odd in it
//! (a NaN, a new maximum) can look again for free. A span is what one thread takes at a time. Both sizes are
//! constants: the order in which sums are merged follows from the element's index alone.

use std::error::Error;
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::stop;

/// Elements per block.
pub(crate) const BLOCK: usize = 4096;

/// Elements per span.
pub(crate) const SPAN: usize = 128 * BLOCK;

/// How many threads a pass may use. The result does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The caller's own, and no other.
    One,
    /// All of the thread pool's.
    All,
}

/// How tensors are read. [`Threads`] alone are one of these.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// How many threads may read.
    pub threads: Threads,
    /// Told, from any thread, of each run of elements that has been read: memory that is not needed again can be
    /// given back.
    pub after: Option<&'a (dyn Fn(Range<usize>) + Sync)>,
}

impl From<Threads> for Reading<'_> {
    fn from(threads: Threads) -> Self {
        Reading { threads, after: None }
    }
}

/// Spans computed at a time. Their results wait for each other to be merged in order; this bounds how many wait.
const BATCH: usize = 64;

/// Runs `span` over all spans of `len` elements and merges the results in order.
pub(crate) fn over_spans<'a, P: Send>(
    len: usize,
    reading: impl Into<Reading<'a>>,
    span: impl Fn(Range<usize>) -> P + Sync,
    merge: impl Fn(P, P) -> P,
) -> P {
    let Reading { threads, after } = reading.into();
    let stop = stop::flag();
    let span = |range: Range<usize>| {
        if stop::is_set(stop.as_ref()) {
            return span(range.start..range.start);
        }
        let part = span(range.clone());
        if let Some(after) = after {
            after(range);
        }
        part
    };
    let spans = len.div_ceil(SPAN).max(1);
    let range = |index: usize| index * SPAN..len.min((index + 1) * SPAN);
    if spans == 1 || threads == Threads::One || !pool_has_threads() {
        let first = span(range(0));
        let rest = (1..spans).take_while(|_| !stop::is_set(stop.as_ref()));
        return rest.map(|index| span(range(index))).fold(first, merge);
    }
    let mut merged: Option<P> = None;
    for batch in (0..spans).step_by(BATCH) {
        if merged.is_some() && stop::is_set(stop.as_ref()) {
            break;
        }
        let batch = batch..spans.min(batch + BATCH);
        let parts: Vec<P> = batch.into_par_iter().map(|index| span(range(index))).collect();
        for part in parts {
            merged = Some(match merged {
                Some(so_far) => merge(so_far, part),
                None => part,
            });
        }
    }
    merged.expect("at least one span")
}

/// Whether there is a thread pool that can be used. A child made by `fork` has the pool of its parent, but none of its
/// threads, and would wait for them for ever. And where no threads are to be had, rayon panics when its pool is first
/// used: so it is built here, once.
fn pool_has_threads() -> bool {
    static POOL_PROCESS: OnceLock<Option<u32>> = OnceLock::new();
    let this = std::process::id();
    // A thread of a pool uses its own.
    let is_built = || rayon::current_thread_index().is_some() || build_pool();
    *POOL_PROCESS.get_or_init(|| is_built().then_some(this)) == Some(this)
}

/// Builds the process's pool, unless there is one; tells whether there is.
fn build_pool() -> bool {
    match rayon::ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // Threads that could not be started have a cause; a pool that was there before has none.
        Err(error) => error.source().is_none(),
    }
}
