//! Points where two long sequences surely, or probably, match.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Places in both sequences, ascending in both, whose tokens and neighbours are equal and occur equally often on
/// both sides: the first with the first, the second with the second.
pub(super) fn shared_runs(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    let (ours, theirs) = (with_neighbours(a), with_neighbours(b));
    let (here, there) = (places(&ours), places(&theirs));
    let equally_often = |run: &u64| {
        let count = |places: &HashMap<u64, Vec<usize>>| places.get(run).map_or(0, Vec::len);
        count(&here) == count(&there)
    };
    ascending(pair_in_order(&ours, &there, equally_often))
}

/// Equal tokens, the first with the first, the second with the second, as far as they ascend in both.
pub(super) fn in_order(a: &[u64], b: &[u64]) -> Vec<(usize, usize)> {
    ascending(pair_in_order(a, &places(b), |_| true))
}

/// Each token with its neighbours.
fn with_neighbours(tokens: &[u64]) -> Vec<u64> {
    let at = |place: Option<usize>| place.and_then(|place| tokens.get(place)).copied();
    (0..tokens.len())
        .map(|place| {
            let mut hasher = DefaultHasher::new();
            (at(place.checked_sub(1)), tokens[place], at(place.checked_add(1))).hash(&mut hasher);
            hasher.finish()
        })
        .collect()
}

fn places(tokens: &[u64]) -> HashMap<u64, Vec<usize>> {
    let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, &token) in tokens.iter().enumerate() {
        places.entry(token).or_default().push(place);
    }
    places
}

fn pair_in_order(
    ours: &[u64],
    theirs: &HashMap<u64, Vec<usize>>,
    eligible: impl Fn(&u64) -> bool,
) -> Vec<(usize, usize)> {
    let mut seen: HashMap<u64, usize> = HashMap::new();
    let mut pairs = Vec::new();
    for (place, token) in ours.iter().enumerate() {
        let nth = seen.entry(*token).or_default();
        if let Some(&partner) = theirs.get(token).and_then(|places| places.get(*nth))
            && eligible(token)
        {
            pairs.push((place, partner));
        }
        *nth += 1;
    }
    pairs
}

/// The longest selection of pairs, ascending in the first, that ascends in the second as well.
fn ascending(pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    // For each length, the lowest pair that ends a selection of that length; for each pair, its predecessor.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (number, &(_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs[end].1 < place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut selection = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(number) = next {
        selection.push(pairs[number]);
        next = before[number];
    }
    selection.reverse();
    selection
}
