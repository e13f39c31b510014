//! Arguments that are uninitialised memory: a call that takes only their shape returns the same from whatever is there.

use crate::native::attribution::conclude::{Attribution, results};
use crate::native::evidence::call_evidence::{EntryEvidence, Relation, Source};

impl Attribution<'_> {
    /// Whether an argument is memory that a call returned uninitialised on both sides, and nothing of it shows in the results
    /// of the unit that takes it.
    pub(in crate::native) fn is_unused_blank(&self, at: usize, entry: &EntryEvidence) -> bool {
        let is_blank = |(side, source): (usize, &Source)| match source {
            Source::Call(call, place) => {
                let maker = self.flow.unit_of[side].of(*call);
                // Asked for every argument: nearly no call returns any.
                maker.filter(|maker| self.flow.blank.contains(maker)).is_some_and(|maker| {
                    let made = self.units[maker].entries.iter();
                    made.filter(|made| made.state == Relation::Blank)
                        .any(|made| [made.place(), made.golden_place()][side] == *place)
                })
            }
            _ => false,
        };
        entry.sources().iter().enumerate().all(is_blank)
            && results(&self.units[at]).all(|(_, result)| !result.is_tensor || self.is_near(result))
    }
}
