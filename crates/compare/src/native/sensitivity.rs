//! How an operation hands errors on.
//!
//! Of an unknown operation we expect that a relative error of an argument is one of the result. Where results may be much
//! smaller than what they are computed from, that is not so: of a sum that nearly cancels, or a gradient that is zero but
//! for rounding, hardly a digit is right. For the operations that do this everywhere, absolute errors are known to be
//! bounded or typical:
//!
//! ```text
//! copies and sums          |Δy| ≤ Σ |Δx|                     (repeated or added up: × √ of how often)
//! mild functions           |Δy| ≤ 1.13 |Δx|
//! products by element      |Δy| ≤ max|b| |Δa| + max|a| |Δb|
//! products of matrices     |Δy| ≈ |Δa| |b| / √k              for errors that know nothing of the other factor
//! ```
//! Gradients are handed back in the same way; they use the arguments of the forward call as far as the family says.

use super::observed::Extent;

/// Operations that hand errors on in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Copies, views and sums: their gradients do not depend on their arguments.
    Sum,
    /// Functions by element whose slope is nowhere much above 1.
    Mild,
    /// Products by element.
    Product,
    /// Products of matrices, and convolutions.
    Contraction,
    /// Anything else.
    Other,
}

/// The steepest of the mild functions is GELU, with a slope of 1.13.
const SLOPE: f64 = 1.13;

const SUMS: [&str; 54] = [
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
    "embedding",
    "sum",
    "mean",
    "movedim",
    "index_add",
];
const MILD: [&str; 12] = [
    "abs",
    "relu",
    "leaky_relu",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "clamp",
    "masked_fill",
    "where",
    "dropout",
    "hardtanh",
];
const PRODUCTS: [&str; 4] = ["mul", "imul", "rmul", "multiply"];
const CONTRACTIONS: [&str; 19] = [
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
    pub(super) fn of(base: &str, is_backward: bool) -> Family {
        let name = base.rsplit('.').next().unwrap_or(base).trim_matches('_');
        if SUMS.contains(&name) {
            Family::Sum
        } else if MILD.contains(&name) || is_backward && name.ends_with("softmax") {
            // The gradient of a softmax is a difference of gradients, each times a probability.
            Family::Mild
        } else if PRODUCTS.contains(&name) {
            Family::Product
        } else if CONTRACTIONS.contains(&name) {
            Family::Contraction
        } else {
            Family::Other
        }
    }

    /// By how much an absolute error of `from` may show in `to`, beyond what their sizes tell; `partner` is the other
    /// factor of a product.
    pub(super) fn slope(self, from: &Extent, to: &Extent, partner: Option<&Extent>) -> f64 {
        let mut repeated = (to.count / from.count.max(1.0)).max(1.0).sqrt();
        // Statistics show of an error what all elements share, and that does not average out in a sum.
        if !from.by_elements {
            repeated *= (from.count / to.count.max(1.0)).max(1.0).sqrt();
        }
        match (self, partner) {
            (Family::Sum, _) | (Family::Contraction, None) => repeated,
            (Family::Mild, _) => SLOPE * repeated,
            (Family::Product, Some(partner)) => partner.largest * repeated,
            (Family::Contraction, Some(partner)) => partner.norm / terms(from, partner, to).sqrt(),
            (Family::Product, None) | (Family::Other, _) => 0.0,
        }
    }
}

/// The length of the sums in a product of matrices: of `m × k` and `k × n` elements, `m × n` are left.
pub(super) fn terms(one: &Extent, other: &Extent, product: &Extent) -> f64 {
    (one.count * other.count / product.count.max(1.0)).sqrt().max(1.0)
}
