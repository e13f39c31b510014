//! The fixed shape of every pass: blocks within spans, merged in order.
//!
//! A block is small enough to stay in the first-level cache, so that a pass which finds something odd in it
//! (a NaN, a new maximum) can look again for free. A span is what one thread takes at a time. Both sizes are
//! constants: the order in which sums are merged follows from the element's index alone.

use rayon::prelude::*;

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

/// Runs `span` over all spans of `len` elements and merges the results in order.
pub(crate) fn over_spans<P: Send>(
    len: usize,
    threads: Threads,
    span: impl Fn(std::ops::Range<usize>) -> P + Sync,
    mut merge: impl FnMut(P, P) -> P,
) -> P {
    let spans = len.div_ceil(SPAN).max(1);
    let range = |index: usize| index * SPAN..len.min((index + 1) * SPAN);
    if threads == Threads::One || spans == 1 {
        let first = span(range(0));
        return (1..spans).map(|index| span(range(index))).fold(first, merge);
    }
    let parts: Vec<P> = (0..spans).into_par_iter().map(|index| span(range(index))).collect();
    let mut parts = parts.into_iter();
    let first = parts.next().expect("at least one span");
    parts.fold(first, &mut merge)
}
