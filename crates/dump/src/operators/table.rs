//! What is known of operations, one row each.
//!
//! Names are those of [`super::ApiName::operation`]: without underscores, `i` and `r`, and `foreach_`. What is said of an
//! operation in place alone is said of nothing else: `normal_` overwrites, `normal` does not.

use super::Family;
use super::Family::{
    Contraction, Deviation, Exponential, LogSoftmax, Logarithm, Mild, Norm, Other, Periodic, Power, Product,
    Rescaling, Softmax, Sum, Variance,
};
use super::Trait;
use super::Trait::{
    CopiesLate, Covers, Draws, Exchanges, Gates, IgnoresValues, KeepsOrder, KeepsPlaces, Loops, Mixes,
    Normalises, Overwrites, Picks, Ranks, Rearranges, Reduces, Reorders, Repeats, ReplacesMemory, Reshapes,
    ReturnsBlank, Rounds, SharesElements, Steep,
};

/// An operation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// How it hands errors on.
    pub(super) family: Family,
    pub(super) traits: &'static [Trait],
    /// The position of the argument that is added to a product of the others.
    pub(super) added: Option<&'static str>,
}

const fn row(name: &'static str, family: Family, traits: &'static [Trait]) -> Row {
    Row { name, family, traits, added: None }
}

impl Row {
    const fn adding(self, position: &'static str) -> Row {
        Row { added: Some(position), ..self }
    }
}

/// The row of an operation.
pub(super) fn row_of(operation: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|row| row.name.cmp(operation)).ok().map(|at| &ROWS[at])
}

/// What the name of an operation without a row tells: variants of one operation have many names, and libraries add theirs.
pub(super) fn traits_by_name(operation: &str) -> impl Iterator<Item = Trait> {
    PATTERNS.iter().filter(move |(pattern, _)| pattern.matches(operation)).map(|&(_, found)| found)
}

enum Pattern {
    Contains(&'static str),
    Starts(&'static str),
    Ends(&'static str),
}

impl Pattern {
    fn matches(&self, operation: &str) -> bool {
        match self {
            Pattern::Contains(word) => operation.contains(word),
            Pattern::Starts(word) => operation.starts_with(word),
            Pattern::Ends(word) => operation.ends_with(word),
        }
    }
}

const PATTERNS: [(Pattern, Trait); 16] = [
    (Pattern::Contains("max_pool"), Gates),
    (Pattern::Contains("sort"), Ranks),
    (Pattern::Contains("unique"), Ranks),
    (Pattern::Contains("dropout"), KeepsPlaces),
    (Pattern::Contains("softmax"), Mixes),
    (Pattern::Contains("_norm"), Mixes),
    (Pattern::Contains("attention"), Mixes),
    (Pattern::Contains("pool"), Mixes),
    (Pattern::Contains("loss"), Mixes),
    (Pattern::Contains("entropy"), Mixes),
    (Pattern::Contains("lstm"), Mixes),
    (Pattern::Contains("gru"), Mixes),
    (Pattern::Ends("loss"), Reduces),
    (Pattern::Ends("entropy"), Reduces),
    (Pattern::Ends("_like"), IgnoresValues),
    (Pattern::Starts("new_"), IgnoresValues),
];

/// In the order of their names.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("H", Sum, &[Reorders, Rearranges]),
    row("T", Sum, &[Reorders, Rearranges]),
    row("abs", Mild, &[Gates]),
    row("add", Sum, &[]),
    row("addbmm", Contraction, &[]).adding("0"),
    row("addcdiv", Other, &[Steep]),
    row("addmm", Contraction, &[]).adding("0"),
    row("adjoint", Sum, &[Reorders, Rearranges]),
    row("alias", Sum, &[KeepsPlaces, Rearranges]),
    row("all_reduce", Other, &[Exchanges]),
    row("all_reduce_coalesced", Other, &[Exchanges]),
    row("alpha_dropout", Other, &[Draws, KeepsPlaces]),
    row("amax", Other, &[Gates, Picks]),
    row("amin", Other, &[Gates, Picks]),
    row("as_strided", Sum, &[Repeats, Rearranges]),
    row("baddbmm", Contraction, &[]).adding("0"),
    row("batch_norm", Norm, &[Mixes, Normalises]),
    row("bernoulli", Other, &[Draws, Overwrites]),
    row("bfloat16", Sum, &[KeepsPlaces]),
    row("bilinear", Contraction, &[]).adding("3"),
    row("binomial", Other, &[Draws]),
    row("bmm", Contraction, &[]),
    row("broadcast", Other, &[Exchanges]),
    row("cat", Sum, &[Reorders]),
    row("cauchy", Other, &[Draws, Overwrites]),
    row("ceil", Other, &[Rounds]),
    row("chunk", Sum, &[Reorders, Rearranges]),
    row("clamp", Mild, &[Gates]),
    row("clamp_max", Mild, &[Gates]),
    row("clamp_min", Mild, &[Gates]),
    row("clone", Sum, &[KeepsPlaces]),
    row("constant", Other, &[Overwrites]),
    row("contiguous", Sum, &[KeepsPlaces, Rearranges]),
    row("conv1d", Contraction, &[]).adding("2"),
    row("conv2d", Contraction, &[]).adding("2"),
    row("conv3d", Contraction, &[]).adding("2"),
    row("conv_tbc", Contraction, &[]).adding("2"),
    row("conv_transpose1d", Contraction, &[]).adding("2"),
    row("conv_transpose2d", Contraction, &[]).adding("2"),
    row("conv_transpose3d", Contraction, &[]).adding("2"),
    row("convolution", Contraction, &[]).adding("2"),
    row("copy", Sum, &[Overwrites, CopiesLate]),
    row("cos", Periodic, &[]),
    row("cpu", Sum, &[KeepsPlaces]),
    row("cross_entropy", LogSoftmax, &[Reduces, Mixes]),
    row("cuda", Sum, &[KeepsPlaces]),
    row("cummax", Other, &[Picks]),
    row("cummin", Other, &[Picks]),
    row("detach", Sum, &[KeepsPlaces, Rearranges, SharesElements]),
    row("diagonal", Sum, &[Reorders, Rearranges]),
    row("double", Sum, &[KeepsPlaces]),
    row("dropout", Mild, &[Covers, Draws, KeepsPlaces]),
    row("dropout1d", Mild, &[Covers, Draws, KeepsPlaces]),
    row("dropout2d", Mild, &[Covers, Draws, KeepsPlaces]),
    row("dropout3d", Mild, &[Covers, Draws, KeepsPlaces]),
    row("dsplit", Sum, &[Reorders, Rearranges]),
    row("efficientzerotensor", Other, &[ReturnsBlank]),
    row("einsum", Contraction, &[]),
    row("embedding", Sum, &[]),
    row("empty", Other, &[ReturnsBlank]),
    row("empty_like", Other, &[IgnoresValues, ReturnsBlank]),
    row("empty_permuted", Other, &[ReturnsBlank]),
    row("empty_quantized", Other, &[ReturnsBlank]),
    row("empty_strided", Other, &[ReturnsBlank]),
    row("exp", Exponential, &[]),
    row("exp2", Exponential, &[]),
    row("expand", Sum, &[Repeats, Rearranges]),
    row("expand_as", Sum, &[Repeats, Rearranges]),
    row("expm1", Exponential, &[]),
    row("exponential", Other, &[Draws, Overwrites]),
    row("fill", Other, &[Overwrites]),
    row("flatten", Sum, &[Reorders, Rearranges, Reshapes]),
    row("flip", Sum, &[Reorders]),
    row("float", Sum, &[KeepsPlaces]),
    row("float_power", Power, &[]),
    row("floor", Other, &[Rounds]),
    row("fmax", Other, &[Gates]),
    row("fmin", Other, &[Gates]),
    row("fused_adagrad", Other, &[Steep]),
    row("fused_adam", Other, &[Steep]),
    row("fused_adamw", Other, &[Steep]),
    row("gather", Sum, &[Reorders]),
    row("gelu", Mild, &[]),
    row("geometric", Other, &[Draws, Overwrites]),
    row("getitem", Sum, &[Reorders, Rearranges]),
    row("group_norm", Norm, &[Mixes, Normalises]),
    row("gru", Other, &[Loops, Mixes]),
    row("gumbel_softmax", Other, &[Draws, Mixes]),
    row("half", Sum, &[KeepsPlaces]),
    row("hardsigmoid", Mild, &[Gates]),
    row("hardswish", Other, &[Gates]),
    row("hardtanh", Mild, &[Gates]),
    row("hsplit", Sum, &[Reorders, Rearranges]),
    row("hstack", Sum, &[Reorders]),
    row("identity", Sum, &[KeepsPlaces]),
    row("index_add", Sum, &[]),
    row("index_select", Sum, &[Reorders]),
    row("inner", Contraction, &[]),
    row("instance_norm", Norm, &[Mixes, Normalises]),
    row("iter", Sum, &[Reorders, Rearranges]),
    row("kaiming_uniform", Other, &[Overwrites]),
    row("kthvalue", Other, &[Picks]),
    row("layer_norm", Norm, &[Mixes, Normalises]),
    row("leaky_relu", Mild, &[Gates]),
    row("lift_fresh", Sum, &[KeepsPlaces]),
    row("linear", Contraction, &[KeepsOrder]).adding("2"),
    row("log", Logarithm, &[]),
    row("log10", Logarithm, &[]),
    row("log2", Logarithm, &[]),
    row("log_normal", Other, &[Draws, Overwrites]),
    row("log_softmax", LogSoftmax, &[Mixes]),
    row("logsumexp", LogSoftmax, &[Reduces]),
    row("lstm", Other, &[Loops, Mixes]),
    row("mH", Sum, &[Reorders, Rearranges]),
    row("mT", Sum, &[Reorders, Rearranges]),
    row("masked_fill", Mild, &[Covers]),
    row("masked_scatter", Other, &[Covers]),
    row("matmul", Contraction, &[]),
    row("max", Other, &[Gates, Picks]),
    row("maximum", Other, &[Gates]),
    row("mean", Sum, &[Reduces]),
    row("median", Other, &[Picks]),
    row("min", Other, &[Gates, Picks]),
    row("minimum", Other, &[Gates]),
    row("mm", Contraction, &[]),
    row("mode", Other, &[Picks]),
    row("moveaxis", Sum, &[Reorders, Rearranges]),
    row("movedim", Sum, &[Reorders, Rearranges]),
    row("mul", Product, &[]),
    row("multinomial", Other, &[Draws]),
    row("nan_to_num", Other, &[Rounds]),
    row("nanmedian", Other, &[Picks]),
    row("narrow", Sum, &[Reorders, Rearranges]),
    row("neg", Sum, &[]),
    row("new", Other, &[ReturnsBlank]),
    row("new_empty", Other, &[IgnoresValues, ReturnsBlank]),
    row("new_empty_strided", Other, &[IgnoresValues, ReturnsBlank]),
    row("norm", Other, &[Reduces, Mixes]),
    row("normal", Other, &[Draws, Overwrites]),
    row("outer", Contraction, &[]),
    row("pad", Sum, &[]),
    row("permute", Sum, &[Reorders, Rearranges]),
    row("poisson", Other, &[Draws]),
    row("pow", Power, &[]),
    row("prelu", Other, &[Gates]),
    row("prod", Other, &[Reduces]),
    row("rand", Other, &[Draws]),
    row("rand_like", Other, &[Draws]),
    row("randint", Other, &[Draws]),
    row("randint_like", Other, &[Draws]),
    row("randn", Other, &[Draws]),
    row("randn_like", Other, &[Draws]),
    row("random", Other, &[Draws, Overwrites]),
    row("randperm", Other, &[Draws]),
    row("ravel", Sum, &[Reorders, Rearranges, Reshapes]),
    row("reduce", Other, &[Exchanges]),
    row("relu", Mild, &[Gates]),
    row("relu6", Mild, &[Gates]),
    row("repeat", Sum, &[Reorders]),
    row("repeat_interleave", Sum, &[Repeats]),
    row("requires_grad", Sum, &[KeepsPlaces]),
    row("reshape", Sum, &[Reorders, Rearranges, Reshapes]),
    row("reshape_as", Sum, &[Reorders, Rearranges, Reshapes]),
    row("resize", Other, &[ReturnsBlank]),
    row("resize_as", Other, &[ReturnsBlank]),
    row("rms_norm", Rescaling, &[Mixes]),
    row("rnn_relu", Other, &[Loops]),
    row("rnn_tanh", Other, &[Loops]),
    row("roll", Sum, &[Reorders]),
    row("rot90", Sum, &[Reorders]),
    row("round", Other, &[Rounds]),
    row("rsub", Sum, &[]),
    row("select", Sum, &[Reorders, Rearranges]),
    row("set", Other, &[Overwrites, ReplacesMemory]),
    row("setitem", Sum, &[Overwrites]),
    row("sgn", Other, &[Rounds]),
    row("sigmoid", Mild, &[]),
    row("sign", Other, &[Rounds]),
    row("silu", Mild, &[]),
    row("sin", Periodic, &[]),
    row("softmax", Softmax, &[Mixes]),
    row("split", Sum, &[Reorders, Rearranges]),
    row("split_with_sizes", Sum, &[Reorders, Rearranges]),
    row("square", Power, &[]),
    row("squeeze", Sum, &[Repeats, Rearranges, Reshapes]),
    row("stack", Sum, &[Reorders]),
    row("std", Deviation, &[Reduces]),
    row("sub", Sum, &[]),
    row("sum", Sum, &[Reduces]),
    row("swapaxes", Sum, &[Reorders, Rearranges]),
    row("swapdims", Sum, &[Reorders, Rearranges]),
    row("t", Sum, &[Reorders, Rearranges]),
    row("take", Sum, &[Reorders]),
    row("take_along_dim", Sum, &[Reorders]),
    row("tanh", Mild, &[]),
    row("tensor_split", Sum, &[Reorders, Rearranges]),
    row("threshold", Other, &[Gates]),
    row("to", Sum, &[KeepsPlaces, CopiesLate]),
    row("to_copy", Sum, &[KeepsPlaces, CopiesLate]),
    row("topk", Other, &[Picks]),
    row("transpose", Sum, &[Reorders, Rearranges]),
    row("trunc", Other, &[Rounds]),
    row("type", Sum, &[KeepsPlaces, CopiesLate]),
    row("unbind", Sum, &[Reorders, Rearranges]),
    row("unflatten", Sum, &[Reorders, Rearranges, Reshapes]),
    row("unfold", Sum, &[Reorders, Rearranges]),
    row("uniform", Other, &[Draws, Overwrites]),
    row("unsqueeze", Sum, &[Repeats, Rearranges, Reshapes]),
    row("var", Variance, &[Reduces]),
    row("view", Sum, &[Reorders, Rearranges, Reshapes]),
    row("view_as", Sum, &[Reorders, Rearranges, Reshapes]),
    row("view_as_real", Sum, &[Reorders, Rearranges]),
    row("vsplit", Sum, &[Reorders, Rearranges]),
    row("vstack", Sum, &[Reorders]),
    row("where", Mild, &[Covers]),
    row("zero", Other, &[Overwrites]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_none_is_there_twice() {
        for pair in ROWS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} before {}", pair[0].name, pair[1].name);
        }
    }

    #[test]
    fn rows_have_the_names_that_are_looked_up() {
        for row in ROWS {
            let name = format!("Torch.{}", row.name);
            assert_eq!(crate::operators::ApiName::of(&name).word(), row.name);
        }
    }
}
