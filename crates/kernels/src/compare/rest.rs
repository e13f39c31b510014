//! Compares two tensors without their sentinels: the fill values of a mask, which are so large that they hide
//! everything else.
//!
//! `scores + mask` has the norm of the mask. Relative to that norm, an error of a score is invisible.

use ulpscope_tensor::View;

use super::ShapeMismatch;
use super::blocks::{check_shapes, each_quad_block};
use crate::blocks::{Reading, over_spans};
use crate::float_env::DefaultFloatEnv;

/// The measurements of two tensors without the pairs of two given values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rest {
    /// Pairs left out.
    pub left_out: u64,
    /// Pairs in which only one side is the value to leave out.
    pub one_sided: u64,
    /// Remaining finite pairs.
    pub count: u64,
    /// Largest remaining absolute value, on either side.
    pub largest: f64,
    /// Largest absolute difference.
    pub max_abs: f64,
    /// The sums of squares of target, golden and their difference, and the sum of their products.
    squares: [f64; 4],
}

impl Rest {
    /// L2 norm of the difference.
    pub fn euclid(&self) -> f64 {
        self.squares[2].sqrt()
    }

    /// L2 norms of target and golden.
    pub fn norms(&self) -> [f64; 2] {
        [self.squares[0].sqrt(), self.squares[1].sqrt()]
    }

    /// The cosine of the angle between them; nothing if one is zero.
    pub fn cosine(&self) -> Option<f64> {
        let [target, golden] = self.norms();
        (target > 0.0 && golden > 0.0).then(|| self.squares[3] / (target * golden))
    }

    fn add(self, more: Rest) -> Rest {
        Rest {
            left_out: self.left_out + more.left_out,
            one_sided: self.one_sided + more.one_sided,
            count: self.count + more.count,
            largest: self.largest.max(more.largest),
            max_abs: self.max_abs.max(more.max_abs),
            squares: std::array::from_fn(|at| self.squares[at] + more.squares[at]),
        }
    }
}

/// Measures without the pairs in which the target has one value and the golden the other. Non-finite pairs are
/// ignored.
pub fn rest<'a>(
    target: &View<'_>,
    golden: &View<'_>,
    (in_target, in_golden): (f64, f64),
    reading: impl Into<Reading<'a>>,
) -> Result<Rest, ShapeMismatch> {
    check_shapes(target, golden)?;
    let _env = DefaultFloatEnv::enter();
    let span = |range| {
        let _env = DefaultFloatEnv::enter();
        let mut all = Rest::default();
        each_quad_block(target, golden, range, |_, quads| {
            let mut block = Rest::default();
            for quad in quads {
                let sentinel = (quad.target == in_target, quad.golden == in_golden);
                if sentinel != (false, false) {
                    block.left_out += u64::from(sentinel == (true, true));
                    block.one_sided += u64::from(sentinel != (true, true));
                } else if quad.target.is_finite() && quad.golden.is_finite() {
                    block.count += 1;
                    block.largest = block.largest.max(quad.target.abs()).max(quad.golden.abs());
                    block.max_abs = block.max_abs.max(quad.difference);
                    block.squares[0] += quad.target * quad.target;
                    block.squares[1] += quad.golden * quad.golden;
                    block.squares[2] += quad.difference * quad.difference;
                    block.squares[3] += quad.product;
                }
            }
            all = all.add(block);
        });
        all
    };
    Ok(over_spans(target.len(), reading, span, Rest::add))
}
