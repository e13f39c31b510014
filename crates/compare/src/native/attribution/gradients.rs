//! Gradients that do not arrive, or arrive as others: cut off on one side, changed by a call of one side, or for a plain
//! argument that only the backward pass uses.

use ulpscope_dump::CallKind;

use crate::native::attribution::conclude::{Attribution, argument_differs};
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::thresholds::confidence;
use crate::verdict::Class;

impl Attribution<'_> {
    /// Of those who took the result of a call, the one at which gradients end on one side: a call of one side alone whose
    /// result is used in the backward pass of others, or one of which one side has no backward call for not wanting one.
    pub(in crate::native) fn where_gradients_end(&self, takers: &[usize]) -> Option<usize> {
        // Where another call takes the same and hands its gradients back, they pass there.
        if takers.iter().any(|&taker| self.units[taker].is_lone() && self.flow.backward.of(taker).is_some()) {
            return None;
        }
        let is_used = |taker: usize| {
            let mut takers = self.flow.takers[taker].iter();
            takers.any(|&(next, _)| self.flow.backward.of(next as usize).is_some())
        };
        let ends = |taker: usize| {
            let is = |entry: &EntryEvidence, wanted: bool| {
                entry.is_float && entry.wants_gradient.contains(&Some(wanted))
            };
            let mut entries = self.units[taker].entries.iter();
            let takes = entries.clone().any(|entry| entry.is_taken() && is(entry, true));
            takes && entries.any(|entry| !entry.is_taken() && is(entry, false))
        };
        takers.iter().copied().find(|&taker| match self.flow.backward.of(taker) {
            None => self.units[taker].is_lone() && ends(taker) && is_used(taker),
            // A function of the user's own may hand gradients back that a call inside it does not.
            Some(backward) => {
                let mut results = self.units[taker].entries.iter().filter(|entry| !entry.is_taken());
                let mut next = self.flow.takers[taker].iter();
                let is_cut_off = |&(next, number): &(u32, u32)| {
                    self.units[next as usize].entries[number as usize].is_cut_off()
                };
                self.units[backward].is_lone()
                    && results.any(EntryEvidence::is_cut_off)
                    && next.any(is_cut_off)
            }
        })
    }

    /// Blames a call for the gradients that do not pass it on one side; who misses them inherits.
    pub(in crate::native) fn blame_cut(
        &mut self,
        cut: usize,
        number: usize,
        error: ErrorProfile,
        expected: ErrorProfile,
    ) -> Conclusion {
        if self.done.cause(cut).is_none() {
            let entries = &self.units[cut].entries;
            let entry = entries.iter().position(EntryEvidence::is_cut_off);
            let blamed = found(Class::DifferentProgram, Cause::Cut, 0, confidence::STRUCTURE);
            self.done.set(cut, Conclusion { entry, error, expected, is_of_taker: true, ..blamed });
        }
        Conclusion { from: Some(cut), entry: Some(number), ..Conclusion::of(Class::Inherited) }
    }

    /// A parameter that is trained on one side only: it requires a gradient there, and gets one.
    pub(in crate::native) fn find_frozen(&self, at: usize, unit: &CallEvidence) -> Option<Conclusion> {
        let is_frozen = |entry: &EntryEvidence| {
            entry.is_taken() && entry.is_cut_off() && entry.sources() == [Source::Origin; 2]
        };
        let number = unit.entries.iter().position(is_frozen)?;
        let backward = &self.units[self.flow.backward.of(at)?];
        let is_missing = |entry: &EntryEvidence| {
            !entry.is_taken()
                && matches!(entry.state, Relation::Missing | Relation::Lone(_))
                && entry.is_gradient_of(&unit.entries[number])
        };
        let gets_one =
            backward.is_lone() && self.flow.has_gradients || backward.entries.iter().any(is_missing);
        (unit.kind == CallKind::Forward && gets_one)
            .then(|| found(Class::DifferentProgram, Cause::Cut, number, confidence::EXACT))
    }

    /// The call of one side alone that wrote into the gradient of a parameter before a unit takes it, or that makes the pass
    /// that the other side does not make.
    pub(in crate::native) fn who_changed_gradient(&self, at: usize, entry: &EntryEvidence) -> Option<usize> {
        let of = entry.sources().iter().find_map(|source| match source {
            Source::Gradient(of) => Some(*of),
            _ => None,
        })?;
        let rewritten = self.flow.rewritten.get(&of).copied();
        let other_pass =
            self.flow.other_pass.filter(|&sum| sum < at).and_then(|sum| self.flow.forward.of(sum));
        rewritten.filter(|&rewritten| rewritten < at).or(other_pass)
    }

    /// Blames the plain argument of a forward call for gradients that it does not explain otherwise; the backward call
    /// inherits.
    pub(in crate::native) fn blame_forward(&mut self, at: usize, known: &Conclusion) -> Option<Conclusion> {
        let forward = self.flow.forward.of(at)?;
        let unit = &self.units[forward];
        let agree = unit.entries.iter().filter(|entry| entry.is_tensor).all(|entry| self.is_near(entry));
        if !argument_differs(unit) || !agree {
            return None;
        }
        let entry = unit.entries.iter().position(EntryEvidence::is_other_argument);
        let blamed = found(
            Class::DifferentProgram,
            Cause::ArgumentInBackward,
            0,
            known.confidence.max(confidence::STRUCTURE),
        );
        let (error, expected) = (known.error, known.expected);
        self.done.set(forward, Conclusion { entry, error, expected, is_of_taker: true, ..blamed });
        Some(Conclusion { from: Some(forward), entry: known.entry, ..Conclusion::of(Class::Inherited) })
    }
}
