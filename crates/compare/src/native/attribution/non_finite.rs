//! NaN and infinities: where they were born, and where they are meant.
//!
//! Values that are finite on one side only are born where a result has them and no argument does; likewise NaN on both sides.
//! Infinities on both sides may be meant, as in a mask, and do no harm where a softmax takes them; they are born where nothing
//! infinite was given and the end of the run still has them.

use std::collections::HashSet;

use ulpscope_dump::CallKind;

use crate::native::attribution::conclude::{Attribution, argument_differs, results};
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::{CallEvidence, Relation};
use crate::native::evidence::tensor_error::NonFinite;
use crate::native::thresholds::confidence;
use crate::verdict::Class;

impl Attribution<'_> {
    /// What to say of results that are NaN or infinite, if anything.
    pub(in crate::native) fn look_for_non_finite(
        &self,
        at: usize,
        unit: &CallEvidence,
        from: Option<usize>,
    ) -> Option<Conclusion> {
        let taken = self.expectations.taken(at);
        let own = || {
            unit.entries.iter().filter(|entry| entry.is_taken()).filter_map(|entry| entry.numbers.as_ref())
        };
        // Infinities in a mask are meant; what makes NaN of them is not.
        let nan_before =
            |side: usize| taken.iter().any(|extent| extent.has_nan(side)) || self.inside_is_broken(at, side);
        let infinite_before =
            |side: usize| own().any(|extent| extent.is_broken(side)) || self.inside_is_broken(at, side);
        for (number, entry) in results(unit) {
            let Some(extent) = &entry.numbers else { continue };
            let one_sided = extent.mismatched > 0;
            let both_nan = extent.non_finite == [NonFinite::Nan; 2];
            let both_infinite = [0, 1].map(|side| extent.is_broken(side)) == [true, true] && !both_nan;
            if !one_sided && !both_nan && !both_infinite {
                continue;
            }
            if !one_sided && both_infinite {
                // Where nothing comes of them they do no harm, as in front of a softmax.
                let is_meant =
                    self.flow.operations[at].is_cover || unit.entries.iter().any(|entry| entry.is_infinite);
                let were_finite = own().count() > 0 && ![0, 1].into_iter().any(infinite_before);
                if from.is_some() || is_meant || !were_finite || !self.stays_broken(at) {
                    continue;
                }
                return Some(found(Class::NonFiniteBornHere, Cause::BothBroken, number, confidence::EXACT));
            }
            // Beside what is NaN on both sides, the rest may be off for another reason.
            let is_beside = !one_sided && entry.state == Relation::Apart;
            if from.is_some() && is_beside {
                continue;
            }
            if from.is_some() || self.works_on_differing(at) {
                let mut inherited = Conclusion::of(Class::Inherited);
                inherited.from = from;
                inherited.entry = Some(number);
                return Some(inherited);
            }
            let sides = [0, 1].map(|side| {
                extent.has_nan(side) && !nan_before(side) || extent.is_broken(side) && !infinite_before(side)
            });
            if one_sided && sides != [false, false] && own().all(|extent| extent.mismatched == 0) {
                return Some(match argument_differs(unit) {
                    true => found(Class::DifferentProgram, Cause::Argument, number, confidence::SHOWN),
                    false => found(Class::NonFiniteBornHere, Cause::NonFinite, number, confidence::SHOWN),
                });
            }
            if both_nan && sides == [true, true] {
                return Some(found(Class::NonFiniteBornHere, Cause::BothBroken, number, confidence::EXACT));
            }
            if one_sided {
                let mut inherited = Conclusion::of(Class::Inherited);
                inherited.entry = Some(number);
                return Some(inherited);
            }
        }
        None
    }

    /// Whether infinite values of a unit reach results that nobody takes: a loss, or gradients.
    fn stays_broken(&self, at: usize) -> bool {
        let mut waiting = vec![at];
        let mut known = HashSet::new();
        while let Some(at) = waiting.pop() {
            let is_broken = self
                .expectations
                .results(at)
                .any(|(_, extent)| [0, 1].map(|side| extent.is_broken(side)) == [true, true]);
            if !is_broken || !known.insert(at) {
                continue;
            }
            if self.units[at].kind != CallKind::Forward || self.flow.takers[at].is_empty() {
                return true;
            }
            waiting.extend(self.flow.takers[at].iter().map(|&(taker, _)| taker as usize));
        }
        false
    }

    fn inside_is_broken(&self, at: usize, side: usize) -> bool {
        // A module is looked at after everything inside it, and asked only where nothing inside is at fault.
        let mut children = self.flow.children[at].iter();
        children.any(|&child| self.expectations.results(child).any(|(_, extent)| extent.is_broken(side)))
    }
}
