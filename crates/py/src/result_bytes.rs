//! Results as bytes: for pickles, and for equality of results (bit by bit, so that a NaN equals itself).

use std::hash::{DefaultHasher, Hasher};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::Value as Json;
use ulpscope_compare::results::Described;
use ulpscope_kernels as kernels;
use ulpscope_report::{Cell, Emphasis, Row};
use ulpscope_tensor::{DType, Scalar};

/// Changes with the layout of any result: only the version that wrote a pickle reads it.
const LAYOUT: u64 = 3;

/// The deepest nesting of lists and objects. A result has far fewer levels, and the stack has room for these.
const MAX_DEPTH: usize = 64;

/// Something that can be written as bytes and read back. Reading trusts nothing: it returns `None` if bytes are missing
/// or invalid.
pub(crate) trait Packed: Sized {
    fn pack(&self, out: &mut Vec<u8>);
    fn unpack(from: &mut &[u8]) -> Option<Self>;

    fn packed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.pack(&mut out);
        out
    }
}

/// The answer for Python's `pickle`: the function that restores a result, and its arguments.
pub(crate) type Reduced<'py> = (Bound<'py, PyAny>, (&'static str, Bound<'py, PyBytes>));

pub(crate) fn reduce<'py>(
    py: Python<'py>,
    kind: &'static str,
    result: &impl Packed,
) -> PyResult<Reduced<'py>> {
    let restore = py.import("ulpscope._core")?.getattr("restore")?;
    let mut bytes = LAYOUT.packed();
    result.pack(&mut bytes);
    Ok((restore, (kind, PyBytes::new(py, &bytes))))
}

/// Whether two results of one kind are equal.
pub(crate) fn same<T: Packed>(one: &T, other: Option<&T>) -> bool {
    other.is_some_and(|other| one.packed() == other.packed())
}

pub(crate) fn hash(result: &impl Packed) -> u64 {
    hash_of_bytes(&result.packed())
}

pub(crate) fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// The result from the bytes of a pickle.
pub(crate) fn restored<T: Packed>(mut bytes: &[u8]) -> PyResult<T> {
    let from = &mut bytes;
    if u64::unpack(from) != Some(LAYOUT) {
        let version = env!("CARGO_PKG_VERSION");
        return Err(PyValueError::new_err(format!(
            "the pickle is of a different version of ulpscope than this one, {version}: compute the result again"
        )));
    }
    let result = T::unpack(from).filter(|_| from.is_empty());
    result.ok_or_else(|| PyValueError::new_err("the pickle of a result is damaged: compute the result again"))
}

/// A structure is written as its fields, in order.
macro_rules! packed {
    ($($kind:ty { $($field:ident),+ $(,)? })+) => {$(
        impl $crate::result_bytes::Packed for $kind {
            fn pack(&self, out: &mut Vec<u8>) {
                $($crate::result_bytes::Packed::pack(&self.$field, out);)+
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::result_bytes::Packed::unpack(from)?),+ })
            }
        }
    )+};
}
pub(crate) use packed;

packed! {
    kernels::Stats {
        count, max, min, mean, norm, nan, pos_inf, neg_inf, zeros, subnormals, finite_max, finite_min,
    }
    kernels::NonFinite {
        target_nan, golden_nan, both_nan, target_pos_inf, golden_pos_inf, both_pos_inf, target_neg_inf,
        golden_neg_inf, both_neg_inf, mismatched,
    }
    kernels::Distances {
        count, finite, equal, cosine, euclid, rel_l2, rmse, max_abs, max_rel, under_1e3, under_5e3, zero_golden,
        non_finite, worst_index,
    }
    kernels::ExponentHistogram { zeros, rows }
    kernels::Comparison {
        distances, mean_abs, mean_rel, mape, accumulated_rel, over_tolerance, needed_atol, needed_rtol, max_ulp,
        mean_ulp, exponents,
    }
    kernels::ElementDiff { index, target, golden, abs, rel }
    Described { dtype, shape }
    Row { cells, emphasis }
}

/// Numbers are written as their bytes.
macro_rules! numbers {
    ($($kind:ty)+) => {$(
        impl Packed for $kind {
            fn pack(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn unpack(from: &mut &[u8]) -> Option<Self> {
                let (number, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(Self::from_le_bytes(*number))
            }
        }
    )+};
}

numbers! { u8 i32 i64 u64 i128 f32 f64 }

impl Packed for usize {
    fn pack(&self, out: &mut Vec<u8>) {
        (*self as u64).pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        usize::try_from(u64::unpack(from)?).ok()
    }
}

impl Packed for bool {
    fn pack(&self, out: &mut Vec<u8>) {
        u8::from(*self).pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        match u8::unpack(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Packed for String {
    fn pack(&self, out: &mut Vec<u8>) {
        self.len().pack(out);
        out.extend(self.as_bytes());
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let length = usize::unpack(from)?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        String::from_utf8(text.to_vec()).ok()
    }
}

impl<T: Packed> Packed for Option<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.is_some().pack(out);
        if let Some(value) = self {
            value.pack(out);
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(if bool::unpack(from)? { Some(T::unpack(from)?) } else { None })
    }
}

impl<T: Packed> Packed for Vec<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.len().pack(out);
        self.iter().for_each(|item| item.pack(out));
    }

    /// Grows as items are read: a large count alone allocates nothing.
    fn unpack(from: &mut &[u8]) -> Option<Self> {
        (0..usize::unpack(from)?).map(|_| T::unpack(from)).collect()
    }
}

impl<A: Packed, B: Packed> Packed for (A, B) {
    fn pack(&self, out: &mut Vec<u8>) {
        self.0.pack(out);
        self.1.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some((A::unpack(from)?, B::unpack(from)?))
    }
}

impl<A: Packed, B: Packed, C: Packed> Packed for (A, B, C) {
    fn pack(&self, out: &mut Vec<u8>) {
        self.0.pack(out);
        self.1.pack(out);
        self.2.pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some((A::unpack(from)?, B::unpack(from)?, C::unpack(from)?))
    }
}

impl Packed for DType {
    fn pack(&self, out: &mut Vec<u8>) {
        self.name().to_owned().pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        String::unpack(from)?.parse().ok()
    }
}

impl Packed for Scalar {
    fn pack(&self, out: &mut Vec<u8>) {
        match *self {
            Scalar::Float(value) => (0u8, value).pack(out),
            Scalar::Int(value) => (1u8, value).pack(out),
            Scalar::Bool(value) => (2u8, value).pack(out),
            Scalar::Complex(re, im) => (3u8, re, im).pack(out),
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::unpack(from)? {
            0 => Scalar::Float(f64::unpack(from)?),
            1 => Scalar::Int(i128::unpack(from)?),
            2 => Scalar::Bool(bool::unpack(from)?),
            3 => Scalar::Complex(f64::unpack(from)?, f64::unpack(from)?),
            _ => return None,
        })
    }
}

impl Packed for Emphasis {
    fn pack(&self, out: &mut Vec<u8>) {
        (*self as u8).pack(out);
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        let all = [Emphasis::Plain, Emphasis::Good, Emphasis::Warn, Emphasis::Bad];
        all.get(usize::from(u8::unpack(from)?)).copied()
    }
}

impl Packed for Cell {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Cell::Missing => 0u8.pack(out),
            Cell::Text(text) => {
                1u8.pack(out);
                text.pack(out);
            }
            Cell::Int(value) => (2u8, *value).pack(out),
            Cell::Number(value) => (3u8, *value).pack(out),
            Cell::Exact(value) => (4u8, *value).pack(out),
            Cell::ExactSingle(value) => (5u8, *value).pack(out),
            Cell::Share(value) => (6u8, *value).pack(out),
            Cell::Complex(re, im) => (7u8, *re, *im).pack(out),
            Cell::Flag(flag) => (8u8, *flag).pack(out),
            Cell::List(cells) => {
                9u8.pack(out);
                cells.pack(out);
            }
            Cell::Index { flat, coordinates } => {
                (10u8, *flat).pack(out);
                coordinates.pack(out);
            }
            // No row holds one: its names are the program's own.
            Cell::Record(_) => {
                1u8.pack(out);
                self.to_string().pack(out);
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        cell_within(MAX_DEPTH, from)
    }
}

/// A cell with lists of at most this depth.
fn cell_within(depth: usize, from: &mut &[u8]) -> Option<Cell> {
    Some(match u8::unpack(from)? {
        0 => Cell::Missing,
        1 => Cell::Text(String::unpack(from)?),
        2 => Cell::Int(i128::unpack(from)?),
        3 => Cell::Number(f64::unpack(from)?),
        4 => Cell::Exact(f64::unpack(from)?),
        5 => Cell::ExactSingle(f32::unpack(from)?),
        6 => Cell::Share(f64::unpack(from)?),
        7 => Cell::Complex(f64::unpack(from)?, f64::unpack(from)?),
        8 => Cell::Flag(bool::unpack(from)?),
        9 => {
            let depth = depth.checked_sub(1)?;
            let cells = (0..usize::unpack(from)?).map(|_| cell_within(depth, from));
            Cell::List(cells.collect::<Option<_>>()?)
        }
        10 => Cell::Index { flat: u64::unpack(from)?, coordinates: Vec::unpack(from)? },
        _ => return None,
    })
}

impl Packed for Json {
    fn pack(&self, out: &mut Vec<u8>) {
        match self {
            Json::Null => 0u8.pack(out),
            Json::Bool(flag) => (1u8, *flag).pack(out),
            // As bits: text would lose the last bit of some floats.
            Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), _, _) => (2u8, number).pack(out),
                (_, Some(number), _) => (3u8, number).pack(out),
                (_, _, number) => (4u8, number.unwrap_or(f64::NAN)).pack(out),
            },
            Json::String(text) => {
                5u8.pack(out);
                text.pack(out);
            }
            Json::Array(items) => {
                6u8.pack(out);
                items.pack(out);
            }
            Json::Object(fields) => {
                (7u8, fields.len()).pack(out);
                for (name, value) in fields {
                    name.pack(out);
                    value.pack(out);
                }
            }
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        json_within(MAX_DEPTH, from)
    }
}

/// A value with lists and objects of at most this depth.
fn json_within(depth: usize, from: &mut &[u8]) -> Option<Json> {
    Some(match u8::unpack(from)? {
        0 => Json::Null,
        1 => Json::Bool(bool::unpack(from)?),
        2 => i64::unpack(from)?.into(),
        3 => u64::unpack(from)?.into(),
        4 => f64::unpack(from)?.into(),
        5 => Json::String(String::unpack(from)?),
        6 => {
            let depth = depth.checked_sub(1)?;
            let items = (0..usize::unpack(from)?).map(|_| json_within(depth, from));
            Json::Array(items.collect::<Option<_>>()?)
        }
        7 => {
            let depth = depth.checked_sub(1)?;
            let fields =
                (0..usize::unpack(from)?).map(|_| Some((String::unpack(from)?, json_within(depth, from)?)));
            Json::Object(fields.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_short_or_means_nothing_is_refused() {
        let row = Row {
            cells: vec![
                Cell::text("ρ"),
                Cell::Int(-(1 << 100)),
                Cell::Number(f64::NAN),
                Cell::List(vec![Cell::Missing, Cell::Flag(true)]),
                Cell::Index { flat: 7, coordinates: vec![1, 3] },
            ],
            emphasis: Emphasis::Bad,
        };
        let packed = row.packed();
        let again = Row::unpack(&mut packed.as_slice()).map(|row| row.packed());
        assert_eq!(again.as_ref(), Some(&packed));
        for end in 0..packed.len() {
            assert!(Row::unpack(&mut &packed[..end]).is_none(), "{end}");
        }
        let endless = u64::MAX.packed();
        assert!(Vec::<String>::unpack(&mut endless.as_slice()).is_none());
        assert!(Cell::unpack(&mut [99u8].as_slice()).is_none());
    }
}
