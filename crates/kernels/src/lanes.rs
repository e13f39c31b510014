//! Sixteen elements at a time: decodes bytes of each encoding into lanes, and folds lanes in a fixed order.

use std::ops::{Index, IndexMut};

use ulpscope_tensor::{DType, Encoding, NumberKind, Scalar, Table};

use crate::compare::ulp::{UlpDistance, f64_rank, float8_ranks, ranked, short_distances};

/// Elements processed together. It is part of the definition of every sum: do not change it lightly.
pub(crate) const LANES: usize = 16;

/// The running numbers of the lanes, for loops with more of them than registers. Aligned to a cache line: otherwise the
/// place of the stack, which differs from run to run, decides whether half of their loads and stores touch two lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes<T>(pub(crate) [T; LANES]);

impl<T> Index<usize> for Lanes<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, lane: usize) -> &T {
        &self.0[lane]
    }
}

impl<T> IndexMut<usize> for Lanes<T> {
    #[inline(always)]
    fn index_mut(&mut self, lane: usize) -> &mut T {
        &mut self.0[lane]
    }
}

/// Cache lines are prefetched this many bytes ahead. Hardware prefetchers stop at the 4 KiB page;
/// prefetching across it gains a third of the bandwidth on the machines measured.
#[cfg(target_arch = "x86_64")]
const PREFETCH_AHEAD: usize = 4096;

/// Once per page, a line this far ahead is prefetched, so that the address of the page is resolved before its other
/// lines are prefetched. Otherwise all of them would wait for it. This gains a sixth of the bandwidth.
#[cfg(target_arch = "x86_64")]
const PREFETCH_PAGE_AHEAD: usize = 2 * PAGE;

/// The size of the smallest pages.
#[cfg(target_arch = "x86_64")]
const PAGE: usize = 4096;

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// A value in a lane, in a type with an order and an exact conversion to f64.
pub(crate) trait Lane: Copy + PartialOrd + Send + Sync {
    const ZERO: Self;
    /// Whether the square of a widened value is exact in f64.
    const EXACT_SQUARES: bool;
    /// Neutral element of a running minimum.
    const HIGHEST: Self;
    /// Neutral element of a running maximum.
    const LOWEST: Self;
    fn is_pos_inf(self) -> bool;
    fn is_neg_inf(self) -> bool;
    fn abs(self) -> Self;
    fn widen(self) -> f64;
    fn is_nan(self) -> bool;
    fn is_finite(self) -> bool;
    /// The value as an element of `dtype`, from which it was decoded.
    fn to_scalar(self, dtype: DType) -> Scalar;
}

macro_rules! float_lane {
    ($($float:ident exact squares: $exact:literal),*) => {$(
        impl Lane for $float {
            const ZERO: Self = 0.0;
            const EXACT_SQUARES: bool = $exact;
            const HIGHEST: Self = $float::INFINITY;
            const LOWEST: Self = $float::NEG_INFINITY;
            #[inline(always)]
            fn is_pos_inf(self) -> bool { self == $float::INFINITY }
            #[inline(always)]
            fn is_neg_inf(self) -> bool { self == $float::NEG_INFINITY }
            #[inline(always)]
            fn abs(self) -> Self { self.abs() }
            #[inline(always)]
            fn widen(self) -> f64 { self.into() }
            #[inline(always)]
            fn is_nan(self) -> bool { self.is_nan() }
            #[inline(always)]
            fn is_finite(self) -> bool { self.is_finite() }
            fn to_scalar(self, dtype: DType) -> Scalar {
                match dtype.encoding().kind() {
                    NumberKind::Bool => Scalar::Bool(self != 0.0),
                    NumberKind::Signed | NumberKind::Unsigned => Scalar::Int(self as i128),
                    // Adding zero turns -0.0 into zero: which of the two an extremum meets first
                    // depends on lanes, and must not be visible.
                    NumberKind::Float | NumberKind::Complex => Scalar::Float(f64::from(self) + 0.0),
                }
            }
        }
    )*};
}

macro_rules! integer_lane {
    ($($int:ident $abs:expr),*) => {$(
        impl Lane for $int {
            const ZERO: Self = 0;
            const EXACT_SQUARES: bool = false;
            const HIGHEST: Self = $int::MAX;
            const LOWEST: Self = $int::MIN;
            #[inline(always)]
            fn is_pos_inf(self) -> bool { false }
            #[inline(always)]
            fn is_neg_inf(self) -> bool { false }
            #[inline(always)]
            fn abs(self) -> Self { $abs(self) }
            #[inline(always)]
            fn widen(self) -> f64 { self as f64 }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
            #[inline(always)]
            fn is_finite(self) -> bool { true }
            fn to_scalar(self, _: DType) -> Scalar { Scalar::Int(self.into()) }
        }
    )*};
}

float_lane!(f32 exact squares: true, f64 exact squares: false);
integer_lane!(i64 i64::saturating_abs, u64 std::convert::identity);

/// How bytes of one encoding are decoded into lanes.
pub(crate) trait Source: Copy + Sync {
    type Value: Lane;
    /// Bytes per element.
    const SIZE: usize;
    /// One element from exactly `SIZE` bytes.
    fn one(self, bytes: &[u8]) -> Self::Value;
    /// The smallest magnitude that is not subnormal; zero if the dtype has no subnormals.
    fn min_normal(self) -> Self::Value;
    /// The distances of two packed blocks in units in the last place; pairs that are not finite on both sides are left
    /// out.
    fn ulp_distance(self, target: &[u8], golden: &[u8]) -> UlpDistance;

    /// For 16-bit floats, which are a sign and a magnitude: the magnitude of infinity.
    const SHORT_INFINITY: Option<u16>;

    /// Sixteen elements from exactly `LANES * SIZE` bytes. `FMA` is that of [`Kernel::run`](crate::level::Kernel::run).
    fn load<const FMA: bool>(self, bytes: &[u8]) -> [Self::Value; LANES];

    /// As many elements as there are bytes for; the remaining lanes are zero.
    #[inline(always)]
    fn load_tail(self, bytes: &[u8]) -> [Self::Value; LANES] {
        let mut lanes = [Self::Value::ZERO; LANES];
        for (lane, element) in lanes.iter_mut().zip(bytes.chunks_exact(Self::SIZE)) {
            *lane = self.one(element);
        }
        lanes
    }
}

/// A group as an array of elements: with its length in its type, the decoder is compiled to vector code.
#[inline(always)]
fn group<const SIZE: usize>(bytes: &[u8]) -> &[[u8; SIZE]; LANES] {
    bytes.as_chunks().0.try_into().expect("LANES elements")
}

/// Work that is written once for all encodings.
pub(crate) trait ForSource {
    type Output;
    fn run<S: Source>(self, source: S) -> Self::Output;
}

/// Makes the sources and the choice among them, so that an encoding without a source does not compile.
macro_rules! sources {
    ($($(#[$doc:meta])* $name:ident: $size:literal bytes -> $value:ident $(short $infinity:literal $(by $fast:ident)?)?, normal from $normal:expr, ulp |$target:pat_param, $golden:pat_param| $ulp:expr, |$array:ident| $decode:expr;)*) => {
    /// Does some work with the source of a dtype.
    #[inline(always)]
    pub(crate) fn with_source<W: ForSource>(dtype: DType, work: W) -> W::Output {
        match dtype.encoding() {
            $(Encoding::$name => work.run($name),)*
            Encoding::Float8(float) => work.run(Float8::of(dtype, float)),
        }
    }
    $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;
        impl Source for $name {
            type Value = $value;
            const SIZE: usize = $size;
            const SHORT_INFINITY: Option<u16> = [$(Some($infinity),)? None][0];
            #[inline(always)]
            fn one(self, bytes: &[u8]) -> $value {
                let $array: [u8; $size] = bytes.try_into().expect("SIZE bytes");
                $decode
            }
            #[inline(always)]
            fn load<const FMA: bool>(self, bytes: &[u8]) -> [$value; LANES] {
                $($(if FMA {
                    // SAFETY: `FMA` is true only at levels whose processors have F16C; level.rs enables it with FMA.
                    #[expect(unsafe_code)]
                    return unsafe { $fast(group(bytes)) };
                })?)?
                group::<$size>(bytes).map(#[inline(always)] |$array| $decode)
            }
            #[inline(always)]
            fn min_normal(self) -> $value { $normal }
            #[inline(always)]
            fn ulp_distance(self, $target: &[u8], $golden: &[u8]) -> UlpDistance { $ulp }
        }
    )*};
}

sources! {
    // The lean loop measures the distances of f32.
    F32: 4 bytes -> f32, normal from f32::MIN_POSITIVE, ulp |_, _| UlpDistance::default(),
        |b| f32::from_le_bytes(b);
    F64: 8 bytes -> f64, normal from f64::MIN_POSITIVE, ulp |t, g| ranked(t, g, f64_rank),
        |b| f64::from_le_bytes(b);
    BF16: 2 bytes -> f32 short 0x7f80, normal from f32::MIN_POSITIVE, ulp |t, g| short_distances(t, g, 0x7f80),
        |b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16);
    F16: 2 bytes -> f32 short 0x7c00 by widen_f16_group, normal from 6.103_515_6e-5, ulp |t, g| short_distances(t, g, 0x7c00),
        |b| widen_f16(u16::from_le_bytes(b));
    I8: 1 bytes -> f32, normal from 0.0, ulp |t, g| ranked(t, g, |e| (i8::from_le_bytes(e).into(), true)),
        |b| f32::from(b[0] as i8);
    U8: 1 bytes -> f32, normal from 0.0, ulp |t, g| ranked(t, g, |e| (u8::from_le_bytes(e).into(), true)),
        |b| f32::from(b[0]);
    Bool: 1 bytes -> f32, normal from 0.0, ulp |t, g| ranked(t, g, |[byte]| ((byte != 0).into(), true)),
        |b| f32::from(u8::from(b[0] != 0));
    I16: 2 bytes -> f32, normal from 0.0, ulp |t, g| ranked(t, g, |e| (i16::from_le_bytes(e).into(), true)),
        |b| f32::from(i16::from_le_bytes(b));
    U16: 2 bytes -> f32, normal from 0.0, ulp |t, g| ranked(t, g, |e| (u16::from_le_bytes(e).into(), true)),
        |b| f32::from(u16::from_le_bytes(b));
    I32: 4 bytes -> f64, normal from 0.0, ulp |t, g| ranked(t, g, |e| (i32::from_le_bytes(e).into(), true)),
        |b| f64::from(i32::from_le_bytes(b));
    U32: 4 bytes -> f64, normal from 0.0, ulp |t, g| ranked(t, g, |e| (u32::from_le_bytes(e).into(), true)),
        |b| f64::from(u32::from_le_bytes(b));
    I64: 8 bytes -> i64, normal from 0, ulp |t, g| ranked(t, g, |e| (i64::from_le_bytes(e), true)),
        |b| i64::from_le_bytes(b);
    // Shifting both by 2^63 keeps the distance and makes them signed.
    U64: 8 bytes -> u64, normal from 0, ulp |t, g| ranked(t, g, |e| ((u64::from_le_bytes(e) ^ (1 << 63)) as i64, true)),
        |b| u64::from_le_bytes(b);
    /// The modulus. Complex numbers have no order and hence no distance.
    C64: 8 bytes -> f64, normal from f64::from(f32::MIN_POSITIVE), ulp |_, _| UlpDistance::default(), |b| {
        let [r0, r1, r2, r3, i0, i1, i2, i3] = b;
        modulus(f32::from_le_bytes([r0, r1, r2, r3]).into(), f32::from_le_bytes([i0, i1, i2, i3]).into())
    };
    /// The modulus.
    C128: 16 bytes -> f64, normal from f64::MIN_POSITIVE, ulp |_, _| UlpDistance::default(), |b| {
        let (re, im) = b.split_at(8);
        let part = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        modulus(part(re), part(im))
    };
}

/// An 8-bit float, decoded by its table.
#[derive(Clone, Copy)]
pub(crate) struct Float8 {
    dtype: DType,
    table: &'static Table,
    min_normal: f32,
}

impl Float8 {
    fn of(dtype: DType, float: &'static ulpscope_tensor::Float8) -> Float8 {
        let min_normal = float.min_normal_exponent.map_or(0.0, |exponent| 2f32.powi(exponent));
        Float8 { dtype, table: &float.table, min_normal }
    }
}

impl Source for Float8 {
    type Value = f32;
    const SIZE: usize = 1;
    const SHORT_INFINITY: Option<u16> = None;
    #[inline(always)]
    fn one(self, bytes: &[u8]) -> f32 {
        self.table[usize::from(bytes[0])]
    }
    #[inline(always)]
    fn load<const FMA: bool>(self, bytes: &[u8]) -> [f32; LANES] {
        group::<1>(bytes).map(
            #[inline(always)]
            |[code]| self.table[usize::from(code)],
        )
    }
    #[inline(always)]
    fn min_normal(self) -> f32 {
        self.min_normal
    }
    #[inline(always)]
    fn ulp_distance(self, target: &[u8], golden: &[u8]) -> UlpDistance {
        let ranks = float8_ranks(self.dtype, self.table);
        ranked(target, golden, |[code]| ranks[usize::from(code)])
    }
}

/// The modulus of a complex number without intermediate overflow or underflow; NaN if either part is. Own code,
/// because the system's `hypot` rounds differently on different machines.
#[inline(always)]
pub(crate) fn modulus(re: f64, im: f64) -> f64 {
    let (larger, smaller) = if re.abs() > im.abs() { (re.abs(), im.abs()) } else { (im.abs(), re.abs()) };
    if re.is_nan() || im.is_nan() {
        return f64::NAN;
    }
    if larger == 0.0 || larger.is_infinite() {
        return larger;
    }
    // A power of two near the larger part: scaling by it is exact.
    let exponent = ((larger.to_bits() >> 52) as i64 - 1023).clamp(-1000, 1000);
    let scale = f64::from_bits(((1023 - exponent) as u64) << 52);
    let (larger, smaller) = (larger * scale, smaller * scale);
    (larger * larger + smaller * smaller).sqrt() / scale
}

/// Exact and branch-free, so that lanes of it vectorise on every instruction set.
#[inline(always)]
fn widen_f16(half: u16) -> f32 {
    const EXPONENT: u32 = 0x7c00 << 13;
    const REBIAS: u32 = (127 - 15) << 23;
    let shifted = (u32::from(half) & 0x7fff) << 13;
    let exponent = shifted & EXPONENT;
    // Infinities and NaN need the remaining distance to the top exponent.
    let top = if exponent == EXPONENT { REBIAS } else { 0 };
    let normal = shifted + REBIAS + top;
    // Subnormals: give them an implicit one, then subtract it as a float, which renormalises.
    let subnormal =
        (f32::from_bits(shifted + REBIAS + (1 << 23)) - f32::from_bits(REBIAS + (1 << 23))).to_bits();
    let magnitude = if exponent == 0 { subnormal } else { normal };
    f32::from_bits(magnitude | (u32::from(half) & 0x8000) << 16)
}

/// The same with the instruction for it, which every processor with fused multiply-add has, and which is exact too.
/// (It makes a signalling NaN quiet: a different NaN, which no result shows.)
///
/// # Safety
/// The processor must have F16C. It is not a `#[target_feature]` function, since those cannot be inlined always.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code)]
#[inline(always)]
unsafe fn widen_f16_group(halves: &[[u8; 2]; LANES]) -> [f32; LANES] {
    use std::arch::x86_64::{__m128i, __m256, _mm_loadu_si128, _mm256_cvtph_ps};
    let mut lanes = [[0.0; 8]; 2];
    for (lanes, halves) in lanes.iter_mut().zip(halves.as_chunks::<8>().0) {
        let halves: *const __m128i = halves.as_ptr().cast();
        // SAFETY: reads 16 bytes of 16; the caller has F16C; both types are 32 bytes of floats.
        *lanes = unsafe { std::mem::transmute::<__m256, [f32; 8]>(_mm256_cvtph_ps(_mm_loadu_si128(halves))) };
    }
    lanes.as_flattened().try_into().expect("LANES elements")
}

/// No level of this architecture asks for it: its baseline vectorises [`widen_f16`].
///
/// # Safety
/// None is needed; it is unsafe as the one above is.
#[cfg(not(target_arch = "x86_64"))]
#[expect(unsafe_code)]
unsafe fn widen_f16_group(halves: &[[u8; 2]; LANES]) -> [f32; LANES] {
    halves.map(|half| widen_f16(u16::from_le_bytes(half)))
}

/// Calls `step` with every element of a packed block and its lane.
#[inline(always)]
pub(crate) fn each_lane<S: Source, const FMA: bool>(
    source: S,
    block: &[u8],
    mut step: impl FnMut(usize, S::Value),
) {
    let groups = block.chunks_exact(LANES * S::SIZE);
    let tail = groups.remainder();
    for group in groups {
        prefetch(group);
        for (lane, value) in source.load::<FMA>(group).into_iter().enumerate() {
            step(lane, value);
        }
    }
    for (lane, element) in tail.chunks_exact(S::SIZE).enumerate() {
        step(lane, source.one(element));
    }
}

/// Calls `step` with every pair of elements of two packed blocks of equal length and their lane.
#[inline(always)]
pub(crate) fn each_pair<S: Source, const FMA: bool>(
    source: S,
    a: &[u8],
    b: &[u8],
    mut step: impl FnMut(usize, S::Value, S::Value),
) {
    let groups_a = a.chunks_exact(LANES * S::SIZE);
    let groups_b = b.chunks_exact(LANES * S::SIZE);
    let tails = groups_a.remainder().chunks_exact(S::SIZE).zip(groups_b.remainder().chunks_exact(S::SIZE));
    for (group_a, group_b) in groups_a.zip(groups_b) {
        prefetch(group_a);
        prefetch(group_b);
        let (values_a, values_b) = (source.load::<FMA>(group_a), source.load::<FMA>(group_b));
        for lane in 0..LANES {
            step(lane, values_a[lane], values_b[lane]);
        }
    }
    for (lane, (element_a, element_b)) in tails.enumerate() {
        step(lane, source.one(element_a), source.one(element_b));
    }
}

/// Calls `step` with groups of sixteen pairs; the last is padded with zeros on both sides. Returns the number of
/// padding pairs.
#[inline(always)]
pub(crate) fn each_pair_group<S: Source, const FMA: bool>(
    source: S,
    a: &[u8],
    b: &[u8],
    mut step: impl FnMut([S::Value; LANES], [S::Value; LANES]),
) -> u64 {
    let groups_a = a.chunks_exact(LANES * S::SIZE);
    let groups_b = b.chunks_exact(LANES * S::SIZE);
    let (tail_a, tail_b) = (groups_a.remainder(), groups_b.remainder());
    for (group_a, group_b) in groups_a.zip(groups_b) {
        prefetch(group_a);
        prefetch(group_b);
        step(source.load::<FMA>(group_a), source.load::<FMA>(group_b));
    }
    if tail_a.is_empty() {
        return 0;
    }
    step(source.load_tail(tail_a), source.load_tail(tail_b));
    (LANES - tail_a.len() / S::SIZE) as u64
}

/// The sum of per-lane counts of one block.
#[inline(always)]
pub(crate) fn count(lanes: [u32; LANES]) -> u64 {
    u64::from(fold(lanes, |a, b| a + b))
}

/// The sum of lanes.
#[inline(always)]
pub(crate) fn sum(lanes: [f64; LANES]) -> f64 {
    fold(lanes, |a, b| a + b)
}

/// Folds lanes as a balanced tree, always the same one.
#[inline(always)]
pub(crate) fn fold<T: Copy, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    const { assert!(N.is_power_of_two()) }
    let mut width = N;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = join(lanes[lane], lanes[lane + width]);
        }
    }
    lanes[0]
}

/// The larger of two, or the first if they are unordered. Compiles to one instruction, unlike `f64::max`.
#[inline(always)]
pub(crate) fn larger<T: PartialOrd>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The smaller of two, or the first if they are unordered.
#[inline(always)]
pub(crate) fn smaller<T: PartialOrd>(a: T, b: T) -> T {
    if b < a { b } else { a }
}

/// Prefetches the cache line a page ahead of `bytes`, and at the start of a page also that of the page after.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code)]
    // SAFETY: prefetches are hints; they read nothing and cannot fault, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(PREFETCH_AHEAD).cast());
        if bytes.as_ptr().addr() % PAGE < CACHE_LINE {
            _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(PREFETCH_PAGE_AHEAD).cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
