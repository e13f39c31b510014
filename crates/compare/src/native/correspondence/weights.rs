//! Which parameters of two programs are the same: by content, as names differ between libraries.
//!
//! Parameters do not change where a fault is, so they say what corresponds behind it, too.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::rounding::ACCUMULATOR;
use super::likeness::distance;
use super::program::Weight;

/// How far apart the statistics of one parameter may be that both programs store in float32 or finer.
const SAME: f64 = 1e-5;

/// Likewise where one of them stores it in a coarser dtype: some roundings to bfloat16.
const STORED_COARSELY: f64 = 2e-2;

/// Pairs of names, in the order in which the golden uses the parameters first.
pub(super) fn same_weights<'a>(
    target: &'a BTreeMap<String, Weight>,
    golden: &'a BTreeMap<String, Weight>,
) -> Vec<(&'a str, &'a str)> {
    let in_order = |weights: &'a BTreeMap<String, Weight>| {
        let mut names: Vec<&'a str> = weights.keys().map(String::as_str).collect();
        names.sort_by_key(|&name| (weights[name].uses.first().copied(), name));
        names
    };
    let (ours, theirs) = (in_order(target), in_order(golden));
    let mut taken: HashSet<&str> = HashSet::new();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let is_same = |one: &str, other: &str| is_same(&target[one], &golden[other]);
    for &name in ours.iter().filter(|&&name| golden.contains_key(name) && is_same(name, name)) {
        taken.insert(name);
        pairs.push((name, name));
    }
    // Of several that look the same, as norms before training do, the first used belongs to the first used.
    let paired: HashSet<&str> = pairs.iter().map(|&(name, _)| name).collect();
    let mut by_count: HashMap<u64, Vec<&str>> = HashMap::new();
    theirs.iter().for_each(|&name| by_count.entry(golden[name].count).or_default().push(name));
    for &name in ours.iter().filter(|name| !paired.contains(*name)) {
        let mut like = by_count.get(&target[name].count).into_iter().flatten();
        if let Some(&other) = like.find(|&&other| !taken.contains(other) && is_same(name, other)) {
            taken.insert(other);
            pairs.push((name, other));
        }
    }
    // A parameter that is another in one run is still the one of its name.
    let paired: HashSet<&str> = pairs.iter().map(|&(name, _)| name).collect();
    for &name in ours.iter().filter(|name| !paired.contains(*name)) {
        let partner = golden.get(name).filter(|partner| partner.count == target[name].count);
        if partner.is_some() && taken.insert(name) {
            pairs.push((name, name));
        }
    }
    pairs.sort_by_key(|&(_, name)| (golden[name].uses.first().copied(), name));
    pairs
}

/// Parameters that the other side does not have with the same content: concatenated, merged, folded. In order of use.
pub(super) fn other_weights(
    [target, golden]: [&BTreeMap<String, Weight>; 2],
    pairs: &[(&str, &str)],
) -> [Vec<String>; 2] {
    let same = || pairs.iter().filter(|(one, other)| is_same(&target[*one], &golden[*other]));
    let (ours, theirs): (HashSet<&str>, HashSet<&str>) = same().copied().unzip();
    let others = |weights: &BTreeMap<String, Weight>, known: &HashSet<&str>| {
        let mut names: Vec<&String> = weights.keys().filter(|name| !known.contains(name.as_str())).collect();
        names.sort_by_key(|name| (weights[*name].uses.first().copied(), *name));
        names.into_iter().cloned().collect::<Vec<String>>()
    };
    [others(target, &ours), others(golden, &theirs)]
}

fn is_same(one: &Weight, other: &Weight) -> bool {
    let allowed = if one.unit.max(other.unit) > ACCUMULATOR { STORED_COARSELY } else { SAME };
    one.count == other.count
        && distance(one.count, &one.numbers, &other.numbers).is_some_and(|distance| distance <= allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(of: &[(&str, f64, usize)]) -> BTreeMap<String, Weight> {
        let weight = |size: f64, first: usize| Weight {
            count: 16,
            numbers: [Some(size), Some(-size), Some(0.0), Some(2.0 * size)],
            unit: ACCUMULATOR,
            uses: vec![first],
        };
        of.iter().map(|&(name, size, first)| (name.to_owned(), weight(size, first))).collect()
    }

    #[test]
    fn content_counts_more_than_names() {
        let target = weights(&[("a", 1.0, 0), ("b", 2.0, 1)]);
        let golden = weights(&[("b", 1.0, 0), ("c", 2.0, 1)]);
        assert_eq!(same_weights(&target, &golden), [("a", "b"), ("b", "c")]);
    }

    #[test]
    fn equal_ones_are_paired_in_the_order_of_use() {
        let target = weights(&[("x.norm", 1.0, 5), ("y.norm", 1.0, 2)]);
        let golden = weights(&[("ln_1", 1.0, 0), ("ln_2", 1.0, 3)]);
        assert_eq!(same_weights(&target, &golden), [("y.norm", "ln_1"), ("x.norm", "ln_2")]);
    }

    #[test]
    fn concatenated_and_merged_ones_differ() {
        let target = weights(&[("a", 1.0, 0), ("q", 2.0, 2), ("k", 3.0, 1), ("b", 5.0, 3)]);
        let golden = weights(&[("a", 1.0, 0), ("qk", 4.0, 1), ("b", 6.0, 2)]);
        let pairs = same_weights(&target, &golden);
        assert_eq!(other_weights([&target, &golden], &pairs), [vec!["k", "q", "b"], vec!["qk", "b"]]);
    }

    #[test]
    fn one_that_differs_keeps_its_name() {
        let target = weights(&[("a", 1.0, 0), ("b", 5.0, 1)]);
        let golden = weights(&[("a", 1.0, 0), ("b", 2.0, 1), ("c", 7.0, 2)]);
        assert_eq!(same_weights(&target, &golden), [("a", "a"), ("b", "b")]);
    }
}
