//! One pass over one tensor: extrema, mean, norm, and counts of special values.

use ulpscope_tensor::{DType, Scalar, View};

use crate::blocks::{BLOCK, Threads, over_spans};
use crate::float_env::DefaultFloatEnv;
use crate::lanes::{
    ForSource, LANES, Lane, Source, count, each_lane, fold, larger, prefetch, smaller, sum, with_source,
};
use crate::level::{Kernel, Level, add_exact_product, align_frame};
use crate::short::{self, Extrema, RunningExtrema, SHORT_LANES};

/// The results of one pass over a tensor. For complex tensors everything is about the modulus.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Number of elements.
    pub count: u64,
    /// Largest element as in torch: NaN if there is one; nothing for an empty tensor.
    pub max: Option<Scalar>,
    /// Smallest element, in the same way.
    pub min: Option<Scalar>,
    /// Mean, summed in f64; NaN and infinities propagate.
    pub mean: Option<f64>,
    /// L2 norm, summed in f64; NaN and infinities propagate.
    pub norm: f64,
    /// Elements that are NaN.
    pub nan: u64,
    /// Elements that are +Inf.
    pub pos_inf: u64,
    /// Elements that are -Inf.
    pub neg_inf: u64,
    /// Elements equal to zero, of either sign.
    pub zeros: u64,
    /// Elements too small for a full mantissa in their own dtype, zeros not counted.
    pub subnormals: u64,
    /// Largest finite element, if there is any.
    pub finite_max: Option<Scalar>,
    /// Smallest finite element, if there is any.
    pub finite_min: Option<Scalar>,
}

/// From this number of elements on, repeated elements (`expand`) are read once and counted as often as they occur.
/// A tensor of a few bytes may have more elements than can be read in a day; the results of smaller ones have the
/// bits of a copy.
const MANY: usize = 1 << 24;

/// For a tensor that repeats elements and is so large that each is read once: those elements, and how often all of
/// them occur.
pub fn read_once<'a>(view: &View<'a>) -> Option<(View<'a>, usize)> {
    if view.len() <= MANY {
        return None;
    }
    let (once, repeats) = view.without_repeats();
    (repeats > 1).then_some((once, repeats))
}

/// Statistics of a tensor, with the best instruction set of this machine.
pub fn stats(view: &View<'_>, threads: Threads) -> Stats {
    stats_at(Level::best(), view, threads)
}

/// Statistics of a tensor with a given instruction set; to show that the result does not depend on it.
pub fn stats_at(level: Level, view: &View<'_>, threads: Threads) -> Stats {
    let _env = DefaultFloatEnv::enter();
    let once = read_once(view);
    let (view, repeats) = once.as_ref().map_or((view, 1), |(once, repeats)| (once, *repeats));
    let pass = Pass { level, view, repeats, threads };
    with_source(view.dtype(), pass)
}

struct Pass<'a, 'v> {
    level: Level,
    view: &'a View<'v>,
    /// How often all elements of the view occur.
    repeats: usize,
    threads: Threads,
}

/// Sums, extrema and counts of a range of elements.
#[derive(Clone, Copy)]
struct Partial<V> {
    sum: f64,
    squares: f64,
    max: V,
    min: V,
    odd: Odd,
}

#[derive(Clone, Copy, Default)]
struct Odd {
    nan: u64,
    pos_inf: u64,
    neg_inf: u64,
    zeros: u64,
    subnormals: u64,
}

impl ForSource for Pass<'_, '_> {
    type Output = Stats;

    fn run<S: Source>(self, source: S) -> Stats {
        let view = self.view;
        let total = over_spans(
            view.len(),
            self.threads,
            |range| {
                let _env = DefaultFloatEnv::enter();
                match view.as_packed() {
                    Some(bytes) => {
                        let bytes = &bytes[range.start * S::SIZE..range.end * S::SIZE];
                        self.level.run(Span { source, bytes })
                    }
                    None => {
                        let mut scratch = vec![0; BLOCK.min(range.len()) * S::SIZE];
                        let mut sum = Partial::empty();
                        for start in range.clone().step_by(BLOCK) {
                            let bytes = &mut scratch[..BLOCK.min(range.end - start) * S::SIZE];
                            view.gather(start, bytes);
                            sum = sum.merge(self.level.run(Span { source, bytes }));
                        }
                        sum
                    }
                }
            },
            Partial::merge,
        );
        total.repeated(self.repeats).finish(view.dtype(), (view.len() * self.repeats) as u64)
    }
}

/// A packed run of elements, processed block by block.
struct Span<'a, S> {
    source: S,
    bytes: &'a [u8],
}

impl<S: Source> Kernel for Span<'_, S> {
    type Output = Partial<S::Value>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Partial<S::Value> {
        if S::SHORT_INFINITY.is_some() {
            align_frame();
        }
        let mut total = Partial::empty();
        for block in self.bytes.chunks(BLOCK * S::SIZE) {
            total = total.merge(measure_block::<S, FMA>(self.source, block));
        }
        total
    }
}

/// The lean loop: sums, extrema and the smallest magnitude. These show whether the block contains special values,
/// and only then a second loop counts them.
#[inline(always)]
fn measure_block<S: Source, const FMA: bool>(source: S, block: &[u8]) -> Partial<S::Value> {
    let mut sums = RunningSums { sums: [0.0; LANES], squares: [0.0; LANES] };
    let (max, min, least) = if S::SHORT_INFINITY.is_some() {
        let extrema = each_short::<S, FMA>(source, block, &mut sums);
        let value = |bits: u16| source.one(&bits.to_le_bytes());
        (value(extrema.max), value(extrema.min), value(extrema.least))
    } else {
        let mut max = [S::Value::LOWEST; LANES];
        let mut min = [S::Value::HIGHEST; LANES];
        let mut least = [S::Value::HIGHEST; LANES];
        each_lane::<_, FMA>(
            source,
            block,
            #[inline(always)]
            |lane, value| {
                sums.add::<_, FMA>(lane, value);
                max[lane] = larger(max[lane], value);
                min[lane] = smaller(min[lane], value);
                least[lane] = smaller(least[lane], value.abs());
            },
        );
        (fold(max, larger), fold(min, smaller), fold(least, smaller))
    };
    let mut partial =
        Partial { sum: sum(sums.sums), squares: sum(sums.squares), max, min, odd: Odd::default() };
    // A square is finite only if its element is, so the sum of squares decides for the whole block. (The squares
    // of huge f64 overflow too: the second loop then finds no special value.)
    if !partial.squares.is_finite() {
        count_non_finite::<S, FMA>(source, block, &mut partial);
    }
    if least <= S::Value::ZERO || least < source.min_normal() {
        count_small::<S, FMA>(source, block, &mut partial.odd);
    }
    partial
}

/// Sums so far, in lanes.
struct RunningSums {
    sums: [f64; LANES],
    squares: [f64; LANES],
}

impl RunningSums {
    #[inline(always)]
    fn add<V: Lane, const FMA: bool>(&mut self, lane: usize, value: V) {
        let wide = value.widen();
        self.sums[lane] += wide;
        self.squares[lane] = if V::EXACT_SQUARES {
            add_exact_product::<FMA>(self.squares[lane], wide, wide)
        } else {
            self.squares[lane] + wide * wide
        };
    }
}

/// Sums a packed block of 16-bit floats. Returns the extrema, which are meaningless if some element is NaN.
#[inline(always)]
fn each_short<S: Source, const FMA: bool>(source: S, block: &[u8], sums: &mut RunningSums) -> Extrema {
    let mut extrema = RunningExtrema::none();
    let (lines, tail) = block.as_chunks::<2>().0.as_chunks::<SHORT_LANES>();
    for line in lines {
        let bytes = line.as_flattened();
        prefetch(bytes);
        extrema.add(line);
        for group in bytes.chunks_exact(LANES * S::SIZE) {
            for (lane, value) in source.load::<FMA>(group).into_iter().enumerate() {
                sums.add::<_, FMA>(lane, value);
            }
        }
    }
    extrema.add(tail);
    each_lane::<_, FMA>(
        source,
        tail.as_flattened(),
        #[inline(always)]
        |lane, value| sums.add::<_, FMA>(lane, value),
    );
    extrema.finish()
}

/// Counts NaN and infinities, and takes the extrema of the finite elements only.
#[inline(always)]
fn count_non_finite<S: Source, const FMA: bool>(source: S, block: &[u8], partial: &mut Partial<S::Value>) {
    let mut nan = [0; LANES];
    let mut pos_inf = [0; LANES];
    let mut neg_inf = [0; LANES];
    let mut max = [S::Value::LOWEST; LANES];
    let mut min = [S::Value::HIGHEST; LANES];
    each_lane::<_, FMA>(
        source,
        block,
        #[inline(always)]
        |lane, value| {
            let finite = value.is_finite();
            nan[lane] += u32::from(value.is_nan());
            pos_inf[lane] += u32::from(value.is_pos_inf());
            neg_inf[lane] += u32::from(value.is_neg_inf());
            max[lane] = larger(max[lane], if finite { value } else { S::Value::LOWEST });
            min[lane] = smaller(min[lane], if finite { value } else { S::Value::HIGHEST });
        },
    );
    partial.odd.nan = count(nan);
    partial.odd.pos_inf = count(pos_inf);
    partial.odd.neg_inf = count(neg_inf);
    partial.max = fold(max, larger);
    partial.min = fold(min, smaller);
}

/// Counts zeros and subnormals.
#[inline(always)]
fn count_small<S: Source, const FMA: bool>(source: S, block: &[u8], odd: &mut Odd) {
    if let Some(infinity) = S::SHORT_INFINITY {
        (odd.zeros, odd.subnormals) = short::count_small(block, infinity);
        return;
    }
    let min_normal = source.min_normal();
    let mut zeros = [0; LANES];
    let mut small = [0; LANES];
    each_lane::<_, FMA>(
        source,
        block,
        #[inline(always)]
        |lane, value| {
            zeros[lane] += u32::from(value == S::Value::ZERO);
            small[lane] += u32::from(value.abs() < min_normal);
        },
    );
    odd.zeros = count(zeros);
    // Zeros are below the smallest normal number too, if there is one.
    odd.subnormals = count(small).saturating_sub(odd.zeros);
}

impl<V: Lane> Partial<V> {
    #[inline(always)]
    fn empty() -> Partial<V> {
        Partial { sum: 0.0, squares: 0.0, max: V::LOWEST, min: V::HIGHEST, odd: Odd::default() }
    }

    #[inline(always)]
    fn merge(self, next: Partial<V>) -> Partial<V> {
        Partial {
            sum: self.sum + next.sum,
            squares: self.squares + next.squares,
            max: larger(self.max, next.max),
            min: smaller(self.min, next.min),
            odd: Odd {
                nan: self.odd.nan + next.odd.nan,
                pos_inf: self.odd.pos_inf + next.odd.pos_inf,
                neg_inf: self.odd.neg_inf + next.odd.neg_inf,
                zeros: self.odd.zeros + next.odd.zeros,
                subnormals: self.odd.subnormals + next.odd.subnormals,
            },
        }
    }

    /// The result for the same elements repeated this many times.
    fn repeated(self, times: usize) -> Partial<V> {
        if times == 1 {
            return self;
        }
        let many = |count: u64| count * times as u64;
        Partial {
            sum: self.sum * times as f64,
            squares: self.squares * times as f64,
            odd: Odd {
                nan: many(self.odd.nan),
                pos_inf: many(self.odd.pos_inf),
                neg_inf: many(self.odd.neg_inf),
                zeros: many(self.odd.zeros),
                subnormals: many(self.odd.subnormals),
            },
            ..self
        }
    }

    fn finish(self, dtype: DType, count: u64) -> Stats {
        let Odd { nan, pos_inf, neg_inf, zeros, subnormals } = self.odd;
        let some_finite = nan + pos_inf + neg_inf < count;
        let scalar = |value: V| value.to_scalar(dtype);
        let finite_max = some_finite.then(|| scalar(self.max));
        let finite_min = some_finite.then(|| scalar(self.min));
        let extreme = |finite: Option<Scalar>, this_inf: (u64, f64), other_inf: f64| match () {
            () if count == 0 => None,
            () if nan > 0 => Some(Scalar::Float(f64::NAN)),
            () if this_inf.0 > 0 => Some(Scalar::Float(this_inf.1)),
            () => finite.or(Some(Scalar::Float(other_inf))),
        };
        Stats {
            count,
            max: extreme(finite_max, (pos_inf, f64::INFINITY), f64::NEG_INFINITY),
            min: extreme(finite_min, (neg_inf, f64::NEG_INFINITY), f64::INFINITY),
            mean: (count > 0).then(|| canonical(self.sum / count as f64)),
            norm: canonical(self.squares.sqrt()),
            nan,
            pos_inf,
            neg_inf,
            zeros,
            subnormals,
            finite_max,
            finite_min,
        }
    }
}

/// The only NaN in results: the sign and payload of a computed NaN depend on the processor.
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}
