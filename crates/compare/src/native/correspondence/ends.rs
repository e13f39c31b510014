//! Final results: what the outermost modules return, a loss, and the gradients of parameters.

use super::counterparts::Counterparts;
use super::likeness::distance;
use super::program::Weight;
use crate::style::Side;

/// How many times the accumulated rounding gradients of parameters may be apart: as in `final_results.rs`.
const ALLOWED_IN_GRADIENTS: f64 = 32.0;

/// A gradient so many times smaller than the largest may be zero except for rounding, such as that of a bias of keys.
const CANCELS: f64 = 30.0;

/// What the final results say.
pub(super) struct Ends {
    /// Pairs of values that differ.
    pub(super) differing: Vec<[usize; 2]>,
    /// Whether there are final results, and all that could be compared agree, gradients among them.
    pub(super) agree: bool,
}

pub(super) fn compare(counterparts: &Counterparts<'_>, weights: &[(&str, &str)], limit: f64) -> Ends {
    let [target, golden] = counterparts.programs;
    let (mut differing, mut agreeing) = (Vec::new(), 0);
    for &end in &target.ends {
        if counterparts.has(Side::Target, end) {
            agreeing += 1;
            continue;
        }
        let value = &target.values[end];
        let same_count = golden.ends.iter().filter(|&&other| golden.values[other].count == value.count);
        let nearest = same_count.min_by(|&&one, &&other| {
            let apart = |other: usize| distance(value.count, &value.numbers, &golden.values[other].numbers);
            let [one, other] = [one, other].map(|other| apart(other).unwrap_or(f64::INFINITY));
            one.total_cmp(&other)
        });
        if let Some(&nearest) = nearest {
            differing.push([end, nearest]);
        }
    }
    let agree = agreeing > 0 && gradients_agree(counterparts, weights, limit);
    Ends { differing, agree }
}

fn gradients_agree(counterparts: &Counterparts<'_>, weights: &[(&str, &str)], limit: f64) -> bool {
    let [target, golden] = counterparts.programs;
    let squares = [target, golden].into_iter().flat_map(|program| &program.values).map(|value| value.square);
    let most = squares.fold(0.0, f64::max);
    let allowed = (ALLOWED_IN_GRADIENTS * most.sqrt()).max(limit);
    let largest = target.gradients.values().map(size).filter(|size| size.is_finite()).fold(0.0, f64::max);
    weights.iter().all(|(ours, theirs)| {
        let (Some(one), Some(other)) = (target.gradients.get(*ours), golden.gradients.get(*theirs)) else {
            return true;
        };
        let Some(apart) = distance(one.count, &one.numbers, &other.numbers) else { return true };
        let size = size(one).max(size(other));
        let share = if largest > 0.0 { (CANCELS * size / largest).min(1.0) } else { 1.0 };
        apart * share <= allowed
    })
}

/// The root of the mean square.
fn size(weight: &Weight) -> f64 {
    weight.numbers[3].unwrap_or(0.0) / (weight.count.max(1) as f64).sqrt()
}
