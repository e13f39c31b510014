//! What the calls of one side write into its parameters and their gradients.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ulpscope_dump::{CallKind, Content, Entry, Rank, Role};

use crate::native::evidence::call_evidence::place;
use crate::native::evidence::flow::Calls;

/// How dumps name what calls write into.
pub(in crate::native) const PARAMETER: &str = "parameter:";
pub(in crate::native) const GRADIENT: &str = "gradient:";

/// How dumps name a parameter of no module that was recorded.
const NAMELESS: &str = "parameter";

/// What a side does with a parameter.
pub(in crate::native) struct Written {
    /// What it was before the first of the calls, if there are any.
    pub(in crate::native) before: Entry,
    /// What was written last; nothing, where a call does not give back what it wrote.
    pub(in crate::native) after: Option<Entry>,
    /// By which calls, in order, and at which of their places.
    pub(in crate::native) by: Vec<(usize, u64)>,
}

/// What a side writes into its parameters, by their names.
pub(in crate::native) fn written(calls: &Calls<'_>) -> BTreeMap<String, Written> {
    let rank = calls.rank;
    let mut written: BTreeMap<String, Written> = BTreeMap::new();
    // The parameter that a result is, by the name of the entry.
    let mut parameters: HashMap<String, String> = HashMap::new();
    for call in 0..rank.calls().len() {
        if rank.calls()[call].kind == CallKind::ParametersGrad {
            add_exchanged(rank, call, &mut written);
        }
        if rank.calls()[call].kind != CallKind::Forward || !calls.operation(call).is_in_place {
            continue;
        }
        // What could not be read was told when the call was judged.
        let entries = rank.entries(call).unwrap_or_default();
        let tensors = |role: Role| {
            entries
                .iter()
                .filter(move |entry| entry.role == role && matches!(entry.content, Content::Tensor(_)))
        };
        let gives_back = tensors(Role::Output).next().is_some();
        // What is written into comes first among the arguments, one tensor for each result.
        let mut results = tensors(Role::Output);
        for before in tensors(Role::Input) {
            let Content::Tensor(tensor) = &before.content else { continue };
            let after = results.next();
            let source = tensor.source.as_deref().unwrap_or_default();
            let made = || parameters.get(source).cloned();
            let is_named = [PARAMETER, GRADIENT].iter().any(|kind| source.starts_with(kind));
            let Some(name) = is_named.then(|| source.to_owned()).or_else(made) else { continue };
            // Of a call that gives something back, the other arguments are not written into.
            if after.is_none() && gives_back {
                break;
            }
            if let Some(after) = after {
                parameters.insert(after.name.clone(), name.clone());
            }
            let new = || Written { before: before.clone(), after: None, by: Vec::new() };
            let known = written.entry(name).or_insert_with(new);
            known.after = after.cloned();
            known.by.push((call, place(before.role, &before.path)));
        }
    }
    written
}

/// The gradients that the backward pass of a side left, by the names of their parameters.
pub(in crate::native) fn recorded_gradients(rank: &Rank) -> HashMap<String, Entry> {
    let mut found = HashMap::new();
    let records = rank.calls().iter().enumerate().filter(|(_, call)| call.kind == CallKind::ParametersGrad);
    for (number, call) in records {
        for entry in rank.entries(number).unwrap_or_default() {
            if entry.role == Role::ParameterGrad && matches!(entry.content, Content::Tensor(_)) {
                found.insert(parameter_of(rank.base(call.base), &entry.path), entry);
            }
        }
    }
    found
}

/// The name of the parameter of which a record has the gradient: `Module.layers.0.fc.Linear` has `layers.0.fc.weight`.
pub(in crate::native) fn parameter_of(base: &str, path: &str) -> String {
    let module = base.split_once('.').map_or(base, |(_, path)| path);
    let module = module.rsplit_once('.').map_or("", |(path, _)| path);
    let name = path.strip_suffix(".0").unwrap_or(path);
    if module.is_empty() { name.to_owned() } else { format!("{module}.{name}") }
}

/// Whether a run without a model was recorded: calls are given parameters, and it is not known which.
pub(in crate::native) fn has_nameless_parameters(rank: &Rank) -> bool {
    let is_nameless = |entry: &Entry| match &entry.content {
        Content::Tensor(tensor) => tensor.source.as_deref() == Some(NAMELESS),
        _ => false,
    };
    (0..rank.calls().len())
        .any(|call| rank.entries(call).is_ok_and(|entries| entries.iter().any(is_nameless)))
}

/// Adds gradients that one side writes and the other does not, as the optimizer of the other gets them: a program may assign a new
/// tensor, `p.grad = p.grad * k`, which is no call.
pub(in crate::native) fn add_assigned(sides: &mut [BTreeMap<String, Written>; 2], calls: [&Calls<'_>; 2]) {
    for side in 0..2 {
        let there = sides[1 - side].iter().filter(|(_, written)| !written.by.is_empty());
        let missing: BTreeSet<String> = there
            .map(|(name, _)| name)
            .filter(|name| name.starts_with(GRADIENT) && !sides[side].contains_key(*name))
            .cloned()
            .collect();
        let rank = calls[side].rank;
        for call in (0..rank.calls().len()).filter(|_| !missing.is_empty()) {
            let is_update =
                rank.calls()[call].kind == CallKind::Forward && calls[side].operation(call).is_in_place;
            for entry in rank.entries(call).ok().filter(|_| is_update).into_iter().flatten() {
                let Content::Tensor(tensor) = &entry.content else { continue };
                let name = tensor
                    .source
                    .as_ref()
                    .filter(|name| entry.role == Role::Input && missing.contains(*name));
                let Some(name) = name.cloned() else { continue };
                let new = || Written { before: entry.clone(), after: None, by: Vec::new() };
                sides[side].entry(name).or_insert_with(new).after = Some(entry.clone());
            }
        }
    }
}

/// Gradients as an optimizer gets them: ranks may have exchanged them in a way that shows no call, as
/// `DistributedDataParallel` does.
fn add_exchanged(rank: &Rank, call: usize, written: &mut BTreeMap<String, Written>) {
    for entry in rank.entries(call).unwrap_or_default() {
        let Content::Tensor(tensor) = &entry.content else { continue };
        let Some(name) = tensor.source.clone().filter(|source| source.starts_with(GRADIENT)) else {
            continue;
        };
        let new = || Written { before: entry.clone(), after: None, by: Vec::new() };
        written.entry(name).or_insert_with(new).after = Some(entry.clone());
    }
}
