//! Regions: calls of one side or both that have no counterpart, and what lies around them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use ulpscope_dump::CallKind;

use crate::calls::CallRecord;
use crate::flow::FlowSide;

/// A part in which the two programs differ. Numbers are calls of the page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnpairedRegion {
    pub(crate) inputs: BTreeSet<u32>,
    pub(crate) outputs: BTreeSet<u32>,
    pub(crate) target: BTreeSet<u32>,
    pub(crate) golden: BTreeSet<u32>,
    pub(crate) text: Option<String>,
}

impl UnpairedRegion {
    pub(crate) fn to_json(&self) -> Json {
        let UnpairedRegion { inputs, outputs, target, golden, text } = self;
        json!({ "inputs": inputs, "outputs": outputs, "target": target, "golden": golden, "text": text })
    }
}

/// The regions of a rank: those that the result names, then other unpaired calls next to each other, in order of execution
/// or along the flow.
pub(crate) fn regions(calls: &[CallRecord], flow: &[FlowSide], of_rank: &Json) -> Vec<UnpairedRegion> {
    let mut named = named_regions(calls, of_rank);
    let known: BTreeSet<u32> =
        named.iter().flat_map(|region| region.target.iter().chain(&region.golden)).copied().collect();
    // Tensors of a file are computed by no program.
    let is_lone = |call: u32| {
        let of = &calls[call as usize];
        !known.contains(&call) && of.side() != "both" && of.place.pass != CallKind::Saved.word()
    };
    let mut groups = Groups((0..calls.len() as u32).collect());
    for call in 1..calls.len() as u32 {
        if is_lone(call) && is_lone(call - 1) {
            groups.join(call - 1, call);
        }
    }
    let edges = || flow.iter().flat_map(|side| &side.edges);
    for edge in edges().filter(|edge| is_lone(edge.from) && is_lone(edge.to)) {
        groups.join(edge.from, edge.to);
    }
    let mut found: BTreeMap<u32, UnpairedRegion> = BTreeMap::new();
    for call in (0..calls.len() as u32).filter(|&call| is_lone(call)) {
        let region = found.entry(groups.first(call)).or_default();
        match calls[call as usize].side() {
            "target" => region.target.insert(call),
            _ => region.golden.insert(call),
        };
    }
    for edge in edges() {
        match (is_lone(edge.from), is_lone(edge.to)) {
            (false, true) => {
                found.entry(groups.first(edge.to)).or_default().inputs.insert(edge.from);
            }
            (true, false) => {
                found.entry(groups.first(edge.from)).or_default().outputs.insert(edge.to);
            }
            _ => {}
        }
    }
    named.extend(found.into_values());
    named
}

/// The regions in which divergences lie, by names of calls.
fn named_regions(calls: &[CallRecord], of_rank: &Json) -> Vec<UnpairedRegion> {
    let divergences = of_rank["divergences"].as_array().into_iter().flatten();
    let parted: Vec<&Json> =
        divergences.map(|divergence| &divergence["region"]).filter(|region| region.is_object()).collect();
    if parted.is_empty() {
        return Vec::new();
    }
    let mut by_name: [HashMap<&str, u32>; 2] = Default::default();
    for (number, call) in (0..).zip(calls) {
        if call.sides[0] {
            by_name[0].insert(&call.name, number);
        }
        if call.sides[1] {
            by_name[1].insert(call.golden.as_deref().unwrap_or(&call.name), number);
        }
    }
    let number = |call: &Json, side: usize| {
        let name = call["name"].as_str().or(call.as_str())?;
        by_name[side].get(name).copied()
    };
    let listed = |of_side: &Json, side: usize| -> BTreeSet<u32> {
        let lists = [&of_side["computing"], &of_side["others"]];
        lists.into_iter().filter_map(Json::as_array).flatten().filter_map(|call| number(call, side)).collect()
    };
    let region = |region: &Json| {
        let pairs = region["after"].as_array().into_iter().flatten();
        UnpairedRegion {
            inputs: pairs.filter_map(|pair| number(&pair[0], 0)).collect(),
            outputs: number(&region["before"][0], 0).into_iter().collect(),
            target: listed(&region["target"], 0),
            golden: listed(&region["golden"], 1),
            text: Some(DIFFER.to_owned()),
        }
    };
    parted.into_iter().map(region).collect()
}

/// What became of a region in which a divergence lies.
const DIFFER: &str = "Their results differ.";

/// Sets of calls, each named by its first.
struct Groups(Vec<u32>);

impl Groups {
    fn first(&mut self, mut call: u32) -> u32 {
        while self.0[call as usize] != call {
            // Halves the way for the next search.
            self.0[call as usize] = self.0[self.0[call as usize] as usize];
            call = self.0[call as usize];
        }
        call
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.first(one), self.first(other));
        let (first, last) = (one.min(other), one.max(other));
        self.0[last as usize] = first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::Gravity;
    use crate::names::TreePlace;

    fn call(name: &str, sides: [bool; 2]) -> CallRecord {
        CallRecord {
            name: name.to_owned(),
            golden: None,
            sides,
            place: TreePlace::of(name, None),
            class: None,
            gravity: Gravity::Pass,
            row: 0,
            rows: 1,
            entries: Vec::new(),
            error: None,
            expected: None,
            code: None,
        }
    }

    fn calls() -> Vec<CallRecord> {
        let (both, target, golden) = ([true, true], [true, false], [false, true]);
        [("a", both), ("b", target), ("c", target), ("d", golden), ("e", both), ("f", golden)]
            .map(|(op, sides)| call(&name(op), sides))
            .into()
    }

    fn name(op: &str) -> String {
        format!("Torch.{op}.0.forward")
    }

    #[test]
    fn tensors_of_a_file_are_in_no_region() {
        let saved = [call("extra.weight", [true, false]), call("fc.bias", [false, true])];
        assert_eq!(regions(&saved, &[], &Json::Null), []);
    }

    #[test]
    fn unpaired_calls_next_to_each_other_are_one_region() {
        let found = regions(&calls(), &[], &Json::Null);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].target.len(), found[0].golden.len()), (2, 1));
        assert_eq!(found[1].golden, BTreeSet::from([5]));
    }

    #[test]
    fn regions_of_divergences_come_first() {
        let call = |op: &str| json!({ "name": name(op), "at": 0 });
        let named = json!({ "divergences": [{ "region": null }, { "region": {
            "target": { "computing": [call("c"), call("e")], "others": [call("b")] },
            "golden": { "computing": [call("d"), call("e")], "others": [call("gone")] },
            "after": [[call("a"), call("a")]],
            "before": [call("e"), call("e")],
        } }] });
        let found = regions(&calls(), &[], &named);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0].to_json(),
            json!({
                "inputs": [0], "outputs": [4], "target": [1, 2, 4], "golden": [3, 4], "text": "Their results differ.",
            })
        );
        // What is not in it is a region of its own.
        assert_eq!((found[1].target.len(), &found[1].golden), (0, &BTreeSet::from([5])));
    }
}
