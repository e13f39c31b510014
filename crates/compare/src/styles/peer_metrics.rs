//! The numbers the older tools take from a pair of tensors, in their arithmetic.
//!
//! NumPy decides what they are: a relative difference is rounded in the type the elements have, a golden zero is
//! moved away from zero by the epsilon of that type on both sides, and of a complex number only the real part is
//! looked at. NaN and infinities at the same places count as zeros; at other places they make the pair one that
//! cannot be compared.

use rayon::prelude::*;
use ulpscope_tensor::{DType, Scalar, View};

use super::widths::Width;

/// Elements decoded at a time.
const BLOCK: usize = 2048;

/// Elements one thread takes at a time. Sums are merged in the order of the spans.
const SPAN: usize = 256 * BLOCK;

/// Sums in lanes: their order is fixed, and short enough for the compiler.
const LANES: usize = 8;

/// What was measured on two tensors of as many elements, at least one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PeerMetrics {
    /// Target times golden, summed.
    pub(crate) dot: f64,
    /// The root of the sum of squares, of target and golden.
    pub(crate) norms: [f64; 2],
    /// The root of the sum of squared differences.
    pub(crate) euclid: f64,
    /// The largest absolute difference; NaN, where there is one.
    pub(crate) max_abs: f64,
    /// The largest relative one; NaN, where there is one.
    pub(crate) max_rel: f64,
    /// The share of elements with a relative difference below 1/1000.
    pub(crate) under_1e3: f64,
    /// The share of elements with a relative difference below 5/1000.
    pub(crate) under_5e3: f64,
}

/// How the relative difference is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relative {
    /// In the wider of both types and binary32.
    Promoted,
    /// In the wider of both types, with golden's epsilon; the elements moved away from zero are the ones all
    /// other numbers are taken from, too.
    InPlace,
    /// As [`Relative::InPlace`], but before NaN and infinities are turned into zeros: one of them, and the largest
    /// relative difference is NaN.
    InPlaceFirst,
    /// In binary64, whatever the types.
    InDouble,
}

/// Measures two tensors of as many elements, in row-major order. `None`, where NaN or infinities are at different
/// places.
pub(crate) fn measure(target: &View<'_>, golden: &View<'_>, relative: Relative) -> Option<PeerMetrics> {
    let rule = Rule::new(target.dtype(), golden.dtype(), relative);
    let count = target.len().min(golden.len());
    let spans = count.div_ceil(SPAN);
    let measured: Vec<Option<Sums>> = (0..spans)
        .into_par_iter()
        .map(|span| span_sums(target, golden, span * SPAN..count.min((span + 1) * SPAN), &rule))
        .collect();
    let mut total = Sums::default();
    for sums in measured {
        total.merge(&sums?);
    }
    let lanes = |lanes: [f64; LANES]| lanes.iter().sum::<f64>();
    Some(PeerMetrics {
        dot: lanes(total.products),
        norms: [lanes(total.target_squares).sqrt(), lanes(total.golden_squares).sqrt()],
        euclid: lanes(total.difference_squares).sqrt(),
        max_abs: total.max_abs,
        max_rel: total.max_rel,
        under_1e3: total.under_1e3 as f64 / count as f64,
        under_5e3: total.under_5e3 as f64 / count as f64,
    })
}

/// The absolute and relative difference of two tensors without dimensions, whatever they hold.
pub(crate) fn measure_scalars(target: &View<'_>, golden: &View<'_>, relative: Relative) -> (f64, f64) {
    let rule = Rule::new(target.dtype(), golden.dtype(), relative);
    let (mut n, mut b) = (real(target.get(0)), real(golden.get(0)));
    let rel = rule.relative(&mut n, &mut b);
    let abs = match (target.get(0), golden.get(0)) {
        (Scalar::Int(n), Scalar::Int(b)) if target.dtype() == golden.dtype() => {
            wrapping_distance(n, b, target.dtype())
        }
        (Scalar::Complex(..), _) | (_, Scalar::Complex(..)) => {
            let part =
                |value| if let Scalar::Complex(re, im) = value { (re, im) } else { (real(value), 0.0) };
            let ((a, b), (c, d)) = (part(target.get(0)), part(golden.get(0)));
            (a - c).hypot(b - d)
        }
        _ => Width::of(target.dtype()).max(Width::of(golden.dtype())).subtract(n, b).abs(),
    };
    (abs, rel)
}

/// The distance of two integers in the arithmetic of their dtype, which wraps around.
fn wrapping_distance(target: i128, golden: i128, dtype: DType) -> f64 {
    let bits = dtype.size() as u32 * 8;
    let wrapped = (target - golden).rem_euclid(1 << bits);
    let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let value = if signed && wrapped >= 1 << (bits - 1) { wrapped - (1 << bits) } else { wrapped };
    value.unsigned_abs() as f64
}

fn real(value: Scalar) -> f64 {
    match value {
        Scalar::Complex(re, _) => re,
        other => other.to_f64(),
    }
}

/// The arithmetic of a pair of dtypes.
struct Rule {
    /// What differences and quotients are rounded to.
    width: Width,
    /// Where the moved elements are kept.
    sides: [Width; 2],
    epsilon: f64,
    /// Whether the elements are moved for good.
    moves: bool,
    limits: [f64; 2],
    /// Whether relative differences are taken of what is not finite, too.
    before_zeros: bool,
}

impl Rule {
    fn new(target: DType, golden: DType, relative: Relative) -> Rule {
        let (n, b) = (Width::of(target), Width::of(golden));
        let floats = target.is_float() && golden.is_float();
        let (width, sides, epsilon, moves) = match relative {
            Relative::Promoted => {
                let width = n.max(b).max(Width::Single);
                (width, [width; 2], width.epsilon(), false)
            }
            Relative::InPlace | Relative::InPlaceFirst if floats => (n.max(b), [n, b], b.epsilon(), true),
            Relative::InPlace | Relative::InPlaceFirst | Relative::InDouble => {
                (Width::Double, [Width::Double; 2], Width::Double.epsilon(), false)
            }
        };
        let limits = [0.001, 0.005].map(|limit| width.round(limit));
        Rule { width, sides, epsilon, moves, limits, before_zeros: relative == Relative::InPlaceFirst }
    }

    /// The relative difference; moves the elements, where the rule says so.
    #[inline]
    fn relative(&self, target: &mut f64, golden: &mut f64) -> f64 {
        let (mut n, mut b) = (*target, *golden);
        if b == 0.0 {
            n = self.sides[0].add(n, self.epsilon);
            b = self.sides[1].add(b, self.epsilon);
            if self.moves {
                (*target, *golden) = (n, b);
            }
        }
        self.width.divide(self.width.subtract(n, b), b).abs()
    }
}

#[derive(Clone, Copy, Default)]
struct Sums {
    products: [f64; LANES],
    target_squares: [f64; LANES],
    golden_squares: [f64; LANES],
    difference_squares: [f64; LANES],
    max_abs: f64,
    max_rel: f64,
    under_1e3: u64,
    under_5e3: u64,
}

/// The larger of two, or NaN.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a >= b { a } else { b }
}

impl Sums {
    fn merge(&mut self, more: &Sums) {
        for lane in 0..LANES {
            self.products[lane] += more.products[lane];
            self.target_squares[lane] += more.target_squares[lane];
            self.golden_squares[lane] += more.golden_squares[lane];
            self.difference_squares[lane] += more.difference_squares[lane];
        }
        self.max_abs = larger(self.max_abs, more.max_abs);
        self.max_rel = larger(self.max_rel, more.max_rel);
        self.under_1e3 += more.under_1e3;
        self.under_5e3 += more.under_5e3;
    }
}

fn span_sums(
    target: &View<'_>,
    golden: &View<'_>,
    range: std::ops::Range<usize>,
    rule: &Rule,
) -> Option<Sums> {
    let mut sums = Sums::default();
    let mut decoded = [Decoder::new(target), Decoder::new(golden)];
    let mut at = range.start;
    while at < range.end {
        let len = BLOCK.min(range.end - at);
        let [n, b] = &mut decoded;
        n.read(at, len);
        b.read(at, len);
        block_sums(&mut n.values[..len], &mut b.values[..len], rule, &mut sums)?;
        at += len;
    }
    Some(sums)
}

fn block_sums(target: &mut [f64], golden: &mut [f64], rule: &Rule, sums: &mut Sums) -> Option<()> {
    for (index, (n, b)) in target.iter_mut().zip(golden).enumerate() {
        if !(n.is_finite() && b.is_finite()) {
            if n.is_nan() != b.is_nan() || n.is_infinite() != b.is_infinite() {
                return None;
            }
            (*n, *b) = (0.0, 0.0);
            if rule.before_zeros {
                sums.max_rel = f64::NAN;
                continue;
            }
        }
        let rel = rule.relative(n, b);
        let difference = *n - *b;
        let lane = index % LANES;
        sums.products[lane] += *n * *b;
        sums.target_squares[lane] += *n * *n;
        sums.golden_squares[lane] += *b * *b;
        sums.difference_squares[lane] += difference * difference;
        sums.max_abs = larger(sums.max_abs, difference.abs());
        sums.max_rel = larger(sums.max_rel, rel);
        sums.under_1e3 += u64::from(rel < rule.limits[0]);
        sums.under_5e3 += u64::from(rel < rule.limits[1]);
    }
    Some(())
}

/// Decodes blocks of elements, the real parts of complex ones.
struct Decoder<'a> {
    view: &'a View<'a>,
    packed: Option<&'a [u8]>,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

impl<'a> Decoder<'a> {
    fn new(view: &'a View<'a>) -> Decoder<'a> {
        Decoder { view, packed: view.as_packed(), bytes: Vec::new(), values: vec![0.0; BLOCK] }
    }

    fn read(&mut self, start: usize, len: usize) {
        let dtype = self.view.dtype();
        let size = dtype.size();
        let bytes = match self.packed {
            Some(packed) => &packed[start * size..(start + len) * size],
            None => {
                self.bytes.resize(len * size, 0);
                self.view.gather(start, &mut self.bytes);
                &self.bytes
            }
        };
        let values = self.values.iter_mut();
        match dtype {
            DType::F32 => {
                let (elements, _) = bytes.as_chunks::<4>();
                values
                    .zip(elements)
                    .for_each(|(value, element)| *value = f32::from_le_bytes(*element).into());
            }
            DType::F64 => {
                let (elements, _) = bytes.as_chunks::<8>();
                values.zip(elements).for_each(|(value, element)| *value = f64::from_le_bytes(*element));
            }
            _ => {
                let elements = bytes.chunks_exact(size);
                values.zip(elements).for_each(|(value, element)| *value = real(Scalar::read(dtype, element)));
            }
        }
    }
}
