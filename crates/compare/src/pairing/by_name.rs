//! Pairing by names: equal names, equal names and shapes, or names that are equal except for the number.

use rayon::prelude::*;
use ulpscope_dump::Rank;

use super::How;
use super::links::Links;
use super::names::{NO_PARENT, Names, SideNames};
use super::signature;

/// Equal names.
pub(super) fn exact(names: &Names, links: &mut Links) {
    for (target, golden) in equal_names(names, links) {
        let how = names.how(target, golden, How::Exact);
        links.join(target, golden, how);
    }
}

/// Equal names and equal signatures.
pub(super) fn shape(target: &Rank, golden: &Rank, names: &Names, links: &mut Links) {
    let pairs = equal_names(names, links);
    let alike: Vec<bool> = pairs
        .par_iter()
        .map(|&(ours, theirs)| signature::of(target, ours) == signature::of(golden, theirs))
        .collect();
    for (&(target, golden), _) in pairs.iter().zip(&alike).filter(|(_, alike)| **alike) {
        let how = if names.target.mapped[target] { How::Mapped } else { How::Shape };
        links.join(target, golden, how);
    }
}

/// Names that are equal except for the number, in order, within one module if modules were recorded.
pub(super) fn fuzzy(names: &Names, links: &mut Links) {
    let level = |side: &SideNames, call: usize| {
        let parent = if names.parents_known { side.parent[call] } else { NO_PARENT };
        (side.key[call], side.kind[call], parent)
    };
    let pairs = join(
        free_targets(names, links).map(|call| (level(&names.target, call), call)).collect(),
        free_goldens(names, links).map(|call| (level(&names.golden, call), call)).collect(),
    );
    for (target, golden) in pairs {
        let how = names.how(target, golden, How::Fuzzy);
        links.join(target, golden, how);
    }
}

/// Unpaired calls with equal names; of several with one name, the first with the first.
pub(super) fn equal_names(names: &Names, links: &Links) -> Vec<(usize, usize)> {
    join(
        free_targets(names, links).map(|call| (names.target.name(call), call)).collect(),
        free_goldens(names, links).map(|call| (names.golden.name(call), call)).collect(),
    )
}

fn free_targets(names: &Names, links: &Links) -> impl Iterator<Item = usize> {
    (0..names.target.len()).filter(|&call| links.golden(call).is_none())
}

fn free_goldens(names: &Names, links: &Links) -> impl Iterator<Item = usize> {
    (0..names.golden.len()).filter(|&call| links.target(call).is_none())
}

/// Pairs of equal keys, the first with the first, in the order of the keys.
fn join<K: Ord + Send>(mut ours: Vec<(K, usize)>, mut theirs: Vec<(K, usize)>) -> Vec<(usize, usize)> {
    ours.par_sort_unstable();
    theirs.par_sort_unstable();
    let mut pairs = Vec::new();
    let mut rest = theirs.iter().peekable();
    for (key, call) in &ours {
        while rest.next_if(|(other, _)| other < key).is_some() {}
        if let Some((_, other)) = rest.next_if(|(other, _)| other == key) {
            pairs.push((*call, *other));
        }
    }
    pairs
}
