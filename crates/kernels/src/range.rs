//! Whether the elements of a tensor are within the range of a dtype: their own, or a narrower one.
//!
//! The bits of a float without its sign have the order of the magnitudes, with infinity above all finite numbers and
//! NaN above infinity. So one integer maximum over a tensor shows whether it has overflowed.

use ulpscope_tensor::{DType, Encoding, View};

use crate::blocks::{BLOCK, Threads, over_spans};
use crate::lanes::{ForSource, LANES, Lane, Source, count, each_lane, fold, larger, prefetch, with_source};
use crate::level::{Kernel, Level};

/// How far the largest magnitude of a tensor goes, from harmless to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// All elements are finite, and below the largest finite number of their dtype.
    #[default]
    InRange,
    /// All are finite, and one has the largest magnitude that its dtype has.
    AtLimit,
    /// There is an infinity, and no NaN.
    Infinite,
    /// There is a NaN.
    Nan,
}

/// How far the largest magnitude of a tensor goes. Integers are in range.
pub fn reach(view: &View<'_>, threads: Threads) -> Reach {
    reach_at(Level::best(), view, threads)
}

/// The same with a given instruction set; to show that the result does not depend on it.
pub fn reach_at(level: Level, view: &View<'_>, threads: Threads) -> Reach {
    // Neither the order of the elements matters, nor how often each occurs.
    let ordered = view.as_packed().is_none().then(|| view.without_repeats().0.in_memory_order());
    let view = ordered.as_ref().unwrap_or(view);
    match view.dtype().encoding() {
        Encoding::F16 => largest::<Short<0x7c00>>(level, view, threads),
        Encoding::BF16 => largest::<Short<0x7f80>>(level, view, threads),
        Encoding::F32 | Encoding::C64 => largest::<Single>(level, view, threads),
        Encoding::F64 | Encoding::C128 => largest::<Double>(level, view, threads),
        Encoding::Float8(float) => {
            let max = view.dtype().float_limits().map_or(f64::INFINITY, |limits| limits.max);
            let reaches = float.table.map(|value| match value {
                value if value.is_nan() => Reach::Nan,
                value if value.is_infinite() => Reach::Infinite,
                value if f64::from(value.abs()) >= max => Reach::AtLimit,
                _ => Reach::InRange,
            });
            over_bytes(view, threads, |bytes| {
                bytes.iter().map(|byte| reaches[usize::from(*byte)]).max().unwrap_or_default()
            })
        }
        _ => Reach::InRange,
    }
}

/// The magnitude of a float as an integer.
trait Magnitude {
    type Bits: Copy + Ord + Default + Send;
    const INFINITY: Self::Bits;
    /// That of the largest finite number.
    const MAX: Self::Bits;
    const SIZE: usize;
    fn of(bytes: &[u8]) -> Self::Bits;
}

struct Short<const INFINITY: u16>;
struct Single;
struct Double;

macro_rules! magnitude {
    ($bits:ident, $infinity:expr) => {
        type Bits = $bits;
        const INFINITY: $bits = $infinity;
        const MAX: $bits = $infinity - 1;
        const SIZE: usize = size_of::<$bits>();
        #[inline(always)]
        fn of(bytes: &[u8]) -> $bits {
            $bits::from_le_bytes(bytes.try_into().expect("SIZE bytes")) & ($bits::MAX >> 1)
        }
    };
}

impl<const INFINITY: u16> Magnitude for Short<INFINITY> {
    magnitude!(u16, INFINITY);
}

impl Magnitude for Single {
    magnitude!(u32, 0x7f80_0000);
}

impl Magnitude for Double {
    magnitude!(u64, 0x7ff0_0000_0000_0000);
}

fn largest<M: Magnitude>(level: Level, view: &View<'_>, threads: Threads) -> Reach {
    over_bytes(view, threads, |bytes| {
        let largest = level.run(Largest::<M>(bytes, std::marker::PhantomData));
        match largest {
            bits if bits > M::INFINITY => Reach::Nan,
            bits if bits == M::INFINITY => Reach::Infinite,
            bits if bits == M::MAX => Reach::AtLimit,
            _ => Reach::InRange,
        }
    })
}

/// The largest magnitude of packed floats, or of the parts of packed complex numbers.
struct Largest<'a, M>(&'a [u8], std::marker::PhantomData<M>);

impl<M: Magnitude> Kernel for Largest<'_, M> {
    type Output = M::Bits;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> M::Bits {
        // Four vectors: the latency of one maximum would be longer than a load.
        const WIDTH: usize = 4 * LANES;
        let mut lanes = [M::Bits::default(); WIDTH];
        let groups = self.0.chunks_exact(WIDTH * M::SIZE);
        let tail = groups.remainder();
        for group in groups {
            prefetch(group);
            for (lane, element) in lanes.iter_mut().zip(group.chunks_exact(M::SIZE)) {
                *lane = larger(*lane, M::of(element));
            }
        }
        for (lane, element) in lanes.iter_mut().zip(tail.chunks_exact(M::SIZE)) {
            *lane = larger(*lane, M::of(element));
        }
        fold(lanes, larger)
    }
}

/// The worst of what is found in the packed elements of a view.
fn over_bytes(view: &View<'_>, threads: Threads, find: impl Fn(&[u8]) -> Reach + Sync) -> Reach {
    let size = view.dtype().size();
    if let Some(bytes) = view.as_packed().filter(|bytes| bytes.len() <= BLOCK * size) {
        return find(bytes);
    }
    over_spans(
        view.len(),
        threads,
        |range| match view.as_packed() {
            Some(bytes) => find(&bytes[range.start * size..range.end * size]),
            None => {
                let mut scratch = vec![0; BLOCK.min(range.len()) * size];
                let blocks = range.clone().step_by(BLOCK).map(|start| {
                    let bytes = &mut scratch[..BLOCK.min(range.end - start) * size];
                    view.gather(start, bytes);
                    find(bytes)
                });
                blocks.max().unwrap_or_default()
            }
        },
        Ord::max,
    )
}

/// How many elements of a tensor would not survive a conversion to another dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survival {
    /// Finite elements that are not zero.
    pub elements: u64,
    /// Of these: those that would become NaN or infinity, or be held at the largest number.
    pub overflows: u64,
    /// Of these: those that would become zero.
    pub underflows: u64,
}

impl Survival {
    /// Both together.
    pub fn merge(self, other: Survival) -> Survival {
        Survival {
            elements: self.elements + other.elements,
            overflows: self.overflows + other.overflows,
            underflows: self.underflows + other.underflows,
        }
    }
}

/// How many elements would not survive a conversion to `target`, rounded to nearest; `None` if that is no float.
pub fn survival(view: &View<'_>, target: DType, threads: Threads) -> Option<Survival> {
    let limits = target.float_limits().filter(|_| !target.is_complex())?;
    // From half a unit above the largest number on, rounding leaves the range. Exact: powers of two and their sums.
    let unit = 2f64.powi(limits.max.log2().floor() as i32 - limits.mantissa_bits as i32);
    let pass = SurvivalPass {
        level: Level::best(),
        view,
        threads,
        overflow: if limits.max == f64::MAX { f64::INFINITY } else { limits.max + unit / 2.0 },
        // Half of the smallest number, and everything below it, is rounded to the even neighbour: zero.
        underflow: limits.min_positive / 2.0,
    };
    Some(with_source(view.dtype(), pass))
}

struct SurvivalPass<'a, 'v> {
    level: Level,
    view: &'a View<'v>,
    threads: Threads,
    overflow: f64,
    underflow: f64,
}

impl ForSource for SurvivalPass<'_, '_> {
    type Output = Survival;

    fn run<S: Source>(self, source: S) -> Survival {
        let (overflow, underflow) = (self.overflow, self.underflow);
        over_spans(
            self.view.len(),
            self.threads,
            |range| {
                let mut scratch = vec![0; BLOCK.min(range.len()) * S::SIZE];
                let blocks = range.clone().step_by(BLOCK).map(|start| {
                    let bytes = &mut scratch[..BLOCK.min(range.end - start) * S::SIZE];
                    self.view.gather(start, bytes);
                    self.level.run(SurvivalBlock { source, bytes, overflow, underflow })
                });
                blocks.fold(Survival::default(), Survival::merge)
            },
            Survival::merge,
        )
    }
}

struct SurvivalBlock<'a, S> {
    source: S,
    bytes: &'a [u8],
    overflow: f64,
    underflow: f64,
}

impl<S: Source> Kernel for SurvivalBlock<'_, S> {
    type Output = Survival;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Survival {
        let [mut elements, mut overflows, mut underflows] = [[0u32; LANES]; 3];
        each_lane::<S, FMA>(self.source, self.bytes, |lane, value| {
            let magnitude = value.widen().abs();
            let counts = magnitude > 0.0 && magnitude < f64::INFINITY;
            elements[lane] += u32::from(counts);
            overflows[lane] += u32::from(counts && magnitude >= self.overflow);
            underflows[lane] += u32::from(counts && magnitude <= self.underflow);
        });
        Survival { elements: count(elements), overflows: count(overflows), underflows: count(underflows) }
    }
}
