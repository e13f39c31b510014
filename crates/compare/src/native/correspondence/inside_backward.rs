//! The calls that a user's own backward function makes (`torch.autograd.Function`).
//!
//! ```text
//! Autograd.Gelu.0.forward         the last call that has a backward call
//! Tensor.sigmoid.1.forward        ┐ made by the backward function: in no module, without backward calls of their own,
//! Tensor.__mul__.4.forward        ┘ and leading to what it returns
//! Autograd.Gelu.0.backward        recorded behind them
//! ```
//! They make gradients, and are no part of the forward pass.

use std::collections::HashSet;

use ulpscope_dump::operators::ApiName;
use ulpscope_dump::{CallKind, Entry, Role};

use super::call_tensors::{sizes, tensors};
use super::program::print;
use crate::native::evidence::call_evidence::Source;
use crate::native::evidence::flow::Calls;

/// Finds them. `parents`: by call, the module that made it.
pub(super) fn inside_backward(calls: &Calls<'_>, parents: &[Option<usize>]) -> HashSet<usize> {
    let all = calls.rank.calls();
    let is_own = |at: usize| ApiName::of(calls.rank.base(all[at].base)).namespace == "Autograd";
    let backward = || all.iter().enumerate().filter(|(_, call)| call.kind == CallKind::Backward);
    let mut found = HashSet::new();
    if !backward().any(|(at, _)| is_own(at)) {
        return found;
    }
    let passed_back: HashSet<_> = backward().map(|(_, call)| (call.base, call.index)).collect();
    let mut candidates: Vec<usize> = Vec::new();
    // Between two calls of the backward pass, nothing but a backward function makes calls.
    let mut is_amid = false;
    for (at, call) in all.iter().enumerate() {
        match call.kind {
            CallKind::Forward if parents[at].is_some() || passed_back.contains(&(call.base, call.index)) => {
                candidates.clear();
                is_amid = false;
            }
            CallKind::Forward => candidates.push(at),
            CallKind::Backward | CallKind::ParametersGrad => {
                match call.kind == CallKind::Backward && is_own(at) {
                    true if is_amid => found.extend(candidates.drain(..)),
                    true => found.extend(leading_to(calls, &candidates, at)),
                    false => {}
                }
                candidates.clear();
                is_amid = true;
            }
            CallKind::Saved | CallKind::StepEnd => {
                candidates.clear();
                is_amid = false;
            }
        }
    }
    found
}

/// Of some calls, those from which the results of a later one are computed.
fn leading_to(calls: &Calls<'_>, candidates: &[usize], to: usize) -> HashSet<usize> {
    let entries = |call: usize| calls.rank.entries(call).unwrap_or_default();
    let prints = |entries: &[Entry]| {
        let whole = tensors(entries, |role| role == Role::Output);
        let whole = whole.filter(|(_, tensor)| sizes(tensor)[3].is_some_and(|norm| norm > 0.0));
        whole.map(|(_, tensor)| print(tensor.count().unwrap_or(0), &sizes(tensor))).collect::<Vec<u64>>()
    };
    let wanted: HashSet<u64> = prints(&entries(to)).into_iter().collect();
    let (mut found, mut makers) = (HashSet::new(), HashSet::new());
    for &call in candidates.iter().rev() {
        let entries = entries(call);
        let given = || tensors(&entries, |role| matches!(role, Role::Input | Role::Parameter));
        let mut sources = given().map(|(_, tensor)| match calls.source(tensor.source.as_deref()) {
            Source::Call(maker, _) => Some(maker),
            _ => None,
        });
        let operation = calls.operation(call);
        let writes = operation.is_in_place || operation.assigns;
        let into = sources.next().flatten();
        let is_needed = makers.contains(&call)
            || writes && into.is_some_and(|maker| makers.contains(&maker))
            || prints(&entries).iter().any(|print| wanted.contains(print));
        if is_needed {
            makers.extend(into.into_iter().chain(sources.flatten()));
            found.insert(call);
        }
    }
    found
}
