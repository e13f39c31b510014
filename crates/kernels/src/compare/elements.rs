//! The elements themselves: the first that fail, and the worst.

use std::cmp::Ordering;

use ulpscope_tensor::{Scalar, View};

use super::blocks::{check_shapes, each_quad_block};
use super::pair::Quad;
use super::{ShapeMismatch, Tolerance};
use crate::blocks::SPAN;
use crate::float_env::DefaultFloatEnv;

/// One pair of elements, for a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementDiff {
    /// Row-major position.
    pub index: u64,
    /// The target's element.
    pub target: Scalar,
    /// The golden's element.
    pub golden: Scalar,
    /// Absolute difference; NaN when the pair is a non-finite mismatch.
    pub abs: f64,
    /// Relative difference, where golden is not zero and both are finite.
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
    // Span by span, so that a failure early on ends the search early.
    for start in (0..target.len()).step_by(SPAN) {
        if found.len() >= limit {
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
/// mismatches come before all others; elements that agree in value are never among them.
pub fn worst(target: &View<'_>, golden: &View<'_>, limit: usize) -> Result<Vec<ElementDiff>, ShapeMismatch> {
    check_shapes(target, golden)?;
    let _env = DefaultFloatEnv::enter();
    let mut leaders: Vec<(Error, usize, Quad)> = Vec::with_capacity(limit + 1);
    if limit > 0 {
        each_quad_block(target, golden, 0..target.len(), |start, quads| {
            for (offset, quad) in quads.iter().enumerate() {
                let Some(error) = error(quad) else { continue };
                if leaders.len() == limit && !error.is_worse_than(&leaders[limit - 1].0) {
                    continue;
                }
                // Behind all that are at least as bad, so that equal ones keep their order.
                let place = leaders.partition_point(|leader| !error.is_worse_than(&leader.0));
                leaders.insert(place, (error, start + offset, *quad));
                leaders.truncate(limit);
            }
        });
    }
    Ok(leaders.into_iter().map(|(_, index, quad)| element(target, golden, index, &quad)).collect())
}

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
        let agree = quad.target == quad.golden || (quad.target.is_nan() && quad.golden.is_nan());
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

    fn is_worse_than(&self, other: &Error) -> bool {
        match (self, other) {
            (Error::NonFinite, Error::By(_)) => true,
            (Error::By(mine), Error::By(theirs)) => mine.total_cmp(theirs) == Ordering::Greater,
            (_, Error::NonFinite) => false,
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
