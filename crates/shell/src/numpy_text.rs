//! Numbers and arrays as NumPy prints them, and as its `savetxt` writes them.

use std::io::{self, Write};

use half::{bf16, f16};
use ulpscope_report::{format_digits, format_shortest_f32};
use ulpscope_tensor::{DType, Scalar, View, python_float_repr};

/// Significant digits of `%g`.
const G_DIGITS: usize = 6;

/// Elements decoded at a time.
const BLOCK: usize = 1 << 14;

/// Arrays with more elements are shortened.
const SHORTENED_FROM: usize = 1000;

/// Elements that a shortened array shows at each end of a dimension.
const EDGE: usize = 3;

/// Where a row of an array is broken.
const LINE_WIDTH: usize = 75;

/// How many digits a dtype is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Digits {
    Half,
    Brain,
    Single,
    Double,
}

impl Digits {
    /// Those of a dtype itself.
    pub(crate) fn of(dtype: DType) -> Digits {
        match dtype {
            DType::F16 => Digits::Half,
            DType::BF16 => Digits::Brain,
            dtype if dtype.is_integer() => Digits::Double,
            dtype if dtype.significant_bits() <= f32::MANTISSA_DIGITS => Digits::Single,
            _ => Digits::Double,
        }
    }

    /// A real number.
    pub(crate) fn float(self, value: f64) -> String {
        // A mean lies between two numbers of the dtype: the nearest one is printed.
        let value = match self {
            Digits::Half => f16::from_f64(value).to_f64(),
            Digits::Brain => bf16::from_f64(value).to_f64(),
            Digits::Single | Digits::Double => value,
        };
        let text = match self {
            Digits::Double => return python_float_repr(value),
            Digits::Single => format_shortest_f32(value as f32),
            Digits::Half => shortest(value, |text| {
                text.parse().is_ok_and(|read: f32| f16::from_f32(read) == f16::from_f64(value))
            }),
            Digits::Brain => shortest(value, |text| {
                text.parse().is_ok_and(|read: f32| bf16::from_f32(read) == bf16::from_f64(value))
            }),
        };
        with_point(text)
    }

    /// Any element.
    pub(crate) fn scalar(self, value: Scalar) -> String {
        match value {
            Scalar::Float(value) => self.float(value),
            Scalar::Int(value) => value.to_string(),
            Scalar::Bool(value) => if value { "True" } else { "False" }.to_owned(),
            Scalar::Complex(re, im) => {
                let sign = if im.is_sign_negative() { "" } else { "+" };
                format!("({}{sign}{}j)", self.float(re), self.float(im))
            }
        }
    }
}

/// The fewest significant digits that read back as the same number.
fn shortest(value: f64, is_same: impl Fn(&str) -> bool) -> String {
    let candidates = (1..=9).map(|digits| format_digits(value, digits));
    let zero_sign = if value == 0.0 && value.is_sign_negative() { "-" } else { "" };
    let found = candidates.clone().find(|text| is_same(text));
    format!("{zero_sign}{}", found.unwrap_or_else(|| format_digits(value, 9)))
}

fn with_point(text: String) -> String {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') { text + ".0" } else { text }
}

/// A shape as a tuple of Python: `(2, 3)`, `(6,)`, `()`.
pub(crate) fn shape(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        several => {
            format!("({})", several.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Writes every element as `%g`, blanks between them, a line for each row of the last dimension. Integers are written
/// in full.
pub(crate) fn save_text(
    view: &View<'_>,
    go_on: &dyn Fn() -> io::Result<()>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (dtype, size) = (view.dtype(), view.dtype().size());
    let row = view.shape().last().copied().unwrap_or(1);
    let mut block = vec![0; BLOCK.min(view.len()) * size];
    let mut at = 0;
    while at < view.len() {
        go_on()?;
        let count = BLOCK.min(view.len() - at);
        let part = &mut block[..count * size];
        view.gather(at, part);
        for element in part.chunks_exact(size) {
            write_g(Scalar::read(dtype, element), out)?;
            at += 1;
            out.write_all(if at.is_multiple_of(row) { b"\n" } else { b" " })?;
        }
    }
    Ok(())
}

fn write_g(value: Scalar, out: &mut dyn Write) -> io::Result<()> {
    let g = |value: f64| {
        let sign = if value == 0.0 && value.is_sign_negative() { "-" } else { "" };
        format!("{sign}{}", format_digits(value, G_DIGITS))
    };
    match value {
        Scalar::Float(value) => out.write_all(g(value).as_bytes()),
        Scalar::Int(value) => write!(out, "{value}"),
        Scalar::Bool(value) => write!(out, "{}", u8::from(value)),
        Scalar::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            write!(out, "({}{sign}{}j)", g(re), g(im))
        }
    }
}

/// An array in nested brackets; a long one is shortened to the first and last elements of each dimension.
pub(crate) fn array(view: &View<'_>) -> String {
    let digits = Digits::of(view.dtype());
    if view.shape().is_empty() {
        return digits.scalar(view.get(0));
    }
    if view.is_empty() {
        return "[]".to_owned();
    }
    let shown = Shown { view, digits, is_short: view.len() > SHORTENED_FROM };
    let mut texts = Vec::new();
    shown.collect(0, 0, &mut texts);
    let width = texts.iter().map(String::len).max().unwrap_or(0);
    let mut out = String::new();
    shown.push(0, width, &mut texts.into_iter(), &mut out);
    out
}

struct Shown<'a, 'v> {
    view: &'a View<'v>,
    digits: Digits,
    is_short: bool,
}

impl Shown<'_, '_> {
    /// The positions of a dimension that are shown; nothing stands for those left out.
    fn positions(&self, dimension: usize) -> Vec<Option<usize>> {
        let size = self.view.shape()[dimension];
        if !self.is_short || size <= 2 * EDGE {
            return (0..size).map(Some).collect();
        }
        (0..EDGE).map(Some).chain([None]).chain((size - EDGE..size).map(Some)).collect()
    }

    fn collect(&self, dimension: usize, start: usize, texts: &mut Vec<String>) {
        let inner: usize = self.view.shape()[dimension + 1..].iter().product();
        for position in self.positions(dimension).into_iter().flatten() {
            let at = start + position * inner;
            if dimension + 1 == self.view.shape().len() {
                texts.push(self.digits.scalar(self.view.get(at)));
            } else {
                self.collect(dimension + 1, at, texts);
            }
        }
    }

    fn push(
        &self,
        dimension: usize,
        width: usize,
        texts: &mut dyn Iterator<Item = String>,
        out: &mut String,
    ) {
        let rank = self.view.shape().len();
        let indent = " ".repeat(dimension + 1);
        out.push('[');
        let mut line = dimension + 1;
        for (count, position) in self.positions(dimension).into_iter().enumerate() {
            if dimension + 1 < rank {
                if count > 0 {
                    out.push_str(&"\n".repeat(rank - dimension - 1));
                    out.push_str(&indent);
                }
                match position {
                    Some(_) => self.push(dimension + 1, width, texts, out),
                    None => out.push_str("..."),
                }
                continue;
            }
            let text = match position {
                Some(_) => format!("{:>width$}", texts.next().unwrap_or_default()),
                None => "...".to_owned(),
            };
            if count > 0 && line + text.len() + 1 > LINE_WIDTH {
                out.push('\n');
                out.push_str(&indent);
                line = dimension + 1;
            } else if count > 0 {
                out.push(' ');
                line += 1;
            }
            line += text.len();
            out.push_str(&text);
        }
        out.push(']');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn numbers_have_the_digits_of_their_dtype() {
        assert_eq!(Digits::Single.float(f64::from(2.493_874_9e-5_f32)), "2.4938749e-05");
        assert_eq!(Digits::Single.float(0.0), "0.0");
        assert_eq!(Digits::Single.float(-0.0), "-0.0");
        assert_eq!(Digits::Half.float(f16::from_f32(0.829).to_f64()), "0.829");
        assert_eq!(Digits::Half.float(f16::from_bits(0x0011).to_f64()), "1e-06");
        assert_eq!(Digits::Half.float(65504.0), "65500.0");
        assert_eq!(Digits::Double.float(3.5), "3.5");
        assert_eq!(Digits::Single.float(f64::NAN), "nan");
        assert_eq!(Digits::Single.float(f64::NEG_INFINITY), "-inf");
        assert_eq!([shape(&[]), shape(&[6]), shape(&[2, 3])], ["()", "(6,)", "(2, 3)"]);
    }

    #[test]
    fn arrays_are_nested_and_shortened() {
        let bytes: Vec<u8> = (0..6_i32).flat_map(i32::to_le_bytes).collect();
        let view = View::contiguous(DType::I32, vec![2, 3], &bytes).unwrap();
        assert_eq!(array(&view), "[[0 1 2]\n [3 4 5]]");
        let bytes: Vec<u8> = (0..2000_i32).flat_map(i32::to_le_bytes).collect();
        let view = View::contiguous(DType::I32, vec![2000], &bytes).unwrap();
        assert_eq!(array(&view), "[   0    1    2 ... 1997 1998 1999]");
    }
}
