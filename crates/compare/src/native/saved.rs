//! Tensors and variables saved under a name, and checkpoints: they come from nowhere, and all that is known is their dtype.

use super::conclusion::{Cause, Conclusion, found};
use super::expect::Apart;
use super::extent::Extent;
use super::noise::Heard;
use super::observed::{Observed, Seeing};
use super::thresholds::confidence;
use super::thresholds::expect::ELEMENT_SPREAD;
use crate::verdict::Class;

/// Concludes a unit of saved entries; `noise` tells what was heard of each.
pub(super) fn of_saved(unit: &Observed, noise: impl Fn(usize) -> Heard) -> Conclusion {
    let mut class = Class::Equal;
    for (number, entry) in unit.entries.iter().enumerate() {
        let heard = noise(number);
        let allowed = heard.allowed();
        let limit = |extent: &Extent| extent.limit().max(allowed.whole);
        let far = match (&entry.state, &entry.numbers) {
            (Seeing::Apart, Some(extent)) => {
                let element = ELEMENT_SPREAD.get() * extent.limit() * extent.rms().max(extent.largest);
                let element = element.max(allowed.peak * extent.rms());
                extent.mismatched > 0 || extent.error > limit(extent) * extent.norm || extent.peak > element
            }
            (Seeing::Differs, _) => !heard.differs,
            (Seeing::Unlike, _) => true,
            _ => false,
        };
        if far {
            let mut conclusion = found(Class::OriginDiffers, Cause::Origin, number, confidence::SHOWN);
            conclusion.error = entry.numbers.as_ref().map_or(conclusion.error, Apart::relative);
            conclusion.expected.whole = entry.numbers.as_ref().map_or(0.0, limit);
            return conclusion;
        }
        match entry.state {
            Seeing::Apart => class = Class::Noise,
            Seeing::Unknown if class == Class::Equal => class = Class::NotComparable,
            _ => {}
        }
    }
    Conclusion::of(class)
}
