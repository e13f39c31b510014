//! 16-bit floats as integers: a sign and a magnitude that has the order of the values. A register has twice as many
//! of them as it has f32, so what needs no arithmetic is done before they are widened.

use crate::blocks::BLOCK;
use crate::lanes::{fold, larger, smaller};

/// Elements of 16 bits that fill a cache line.
pub(crate) const SHORT_LANES: usize = 32;

/// Everything but the sign.
pub(crate) const MAGNITUDE: u16 = u16::MAX >> 1;

const SIGN: u16 = !MAGNITUDE;

/// The bits of the extreme values of some elements that are not NaN.
#[derive(Clone, Copy)]
pub(crate) struct Extrema {
    pub(crate) max: u16,
    pub(crate) min: u16,
    /// The smallest magnitude.
    pub(crate) least: u16,
}

/// Extreme values so far, in lanes. As signed integers the largest positive value is the largest, and as unsigned
/// ones the negative value with the largest magnitude. Where there is no positive or no negative value, the smallest
/// magnitude is that extremum. So three operations find all three.
pub(crate) struct RunningExtrema {
    signed: [i16; SHORT_LANES],
    unsigned: [u16; SHORT_LANES],
    least: [u16; SHORT_LANES],
}

impl RunningExtrema {
    pub(crate) fn none() -> RunningExtrema {
        RunningExtrema {
            signed: [i16::MIN; SHORT_LANES],
            unsigned: [0; SHORT_LANES],
            least: [u16::MAX; SHORT_LANES],
        }
    }

    /// Adds at most [`SHORT_LANES`] elements.
    #[inline(always)]
    pub(crate) fn add(&mut self, elements: &[[u8; 2]]) {
        for (lane, element) in elements.iter().enumerate() {
            let bits = u16::from_le_bytes(*element);
            self.signed[lane] = larger(self.signed[lane], bits as i16);
            self.unsigned[lane] = larger(self.unsigned[lane], bits);
            self.least[lane] = smaller(self.least[lane], bits & MAGNITUDE);
        }
    }

    /// The extrema, if there was any element.
    #[inline(always)]
    pub(crate) fn finish(self) -> Extrema {
        let (signed, unsigned) = (fold(self.signed, larger), fold(self.unsigned, larger));
        let least = fold(self.least, smaller);
        Extrema {
            max: if signed >= 0 { signed as u16 } else { SIGN | least },
            min: if unsigned & SIGN != 0 { unsigned } else { least },
            least,
        }
    }
}

/// Zeros, and elements below the smallest normal number without them, in a block.
#[inline(always)]
pub(crate) fn count_small(block: &[u8], infinity: u16) -> (u64, u64) {
    // A lane counts one element of each line.
    const { assert!(BLOCK / SHORT_LANES < u16::MAX as usize) }
    // The smallest exponent of a normal number is one.
    let min_normal = infinity & infinity.wrapping_neg();
    let mut zeros = [0u16; SHORT_LANES];
    let mut small = [0u16; SHORT_LANES];
    let mut add = |lane: usize, element: [u8; 2]| {
        let size = u16::from_le_bytes(element) & MAGNITUDE;
        zeros[lane] += u16::from(size == 0);
        small[lane] += u16::from(size < min_normal);
    };
    let (lines, tail) = block.as_chunks::<2>().0.as_chunks::<SHORT_LANES>();
    for line in lines {
        for (lane, element) in line.iter().enumerate() {
            add(lane, *element);
        }
    }
    for (lane, element) in tail.iter().enumerate() {
        add(lane, *element);
    }
    let count = |lanes: [u16; SHORT_LANES]| u64::from(fold(lanes, |a, b| a + b));
    let zeros = count(zeros);
    (zeros, count(small) - zeros)
}
