//! Which parameters of two programs are the same: by content, as names differ between libraries.
//!
//! Parameters do not change where a fault is, so they say what corresponds behind it, too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::likeness::distance;
use super::program::Weight;
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::correspondence::{MOVED, SAME_WEIGHT, STORED_COARSELY};

/// Parts of a parameter that the other side keeps as one: queries, keys, values; and a gate.
const MOST_PARTS: usize = 4;

/// Pairs of names, in the order in which the golden uses the parameters first. `trained`: how far apart earlier steps may have
/// taken them.
pub(super) fn same_weights<'a>(
    target: &'a BTreeMap<String, Weight>,
    golden: &'a BTreeMap<String, Weight>,
    trained: f64,
) -> Vec<(&'a str, &'a str)> {
    let in_order = |weights: &'a BTreeMap<String, Weight>| {
        let mut names: Vec<&'a str> = weights.keys().map(String::as_str).collect();
        names.sort_by_key(|&name| (weights[name].uses.first().copied(), name));
        names
    };
    let (ours, theirs) = (in_order(target), in_order(golden));
    let mut taken: HashSet<&str> = HashSet::new();
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    let is_same = |one: &str, other: &str| is_same(&target[one], &golden[other], trained);
    for &name in ours.iter().filter(|&&name| golden.contains_key(name) && is_same(name, name)) {
        taken.insert(name);
        pairs.push((name, name));
    }
    // The nearest: weights that were drawn alike are nearly the same. Of several that are the same, as norms before training
    // are, the first used belongs to the first used.
    let paired: HashSet<&str> = pairs.iter().map(|&(name, _)| name).collect();
    let mut by_count: HashMap<u64, Vec<&str>> = HashMap::new();
    theirs.iter().for_each(|&name| by_count.entry(golden[name].count).or_default().push(name));
    for &name in ours.iter().filter(|name| !paired.contains(*name)) {
        let like = by_count.get(&target[name].count).into_iter().flatten();
        let like = like.filter(|&&other| !taken.contains(other) && is_same(name, other));
        let apart = |other: &str| target[name].distance(&golden[other]).unwrap_or(f64::INFINITY);
        if let Some(&other) = like.min_by(|one, other| apart(one).total_cmp(&apart(other))) {
            taken.insert(other);
            pairs.push((name, other));
        }
    }
    // A parameter that differs between the runs keeps its name.
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
    trained: f64,
) -> [Vec<String>; 2] {
    let same = || pairs.iter().filter(|(one, other)| is_same(&target[*one], &golden[*other], trained));
    let (ours, theirs): (HashSet<&str>, HashSet<&str>) = same().copied().unzip();
    let others = |weights: &BTreeMap<String, Weight>, known: &HashSet<&str>| {
        let mut names: Vec<&String> = weights.keys().filter(|name| !known.contains(name.as_str())).collect();
        names.sort_by_key(|name| (weights[*name].uses.first().copied(), *name));
        names.into_iter().cloned().collect::<Vec<String>>()
    };
    [others(target, &ours), others(golden, &theirs)]
}

/// Parameters that one side keeps as one and the other in parts, in order of use: names of both sides.
pub(super) fn joined_weights<'a>(
    [target, golden]: [&'a BTreeMap<String, Weight>; 2],
    pairs: &[(&str, &str)],
    trained: f64,
) -> Vec<[Vec<&'a str>; 2]> {
    let others = other_weights([target, golden], pairs, trained);
    let open: [Vec<&'a str>; 2] = [(target, &others[0]), (golden, &others[1])].map(|(weights, names)| {
        names.iter().filter_map(|name| Some(weights.get_key_value(name)?.0.as_str())).collect()
    });
    let trained = if trained > 0.0 { MOVED.get() } else { 0.0 };
    let mut found: Vec<[Vec<&str>; 2]> = Vec::new();
    let mut taken: [HashSet<&str>; 2] = Default::default();
    // What training has moved, in order of use.
    for &name in open[0].iter().filter(|_| trained > 0.0) {
        let mut like = open[1].iter().filter(|other| last_word(other) == last_word(name));
        let other =
            like.find(|&&other| !taken[1].contains(other) && is_same(&target[name], &golden[other], trained));
        if let Some(&other) = other {
            taken[0].insert(name);
            taken[1].insert(other);
            found.push([vec![name], vec![other]]);
        }
    }
    for (whole_side, sides) in [[target, golden], [golden, target]].into_iter().enumerate() {
        let part_side = 1 - whole_side;
        for &whole in &open[whole_side] {
            // Weights are parts of weights, and biases of biases.
            let kinds: BTreeSet<&str> = open[part_side].iter().map(|name| last_word(name)).collect();
            let parts = kinds.into_iter().find_map(|kind| {
                let parts: Vec<&str> = open[part_side]
                    .iter()
                    .copied()
                    .filter(|name| last_word(name) == kind && !taken[part_side].contains(name))
                    .collect();
                let windows = (2..=MOST_PARTS).flat_map(|count| parts.windows(count).map(<[&str]>::to_vec));
                windows.into_iter().find(|parts| {
                    let weights: Vec<&Weight> = parts.iter().map(|part| &sides[1][*part]).collect();
                    let joined = Weight::joined(&weights);
                    joined.is_some_and(|joined| is_same(&sides[0][whole], &joined, trained))
                })
            });
            let Some(parts) = parts.filter(|_| !taken[whole_side].contains(whole)) else { continue };
            taken[whole_side].insert(whole);
            taken[part_side].extend(&parts);
            found.push(if whole_side == 0 { [vec![whole], parts] } else { [parts, vec![whole]] });
        }
    }
    found
}

fn last_word(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

pub(super) fn is_same(one: &Weight, other: &Weight, trained: f64) -> bool {
    // What both sides store in the same dtype was rounded alike.
    let allowed = if one.unit != other.unit && one.unit.max(other.unit) > ACCUMULATOR {
        STORED_COARSELY.get()
    } else {
        SAME_WEIGHT.get().max(trained)
    };
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
            gets_gradient: true,
        };
        of.iter().map(|&(name, size, first)| (name.to_owned(), weight(size, first))).collect()
    }

    #[test]
    fn content_counts_more_than_names() {
        let target = weights(&[("a", 1.0, 0), ("b", 2.0, 1)]);
        let golden = weights(&[("b", 1.0, 0), ("c", 2.0, 1)]);
        assert_eq!(same_weights(&target, &golden, 0.0), [("a", "b"), ("b", "c")]);
    }

    #[test]
    fn equal_ones_are_paired_in_the_order_of_use() {
        let target = weights(&[("x.norm", 1.0, 5), ("y.norm", 1.0, 2)]);
        let golden = weights(&[("ln_1", 1.0, 0), ("ln_2", 1.0, 3)]);
        assert_eq!(same_weights(&target, &golden, 0.0), [("y.norm", "ln_1"), ("x.norm", "ln_2")]);
    }

    #[test]
    fn nearly_the_same_ones_are_paired_with_the_nearest() {
        let mut target = weights(&[("q", 1.0, 0), ("k", 1.01, 1)]);
        let golden = weights(&[("k_proj", 1.011, 0), ("q_proj", 1.001, 1)]);
        assert_eq!(same_weights(&target, &golden, 0.0), []);
        // Rounded to another dtype.
        target.values_mut().for_each(|weight| weight.unit = 1.0 / 256.0);
        assert_eq!(same_weights(&target, &golden, 0.0), [("k", "k_proj"), ("q", "q_proj")]);
    }

    #[test]
    fn concatenated_and_merged_ones_differ() {
        let target = weights(&[("a", 1.0, 0), ("q", 2.0, 2), ("k", 3.0, 1), ("b", 5.0, 3)]);
        let golden = weights(&[("a", 1.0, 0), ("qk", 4.0, 1), ("b", 6.0, 2)]);
        let pairs = same_weights(&target, &golden, 0.0);
        assert_eq!(other_weights([&target, &golden], &pairs, 0.0), [vec!["k", "q", "b"], vec!["qk", "b"]]);
    }

    #[test]
    fn one_that_differs_keeps_its_name() {
        let target = weights(&[("a", 1.0, 0), ("b", 5.0, 1)]);
        let golden = weights(&[("a", 1.0, 0), ("b", 2.0, 1), ("c", 7.0, 2)]);
        assert_eq!(same_weights(&target, &golden, 0.0), [("a", "a"), ("b", "b")]);
    }

    #[test]
    fn parts_of_one_parameter_are_found_by_content() {
        let part = |size: f64, norm: f64, first: usize| Weight {
            count: 16,
            numbers: [Some(size), Some(-size), Some(size / 8.0), Some(norm)],
            unit: ACCUMULATOR,
            uses: vec![first],
            gets_gradient: false,
        };
        let parts = [
            ("a.q.weight", 1.0, 3.0),
            ("a.k.weight", 2.0, 4.0),
            ("b.q.weight", 5.0, 6.0),
            ("b.k.weight", 6.0, 8.0),
        ];
        let target: BTreeMap<String, Weight> = parts
            .iter()
            .enumerate()
            .map(|(first, &(name, size, norm))| (name.to_owned(), part(size, norm, first)))
            .collect();
        let whole = |mean: f64, size: f64, norm: f64| Weight {
            count: 32,
            numbers: [Some(size), Some(-size), Some(mean), Some(norm)],
            ..part(1.0, 1.0, 0)
        };
        let golden = BTreeMap::from([
            ("b.qk.weight".to_owned(), whole(5.5 / 8.0, 6.0, 10.0)),
            ("a.qk.weight".to_owned(), whole(1.5 / 8.0, 2.0, 5.0)),
        ]);
        let found = joined_weights([&target, &golden], &[], 0.0);
        let expected = [["a.q.weight", "a.k.weight"], ["b.q.weight", "b.k.weight"]];
        let whole = ["a.qk.weight", "b.qk.weight"];
        let expected: Vec<[Vec<&str>; 2]> =
            expected.iter().zip(whole).map(|(parts, whole)| [parts.to_vec(), vec![whole]]).collect();
        assert_eq!(found, expected);
    }
}
