//! What the dumps of a pair of ranks add to its calls: data flow, regions, stacks, details.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use ulpscope_compare::CodeLines;
use ulpscope_dump::CallKind;
use ulpscope_report::escape;

use super::call_columns::DumpColumns;
use crate::calls::{CallRecord, Gravity};
use crate::details::{CallPlace, Detail, detail};
use crate::dumps::NamedRank;
use crate::flow::FlowSide;
use crate::names::{TreePlace, is_module};
use crate::regions::{UnpairedRegion, regions};
use crate::run::joined_stack;

/// Divergences whose neighbours get details.
const WITH_NEIGHBOURS: usize = 20;

/// A pair of opened ranks, and the calls of the page in them.
pub(crate) struct DumpParts<'a> {
    opened: &'a [NamedRank; 2],
    calls: &'a [CallRecord],
    /// The numbers of each call in the target and in the golden.
    numbers: Vec<[Option<usize>; 2]>,
    flow: [FlowSide; 2],
    regions: Vec<UnpairedRegion>,
}

/// The numbers of a call in the target and in the golden.
pub(super) fn numbers(call: &CallRecord, opened: &[NamedRank; 2]) -> [Option<usize>; 2] {
    let golden = call.golden.as_deref().unwrap_or(&call.name);
    [opened[0].call(&call.name).filter(|_| call.sides[0]), opened[1].call(golden).filter(|_| call.sides[1])]
}

/// Whether the rows do not say in which modules calls were made: those of older tools.
pub(super) fn lack_modules(calls: &[CallRecord]) -> bool {
    calls.iter().all(|call| {
        call.place.path.is_empty() || call.place.pass == CallKind::Saved.word() || is_module(&call.name)
    })
}

/// A call in the dumps.
pub(super) fn place<'a>(
    call: &'a CallRecord,
    numbers: [Option<usize>; 2],
    opened: &'a [NamedRank; 2],
) -> CallPlace<'a> {
    let side = |at: usize| numbers[at].map(|number| (&opened[at].rank, number));
    CallPlace { sides: [side(0), side(1)], rows: (call.row, call.rows), entries: &call.entries }
}

impl<'a> DumpParts<'a> {
    /// The calls in the dumps, for their stacks alone.
    pub(super) fn without_flow(opened: &'a [NamedRank; 2], calls: &'a [CallRecord]) -> DumpParts<'a> {
        let numbers = calls.iter().map(|call| numbers(call, opened)).collect();
        DumpParts { opened, calls, numbers, flow: Default::default(), regions: Vec::new() }
    }

    pub(crate) fn of(opened: &'a [NamedRank; 2], calls: &'a [CallRecord], of_rank: &Json) -> DumpParts<'a> {
        let mut parts = DumpParts::without_flow(opened, calls);
        let numbers = &parts.numbers;
        parts.flow = [0, 1].map(|side| {
            let mut of_page = vec![None; opened[side].rank.calls().len()];
            for (at, numbers) in (0..).zip(numbers) {
                if let Some(number) = numbers[side] {
                    of_page[number] = Some(at);
                }
            }
            FlowSide::of(&opened[side], &of_page)
        });
        parts.regions = regions(calls, &parts.flow, of_rank);
        parts
    }

    /// Who feeds whom; nothing if the dumps do not say.
    pub(crate) fn flow_document(&self) -> Option<Json> {
        let [target, golden] = &self.flow;
        let is_known = !target.edges.is_empty() || !golden.edges.is_empty();
        is_known.then(|| json!({ "target": target.to_json(), "golden": golden.to_json() }))
    }

    pub(crate) fn regions_document(&self) -> Vec<Json> {
        self.regions.iter().map(UnpairedRegion::to_json).collect()
    }

    /// The details of a call.
    pub(super) fn detail(&self, call: usize) -> Detail {
        detail(place(&self.calls[call], self.numbers[call], self.opened))
    }

    pub(crate) fn columns(&self) -> DumpColumns {
        let mut columns = DumpColumns::default();
        let mut region_of = vec![None; self.calls.len()];
        for (number, region) in self.regions.iter().enumerate() {
            for &call in region.target.iter().chain(&region.golden) {
                region_of[call as usize] = Some(number as f64);
            }
        }
        let lacks_modules = lack_modules(self.calls);
        for ((numbers, region), call) in self.numbers.iter().zip(region_of).zip(self.calls) {
            if lacks_modules {
                columns.path.push_text(Some(&self.path(call, numbers)));
            }
            let stack = |side: usize| numbers[side].and_then(|call| self.opened[side].rank.stack(call));
            columns.stack.push_text(stack(0).map(|stack| joined_stack(&stack)).as_deref());
            let golden = stack(1);
            columns
                .golden_code
                .push_text(golden.as_deref().and_then(|stack| CodeLines::of(stack).own).as_deref());
            columns.golden_stack.push_text(golden.map(|stack| joined_stack(&stack)).as_deref());
            columns.region.push_number(region);
        }
        columns
    }

    /// The module in which a call was made, as the dump of either side says.
    fn path(&self, call: &CallRecord, numbers: &[Option<usize>; 2]) -> String {
        let parent = |side: usize| self.opened[side].rank.parent(numbers[side]?);
        let parent = parent(0).or_else(|| parent(1));
        TreePlace::of(&call.name, parent.as_deref().map(escape::terminal).as_deref()).path
    }

    /// The calls that get details, in order of importance: divergences, what is next to them, failing calls, and the rest.
    pub(super) fn choose(&self, of_rank: &Json) -> Vec<usize> {
        let divergences = of_rank["divergences"].as_array().map_or(&[] as &[Json], Vec::as_slice);
        let found = divergences.iter().filter_map(|one| {
            let name = one["call"].as_str()?;
            self.calls.iter().position(|call| call.name == name)
        });
        let found: Vec<usize> = found.take(super::chosen_details::MAX_DETAILS).collect();
        let mut chosen: Vec<usize> = found.clone();
        let near: BTreeSet<u32> = found.iter().take(WITH_NEIGHBOURS).map(|&call| call as u32).collect();
        for edge in self.flow.iter().flat_map(|side| &side.edges) {
            if near.contains(&edge.from) {
                chosen.push(edge.to as usize);
            }
            if near.contains(&edge.to) {
                chosen.push(edge.from as usize);
            }
        }
        for gravity in [Gravity::Fail, Gravity::Warn, Gravity::NotCompared, Gravity::Pass] {
            chosen.extend((0..self.calls.len()).filter(|&call| self.calls[call].gravity == gravity));
        }
        let mut known = vec![false; self.calls.len()];
        chosen.retain(|&call| !std::mem::replace(&mut known[call], true));
        chosen
    }
}
