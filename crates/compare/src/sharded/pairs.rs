//! Which call of the golden a call of all ranks is: by parameters and modules first, which do not change when work is shared.

use std::collections::HashMap;
use std::ops::Range;

use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Rank, Role};

use super::ranks::Ranks;
use super::survey::tensor;
use crate::pairing::{PairOptions, Unit, Wrappers, pair};
use crate::style::Side;

/// By call of the target: that of the golden.
pub(super) fn partners(ranks: &Ranks, golden: &Rank, options: &PairOptions) -> Vec<Option<u32>> {
    let target = ranks.first();
    let mut partners =
        Partners { of_target: vec![None; target.calls().len()], of_golden: vec![None; golden.calls().len()] };
    for unit in pair(target, golden, options).units {
        if let Unit::Pair(pair) = unit {
            partners.join(pair.target, pair.golden);
        }
    }
    let paths = |rank: &Rank| -> Vec<String> {
        let bases = rank.calls().iter().map(|call| rank.base(call.base));
        bases.filter_map(|base| Some(module(base)?.to_owned())).collect()
    };
    let (ours, theirs) = (paths(target), paths(golden));
    let wrappers = Wrappers::of(ours.iter().map(String::as_str), theirs.iter().map(String::as_str));
    let anchors = |rank: &Rank, side: Side| -> HashMap<Anchor, Vec<usize>> {
        let mut found: HashMap<Anchor, Vec<usize>> = HashMap::new();
        for call in 0..rank.calls().len() {
            if let Some(anchor) = Anchor::of(rank, call, &wrappers, side) {
                found.entry(anchor).or_default().push(call);
            }
        }
        found
    };
    let (ours, mut theirs) = (anchors(target, Side::Target), anchors(golden, Side::Golden));
    let is_rewritten = rewrites_gradients(golden);
    let mut anchored: Vec<(usize, usize)> = Vec::new();
    for (anchor, calls) in ours {
        let Some(others) = theirs.remove(&anchor) else { continue };
        // What several stages have, like an embedding that is tied to the head, they update one after the other.
        let of_first = |call: &usize| ranks.stage(*call) == ranks.stage(calls[0]);
        let first: Vec<usize> = calls.iter().copied().filter(of_first).collect();
        if calls.len() == others.len() {
            anchored.extend(calls.into_iter().zip(others));
        } else if matches!(anchor, Anchor::Parameter(..)) && first.len() == others.len() {
            calls.iter().for_each(|&call| partners.part(call));
            anchored.extend(first.into_iter().zip(others));
        } else if let (Anchor::Gradients(_), Some(&one), Some(&other)) =
            (&anchor, calls.last(), others.last())
        {
            // The last gradients are those that the optimizer gets. One process records them once, before they are clipped.
            let one = if is_rewritten && others.len() == 1 { calls[0] } else { one };
            calls.iter().for_each(|&call| partners.part(call));
            anchored.push((one, other));
        }
    }
    anchored.sort_unstable();
    for &(one, other) in &anchored {
        partners.join(one, other);
    }
    for gap in gaps(&anchored, [target.calls().len(), golden.calls().len()]) {
        if let Some(pairs) = same_calls((target, gap[0].clone()), (golden, gap[1].clone())) {
            pairs.into_iter().for_each(|(one, other)| partners.join(one, other));
        }
    }
    partners.of_target
}

/// The calls after each that is anchored, up to the next on both sides: an optimizer's, whose tensors have no names.
fn gaps(anchored: &[(usize, usize)], [ours, theirs]: [usize; 2]) -> impl Iterator<Item = [Range<usize>; 2]> {
    let next = anchored.iter().copied().skip(1).chain([(ours, theirs)]);
    let gaps = anchored.iter().zip(next).map(|(one, next)| [one.0 + 1..next.0, one.1 + 1..next.1]);
    gaps.filter(|[ours, theirs]| ours.start < ours.end && theirs.start < theirs.end)
}

/// The pairs of calls, if both sides make calls of the same kind of the same operations, and no other, except that ranks may
/// exchange values between them.
fn same_calls(
    (target, ours): (&Rank, Range<usize>),
    (golden, theirs): (&Rank, Range<usize>),
) -> Option<Vec<(usize, usize)>> {
    let ours: Vec<usize> =
        ours.filter(|&call| !target.base(target.calls()[call].base).starts_with("Distributed.")).collect();
    let is_same = |(&one, other): (&usize, usize)| {
        let (one, other) = (&target.calls()[one], &golden.calls()[other]);
        one.kind == other.kind && target.base(one.base) == golden.base(other.base)
    };
    let are_same = ours.len() == theirs.len() && ours.iter().zip(theirs.clone()).all(is_same);
    are_same.then(|| ours.into_iter().zip(theirs).collect())
}

/// Whether a run changes gradients after its backward pass: it clips them, or undoes the scale of its loss.
fn rewrites_gradients(rank: &Rank) -> bool {
    (0..rank.calls().len()).any(|call| {
        let described = &rank.calls()[call];
        let base = rank.base(described.base);
        described.kind == CallKind::Forward
            && ApiName::of(base).is_in_place()
            && rank.entries(call).is_ok_and(|entries| {
                let mut inputs = entries.iter().filter(|entry| entry.role == Role::Input).filter_map(tensor);
                let first = inputs.next().and_then(|tensor| tensor.source.as_deref());
                first.is_some_and(|source| source.starts_with("gradient:"))
            })
    })
}

struct Partners {
    of_target: Vec<Option<u32>>,
    of_golden: Vec<Option<u32>>,
}

impl Partners {
    fn part(&mut self, target: usize) {
        if let Some(golden) = self.of_target[target].take() {
            self.of_golden[golden as usize] = None;
        }
    }

    fn join(&mut self, target: usize, golden: usize) {
        self.part(target);
        if let Some(before) = self.of_golden[golden].replace(target as u32) {
            self.of_target[before as usize] = None;
        }
        self.of_target[target] = Some(golden as u32);
    }
}

/// What says of a call which one it is, whatever the order and the shapes.
#[derive(PartialEq, Eq, Hash)]
enum Anchor {
    /// A call of a module, whatever its class.
    Module(String, CallKind),
    /// The gradients of a module's parameters.
    Gradients(String),
    /// An operation on this parameter.
    Parameter(String, String),
    /// An operation on the gradient of this parameter.
    Gradient(String, String),
}

impl Anchor {
    fn of(rank: &Rank, call: usize, wrappers: &Wrappers, side: Side) -> Option<Anchor> {
        let described = &rank.calls()[call];
        let base = rank.base(described.base);
        if let Some(path) = module(base) {
            let path = wrappers.unwrap(side, path);
            let path = path.rsplit_once('.').map_or("", |(path, _)| path).to_owned();
            return Some(match described.kind {
                CallKind::ParametersGrad => Anchor::Gradients(path),
                kind => Anchor::Module(path, kind),
            });
        }
        if described.kind != CallKind::Forward {
            return None;
        }
        let entries = rank.entries(call).ok()?;
        let taken = entries.iter().filter(|entry| entry.role == Role::Input).filter_map(tensor);
        let sources: Vec<&str> = taken.filter_map(|tensor| tensor.source.as_deref()).collect();
        let named = |prefix: &str| -> Vec<String> {
            let names = sources.iter().filter_map(|source| source.strip_prefix(prefix));
            names.map(|name| wrappers.unwrap(side, name)).collect()
        };
        let names = named("parameter:");
        // A bias may be added by a call of its own.
        let main = names.iter().find(|name| !name.ends_with("bias")).or(names.first());
        match main {
            Some(main) => Some(Anchor::Parameter(base.to_owned(), main.clone())),
            None => Some(Anchor::Gradient(base.to_owned(), named("gradient:").into_iter().next()?)),
        }
    }
}

/// The path of a module with its class.
fn module(base: &str) -> Option<&str> {
    base.strip_prefix("Module.").or_else(|| base.strip_prefix("Cell."))
}
