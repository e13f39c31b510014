//! Gradients of parameters that accumulate over several backward passes.
//!
//! The `.grad` of a parameter after the last of four micro-batches equals that after one backward pass of the whole
//! batch; after the first it is a quarter. So if the sides split the same batch into different numbers of pieces, the
//! last gradients of a module are paired, not the first.

use std::collections::{HashMap, HashSet};

use ulpscope_dump::CallKind;

use super::How;
use super::links::Links;
use super::names::{Names, SideNames};
use super::recompute;

/// The modules whose gradients one side records more often, because it uses smaller pieces: their calls rarely have
/// counterparts of the same shapes.
pub(super) fn pieces(
    names: &Names,
    pairs: &[(usize, usize)],
    alike: impl Fn(&(usize, usize)) -> bool,
) -> HashSet<u32> {
    let counts = [recompute::counts(&names.target), recompute::counts(&names.golden)];
    let is_uneven = |key: u32| {
        let [here, there] = counts.each_ref().map(|counts| counts.get(&(key, CallKind::ParametersGrad)));
        here.is_some() && there.is_some() && here != there
    };
    let (mut uneven, mut same_shapes, mut modules) = (HashSet::new(), 0, 0);
    for pair in pairs.iter().filter(|(target, _)| is_uneven(names.target.key[*target])) {
        if names.target.kind[pair.0] == CallKind::Forward {
            modules += 1;
            same_shapes += usize::from(alike(pair));
        }
        uneven.insert(names.target.key[pair.0]);
    }
    // Otherwise one side simply makes more steps of the same size.
    if same_shapes * 2 >= modules { HashSet::new() } else { uneven }
}

/// Pairs the last gradients of each of these modules.
pub(super) fn join_last(names: &Names, pieces: &HashSet<u32>, links: &mut Links) {
    let last = |side: &SideNames| -> HashMap<u32, usize> {
        let sums = (0..side.len()).filter(|&call| side.kind[call] == CallKind::ParametersGrad);
        sums.filter(|&call| pieces.contains(&side.key[call])).map(|call| (side.key[call], call)).collect()
    };
    let there = last(&names.golden);
    for (key, target) in last(&names.target) {
        if let Some(&golden) = there.get(&key) {
            links.join(target, golden, names.how(target, golden, How::Aligned));
        }
    }
}
