//! Which piece of the batch each call of a rank belongs to.
//!
//! ```text
//! data enters at calls that get it together with a parameter    ──► the beginning of each pass
//! what follows from one pass alone, and what only one pass uses ──► belongs to it
//! backward calls                                                ──► to the pass of their forward calls
//! the rest: schedules, optimizer steps, sums over passes        ──► to all
//! ```

use std::collections::HashMap;

use rayon::prelude::*;
use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Rank, Role};

use super::survey::tensor;

/// Operations that send or receive. What arrives was computed elsewhere.
pub(super) const MESSAGES: [&str; 7] =
    ["send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list"];

/// Where a call belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// To the forward pass of a piece of the batch.
    Forward(usize),
    /// To its backward pass.
    Backward(usize),
    /// To no piece: passes use its result.
    Before,
    /// To no piece.
    After,
    /// To a pass whose results nothing uses: one that finds out shapes.
    Nothing,
}

/// The forward passes of a rank.
#[derive(Clone, Debug)]
pub(super) struct Passes {
    /// By number of a call.
    pub(super) of_call: Vec<Belongs>,
    /// How many there are, at least one.
    pub(super) count: usize,
    /// Parameters as calls use them, in order of execution: of the first pass.
    pub(super) uses: Vec<Use>,
}

/// A parameter that a call uses.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) parameter: String,
    pub(super) call: usize,
    /// Its place among the entries of the call.
    pub(super) entry: usize,
    pub(super) shape: Vec<u64>,
}

/// What is known of a call.
#[derive(Clone, Debug, Default)]
struct Facts {
    /// Calls whose results it uses.
    producers: Vec<u32>,
    uses: Vec<Use>,
    /// Whether it uses any parameter, also one without a name.
    is_weighted: bool,
    is_recomputed: bool,
    is_message: bool,
    /// The module in which it is made.
    parent: Option<u32>,
}

/// How often data enters a program at the call where it enters first.
pub(super) fn entrances(rank: &Rank) -> usize {
    let facts = facts(rank);
    beginnings(rank, &facts).len().max(1)
}

/// Finds the passes of a rank, of which each begins with `entrances` calls that data enters at.
pub(super) fn passes(rank: &Rank, entrances: usize) -> Passes {
    let facts = facts(rank);
    let calls = rank.calls();
    let beginnings = beginnings(rank, &facts);
    let mut labels: Vec<Label> = vec![Label::Open; calls.len()];
    for (number, &call) in beginnings.iter().enumerate() {
        labels[call] = Label::Pass(number / entrances.max(1));
    }
    let is_flow = |call: usize| calls[call].kind == CallKind::Forward && !facts[call].is_message;
    for call in (0..calls.len()).filter(|&call| is_flow(call)) {
        if labels[call] == Label::Open {
            let producers = facts[call].producers.iter().map(|&producer| producer as usize);
            labels[call] = producers
                .filter(|&producer| is_flow(producer))
                .map(|producer| labels[producer])
                .fold(Label::Open, Label::and);
        }
    }
    // What only one pass uses belongs to it, like a message that arrives for it.
    let mut used: Vec<Label> = vec![Label::Open; calls.len()];
    for call in (0..calls.len()).rev().filter(|&call| calls[call].kind == CallKind::Forward) {
        if labels[call] == Label::Open {
            labels[call] = used[call];
        }
        for &producer in &facts[call].producers {
            used[producer as usize] = used[producer as usize].and(labels[call]);
        }
    }
    let numbers: HashMap<(&str, Option<u32>), usize> = (0..calls.len())
        .filter(|&call| calls[call].kind == CallKind::Forward)
        .map(|call| ((rank.base(calls[call].base), calls[call].index), call))
        .collect();
    let mut has_backward = vec![false; beginnings.len() + 1];
    for call in (0..calls.len()).filter(|&call| calls[call].kind == CallKind::Backward) {
        let forward = numbers.get(&(rank.base(calls[call].base), calls[call].index));
        labels[call] = forward.map_or(Label::Several, |&forward| labels[forward]);
        if let Label::Pass(pass) = labels[call] {
            has_backward[pass] = true;
        }
    }
    // A pass before all that have a backward pass, and without one, is none of the batch.
    let idle = has_backward.iter().position(|&has| has).unwrap_or(0);
    let of_call: Vec<Belongs> = (0..calls.len())
        .map(|call| match (labels[call], calls[call].kind) {
            (Label::Pass(pass), _) if pass < idle => Belongs::Nothing,
            (Label::Pass(pass), CallKind::Forward) if !facts[call].is_recomputed => {
                Belongs::Forward(pass - idle)
            }
            (Label::Pass(pass), CallKind::Forward | CallKind::Backward) => Belongs::Backward(pass - idle),
            (_, CallKind::Forward) if used[call] != Label::Open => Belongs::Before,
            _ => Belongs::After,
        })
        .collect();
    let last = of_call.iter().filter_map(|belongs| match belongs {
        Belongs::Forward(pass) => Some(pass + 1),
        _ => None,
    });
    let count = last.max().unwrap_or(1);
    let uses = (0..calls.len())
        .filter(|&call| of_call[call] == Belongs::Forward(0))
        .flat_map(|call| facts[call].uses.clone())
        .collect();
    Passes { of_call, count, uses }
}

/// The passes that a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Open,
    Pass(usize),
    Several,
}

impl Label {
    fn and(self, other: Label) -> Label {
        match (self, other) {
            (Label::Open, other) => other,
            (one, Label::Open) => one,
            (one, other) if one == other => one,
            _ => Label::Several,
        }
    }
}

fn facts(rank: &Rank) -> Vec<Facts> {
    let calls = rank.calls();
    let numbers: HashMap<String, u32> = (0..calls.len()).map(|call| (rank.name(call), call as u32)).collect();
    let last_backward = calls.iter().rposition(|call| call.kind == CallKind::Backward);
    let mut facts: Vec<Facts> =
        (0..calls.len()).into_par_iter().map(|call| facts_of(rank, call, &numbers, last_backward)).collect();
    // A module is made of the calls inside it.
    for call in 0..calls.len() {
        if let Some(parent) = facts[call].parent {
            facts[parent as usize].producers.push(call as u32);
        }
    }
    facts
}

fn facts_of(rank: &Rank, call: usize, numbers: &HashMap<String, u32>, last_backward: Option<usize>) -> Facts {
    let described = &rank.calls()[call];
    let mut facts = Facts::default();
    if described.kind != CallKind::Forward {
        return facts;
    }
    facts.is_message = is_message(rank.base(described.base));
    let parent = rank.parent(call).and_then(|parent| numbers.get(&parent).copied());
    facts.parent = parent.filter(|&parent| parent as usize > call);
    let entries = rank.entries(call).unwrap_or_default();
    let mut is_update = last_backward.is_some_and(|last| call > last);
    for (number, entry) in entries.iter().enumerate() {
        let Some(tensor) = tensor(entry) else { continue };
        facts.is_recomputed |= tensor.recompute;
        let source = tensor.source.as_deref().unwrap_or_default();
        if entry.role == Role::Output {
            continue;
        }
        is_update |= source.starts_with("gradient:");
        if source.starts_with("parameter") {
            facts.is_weighted = true;
        }
        if let Some(parameter) = source.strip_prefix("parameter:") {
            let shape = tensor.shape.clone().unwrap_or_default();
            facts.uses.push(Use { parameter: parameter.to_owned(), call, entry: number, shape });
        }
        let producer = [".output.", ".input."]
            .iter()
            .find_map(|word| numbers.get(source.rsplit_once(word)?.0))
            .filter(|&&producer| (producer as usize) < call);
        facts.producers.extend(producer);
    }
    if is_update {
        facts.uses.clear();
        facts.is_weighted = false;
    }
    facts
}

/// Whether a call sends or receives from one rank to another.
fn is_message(base: &str) -> bool {
    base.starts_with("Distributed.") && MESSAGES.contains(&ApiName::of(base).operation())
}

/// The calls that data enters at like the first of them: with the same parameter, and nothing that was computed from one.
fn beginnings(rank: &Rank, facts: &[Facts]) -> Vec<usize> {
    let mut depends = vec![false; facts.len()];
    let mut found: Vec<usize> = Vec::new();
    let key = |call: usize| {
        let parameter = facts[call].uses.first().map(|used| used.parameter.as_str());
        (rank.calls()[call].base, parameter)
    };
    for (call, fact) in facts.iter().enumerate().filter(|(_, fact)| !fact.is_message) {
        let is_given = fact.producers.iter().any(|&producer| depends[producer as usize]);
        depends[call] = is_given || fact.is_weighted;
        let is_beginning = fact.is_weighted && !is_given && !fact.is_recomputed;
        if is_beginning && found.first().is_none_or(|&first| key(first) == key(call)) {
            found.push(call);
        }
    }
    found
}
