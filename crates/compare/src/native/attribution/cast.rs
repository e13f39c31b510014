//! Calls that compute in a coarser dtype on one side, where the run is one of a finer.
//!
//! A run in bfloat16 against one in float32 is as far from it as bfloat16 makes it, and nothing is wrong with that. One that
//! computes in float32 on both sides but for a few calls is that far from it for these calls, and whoever looks for the
//! difference looks for them. Contractions tell the two apart: they are what a run in a coarser dtype is meant to do in it.

use ulpscope_dump::CallKind;
use ulpscope_dump::operators::Family;

use crate::native::attribution::conclude::{Attribution, argument_differs};
use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::{CallEvidence, EntryEvidence};
use crate::native::evidence::flow::Flow;
use crate::native::evidence::tensor_error::{Roundoff, TensorError};
use crate::native::expectation::expectations::{ErrorProfile, Expectations};
use crate::native::expectation::rounding::ACCUMULATOR;
use crate::native::thresholds::confidence;
use crate::verdict::Class;

/// Whether most contractions have results of float32 or finer on both sides.
pub(in crate::native) fn is_fine_run(
    units: &[CallEvidence],
    flow: &Flow,
    expectations: &Expectations<'_>,
) -> bool {
    let (mut fine, mut all) = (0, 0);
    for at in (0..units.len()).filter(|&at| flow.operations[at].family == Family::Contraction) {
        let mut results = expectations.results(at).peekable();
        if units[at].kind == CallKind::Forward && results.peek().is_some() {
            all += 1;
            fine += usize::from(results.all(|(_, extent)| extent.unit() <= ACCUMULATOR));
        }
    }
    fine * 2 > all
}

impl Attribution<'_> {
    /// Blames a call for computing in a coarser dtype on one side, or a call of that side alone for casting its argument, if its
    /// results are further apart than the finer dtype explains. What a plain argument asks for is noted, as all such arguments
    /// are.
    pub(in crate::native) fn find_cast(&mut self, at: usize, unit: &CallEvidence) -> Option<Conclusion> {
        let is_plain = unit.kind == CallKind::Forward && !self.flow.is_composite(at);
        if !self.is_fine_run || !is_plain || argument_differs(unit) {
            return None;
        }
        let makers = unit.entries.iter().flat_map(|entry| self.flow.makers(entry)).flatten();
        let brought =
            makers.map(|maker| self.regions.brought(maker)).fold(ErrorProfile::default(), ErrorProfile::max);
        let (number, error, expected) = self.expectations.results(at).find_map(|(number, extent)| {
            let is_coarse = unit.entries[number].is_recast && extent.unit() > ACCUMULATOR;
            let expected = self.carried(&TensorError { unit: Roundoff::of(ACCUMULATOR), ..*extent }, brought);
            let error = ErrorProfile::relative(extent);
            (is_coarse && !self.is_explained(error, expected)).then_some((number, error, expected))
        })?;
        let recast = || unit.entries.iter().filter(|entry| entry.is_taken() && entry.is_recast);
        if recast().next().is_some() {
            let made_by = |entry: &EntryEvidence| self.flow.makers(entry).into_iter().flatten();
            let cast = recast().flat_map(made_by).find(|&maker| self.units[maker].is_lone())?;
            self.leave_route(cast);
            return Some(self.blame_region(cast, number, error, expected));
        }
        let cast = found(Class::DifferentProgram, Cause::Cast, number, confidence::STRUCTURE);
        Some(Conclusion { error, expected, ..cast })
    }
}
