//! The 8-bit floats as tables: all 256 values of each are exact in binary32.
//!
//! The tables are computed from each format's definition at compile time, so that this file contains the definition
//! and not 1536 literals.

use crate::encoding::FloatLimits;

/// One binary32 per code.
pub type Table = [f32; 256];

/// An 8-bit float.
#[derive(Debug)]
pub struct Float8 {
    /// The value of each code.
    pub table: Table,
    /// The power of two from which on numbers have their full mantissa; `None` where all of them have.
    pub min_normal_exponent: Option<i32>,
    pub(crate) limits: FloatLimits,
}

impl Float8 {
    const fn new(table: Table, min_normal_exponent: Option<i32>) -> Float8 {
        let (mut max, mut min_positive, mut after_one) = (0.0, f32::INFINITY, f32::INFINITY);
        let mut code = 0;
        while code < table.len() {
            let value = table[code];
            if value.is_finite() && value > max {
                max = value;
            }
            if value > 0.0 && value < min_positive {
                min_positive = value;
            }
            if value > 1.0 && value < after_one {
                after_one = value;
            }
            code += 1;
        }
        let (mut step, mut mantissa_bits) = (after_one - 1.0, 0);
        while step < 1.0 {
            step *= 2.0;
            mantissa_bits += 1;
        }
        let limits = FloatLimits { mantissa_bits, max: max as f64, min_positive: min_positive as f64 };
        Float8 { table, min_normal_exponent, limits }
    }

    /// The code of a value that the format represents exactly; that of the same sign, where zero has two.
    pub(crate) fn code_of(&self, value: f64) -> Option<u8> {
        let is_same = |decoded: f32| value == f64::from(decoded) || (value.is_nan() && decoded.is_nan());
        let same_sign =
            |decoded: f32| is_same(decoded) && decoded.is_sign_negative() == value.is_sign_negative();
        let code = self.table.iter().position(|&decoded| same_sign(decoded));
        let code = code.or_else(|| self.table.iter().position(|&decoded| is_same(decoded)));
        code.and_then(|code| u8::try_from(code).ok())
    }
}

/// `2^exponent` for an exponent within the range of binary32, normal or subnormal.
const fn power_of_two(exponent: i32) -> f32 {
    if exponent >= -126 {
        f32::from_bits(((exponent + 127) as u32) << 23)
    } else {
        f32::from_bits(1 << (exponent + 149))
    }
}

/// How a format with sign, exponent and mantissa fields uses its special codes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// All-ones exponent: mantissa zero is infinity, the rest NaN.
    Ieee,
    /// NaN where exponent and mantissa are all ones; no infinity.
    NanAtAllOnes,
    /// NaN at 0x80 (the code of negative zero); no infinity.
    NanAtNegativeZero,
}

const fn sign_exponent_mantissa(exponent_bits: u32, bias: i32, specials: Specials) -> Table {
    let mantissa_bits = 7 - exponent_bits;
    let mantissa_steps = (1 << mantissa_bits) as f32;
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let mantissa = code & ((1 << mantissa_bits) - 1);
        let exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
        let top_exponent = exponent == (1 << exponent_bits) - 1;
        let top_mantissa = mantissa == (1 << mantissa_bits) - 1;
        let magnitude = match specials {
            Specials::Ieee if top_exponent && mantissa == 0 => f32::INFINITY,
            Specials::Ieee if top_exponent => f32::NAN,
            Specials::NanAtAllOnes if top_exponent && top_mantissa => f32::NAN,
            Specials::NanAtNegativeZero if code == 0x80 => f32::NAN,
            _ if exponent == 0 => power_of_two(1 - bias) * (mantissa as f32 / mantissa_steps),
            _ => power_of_two(exponent as i32 - bias) * (1.0 + mantissa as f32 / mantissa_steps),
        };
        table[code] = if code < 0x80 || magnitude.is_nan() { magnitude } else { -magnitude };
        code += 1;
    }
    table
}

const fn e8m0() -> Table {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 255 {
        table[code] = power_of_two(code as i32 - 127);
        code += 1;
    }
    table[255] = f32::NAN;
    table
}

/// After the sign, a prefix code ("dot") gives the number of exponent bits; the rest is the mantissa.
/// The exponent is sign and magnitude with an implicit leading one.
const fn hif8() -> Table {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let body = code & 0x7f;
        // (number of exponent bits, bits left after the prefix)
        let (dot, rest_bits) = match body {
            0x60.. => (4, 5),
            0x40.. => (3, 5),
            0x20.. => (2, 5),
            0x10.. => (1, 4),
            0x08.. => (0, 3),
            _ => (-1, 3),
        };
        let rest = body & ((1 << rest_bits) - 1);
        let magnitude = if dot < 0 {
            if rest == 0 { 0.0 } else { power_of_two(rest - 23) }
        } else {
            let mantissa_bits = rest_bits - dot;
            let mantissa = (rest & ((1 << mantissa_bits) - 1)) as f32 / (1 << mantissa_bits) as f32;
            let exponent = if dot == 0 {
                0
            } else {
                let field = rest >> mantissa_bits;
                let leading = 1 << (dot - 1);
                let size = leading + (field & (leading - 1));
                if field & leading != 0 { -size } else { size }
            };
            power_of_two(exponent) * (1.0 + mantissa)
        };
        table[code as usize] = match code {
            0x6f => f32::INFINITY,
            0xef => f32::NEG_INFINITY,
            0x80 => f32::NAN,
            0..0x80 => magnitude,
            _ => -magnitude,
        };
        code += 1;
    }
    table
}

pub(crate) static E4M3FN: Float8 =
    Float8::new(sign_exponent_mantissa(4, 7, Specials::NanAtAllOnes), Some(-6));
pub(crate) static E5M2: Float8 = Float8::new(sign_exponent_mantissa(5, 15, Specials::Ieee), Some(-14));
pub(crate) static E4M3FNUZ: Float8 =
    Float8::new(sign_exponent_mantissa(4, 8, Specials::NanAtNegativeZero), Some(-7));
pub(crate) static E5M2FNUZ: Float8 =
    Float8::new(sign_exponent_mantissa(5, 16, Specials::NanAtNegativeZero), Some(-15));
pub(crate) static E8M0: Float8 = Float8::new(e8m0(), None);
pub(crate) static HIF8: Float8 = Float8::new(hif8(), Some(-15));
