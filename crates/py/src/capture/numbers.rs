//! Statistics of a tensor as `dump.json` has them.

use ulpscope_kernels::Stats;
use ulpscope_tensor::{Scalar, push_python_float};

/// Appends a float; what is not finite in the words of Python's `json`.
pub(super) fn push_float(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        push_python_float(value, out);
    }
}

/// Appends an integer.
pub(super) fn push_int(value: i128, out: &mut Vec<u8>) {
    // Nearly all of them are short.
    match i64::try_from(value) {
        Ok(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
        Err(_) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
    }
}

fn push_scalar(value: Option<Scalar>, out: &mut Vec<u8>) {
    match value {
        None => out.extend_from_slice(b"null"),
        Some(Scalar::Float(value)) => push_float(value, out),
        Some(Scalar::Int(value)) => push_int(value, out),
        Some(Scalar::Bool(value)) => out.extend_from_slice(if value { b"true" } else { b"false" }),
        Some(value @ Scalar::Complex(..)) => push_float(value.to_f64(), out),
    }
}

/// Appends `"Max":…,"Min":…,"Mean":…,"Norm":…`. A tensor without dimensions has its value in all four.
pub(super) fn push_stats(stats: &Stats, is_scalar: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"Max\":");
    push_scalar(stats.max, out);
    out.extend_from_slice(b",\"Min\":");
    push_scalar(stats.min, out);
    out.extend_from_slice(b",\"Mean\":");
    if is_scalar {
        push_scalar(stats.max, out);
        out.extend_from_slice(b",\"Norm\":");
        return push_scalar(stats.max, out);
    }
    match stats.mean {
        Some(mean) => push_float(mean, out),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b",\"Norm\":");
    match stats.count {
        0 => out.extend_from_slice(b"null"),
        _ => push_float(stats.norm, out),
    }
}

/// Appends the four statistics of a tensor that cannot be read.
pub(super) fn push_no_stats(out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"Max\":null,\"Min\":null,\"Mean\":null,\"Norm\":null");
}

/// Appends the counts of what is not finite, and the extrema of the rest, if there is any such element.
pub(super) fn push_non_finite(stats: &Stats, out: &mut Vec<u8>) {
    let infinite = stats.pos_inf + stats.neg_inf;
    if stats.nan + infinite == 0 {
        return;
    }
    out.extend_from_slice(b",\"nan\":");
    push_int(stats.nan.into(), out);
    out.extend_from_slice(b",\"inf\":");
    push_int(infinite.into(), out);
    out.extend_from_slice(b",\"finite_max\":");
    push_scalar(stats.finite_max, out);
    out.extend_from_slice(b",\"finite_min\":");
    push_scalar(stats.finite_min, out);
}
