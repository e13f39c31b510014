//! The fixed structure of every pass: blocks within spans, merged in order.
//!
//! A block fits into the first-level cache. If a pass finds something unusual in it (a NaN, a new maximum), it can
//! read the block again at no cost. A span is the unit of work of one thread. Both sizes are constants: the order
//! in which sums are merged depends only on the element's index.

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
    /// Only the caller's thread.
    One,
    /// All threads of the pool.
    All,
}

/// How tensors are read. A [`Threads`] value converts to it.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// How many threads may read.
    pub threads: Threads,
    /// Called from any thread after a range of elements has been read, so that memory that is not needed again can be
    /// released.
    pub after: Option<&'a (dyn Fn(Range<usize>) + Sync)>,
}

impl From<Threads> for Reading<'_> {
    fn from(threads: Threads) -> Self {
        Reading { threads, after: None }
    }
}

/// Spans computed at a time. Their results wait to be merged in order; this limits how many wait.
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

/// Whether a usable thread pool exists. A child made by `fork` has the pool of its parent without its
/// threads, and would wait for them for ever. If no threads can be started, rayon panics when its pool is first
/// used. Therefore the pool is built here, once.
fn pool_has_threads() -> bool {
    static POOL_PROCESS: OnceLock<Option<u32>> = OnceLock::new();
    let this = std::process::id();
    // A thread of a pool uses that pool.
    let is_built = || rayon::current_thread_index().is_some() || build_pool();
    *POOL_PROCESS.get_or_init(|| is_built().then_some(this)) == Some(this)
}

/// Builds the pool of the process, unless it exists; returns whether it exists.
fn build_pool() -> bool {
    match rayon::ThreadPoolBuilder::new().build_global() {
        Ok(()) => true,
        // A failure to start threads has a source error; a pool that already exists has none.
        Err(error) => error.source().is_none(),
    }
}
