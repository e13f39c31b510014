//! The cut between two programs with names, lines and results of its calls, for people.

use ulpscope_dump::{Content, Role, Task};

use crate::native::correspondence::Cut;
use crate::native::evidence::flow::Calls;
use crate::region::{Region, RegionCall, RegionCalls, RegionResult};
use crate::stack::CodeLines;

/// Calls of one side that are named.
const MOST_NAMED: usize = 1000;

/// Names the calls of a cut.
pub(in crate::native) fn named([target, golden]: [&Calls<'_>; 2], cut: &Cut) -> Region {
    let pair = |calls: [usize; 2]| [call(target, calls[0]), call(golden, calls[1])];
    Region {
        target: side(target, &cut.target, cut.named),
        golden: side(golden, &cut.golden, cut.golden_named),
        partner: cut.partner.map(|call| golden.rank.name(call)),
        after: after(cut).into_iter().take(MOST_NAMED).map(pair).collect(),
        before: pair(cut.before),
        may_begin_earlier: cut.may_begin_earlier,
        is_by_statistics: [target, golden].iter().any(|calls| calls.rank.task != Task::Tensor),
    }
}

/// What goes into it and agrees. A call that is suspected of moving elements to other places agrees by statistics alone:
/// it is no place to begin from, if there are others.
fn after(cut: &Cut) -> Vec<[usize; 2]> {
    let outside: Vec<[usize; 2]> =
        cut.after.iter().copied().filter(|[call, _]| !cut.target.contains(call)).collect();
    if outside.is_empty() { cut.after.clone() } else { outside }
}

fn side(calls: &Calls<'_>, all: &[usize], computing: usize) -> RegionCalls {
    let all: Vec<RegionCall> = all.iter().take(MOST_NAMED).map(|&at| call(calls, at)).collect();
    let (computing, others) = all.split_at(computing.min(all.len()));
    RegionCalls { computing: computing.to_vec(), others: others.to_vec() }
}

fn call(calls: &Calls<'_>, at: usize) -> RegionCall {
    let rank = calls.rank;
    let lines = rank.stack(at).map(|stack| CodeLines::of(&stack)).unwrap_or_default();
    let outputs = rank.entries(at).unwrap_or_default().into_iter().filter(|entry| entry.role == Role::Output);
    let results = outputs.filter_map(|entry| match entry.content {
        Content::Tensor(tensor) => {
            Some(RegionResult { dtype: tensor.dtype.clone(), shape: tensor.shape.clone() })
        }
        _ => None,
    });
    RegionCall {
        name: rank.name(at),
        at: at as u64,
        module: rank.parent(at),
        code: lines.inner.or(lines.own),
        results: results.collect(),
    }
}
