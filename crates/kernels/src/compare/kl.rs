//! Kullback-Leibler divergence between two tensors read as distributions, as msaccucmp defines it.
//!
//! Each side is scaled to 0..1 by its own extrema (unchanged if constant), clamped from below, and divided by its
//! sum. The divergence of target from golden is then `sum p ln(p / q)`. If `a` and `b` are the values before the
//! division by the sums `A` and `B`, that is `(sum a ln(a / b)) / A + ln(B / A)`: one pass, once the extrema are
//! known.

use ulpscope_tensor::View;

use super::blocks::each_quad_block;
use crate::blocks::{Threads, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::stats::stats;

// The logarithm is that of the `libm` crate: the system's depends on the machine's instructions in its last bit.

/// Lower limit of shares: the machine epsilon of f32.
const LEAST_SHARE: f64 = f32::EPSILON as f64;

/// The divergence of target from golden; nothing if shapes differ, a side is empty, or an element is not finite.
pub fn kl_divergence(target: &View<'_>, golden: &View<'_>, threads: Threads) -> Option<f64> {
    if target.shape() != golden.shape() || target.is_empty() {
        return None;
    }
    let _env = DefaultFloatEnv::enter();
    let (target_scale, golden_scale) = (Scale::of(target, threads)?, Scale::of(golden, threads)?);
    let sums = over_spans(
        target.len(),
        threads,
        |range| {
            let _env = DefaultFloatEnv::enter();
            let mut sums = [0.0; 3];
            each_quad_block(target, golden, range, |_, quads| {
                let mut block = [0.0; 3];
                for quad in quads {
                    let (a, b) = (target_scale.apply(quad.target), golden_scale.apply(quad.golden));
                    block[0] += a;
                    block[1] += b;
                    block[2] += a * libm::log(a / b);
                }
                sums = add(sums, block);
            });
            sums
        },
        add,
    );
    let [target_sum, golden_sum, sum] = sums;
    let divergence = sum / target_sum + libm::log(golden_sum / target_sum);
    Some(if divergence.abs() < f64::EPSILON { 0.0 } else { divergence })
}

fn add(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

/// The map of a tensor's values to 0..1.
struct Scale {
    min: f64,
    width: f64,
}

impl Scale {
    fn of(view: &View<'_>, threads: Threads) -> Option<Scale> {
        let stats = stats(view, threads);
        let (min, max) = (stats.min?.to_f64(), stats.max?.to_f64());
        (min.is_finite() && max.is_finite()).then_some(Scale { min, width: max - min })
    }

    fn apply(&self, value: f64) -> f64 {
        let scaled = if self.width > 0.0 { (value - self.min) / self.width } else { value };
        scaled.max(LEAST_SHARE)
    }
}
