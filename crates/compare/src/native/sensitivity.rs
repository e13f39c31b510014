//! How an operation hands errors on.
//!
//! Of an unknown operation we expect that a relative error of an argument is one of the result. Where results may be much
//! smaller than what they are computed from, that is not so: of a sum that nearly cancels, or a gradient that is zero but
//! for rounding, hardly a digit is right. For the operations that do this everywhere, absolute errors are known to be
//! bounded or typical:
//!
//! ```text
//! copies, sums, mild functions   |Δy| ≤ 1.13 Σ |Δx|     (repeated or added up: × √ of how often)
//! products by element            |Δy| ≤ max|b| |Δa| + max|a| |Δb|
//! products of matrices           |Δy| ≈ |Δa| |b| / √k     for errors that know nothing of the other factor
//! ```

use super::observed::Extent;

/// Operations that hand errors on in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Copies, views, sums, and functions whose slope is nowhere much above 1.
    Additive,
    /// Products by element.
    Elementwise,
    /// Products of matrices, and convolutions.
    Contraction,
    /// Anything else.
    Other,
}

/// The steepest of the mild functions is GELU, with a slope of 1.13.
const SLOPE: f64 = 1.13;

const ADDITIVE: [&str; 63] = [
    "abs",
    "add",
    "iadd",
    "radd",
    "sub",
    "isub",
    "rsub",
    "subtract",
    "neg",
    "cat",
    "concat",
    "stack",
    "hstack",
    "vstack",
    "view",
    "reshape",
    "transpose",
    "permute",
    "flatten",
    "unflatten",
    "squeeze",
    "unsqueeze",
    "contiguous",
    "clone",
    "detach",
    "chunk",
    "split",
    "unbind",
    "getitem",
    "setitem",
    "narrow",
    "select",
    "index_select",
    "gather",
    "expand",
    "expand_as",
    "repeat",
    "repeat_interleave",
    "roll",
    "flip",
    "pad",
    "copy",
    "to",
    "float",
    "double",
    "half",
    "bfloat16",
    "type",
    "t",
    "T",
    "relu",
    "leaky_relu",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "clamp",
    "masked_fill",
    "where",
    "embedding",
    "sum",
    "mean",
    "movedim",
];
const ELEMENTWISE: [&str; 7] = ["mul", "imul", "rmul", "multiply", "div", "truediv", "itruediv"];
const CONTRACTION: [&str; 19] = [
    "linear",
    "matmul",
    "imatmul",
    "rmatmul",
    "mm",
    "bmm",
    "addmm",
    "addbmm",
    "baddbmm",
    "einsum",
    "bilinear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "inner",
    "outer",
];

impl Family {
    /// The family of a call, by its base: `Functional.linear`, `Tensor.__add__`, `Tensor.mul_`.
    pub(super) fn of(base: &str) -> Family {
        let name = base.rsplit('.').next().unwrap_or(base).trim_matches('_');
        if ADDITIVE.contains(&name) {
            Family::Additive
        } else if ELEMENTWISE.contains(&name) {
            Family::Elementwise
        } else if CONTRACTION.contains(&name) {
            Family::Contraction
        } else {
            Family::Other
        }
    }

    /// By how much an absolute error of `from` may show in `to`, beyond what their sizes tell; `others` are the other
    /// arguments.
    pub(super) fn slope(self, from: &Extent, to: &Extent, others: &[&Extent]) -> f64 {
        match self {
            Family::Additive => SLOPE * (to.count / from.count.max(1.0)).max(1.0).sqrt(),
            Family::Elementwise => {
                let largest = others.iter().map(|other| other.largest).fold(0.0, f64::max);
                largest * (to.count / from.count.max(1.0)).max(1.0).sqrt()
            }
            Family::Contraction => {
                let through = |other: &&Extent| other.norm / terms(from, other, to).sqrt();
                let added = if to.count <= from.count { 1.0 } else { 0.0 };
                others.iter().map(through).fold(added, f64::max)
            }
            Family::Other => 0.0,
        }
    }
}

/// The length of the sums in a product of matrices: of `m × k` and `k × n` elements, `m × n` are left.
pub(super) fn terms(one: &Extent, other: &Extent, product: &Extent) -> f64 {
    (one.count * other.count / product.count.max(1.0)).sqrt().max(1.0)
}
