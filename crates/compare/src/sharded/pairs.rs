//! Which call of the golden a call of all ranks is: by parameters and modules first, which do not change when work is shared.

use std::collections::HashMap;

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
            // The last gradients are those that the optimizer gets.
            calls.iter().for_each(|&call| partners.part(call));
            anchored.push((one, other));
        }
    }
    anchored.sort_unstable();
    anchored.into_iter().for_each(|(one, other)| partners.join(one, other));
    partners.of_target
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
        let names: Vec<String> = taken
            .filter_map(|tensor| tensor.source.as_deref()?.strip_prefix("parameter:"))
            .map(|name| wrappers.unwrap(side, name))
            .collect();
        // A bias may be added by a call of its own.
        let main = names.iter().find(|name| !name.ends_with("bias")).or(names.first())?.clone();
        Some(Anchor::Parameter(base.to_owned(), main))
    }
}

/// The path of a module with its class.
fn module(base: &str) -> Option<&str> {
    base.strip_prefix("Module.").or_else(|| base.strip_prefix("Cell."))
}
