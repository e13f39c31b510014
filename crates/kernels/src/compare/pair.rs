//! Brings two blocks of any two dtypes into a form for one of two loops.
//!
//! A pair is *narrow* if one side is f32 and the other exact in f32, or if both have the same 16-bit float type: it
//! uses the lean loop. Everything else is *wide* and uses the loop in f64. Pairs of f32, f64, bf16 or f16 are read
//! in place; other pairs are decoded into scratch memory first. For 64-bit integers and complex numbers the two
//! decoded values do not determine the difference or the product, so these are decoded to quads.

use std::marker::PhantomData;

use ulpscope_tensor::{DType, Scalar};

use super::exponents::Exponents;
use crate::blocks::BLOCK;
use crate::lanes::{ForSource, LANES, Lane, Source, each_pair, modulus, prefetch, with_source};
use crate::level::{Kernel, Level};

/// The loop for a pair of dtypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Both f32, in place.
    F32,
    /// Both bf16, in place.
    BF16,
    /// Both f16, in place.
    F16,
    /// Both f64, in place.
    F64,
    /// One of them f32, both decoded to f32.
    Narrow,
    /// Decoded to f64.
    Wide,
    /// Decoded to value, value, difference, product.
    Quad,
}

impl Form {
    pub(super) fn of(target: DType, golden: DType) -> Form {
        match (target, golden) {
            (DType::F32, DType::F32) => Form::F32,
            (DType::BF16, DType::BF16) => Form::BF16,
            (DType::F16, DType::F16) => Form::F16,
            (DType::F64, DType::F64) => Form::F64,
            _ if target.is_complex() || golden.is_complex() => Form::Quad,
            _ if !is_exact_in_f64(target) || !is_exact_in_f64(golden) => Form::Quad,
            (DType::F32, other) | (other, DType::F32) if is_exact_in_f32(other) => Form::Narrow,
            _ => Form::Wide,
        }
    }
}

fn is_exact_in_f64(dtype: DType) -> bool {
    dtype.significant_bits() <= f64::MANTISSA_DIGITS
}

fn is_exact_in_f32(dtype: DType) -> bool {
    dtype.significant_bits() <= f32::MANTISSA_DIGITS
}

/// Value, value, absolute difference and product of a pair; for complex numbers moduli and the real inner product.
#[derive(Clone, Copy, Default)]
pub(super) struct Quad {
    pub(super) target: f64,
    pub(super) golden: f64,
    pub(super) difference: f64,
    pub(super) product: f64,
}

/// A block of pairs that can be walked in lanes, in f64.
pub(super) trait PairBlock: Copy {
    /// Calls `step` with every pair and its lane. `FMA` is that of [`Kernel::run`].
    fn each<const FMA: bool>(&self, step: impl FnMut(usize, Quad));

    /// The position of the first pair that satisfies `wanted`. There must be one.
    fn position(&self, wanted: impl Fn(Quad) -> bool) -> u64 {
        let (mut seen, mut found) = (0, None);
        self.each::<false>(|_, quad| {
            if found.is_none() && wanted(quad) {
                found = Some(seen);
            }
            seen += 1;
        });
        found.expect("looked for something that was measured in this very block")
    }
}

/// Two packed blocks of one dtype, in place.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a, S> {
    pub(super) source: S,
    pub(super) target: &'a [u8],
    pub(super) golden: &'a [u8],
}

impl<'a, S: Source> Packed<'a, S> {
    /// Parts of this many pairs.
    pub(super) fn parts(self, pairs: usize) -> impl Iterator<Item = Packed<'a, S>> {
        let sides = self.target.chunks(pairs * S::SIZE).zip(self.golden.chunks(pairs * S::SIZE));
        sides.map(move |(target, golden)| Packed { source: self.source, target, golden })
    }
}

impl<S: Source> PairBlock for Packed<'_, S> {
    #[inline(always)]
    fn each<const FMA: bool>(&self, mut step: impl FnMut(usize, Quad)) {
        each_pair::<_, FMA>(
            self.source,
            self.target,
            self.golden,
            #[inline(always)]
            |lane, a, b| {
                let (target, golden) = (a.widen(), b.widen());
                step(lane, Quad::of_real(target, golden));
            },
        );
    }
}

impl PairBlock for &[Quad] {
    #[inline(always)]
    fn each<const FMA: bool>(&self, mut step: impl FnMut(usize, Quad)) {
        for group in self.chunks(LANES) {
            for (lane, quad) in group.iter().enumerate() {
                step(lane, *quad);
            }
        }
    }
}

/// Reused memory of one thread: blocks of decoded and of masked values.
pub(super) struct Scratch {
    pub(super) target: Vec<u8>,
    pub(super) golden: Vec<u8>,
    pub(super) quads: Vec<Quad>,
    pub(super) masked: Masked,
    pub(super) exponents: Box<Exponents>,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            target: Vec::new(),
            golden: Vec::new(),
            quads: Vec::new(),
            masked: Masked::default(),
            exponents: Box::new([0; BLOCK]),
        }
    }
}

/// Copies of two blocks in which pairs that are not finite on both sides are zero.
#[derive(Default)]
pub(super) struct Masked {
    pub(super) target: Vec<u8>,
    pub(super) golden: Vec<u8>,
}

impl Masked {
    #[inline(always)]
    pub(super) fn pairs<S: Source>(&self, source: S) -> Packed<'_, S> {
        Packed { source, target: &self.target, golden: &self.golden }
    }
}

/// The two widths a block is decoded to.
pub(super) trait Width: Lane {
    const SIZE: usize;
    fn from_lane<L: Lane>(value: L) -> Self;
    fn put(self, out: &mut [u8]);
}

impl Width for f32 {
    const SIZE: usize = 4;
    #[inline(always)]
    fn from_lane<L: Lane>(value: L) -> f32 {
        // Exact: only narrow dtypes are decoded to f32.
        value.widen() as f32
    }
    #[inline(always)]
    fn put(self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_le_bytes());
    }
}

impl Width for f64 {
    const SIZE: usize = 8;
    #[inline(always)]
    fn from_lane<L: Lane>(value: L) -> f64 {
        value.widen()
    }
    #[inline(always)]
    fn put(self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_le_bytes());
    }
}

/// Decodes a packed block to f32 or f64, little-endian, into `out`.
pub(super) fn decode<T: Width>(level: Level, (dtype, block): (DType, &[u8]), out: &mut Vec<u8>) {
    out.resize(block.len() / dtype.size() * T::SIZE, 0);
    with_source(dtype, DecodeBlock { level, block, out, width: PhantomData::<T> });
}

struct DecodeBlock<'a, T> {
    level: Level,
    block: &'a [u8],
    out: &'a mut [u8],
    width: PhantomData<T>,
}

impl<T: Width> ForSource for DecodeBlock<'_, T> {
    type Output = ();

    fn run<S: Source>(self, source: S) {
        let DecodeBlock { level, block, out, width } = self;
        level.run(Decode { source, block, out, width });
    }
}

/// Decodes into memory of the right size.
struct Decode<'a, S, T> {
    source: S,
    block: &'a [u8],
    out: &'a mut [u8],
    width: PhantomData<T>,
}

impl<S: Source, T: Width> Kernel for Decode<'_, S, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let groups = self.block.chunks_exact(LANES * S::SIZE);
        let tail = groups.remainder();
        let mut outs = self.out.chunks_exact_mut(LANES * T::SIZE);
        for (group, out) in groups.zip(&mut outs) {
            prefetch(group);
            let values = self.source.load::<FMA>(group);
            for (value, out) in values.into_iter().zip(out.chunks_exact_mut(T::SIZE)) {
                T::from_lane(value).put(out);
            }
        }
        let tail_out = outs.into_remainder().chunks_exact_mut(T::SIZE);
        for (element, out) in tail.chunks_exact(S::SIZE).zip(tail_out) {
            T::from_lane(self.source.one(element)).put(out);
        }
    }
}

/// Decodes two packed blocks into quads.
pub(super) fn decode_quads(target: (DType, &[u8]), golden: (DType, &[u8]), out: &mut Vec<Quad>) {
    fn elements<'a>((dtype, block): (DType, &'a [u8])) -> impl Iterator<Item = Scalar> + 'a {
        block.chunks_exact(dtype.size()).map(move |element| Scalar::read(dtype, element))
    }
    out.clear();
    out.extend(elements(target).zip(elements(golden)).map(|(a, b)| Quad::of(a, b)));
}

impl Quad {
    /// Whether the relative error is under a limit. A product instead of the quotient needs only one special case:
    /// the pair of zeros.
    #[inline(always)]
    pub(super) fn is_under(self, limit: f64) -> bool {
        (self.difference < limit * self.golden.abs()) | (self.difference == 0.0)
    }

    /// The relative error of a finite pair; zero if golden is zero.
    #[inline(always)]
    pub(super) fn relative(self) -> f64 {
        if self.golden == 0.0 { 0.0 } else { self.difference / self.golden.abs() }
    }

    /// The quad of two real numbers.
    #[inline(always)]
    pub(super) fn of_real(target: f64, golden: f64) -> Quad {
        Quad { target, golden, difference: (target - golden).abs(), product: target * golden }
    }

    /// The quad of two elements, one of which is complex or a 64-bit integer.
    fn of(target: Scalar, golden: Scalar) -> Quad {
        match (integer(target), integer(golden)) {
            (Some(a), Some(b)) => {
                let (target, golden) = (a as f64, b as f64);
                Quad { target, golden, difference: a.abs_diff(b) as f64, product: target * golden }
            }
            (Some(a), None) if !is_complex(golden) => Quad::of_mixed(a, golden.to_f64()),
            (None, Some(b)) if !is_complex(target) => {
                let Quad { target: golden, golden: target, difference, product } =
                    Quad::of_mixed(b, target.to_f64());
                Quad { target, golden, difference, product }
            }
            _ => Quad::of_complex(parts(target), parts(golden)),
        }
    }

    /// An integer and a float: the difference is computed before the integer is rounded.
    fn of_mixed(target: i128, golden: f64) -> Quad {
        let whole = golden.trunc();
        let difference = if golden.is_finite() && whole.abs() < (1u128 << 100) as f64 {
            ((target - whole as i128) as f64 - (golden - whole)).abs()
        } else {
            (target as f64 - golden).abs()
        };
        Quad { target: target as f64, golden, difference, product: target as f64 * golden }
    }

    fn of_complex(a: (f64, f64), b: (f64, f64)) -> Quad {
        let (target, golden) = (modulus(a.0, a.1), modulus(b.0, b.1));
        let difference = if target.is_infinite() && golden.is_infinite() {
            // Infinite in different directions or not: the moduli would hide it.
            if a == b { 0.0 } else { f64::INFINITY }
        } else {
            modulus(a.0 - b.0, a.1 - b.1)
        };
        Quad { target, golden, difference, product: a.0 * b.0 + a.1 * b.1 }
    }
}

fn is_complex(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Complex(..))
}

fn integer(scalar: Scalar) -> Option<i128> {
    match scalar {
        Scalar::Int(value) => Some(value),
        Scalar::Bool(value) => Some(value.into()),
        Scalar::Float(_) | Scalar::Complex(..) => None,
    }
}

/// Real and imaginary part of any scalar.
fn parts(scalar: Scalar) -> (f64, f64) {
    match scalar {
        Scalar::Complex(re, im) => (re, im),
        real => (real.to_f64(), 0.0),
    }
}
