//! What a unit's arguments bring along: whose error it may be, how large, and whether there is anything to compare with.

use ulpscope_dump::CallKind;

use crate::native::attribution::conclude::{Attribution, argument_differs};
use crate::native::attribution::conclusion::Cause;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation};
use crate::native::evidence::tensor_error::TensorError;
use crate::verdict::Class;

impl Attribution<'_> {
    /// The first unit with a cause that a unit's arguments come from.
    pub(in crate::native) fn comes_from(&self, at: usize) -> Option<usize> {
        let mut from: Option<usize> = None;
        let is_back = matches!(self.units[at].kind, CallKind::Backward | CallKind::ParametersGrad);
        let mut ask = |unit: usize| {
            let cause = match self.done.cause(unit) {
                // These show in gradients alone.
                Some(Cause::Cut | Cause::ArgumentInBackward) if !is_back => self.done.from(unit),
                Some(_) => Some(unit),
                None => self.done.from(unit),
            };
            from = match (from, cause) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        };
        for entry in &self.units[at].entries {
            self.flow.makers(entry).into_iter().flatten().for_each(&mut ask);
        }
        if let Some(forward) = self.flow.forward.of(at) {
            ask(forward);
            let takers = &self.flow.takers[forward];
            takers.iter().filter_map(|&(taker, _)| self.flow.backward.of(taker as usize)).for_each(&mut ask);
            if let Some(backward) = self.flow.backward.of(forward).filter(|&backward| backward != at) {
                ask(backward);
                self.flow.children[backward].iter().copied().for_each(&mut ask);
            }
        }
        self.flow.children[at].iter().copied().for_each(&mut ask);
        self.flow.inside_backward.get(&at).into_iter().flatten().copied().for_each(&mut ask);
        from
    }

    /// The largest relative error of what a unit works on; of what is finite on one side only, all of it.
    pub(in crate::native) fn taken(&self, at: usize) -> f64 {
        let taken = self.expectations.taken(at);
        let error = |extent: &&TensorError| if extent.mismatched > 0 { 1.0 } else { extent.relative() };
        taken.iter().map(error).fold(self.expectations.inside(at).whole, f64::max)
    }

    /// Whether a unit works on tensors of exact values that differ: indices, masks.
    pub(in crate::native) fn works_on_differing(&self, at: usize) -> bool {
        let differs = |unit: &CallEvidence| {
            unit.entries
                .iter()
                .any(|entry| entry.is_tensor && entry.is_taken() && entry.state == Relation::Differs)
        };
        differs(&self.units[at])
            || self.flow.forward.of(at).is_some_and(|forward| differs(&self.units[forward]))
    }

    /// Whether what a unit works on, or what that was made of, has no counterpart on the other side.
    pub(in crate::native) fn follows_unlike(&self, at: usize) -> bool {
        let unlike =
            |maker: usize| !self.routes.is_on(maker) && self.done.class(maker) == Some(Class::NotComparable);
        let makers = |entry: &EntryEvidence| self.flow.makers(entry);
        let mut entries = self.units[at].entries.iter().flat_map(makers).flatten();
        let forward = self.flow.forward.of(at);
        entries.any(unlike) || forward.is_some_and(|at| unlike(at) || argument_differs(&self.units[at]))
    }

    pub(in crate::native) fn works_on_unlike(&self, at: usize) -> bool {
        let unlike = |unit: &CallEvidence| {
            unit.entries
                .iter()
                .any(|entry| entry.is_tensor && entry.is_taken() && matches!(entry.state, Relation::Unlike))
        };
        unlike(&self.units[at])
            || self.flow.forward.of(at).is_some_and(|forward| unlike(&self.units[forward]))
    }

    pub(in crate::native) fn has_unknown_arguments(&self, unit: &CallEvidence) -> bool {
        unit.entries
            .iter()
            .any(|entry| entry.is_tensor && entry.is_taken() && entry.state == Relation::Unknown)
    }
}
