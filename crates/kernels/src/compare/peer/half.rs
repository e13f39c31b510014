//! f16 arithmetic in f32 lanes.
//!
//! The sum, difference or quotient of two f16, computed in f32 and then rounded to f16, equals the result rounded
//! once: f32 has more than twice the bits plus two. The older tools' arrays compute it the same way.

/// The nearest f16, ties to even; infinite beyond the largest. Branch-free, so that lanes of it vectorise.
#[inline(always)]
pub(super) fn round_to_f16(value: f32) -> f32 {
    /// From here on a value rounds to infinity: halfway between the largest f16 and the next power of two.
    const OVERFLOW: f32 = 65520.0;
    const MIN_NORMAL: f32 = 1.0 / 16384.0;
    /// Mantissa bits of an f32 that an f16 does not have.
    const DROPPED: u32 = 13;
    let bits = value.to_bits();
    let sign = bits & (1 << 31);
    let magnitude = bits ^ sign;
    let ties_to_even = (1 << (DROPPED - 1)) - 1 + ((magnitude >> DROPPED) & 1);
    let normal = (magnitude.wrapping_add(ties_to_even) >> DROPPED) << DROPPED;
    // Between 0.5 and 1 the last place of an f32 is that of a subnormal f16: adding 0.5 rounds to it.
    let subnormal = ((f32::from_bits(magnitude) + 0.5) - 0.5).to_bits();
    let size = f32::from_bits(magnitude);
    let rounded = if size < MIN_NORMAL { subnormal } else { normal };
    let rounded = if size >= OVERFLOW { f32::INFINITY.to_bits() } else { rounded };
    let rounded = if value.is_nan() { magnitude } else { rounded };
    f32::from_bits(rounded | sign)
}

#[cfg(test)]
mod tests {
    use super::round_to_f16;

    #[test]
    fn ties_subnormals_and_overflow() {
        for (value, expected) in [
            (1.0, 1.0),
            (1.0 + 1.0 / 2048.0, 1.0),
            (1.0 + 3.0 / 2048.0, 1.0 + 2.0 / 1024.0),
            (-(1.0 + 1.1 / 2048.0), -(1.0 + 1.0 / 1024.0)),
            (65519.9, 65504.0),
            (65520.0, f32::INFINITY),
            (-1e9, f32::NEG_INFINITY),
            (2f32.powi(-25), 0.0),
            (1.5 * 2f32.powi(-25), 2f32.powi(-24)),
            (2.5 * 2f32.powi(-24), 2f32.powi(-23)),
            (1.0 / 16384.0 - 2f32.powi(-26), 1.0 / 16384.0),
        ] {
            assert_eq!(round_to_f16(value).to_bits(), f32::to_bits(expected), "{value}");
        }
        assert!(round_to_f16(f32::NAN).is_nan());
        assert_eq!(round_to_f16(-0.0).to_bits(), (-0.0f32).to_bits());
    }
}
