//! Calls that cannot be held against a partner, one behind the other: where such a region begins, and what goes into it.

use crate::native::attribution::conclude::argument_differs;
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence, Relation, Source};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::unit_links::UnitLinks;
use crate::native::expectation::expectations::{ErrorProfile, Expectations};

/// Calls that follow one another and cannot be held against a partner, as they have none or one that works on other shapes:
/// what goes into them, and where they begin.
pub(in crate::native) struct Regions {
    /// The largest relative errors that come out of a unit; of one of these, that go into its region.
    brought: Vec<ErrorProfile>,
    /// The first call of the region, in the target if it has any there.
    first: Vec<u32>,
    is_part: Vec<bool>,
    /// The last unit on the way to each at which the programs may part: one of these, one with another plain argument, or one
    /// that takes an argument from elsewhere.
    last_parting: UnitLinks,
    /// Whether a region has other shapes for having been given them, or by decisions that fell otherwise.
    is_excused: Vec<bool>,
}

impl Regions {
    /// The largest relative errors that come out of a unit.
    pub(in crate::native) fn brought(&self, at: usize) -> ErrorProfile {
        self.brought[at]
    }

    /// The first call of the region that a unit belongs to.
    pub(in crate::native) fn first(&self, at: usize) -> usize {
        self.first[at] as usize
    }

    /// Whether a unit cannot be held against a partner.
    pub(in crate::native) fn is_part(&self, at: usize) -> bool {
        self.is_part[at]
    }

    /// Whether a unit has another shape for having been given it, or by a decision that fell otherwise.
    pub(in crate::native) fn is_excused(&self, at: usize) -> bool {
        self.is_excused[at]
    }

    /// Whether the programs may part on the way to a unit, at another unit or a later one.
    pub(in crate::native) fn may_part_from(&self, at: usize, from: usize) -> bool {
        self.last_parting.of(at).is_some_and(|parting| parting >= from)
    }

    pub(in crate::native) fn of(
        units: &[CallEvidence],
        flow: &Flow,
        expectations: &Expectations<'_>,
    ) -> Regions {
        let is_unlike = |unit: &CallEvidence| {
            unit.entries.iter().any(|entry| entry.is_tensor && entry.state == Relation::Unlike)
        };
        let is_part = |at: usize| units[at].is_lone() || is_unlike(&units[at]) && !flow.is_composite(at);
        let mut regions = Regions {
            brought: Vec::with_capacity(units.len()),
            first: (0..units.len() as u32).collect(),
            is_part: (0..units.len()).map(is_part).collect(),
            last_parting: UnitLinks::none(units.len()),
            is_excused: units.iter().map(is_given_other).collect(),
        };
        for (at, unit) in units.iter().enumerate() {
            let is_wired_otherwise =
                |entry: &EntryEvidence| entry.is_taken() && flow.is_wired_otherwise(entry, units);
            let parts = regions.is_part[at]
                || argument_differs(unit)
                || unit.entries.iter().any(is_wired_otherwise) && !flow.is_composite(at);
            let before = flow.upstream(at, unit).into_iter().filter(|&before| before < at);
            let before = before.filter_map(|before| regions.last_parting.of(before)).max();
            regions.last_parting.set(at, if parts { Some(at) } else { before });
            if !regions.is_part[at] {
                let results = expectations.results(at).map(|(_, extent)| ErrorProfile::relative(extent));
                regions.brought.push(results.fold(expectations.inside(at), ErrorProfile::max));
                continue;
            }
            let taken = unit.entries.iter().filter(|entry| entry.is_taken());
            let makers = taken.flat_map(|entry| flow.makers(entry));
            let mut brought = ErrorProfile::default();
            // Only a damaged dump has makers that come later.
            for maker in makers.flatten().filter(|&maker| maker < at) {
                brought = brought.max(regions.brought[maker]);
                if regions.is_part[maker] {
                    regions.is_excused[at] |= regions.is_excused[maker];
                    let first = [regions.first[at], regions.first[maker]];
                    regions.first[at] = match first.map(|first| units[first as usize].target().is_none()) {
                        [false, true] => first[0],
                        [true, false] => first[1],
                        _ => first[0].min(first[1]),
                    };
                }
            }
            regions.brought.push(brought);
        }
        regions
    }
}

/// Whether a unit takes what has another shape from the start, or exact values that are other ones, whoever made them.
fn is_given_other(unit: &CallEvidence) -> bool {
    let differs = |entry: &EntryEvidence| {
        entry.is_other_from(Source::is_given)
            || entry.state == Relation::Differs && entry.is_other_from(|_| true)
    };
    unit.entries.iter().any(differs)
}
