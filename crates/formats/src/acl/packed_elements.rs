//! Element types of which several share a byte, or which no dtype has: unpacked into the smallest dtype that holds
//! every value.

use ulpscope_tensor::{DType, Scalar};

use crate::bytes::Bytes;
use crate::error::Fault;
use crate::tensor::Tensor;

/// How elements are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    /// Eight bits to a byte, the first in the highest.
    Uint1,
    /// Two bits to an element, the first in the lowest.
    Uint2,
    /// The same, signed.
    Int2,
    /// Two to a byte, the first in the lower half, signed.
    Int4,
    /// Two to a byte, the first in the lower half: a sign, two bits of exponent, one of fraction.
    Float4E2M1,
    /// Two float16.
    Complex32,
}

/// The magnitudes of [`Packing::Float4E2M1`].
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

impl Packing {
    /// The dtype of the unpacked elements.
    pub(super) const fn dtype(self) -> DType {
        match self {
            Packing::Uint1 | Packing::Uint2 => DType::U8,
            Packing::Int2 | Packing::Int4 => DType::I8,
            Packing::Float4E2M1 => DType::F32,
            Packing::Complex32 => DType::C64,
        }
    }

    const fn bits(self) -> usize {
        match self {
            Packing::Uint1 => 1,
            Packing::Uint2 | Packing::Int2 => 2,
            Packing::Int4 | Packing::Float4E2M1 => 4,
            Packing::Complex32 => 32,
        }
    }

    /// The first `count` elements, in memory of their own: at most eight times as many bytes.
    pub(super) fn unpack(self, shape: Vec<usize>, count: usize, data: &Bytes) -> Result<Tensor, Fault> {
        let Some(needed) = count.checked_mul(self.bits()).map(|bits| bits.div_ceil(8)) else {
            return Err(Fault::malformed("a shape that fits the address space", format!("{shape:?}")));
        };
        let Some(packed) = data.get(..needed) else {
            return Err(Fault::truncated(
                format!("{needed} bytes of packed elements of shape {shape:?}"),
                data.len().to_string(),
            ));
        };
        let elements = match self {
            Packing::Complex32 => packed
                .chunks_exact(DType::F16.size())
                .flat_map(|half| (Scalar::read(DType::F16, half).to_f64() as f32).to_le_bytes())
                .collect(),
            _ => self.codes(packed, count),
        };
        Ok(Tensor::contiguous(self.dtype(), shape, Bytes::from(elements))?)
    }

    /// Elements narrower than a byte.
    fn codes(self, packed: &[u8], count: usize) -> Vec<u8> {
        let bits = self.bits();
        let per_byte = 8 / bits;
        let mut elements = Vec::with_capacity(count * self.dtype().size());
        for index in 0..count {
            let place = index % per_byte;
            let shift = if self == Packing::Uint1 { 7 - place } else { place * bits };
            let code = packed[index / per_byte] >> shift & ((1 << bits) - 1);
            // Moves the sign to the top and back, so that it fills the byte.
            let signed = ((code << (8 - bits)) as i8) >> (8 - bits);
            match self {
                Packing::Float4E2M1 => {
                    let magnitude = E2M1[usize::from(code & 7)];
                    elements.extend_from_slice(&magnitude.copysign(f32::from(signed)).to_le_bytes());
                }
                Packing::Int2 | Packing::Int4 => elements.push(signed as u8),
                Packing::Uint1 | Packing::Uint2 | Packing::Complex32 => elements.push(code),
            }
        }
        elements
    }
}
