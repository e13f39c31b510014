//! Kullback-Leibler divergence between two tensors read as distributions, as msaccucmp defines it.
//!
//! Each side is scaled to 0..1 by its own extrema (left alone when constant), clamped from below, and divided by
//! its sum; the divergence of target from golden is then `sum p ln(p / q)`. The scale must be known before the
//! sum, and the sum before the divergence, so this is the one metric that takes passes of its own.

use ulpscope_tensor::View;

use super::blocks::each_quad_block;
use crate::blocks::{Threads, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::stats::stats;

/// Shares are clamped to this from below: the machine epsilon of f32.
const LEAST_SHARE: f64 = f32::EPSILON as f64;

/// The divergence of target from golden; nothing when shapes differ, a side is empty, or something is not finite.
pub fn kl_divergence(target: &View<'_>, golden: &View<'_>, threads: Threads) -> Option<f64> {
    if target.shape() != golden.shape() || target.is_empty() {
        return None;
    }
    let _env = DefaultFloatEnv::enter();
    let (target_scale, golden_scale) = (Scale::of(target, threads)?, Scale::of(golden, threads)?);
    let total = |term: &(dyn Fn(f64, f64) -> f64 + Sync)| {
        over_spans(
            target.len(),
            threads,
            |range| {
                let _env = DefaultFloatEnv::enter();
                let mut sum = 0.0;
                each_quad_block(target, golden, range, |_, quads| {
                    let shares = quads
                        .iter()
                        .map(|q| term(target_scale.apply(q.target), golden_scale.apply(q.golden)));
                    sum += shares.sum::<f64>();
                });
                sum
            },
            |a, b| a + b,
        )
    };
    let (target_sum, golden_sum) = (total(&|p, _| p), total(&|_, q| q));
    let divergence = total(&|p, q| {
        let (p, q) = (p / target_sum, q / golden_sum);
        p * (p / q).ln()
    });
    Some(if divergence.abs() < f64::EPSILON { 0.0 } else { divergence })
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
