//! Which parameters of the two runs are the same, and what the two runs write into them.
//!
//! Runs of one model name them alike. Different programs do not, and may keep several as one, such as the projections of
//! queries, keys and values: there, content tells. The place in an optimizer's lists never does.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::native::correspondence::{ParameterNames, parameter_names};
use crate::native::evidence::flow::Calls;
use crate::native::evidence::written::{GRADIENT, PARAMETER, Written};
use crate::pairing::Wrappers;
use crate::style::Side;

/// A parameter or gradient of either run, or several that the other keeps as one.
pub(in crate::native) struct ParameterPair<'a> {
    /// As the dump of the target names it, or that of the golden: `parameter:0.weight`.
    pub(in crate::native) name: String,
    /// The names of the parameters in the target and in the golden, as far as they are known.
    pub(in crate::native) paths: [Vec<String>; 2],
    /// What the target and the golden write into it; empty, where a side does not.
    pub(in crate::native) sides: [Vec<&'a Written>; 2],
    /// Whether it is known what the other run has for it.
    pub(in crate::native) is_matched: bool,
}

/// What both sides write, in the order of names. `trained`: how far apart earlier steps may have taken parameters.
pub(in crate::native) fn parameter_pairs<'a>(
    written: &'a [BTreeMap<String, Written>; 2],
    calls: [&Calls<'_>; 2],
    trained: f64,
) -> Vec<ParameterPair<'a>> {
    let paths = written.each_ref().map(|side| side.keys().filter_map(|name| Some(name.split_once(':')?.1)));
    let [target, golden] = paths;
    let wrappers = Wrappers::of(target, golden);
    let plain = [Side::Target, Side::Golden].map(|side| {
        let names = written[side as usize].keys();
        names.map(|name| unwrapped(&wrappers, side, name)).collect::<BTreeSet<String>>()
    });
    let names = match plain[0] == plain[1] {
        true => ParameterNames::default(),
        false => parameter_names(calls, trained),
    };
    let mut pairs = Vec::new();
    let mut taken: [HashSet<&str>; 2] = Default::default();
    for (kind, [ours, theirs]) in
        [PARAMETER, GRADIENT].into_iter().flat_map(|kind| names.pairs.iter().map(move |pair| (kind, pair)))
    {
        let found = [(ours, &written[0]), (theirs, &written[1])].map(|(names, written)| {
            let found = names.iter().filter_map(|name| written.get_key_value(&format!("{kind}{name}")));
            found.collect::<Vec<(&String, &Written)>>()
        });
        let is_whole = |side: usize| found[side].len() == [ours, theirs][side].len();
        let is_whole_or_unwritten = (0..2).all(|side| is_whole(side) || found[side].is_empty());
        let Some(name) = found.iter().flatten().next().map(|(name, _)| (*name).clone()) else { continue };
        if !is_whole_or_unwritten {
            continue;
        }
        for (taken, found) in taken.iter_mut().zip(&found) {
            taken.extend(found.iter().map(|(name, _)| name.as_str()));
        }
        let sides = found.map(|found| found.into_iter().map(|(_, written)| written).collect());
        pairs.push(ParameterPair { name, paths: [ours.clone(), theirs.clone()], sides, is_matched: true });
    }
    // The others by name: of a model without those that content pairs.
    let mut by_name: BTreeMap<String, [Option<(&String, &Written)>; 2]> = BTreeMap::new();
    for side in [Side::Target, Side::Golden] {
        let open =
            written[side as usize].iter().filter(|(name, _)| !taken[side as usize].contains(name.as_str()));
        for (name, written) in open {
            by_name.entry(unwrapped(&wrappers, side, name)).or_default()[side as usize] =
                Some((name, written));
        }
    }
    for (name, sides) in by_name {
        let path = name.split_once(':').map_or("", |(_, path)| path);
        let is_known = |side: Side| {
            names.known[side as usize].is_empty()
                || names.known[side as usize].iter().any(|known| wrappers.unwrap(side, known) == path)
        };
        let is_matched = sides[0].is_some() && sides[1].is_some()
            || is_known(if sides[0].is_some() { Side::Golden } else { Side::Target });
        let path_of = |name: &str| name.split_once(':').map(|(_, path)| path.to_owned());
        let paths = sides.map(|side| side.and_then(|(name, _)| path_of(name)).into_iter().collect());
        let sides = sides.map(|side| side.map(|(_, written)| written).into_iter().collect());
        pairs.push(ParameterPair { name, paths, sides, is_matched });
    }
    pairs.sort_by(|one, other| one.name.cmp(&other.name));
    pairs
}

/// A name without the words that a wrapper of one side's model adds.
fn unwrapped(wrappers: &Wrappers, side: Side, name: &str) -> String {
    match name.split_once(':') {
        Some((kind, path)) => format!("{kind}:{}", wrappers.unwrap(side, path)),
        None => name.to_owned(),
    }
}
