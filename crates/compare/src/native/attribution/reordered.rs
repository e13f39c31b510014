//! Elements that changed places on the way, where only statistics were compared: those of what was reordered agree, and those
//! of the first call that computes something from many elements do not. It is not that call that is wrong.

use std::collections::{BTreeSet, HashSet};

use ulpscope_dump::CallKind;

use crate::native::attribution::conclude::{Attribution, argument_differs};
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::EntryEvidence;
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::thresholds::confidence;
use crate::verdict::Class;

/// Calls that are looked at on the way back: more do not lie between two calls that mix, and a damaged dump has no end.
const MOST_CALLS: usize = 64;

impl Attribution<'_> {
    /// The last call on the way to a unit, over calls that mix nothing, that one side alone makes, or makes otherwise, and
    /// that may put elements in another order.
    pub(in crate::native) fn who_reordered(&self, at: usize) -> Option<usize> {
        let taken = || self.units[at].entries.iter().filter(|entry| entry.is_taken() && entry.is_tensor);
        let seem_to_agree = taken().any(|entry| entry.is_blurred) && taken().all(|entry| self.is_near(entry));
        if self.units[at].kind != CallKind::Forward || !seem_to_agree {
            return None;
        }
        let mut known = HashSet::new();
        let mut waiting = BTreeSet::from([at]);
        while let Some(unit) = waiting.pop_last() {
            for maker in self.units[unit].entries.iter().flat_map(|entry| self.flow.makers(entry)).flatten() {
                let operation = &self.flow.operations[maker];
                if known.len() >= MOST_CALLS || operation.mixes || !known.insert(maker) {
                    continue;
                }
                let is_other = self.regions.is_part(maker) || argument_differs(&self.units[maker]);
                if is_other && operation.reorders && !self.regions.is_excused(maker) {
                    return Some(maker);
                }
                waiting.insert(maker);
            }
        }
        None
    }

    /// Blames who reordered; who shows it inherits.
    pub(in crate::native) fn blame_reordered(
        &mut self,
        by: usize,
        number: usize,
        error: ErrorProfile,
        expected: ErrorProfile,
    ) -> Conclusion {
        if self.regions.is_part(by) {
            return self.blame_region(by, number, error, expected);
        }
        if self.done.cause(by).is_none() {
            let entry = self.units[by].entries.iter().position(EntryEvidence::is_other_argument);
            let blamed = found(Class::DifferentProgram, Cause::Argument, 0, confidence::STRUCTURE);
            self.done.set(by, Conclusion { entry, error, expected, is_of_taker: true, ..blamed });
        }
        Conclusion { from: Some(by), entry: Some(number), ..Conclusion::of(Class::Inherited) }
    }
}
