//! Compares two tensors element by element in one dimension, as the shells of the older tools do.
//!
//! Shapes may differ: both are read in row-major order, and the shorter one continues with zeros. The zeros are a view
//! of one zero, so that a small file beside a large one needs no memory.

use std::borrow::Cow;

use ulpscope_kernels::{
    Comparison, ElementDiff, ShapeMismatch, Stats, Threads, Tolerance, compare, first_failing, stats,
};
use ulpscope_tensor::{Scalar, View};

/// What two tensors look like side by side.
#[derive(Clone, Debug)]
pub struct FlatComparison {
    /// Statistics of each.
    pub stats: [Stats; 2],
    /// Number of elements that were compared: those of the longer one.
    pub count: u64,
    /// Elements over the tolerance, including those where only one is NaN or infinite.
    pub failing: u64,
    /// What `np.allclose` says: nothing fails, and nothing is NaN.
    pub all_close: bool,
    /// Cosine of the angle between the two; NaN if one of them is zero or has NaN or infinities.
    pub cosine: f64,
    /// The first elements over the tolerance.
    pub first_failing: Vec<ElementPair>,
    /// The first elements.
    pub first: Vec<ElementPair>,
}

/// Two elements at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementPair {
    /// Row-major position.
    pub index: u64,
    /// The element of each.
    pub values: [Scalar; 2],
    /// The absolute difference.
    pub difference: f64,
}

/// Compares two tensors, and keeps `rows` elements of each kind.
pub fn compare_flat(
    target: &View<'_>,
    golden: &View<'_>,
    tolerance: Tolerance,
    rows: usize,
) -> Result<FlatComparison, ShapeMismatch> {
    let stats = [stats(target, Threads::All), stats(golden, Threads::All)];
    let (left, right) = (Flat::of(target), Flat::of(golden));
    let common = left.len.min(right.len);
    let count = left.len.max(right.len);
    let (mut failing, mut found) = (0, Vec::new());
    let mut dot = 0.0;
    for (start, end) in [(0, common), (common, count)] {
        if start == end {
            continue;
        }
        let (target, golden) = (left.part(start, end), right.part(start, end));
        let compared = compare(&target, &golden, tolerance, Threads::All)?;
        failing += compared.over_tolerance;
        if compared.over_tolerance > 0 && found.len() < rows {
            let more = first_failing(&target, &golden, tolerance, rows - found.len())?;
            found.extend(more.into_iter().map(|one| ElementPair::of(one, start)));
        }
        if start == 0 {
            dot = dot_product(&compared, &target, &golden);
        }
    }
    let is_finite = |stats: &Stats| stats.nan + stats.pos_inf + stats.neg_inf == 0;
    let cosine = if stats.iter().all(is_finite) && stats.iter().all(|stats| stats.norm > 0.0) {
        (dot / stats[0].norm / stats[1].norm).clamp(-1.0, 1.0)
    } else {
        f64::NAN
    };
    let has_nan = stats.iter().any(|stats| stats.nan > 0);
    let first = (0..count.min(rows)).map(|index| left.pair(&right, index)).collect();
    Ok(FlatComparison {
        stats,
        count: count as u64,
        failing,
        all_close: failing == 0 && !has_nan,
        cosine,
        first_failing: found,
        first,
    })
}

/// The sum of the products, from the cosine and the lengths of the two.
fn dot_product(compared: &Comparison, target: &View<'_>, golden: &View<'_>) -> f64 {
    let norm = |view: &View<'_>| stats(view, Threads::All).norm;
    compared.distances.cosine.map_or(0.0, |cosine| cosine * norm(target) * norm(golden))
}

impl ElementPair {
    fn of(found: ElementDiff, start: usize) -> ElementPair {
        ElementPair {
            index: found.index + start as u64,
            values: [found.target, found.golden],
            difference: found.abs,
        }
    }
}

/// The elements of a tensor in row-major order, and a zero for those after its end.
struct Flat<'a> {
    dtype: ulpscope_tensor::DType,
    bytes: Cow<'a, [u8]>,
    zero: Vec<u8>,
    len: usize,
}

impl<'a> Flat<'a> {
    fn of(view: &View<'a>) -> Flat<'a> {
        let dtype = view.dtype();
        Flat { dtype, bytes: view.to_packed(), zero: vec![0; dtype.size()], len: view.len() }
    }

    /// Elements that are all within the tensor, or all after its end.
    fn part(&self, start: usize, end: usize) -> View<'_> {
        let size = self.dtype.size();
        let (bytes, stride, origin) =
            if start < self.len { (&*self.bytes, size as isize, start * size) } else { (&*self.zero, 0, 0) };
        View::strided(self.dtype, vec![end - start], vec![stride], bytes, origin)
            .expect("the elements are within the bytes")
    }

    fn get(&self, index: usize) -> Scalar {
        self.part(index, index + 1).get(0)
    }

    fn pair(&self, other: &Flat<'_>, index: usize) -> ElementPair {
        let values = [self.get(index), other.get(index)];
        let difference = match values {
            [Scalar::Int(left), Scalar::Int(right)] => left.abs_diff(right) as f64,
            [Scalar::Complex(re, im), Scalar::Complex(other_re, other_im)] => {
                (re - other_re).hypot(im - other_im)
            }
            [left, right] if left.to_f64() == right.to_f64() => 0.0,
            [left, right] => (left.to_f64() - right.to_f64()).abs(),
        };
        ElementPair { index: index as u64, values, difference }
    }
}
