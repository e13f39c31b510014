//! A tensor's values as text: one line per row of the last axis, each number as short as possible while it still reads
//! back as the same value.

use std::io::{self, Write};

use ulpscope_report::{format_shortest, format_shortest_f32};
use ulpscope_tensor::{DType, Scalar, View};

/// Elements decoded at a time.
const BLOCK: usize = 1 << 14;

/// Writes every element of `view`. Booleans are `True` and `False`, as in numpy.
pub(crate) fn write_text(view: &View<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (dtype, size) = (view.dtype(), view.dtype().size());
    let row = view.shape().last().copied().unwrap_or(1);
    let mut block = vec![0; BLOCK.min(view.len()) * size];
    let mut at = 0;
    while at < view.len() {
        let count = BLOCK.min(view.len() - at);
        let part = &mut block[..count * size];
        view.gather(at, part);
        for element in part.chunks_exact(size) {
            write_scalar(dtype, Scalar::read(dtype, element), out)?;
            at += 1;
            out.write_all(if at.is_multiple_of(row) { b"\n" } else { b" " })?;
        }
    }
    Ok(())
}

fn write_scalar(dtype: DType, scalar: Scalar, out: &mut dyn Write) -> io::Result<()> {
    let is_single = dtype.significant_bits() <= f32::MANTISSA_DIGITS;
    let number =
        |value: f64| if is_single { format_shortest_f32(value as f32) } else { format_shortest(value) };
    match scalar {
        Scalar::Float(value) => out.write_all(number(value).as_bytes()),
        Scalar::Int(value) => write!(out, "{value}"),
        Scalar::Bool(value) => out.write_all(if value { b"True" } else { b"False" }),
        Scalar::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            write!(out, "{}{sign}{}j", number(re), number(im))
        }
    }
}
