//! How an operation hands errors on.
//!
//! Of an unknown operation we expect that a relative error of an argument is one of the result. Where results may be much
//! smaller than what they are computed from, that is not so: of a sum that nearly cancels, or a gradient that is zero but
//! for rounding, hardly a digit is right. For the operations that do this everywhere, absolute errors are known to be
//! bounded or typical:
//!
//! ```text
//! copies and sums          |Δy| ≤ Σ |Δx|                     (repeated or added up: × √ of how often)
//! mild functions           |Δy| ≤ 1.13 |Δx|
//! products by element      |Δy| ≤ max|b| |Δa| + max|a| |Δb|
//! products of matrices     |Δy| ≈ |Δa| |b| / √k              for errors that know nothing of the other factor
//! sine, cosine             |Δy| ≤ |Δx|                       however large x is: a relative error becomes an absolute one
//! exponential              |Δy| ≤ |y| max|Δx|
//! softmax                  |Δy| ≤ 2 |y| max|Δx|, ½ |Δx|
//! its logarithm, losses    |Δy| ≈ 2 |Δx|
//! logarithm                |Δy| ≈ |Δx| / |x|
//! powers                   |Δy| / |y| ≈ p |Δx| / |x|
//! variance, deviation      |Δy| ≈ 2 σ |Δx|, |Δx|             however large the mean is
//! layer, batch, group norm |Δy| ≈ |y| |Δx| / σ               the input counts without its mean; its rounding does not
//! rms norm                 |Δy| / |y| ≈ |Δx| / |x|
//! ```
//! Gradients are handed back in the same way; they use the arguments of the forward call as far as the family says.

use ulpscope_dump::operators::Family;

use crate::native::evidence::tensor_error::{TensorError, ratio};
use crate::native::thresholds::expect::{POWER, SLOPE};

/// How a family hands errors on.
pub(in crate::native) trait Sensitivity {
    /// Whether it rounds at the size of its arguments, which may be far larger than the result.
    fn rounds_at_arguments(self) -> bool;

    /// Whether a relative error may grow by orders of magnitude: its result is bounded, or grows with the argument itself.
    fn amplifies(self) -> bool;

    /// By how much an absolute error of `from` may show in `to`, beyond what their sizes tell; `partner` is the other
    /// factor of a product.
    fn slope(self, from: &TensorError, to: &TensorError, partner: Option<&TensorError>) -> f64;

    /// Likewise from an argument of the forward call to a gradient.
    fn slope_in_backward(self, from: &TensorError, to: &TensorError) -> f64;

    /// By how much the largest error of an element may grow.
    fn peak_slope(self, to: &TensorError, slope: f64) -> f64;
}

impl Sensitivity for Family {
    fn rounds_at_arguments(self) -> bool {
        match self {
            Family::Sum
            | Family::Mild
            | Family::Product
            | Family::Contraction
            | Family::ScoreGradient
            | Family::Norm => true,
            Family::Periodic
            | Family::Exponential
            | Family::Softmax
            | Family::LogSoftmax
            | Family::Logarithm
            | Family::Power
            | Family::Variance
            | Family::Deviation
            | Family::Rescaling
            | Family::Other => false,
        }
    }

    fn amplifies(self) -> bool {
        matches!(self, Family::Periodic | Family::Exponential)
    }

    fn slope_in_backward(self, from: &TensorError, to: &TensorError) -> f64 {
        match self {
            // Probabilities less one, whose relative error is the absolute one of the scores.
            Family::ScoreGradient => ratio(2.0 * from.peak * to.norm, from.error),
            _ => 0.0,
        }
    }

    fn peak_slope(self, to: &TensorError, slope: f64) -> f64 {
        match self {
            Family::Exponential => to.largest,
            Family::Softmax => 2.0 * to.largest,
            Family::LogSoftmax => 2.0,
            _ => slope,
        }
    }

    fn slope(self, from: &TensorError, to: &TensorError, partner: Option<&TensorError>) -> f64 {
        let mut repeated = (to.count / from.count.max(1.0)).max(1.0).sqrt();
        // Statistics show of an error what all elements share, and that does not average out in a sum.
        if !from.by_elements {
            repeated *= (from.count / to.count.max(1.0)).max(1.0).sqrt();
        }
        // Of a result of which every element has the error of a typical one.
        let each = (to.count / from.count.max(1.0)).sqrt();
        match (self, partner) {
            (Family::Sum, _) | (Family::Contraction, None) => repeated,
            (Family::Mild, _) => SLOPE.get() * repeated,
            (Family::Product, Some(partner)) => partner.largest * repeated,
            (Family::Contraction, Some(partner)) => partner.norm / terms(from, partner, to).sqrt(),
            (Family::Periodic, _) => repeated,
            (Family::Exponential, _) => to.largest.min(ratio(from.peak * to.norm, from.error)),
            // A difference of gradients, where as many arrive.
            (Family::ScoreGradient, _) if from.count == to.count => SLOPE.get(),
            (Family::Softmax, _) => ratio(2.0 * from.peak * to.norm, from.error).min(0.5),
            (Family::LogSoftmax, _) => 2.0 * each,
            (Family::Logarithm, _) => ratio(1.0, from.rms()),
            (Family::Power, _) => POWER.get() * ratio(to.norm, from.norm),
            (Family::Variance, _) => 2.0 * to.rms().sqrt() * each,
            (Family::Deviation, _) => each,
            // Of weight, bias and running statistics, relative sizes tell.
            (Family::Norm, _) if from.count == to.count => ratio(to.rms(), from.spread()),
            // Rescaling keeps relative sizes.
            (Family::Product, None) => 0.0,
            (Family::ScoreGradient | Family::Norm | Family::Rescaling | Family::Other, _) => 0.0,
        }
    }
}

/// The length of the sums in a product of matrices: of `m × k` and `k × n` elements, `m × n` are left.
pub(in crate::native) fn terms(one: &TensorError, other: &TensorError, product: &TensorError) -> f64 {
    (one.count * other.count / product.count.max(1.0)).sqrt().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::evidence::tensor_error::{NonFinite, Roundoff, SpreadShare};
    use crate::native::expectation::dtype_tolerance::LimitNumber;

    /// Numbers from -1 to 1, always the same for a seed.
    fn uniform(seed: u64, count: usize) -> Vec<f64> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// A tensor, and the same with small errors that know nothing of each other.
    fn disturbed(seed: u64, count: usize) -> [Vec<f64>; 2] {
        let golden = uniform(seed, count);
        let errors = uniform(seed + 1_000, count);
        let target = golden.iter().zip(errors).map(|(value, error)| value + 1e-7 * error).collect();
        [golden, target]
    }

    fn norm(values: impl Iterator<Item = f64>) -> f64 {
        values.map(|value| value * value).sum::<f64>().sqrt()
    }

    fn extent([golden, target]: &[Vec<f64>; 2]) -> TensorError {
        let differences = || golden.iter().zip(target).map(|(one, other)| other - one);
        TensorError {
            count: golden.len() as f64,
            norm: norm(golden.iter().copied()),
            largest: golden.iter().fold(0.0, |most, value| value.abs().max(most)),
            error: norm(differences()),
            peak: differences().fold(0.0, |most, error| error.abs().max(most)),
            drift: 0.0,
            unit: Roundoff::of(0.0),
            limit: LimitNumber::of(0.0),
            non_finite: [NonFinite::No; 2],
            mismatched: 0,
            by_elements: true,
            is_gone: false,
            spread: SpreadShare::of(
                golden.iter().sum::<f64>() / golden.len() as f64,
                norm(golden.iter().copied()) / (golden.len() as f64).sqrt(),
            ),
        }
    }

    /// The error of what a function makes of disturbed tensors, over what the slopes of its arguments tell: together, and of
    /// each alone.
    fn told(
        family: Family,
        arguments: &[[Vec<f64>; 2]],
        of: impl Fn(&[&[f64]]) -> Vec<f64>,
    ) -> (f64, Vec<f64>) {
        let made = |disturbed: &dyn Fn(usize) -> usize| {
            let taken: Vec<&[f64]> =
                arguments.iter().enumerate().map(|(at, sides)| sides[disturbed(at)].as_slice()).collect();
            of(&taken)
        };
        let golden = made(&|_| 0);
        let extents: Vec<TensorError> = arguments.iter().map(extent).collect();
        let told_of = |at: usize| {
            let partner =
                extents.iter().enumerate().find(|(other, _)| *other != at).map(|(_, extent)| extent);
            let result = extent(&[golden.clone(), golden.clone()]);
            family.slope(&extents[at], &result, partner) * extents[at].error
        };
        let error = |disturbed: &dyn Fn(usize) -> usize| extent(&[golden.clone(), made(disturbed)]).error;
        let all = (0..arguments.len()).map(told_of).sum::<f64>();
        let each = (0..arguments.len()).map(|at| error(&|of| usize::from(of == at)) / told_of(at));
        (error(&|_| 1) / all, each.collect())
    }

    /// What rounding in double precision and errors of second order add to a bound.
    const BARELY: f64 = 1.0 + 1e-6;

    #[test]
    fn sums_and_copies_hand_on_no_more_than_they_are_given() {
        for seed in 0..20 {
            let arguments = [disturbed(seed, 600), disturbed(seed + 50, 600)];
            let add = |x: &[&[f64]]| x[0].iter().zip(x[1]).map(|(one, other)| one + other).collect();
            let (all, each) = told(Family::Sum, &arguments, add);
            assert!(all <= BARELY && each.iter().all(|one| (one - 1.0).abs() < 1e-6), "{all} {each:?}");
            // Each element seven times; and sums of thirty, whose errors know nothing of each other.
            let (expanded, _) = told(Family::Sum, &arguments[..1], |x| x[0].repeat(7));
            assert!((expanded - 1.0).abs() < 1e-6, "{expanded}");
            let sums = |x: &[&[f64]]| x[0].chunks(30).map(|terms| terms.iter().sum()).collect();
            let (summed, _) = told(Family::Sum, &arguments[..1], sums);
            assert!((0.5..=2.0).contains(&summed), "{summed}");
        }
    }

    /// Of statistics only what all elements share is seen, and that adds up.
    #[test]
    fn a_sum_hands_on_all_of_what_its_terms_share() {
        let golden = uniform(7, 600);
        let shifted: Vec<f64> = golden.iter().map(|value| value + 1e-7).collect();
        let sums = |values: &[f64]| values.chunks(30).map(|terms| terms.iter().sum()).collect::<Vec<f64>>();
        let result = extent(&[sums(&golden), sums(&shifted)]);
        let mut from = extent(&[golden, shifted]);
        assert!(result.error > 5.0 * Family::Sum.slope(&from, &result, None) * from.error);
        from.by_elements = false;
        let told = Family::Sum.slope(&from, &result, None) * from.error;
        assert!((result.error / told - 1.0).abs() < 1e-6, "{}", result.error / told);
    }

    #[test]
    fn mild_functions_are_nowhere_steeper_than_gelu() {
        let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x * std::f64::consts::FRAC_1_SQRT_2));
        let silu = |x: f64| x / (1.0 + libm::exp(-x));
        let sigmoid = |x: f64| 1.0 / (1.0 + libm::exp(-x));
        let functions: [&dyn Fn(f64) -> f64; 7] =
            [&gelu, &silu, &sigmoid, &libm::tanh, &f64::abs, &|x| x.max(0.01 * x), &|x| x.clamp(-0.5, 0.5)];
        for at in [-1.4, 0.0, 1.4] {
            // All elements near one place, so that the slope there shows.
            let near = disturbed(3, 400).map(|side| side.iter().map(|x| at + 0.01 * x).collect::<Vec<f64>>());
            for function in functions {
                let by_element = |x: &[&[f64]]| x[0].iter().map(|&x| function(x)).collect();
                let (all, _) = told(Family::Mild, std::slice::from_ref(&near), by_element);
                assert!(all <= 1.0, "{all} at {at}");
            }
        }
        let steepest = disturbed(4, 400).map(|side| side.iter().map(|x| 1.41 + 0.01 * x).collect());
        let (all, _) = told(Family::Mild, &[steepest], |x| x[0].iter().map(|&x| gelu(x)).collect());
        assert!((0.995..=1.0).contains(&all), "{all}");
    }

    #[test]
    fn products_by_element_stay_below_the_largest_factor() {
        for seed in 0..20 {
            // One row for all: its errors are repeated in each.
            let arguments = [disturbed(seed, 40 * 25), disturbed(seed + 50, 25)];
            let multiply =
                |x: &[&[f64]]| x[0].iter().zip(x[1].iter().cycle()).map(|(one, other)| one * other).collect();
            let (all, each) = told(Family::Product, &arguments, multiply);
            // Uniform factors are 0.58 of the largest in the mean square.
            let is_bound = |one: &f64| (0.3..=BARELY).contains(one);
            assert!(is_bound(&all) && each.iter().all(is_bound), "{all} {each:?}");
        }
    }

    #[test]
    fn products_of_matrices_hand_on_what_is_typical() {
        for (seed, (m, k, n)) in (0..).zip([(1, 512, 8), (16, 16, 16), (64, 8, 3), (5, 300, 40), (40, 1, 30)])
        {
            let arguments = [disturbed(seed, m * k), disturbed(seed + 50, k * n)];
            let multiply = |x: &[&[f64]]| {
                let element =
                    |at: usize| (0..k).map(move |term| x[0][at / n * k + term] * x[1][term * n + at % n]);
                (0..m * n).map(|at| element(at).sum()).collect()
            };
            let (_, each) = told(Family::Contraction, &arguments, multiply);
            assert!(each.iter().all(|one| (0.5..=2.0).contains(one)), "{m} {k} {n}: {each:?}");
        }
    }

    /// Functions with a known condition: no error is larger than told, in all elements together, and none is much smaller.
    #[test]
    fn conditions_of_functions_hold() {
        let by_element =
            |of: fn(f64) -> f64| move |x: &[&[f64]]| x[0].iter().map(|&x| of(x)).collect::<Vec<f64>>();
        // Angles of up to 500, with a relative error: what cosine makes of it is 500 times as large.
        let angles = disturbed(3, 600).map(|side| side.iter().map(|x| 500.0 * x).collect::<Vec<f64>>());
        for function in [libm::sin, libm::cos] {
            let (all, _) = told(Family::Periodic, std::slice::from_ref(&angles), by_element(function));
            assert!((0.5..=BARELY).contains(&all), "{all}");
        }
        for size in [1.0, 20.0] {
            let near = disturbed(4, 600).map(|side| side.iter().map(|x| size * x).collect::<Vec<f64>>());
            let (all, _) = told(Family::Exponential, std::slice::from_ref(&near), by_element(libm::exp));
            assert!((0.05..=1.001).contains(&all), "{size}: {all}");
            let softmax = |x: &[&[f64]]| {
                let rows = x[0].chunks(30).flat_map(|row| {
                    let sum: f64 = row.iter().map(|&x| libm::exp(x)).sum();
                    row.iter().map(move |&x| libm::exp(x) / sum)
                });
                rows.collect::<Vec<f64>>()
            };
            let (all, _) = told(Family::Softmax, std::slice::from_ref(&near), softmax);
            assert!((0.05..=1.001).contains(&all), "{size}: {all}");
            let logs = |x: &[&[f64]]| softmax(x).iter().map(|&y| libm::log(y)).collect::<Vec<f64>>();
            let (all, _) = told(Family::LogSoftmax, std::slice::from_ref(&near), logs);
            assert!((0.2..=BARELY).contains(&all), "{size}: {all}");
        }
        // About a large mean.
        let far = disturbed(5, 600).map(|side| side.iter().map(|x| 100.0 + x).collect::<Vec<f64>>());
        let variance = |x: &[&[f64]]| {
            let rows = x[0].chunks(30).map(|row| {
                let mean = row.iter().sum::<f64>() / 30.0;
                row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 30.0
            });
            rows.collect::<Vec<f64>>()
        };
        let (all, _) = told(Family::Variance, std::slice::from_ref(&far), variance);
        assert!((0.1..=BARELY).contains(&all), "{all}");
        // What is normalised is as large as the spread, and has the errors of the mean.
        let normalised = |x: &[&[f64]]| {
            let rows = x[0].chunks(30).flat_map(|row| {
                let mean = row.iter().sum::<f64>() / 30.0;
                let deviation = (row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 30.0).sqrt();
                row.iter().map(move |x| (x - mean) / deviation)
            });
            rows.collect::<Vec<f64>>()
        };
        let (all, _) = told(Family::Norm, std::slice::from_ref(&far), normalised);
        assert!((0.8..=1.2).contains(&all), "{all}");
        let (all, _) = told(Family::Logarithm, std::slice::from_ref(&far), by_element(libm::log));
        assert!((0.9..=1.1).contains(&all), "{all}");
        let (all, _) = told(Family::Power, std::slice::from_ref(&far), by_element(|x| x * x * x));
        assert!((0.9..=1.1).contains(&all), "{all}");
    }
}
