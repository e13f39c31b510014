//! The metrics of the older tools for a pair of tensors, in their arithmetic.
//!
//! They follow NumPy: a relative difference is rounded in the type of the elements, a golden zero is moved away from
//! zero by the epsilon of that type on both sides, and only the real part of a complex number counts. NaN and
//! infinities at the same places count as zeros; at different places the pair cannot be compared.

use ulpscope_formats::Tensor;
use ulpscope_kernels::{PeerArithmetic, Reading, peer_errors};
use ulpscope_tensor::{DType, NumberKind, Scalar, View};

use super::widths::Width;
use crate::reading;

/// What was measured on two tensors of one shape.
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

/// Measures two tensors of one shape. `None`, where NaN or infinities are at different places, or the shapes are not
/// one.
pub(crate) fn measure(target: &Tensor, golden: &Tensor, arithmetic: PeerArithmetic) -> Option<PeerMetrics> {
    let pass = |reading: Reading<'_>| peer_errors(&target.view(), &golden.view(), arithmetic, reading);
    let errors = reading::read(target, golden, pass).ok()?;
    (!errors.mismatched).then_some(PeerMetrics {
        dot: errors.dot,
        norms: [errors.target_norm, errors.golden_norm],
        euclid: errors.euclid,
        max_abs: errors.max_abs,
        max_rel: errors.max_rel,
        under_1e3: errors.under_1e3,
        under_5e3: errors.under_5e3,
    })
}

/// The absolute and relative difference of two tensors without dimensions, whatever they hold.
pub(crate) fn measure_scalars(
    target: &View<'_>,
    golden: &View<'_>,
    arithmetic: PeerArithmetic,
) -> (f64, f64) {
    let rule = Rule::new(target.dtype(), golden.dtype(), arithmetic);
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
    let signed = dtype.encoding().kind() == NumberKind::Signed;
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
}

impl Rule {
    fn new(target: DType, golden: DType, arithmetic: PeerArithmetic) -> Rule {
        let (n, b) = (Width::of(target), Width::of(golden));
        let floats = target.is_float() && golden.is_float();
        let (width, sides, epsilon, moves) = match arithmetic {
            PeerArithmetic::Promoted => {
                let width = n.max(b).max(Width::Single);
                (width, [width; 2], width.epsilon(), false)
            }
            PeerArithmetic::Stored | PeerArithmetic::StoredUnmasked if floats => {
                (n.max(b), [n, b], b.epsilon(), true)
            }
            PeerArithmetic::Stored | PeerArithmetic::StoredUnmasked | PeerArithmetic::Double => {
                (Width::Double, [Width::Double; 2], Width::Double.epsilon(), false)
            }
        };
        Rule { width, sides, epsilon, moves }
    }

    /// The relative difference; moves the elements, where the rule says so.
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
