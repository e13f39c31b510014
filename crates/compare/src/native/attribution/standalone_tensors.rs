//! Tensors and variables saved under a name, and checkpoints: they come from nowhere, and all that is known is their dtype.

use crate::native::attribution::conclusion::{Cause, Conclusion, found};
use crate::native::evidence::call_evidence::{CallEvidence, Relation};
use crate::native::evidence::tensor_error::TensorError;
use crate::native::expectation::expectations::ErrorProfile;
use crate::native::expectation::noise_floor::NoiseSample;
use crate::native::thresholds::confidence;
use crate::native::thresholds::expect::ELEMENT_SPREAD;
use crate::verdict::Class;

/// Concludes a unit of saved entries; `noise` tells what was heard of each.
pub(in crate::native) fn of_saved(unit: &CallEvidence, noise: impl Fn(usize) -> NoiseSample) -> Conclusion {
    let mut class = Class::Equal;
    for (number, entry) in unit.entries.iter().enumerate() {
        let heard = noise(number);
        let allowed = heard.allowed();
        let limit = |extent: &TensorError| extent.limit().max(allowed.whole);
        let far = match (&entry.state, &entry.numbers) {
            (Relation::Apart, Some(extent)) => {
                let element = ELEMENT_SPREAD.get() * extent.limit() * extent.rms().max(extent.largest);
                let element = element.max(allowed.peak * extent.rms());
                extent.mismatched > 0 || extent.error > limit(extent) * extent.norm || extent.peak > element
            }
            (Relation::Differs, _) => !heard.differs,
            (Relation::Unlike, _) => true,
            _ => false,
        };
        if far {
            let mut conclusion = found(Class::OriginDiffers, Cause::Origin, number, confidence::SHOWN);
            conclusion.error = entry.numbers.as_ref().map_or(conclusion.error, ErrorProfile::relative);
            conclusion.expected.whole = entry.numbers.as_ref().map_or(0.0, limit);
            return conclusion;
        }
        match entry.state {
            Relation::Apart => class = Class::Noise,
            Relation::Unknown if class == Class::Equal => class = Class::NotComparable,
            _ => {}
        }
    }
    Conclusion::of(class)
}
