//! Single elements: the first that fail, and the worst.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use ulpscope_tensor::{Scalar, View};

use super::blocks::{check_shapes, each_quad_block};
use super::pair::Quad;
use super::{ShapeMismatch, Tolerance};
use crate::blocks::SPAN;
use crate::float_env::DefaultFloatEnv;
use crate::stop;

/// One pair of elements, for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementDiff {
    /// Row-major position.
    pub index: u64,
    /// The target's element.
    pub target: Scalar,
    /// The golden's element.
    pub golden: Scalar,
    /// Absolute difference; NaN if the pair is a non-finite mismatch.
    pub abs: f64,
    /// Relative difference, if golden is not zero and both are finite.
    pub rel: Option<f64>,
}

/// The first `limit` elements over the tolerance, in order.
pub fn first_failing(
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    limit: usize,
) -> Result<Vec<ElementDiff>, ShapeMismatch> {
    check_shapes(target, golden)?;
    let _env = DefaultFloatEnv::enter();
    let mut found = Vec::new();
    // Span by span, so that an early failure ends the search early.
    for start in (0..target.len()).step_by(SPAN) {
        if found.len() >= limit || stop::is_asked() {
            break;
        }
        each_quad_block(target, golden, start..target.len().min(start + SPAN), |start, quads| {
            for (offset, quad) in quads.iter().enumerate() {
                if found.len() < limit && error(quad).is_some_and(|error| error.is_over(quad, tolerance)) {
                    found.push(element(target, golden, start + offset, quad));
                }
            }
        });
    }
    Ok(found)
}

/// The `limit` elements with the largest absolute difference, largest first, equal ones in order. Non-finite
/// mismatches come before all others; elements with equal values are not included.
pub fn worst(target: &View<'_>, golden: &View<'_>, limit: usize) -> Result<Vec<ElementDiff>, ShapeMismatch> {
    check_shapes(target, golden)?;
    let _env = DefaultFloatEnv::enter();
    // The least bad of those kept is on top, to be replaced first.
    let mut kept: BinaryHeap<Reverse<Leader>> = BinaryHeap::new();
    let len = if limit > 0 { target.len() } else { 0 };
    for start in (0..len).step_by(SPAN).take_while(|_| !stop::is_asked()) {
        each_quad_block(target, golden, start..len.min(start + SPAN), |start, quads| {
            for (offset, quad) in quads.iter().enumerate() {
                let Some(error) = error(quad) else { continue };
                let leader = Leader { error, index: start + offset, quad: *quad };
                if kept.len() < limit {
                    kept.push(Reverse(leader));
                } else if kept.peek().is_some_and(|least| leader > least.0) {
                    kept.pop();
                    kept.push(Reverse(leader));
                }
            }
        });
    }
    // Sorted by `Reverse`: the worst first.
    let worst = kept.into_sorted_vec().into_iter().map(|Reverse(leader)| leader);
    Ok(worst.map(|leader| element(target, golden, leader.index, &leader.quad)).collect())
}

/// One of the worst elements. Worse is greater; of two equally bad ones the earlier is greater.
struct Leader {
    error: Error,
    index: usize,
    quad: Quad,
}

impl Ord for Leader {
    fn cmp(&self, other: &Leader) -> Ordering {
        self.error.size().total_cmp(&other.error.size()).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Leader {
    fn partial_cmp(&self, other: &Leader) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Leader {
    fn eq(&self, other: &Leader) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Leader {}

/// How a pair differs.
#[derive(Clone, Copy)]
enum Error {
    NonFinite,
    By(f64),
}

fn error(quad: &Quad) -> Option<Error> {
    if quad.target.is_finite() && quad.golden.is_finite() {
        (quad.difference > 0.0).then_some(Error::By(quad.difference))
    } else {
        let opposed = quad.difference == f64::INFINITY;
        let both_nan = quad.target.is_nan() && quad.golden.is_nan();
        let agree = both_nan || (quad.target == quad.golden && !opposed);
        (!agree).then_some(Error::NonFinite)
    }
}

impl Error {
    fn is_over(&self, quad: &Quad, tolerance: Tolerance) -> bool {
        match self {
            Error::NonFinite => true,
            Error::By(difference) => *difference > tolerance.atol + tolerance.rtol * quad.golden.abs(),
        }
    }

    /// Larger for worse; a non-finite mismatch is worse than any number.
    fn size(&self) -> f64 {
        match self {
            Error::NonFinite => f64::INFINITY,
            Error::By(difference) => *difference,
        }
    }
}

fn element(target: &View<'_>, golden: &View<'_>, index: usize, quad: &Quad) -> ElementDiff {
    let finite = quad.target.is_finite() && quad.golden.is_finite();
    ElementDiff {
        index: index as u64,
        target: target.get(index),
        golden: golden.get(index),
        abs: if finite { quad.difference } else { f64::NAN },
        rel: (finite && quad.golden != 0.0).then(|| quad.relative()),
    }
}
