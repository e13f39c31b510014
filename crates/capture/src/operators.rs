//! Properties of functions that torch does not report: the only place where capture identifies a function by its
//! name.

use ulpscope_dump::returns_blank;

/// A property of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Returns uninitialised memory: its contents differ from run to run, and are no result. (`new` may be given
    /// elements, and `resize_` may keep some: calls that use these show their numbers.)
    ReturnsBlank,
    /// Shows the elements of its first argument in a different arrangement, or copies them where that is not possible.
    Rearranges,
    /// Writes to its first argument without reading it.
    OverwritesFirst,
    /// May return before a copy from another device is done (`non_blocking`): the elements arrive after the call.
    MayCopyLate,
    /// Its result shares the elements of its first argument, and torch does not report that.
    SharesElements,
    /// Gives its first argument different memory, and writes to none.
    ReplacesMemory,
    /// Creates several graph nodes that lead to its arguments in their order: `linear` passes its input, and the
    /// transpose of its weight, to one matrix product.
    KeepsOrder,
}

/// Views, and copies in a different arrangement.
const REARRANGING: [&str; 41] = [
    "H",
    "T",
    "__getitem__",
    "adjoint",
    "alias",
    "as_strided",
    "chunk",
    "contiguous",
    "diagonal",
    "dsplit",
    "expand",
    "expand_as",
    "flatten",
    "hsplit",
    "mH",
    "mT",
    "moveaxis",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "reshape",
    "reshape_as",
    "select",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "tensor_split",
    "transpose",
    "unbind",
    "unflatten",
    "unfold",
    "unsqueeze",
    "unsqueeze_",
    "view",
    "view_as",
    "view_as_real",
    "vsplit",
];

/// The properties of a function, by name.
fn traits(function: &str) -> &'static [Trait] {
    use Trait::{
        KeepsOrder, MayCopyLate, OverwritesFirst, Rearranges, ReplacesMemory, ReturnsBlank, SharesElements,
    };
    match function {
        blank if returns_blank(blank) => &[ReturnsBlank],
        "__setitem__" | "bernoulli_" | "cauchy_" | "constant_" | "exponential_" | "fill_" | "geometric_"
        | "kaiming_uniform_" | "log_normal_" | "normal_" | "random_" | "uniform_" | "zero_" => {
            &[OverwritesFirst]
        }
        "copy_" => &[OverwritesFirst, MayCopyLate],
        "_foreach_copy_" | "_to_copy" | "to" | "type" => &[MayCopyLate],
        "set_" => &[OverwritesFirst, ReplacesMemory],
        "detach" => &[SharesElements, Rearranges],
        "linear" => &[KeepsOrder],
        rearranging if REARRANGING.contains(&rearranging) => &[Rearranges],
        _ => &[],
    }
}

/// Whether a function has a property.
pub fn has_trait(function: &str, wanted: Trait) -> bool {
    traits(function).contains(&wanted)
}

/// Whether the results of a call are uninitialised.
pub fn is_blank(call: &str) -> bool {
    let mut parts = call.split('.').skip(1);
    has_trait(parts.next().unwrap_or_default(), Trait::ReturnsBlank) && parts.nth(1) == Some("forward")
}

/// Whether a call shows the elements of its first argument in a different arrangement, and computes nothing.
pub fn rearranges(call: &str) -> bool {
    has_trait(call.split('.').nth(1).unwrap_or_default(), Trait::Rearranges) && call.ends_with(".forward")
}

/// Whether a call writes to its first argument and returns it: `Tensor.add_`, `Tensor.__iadd__`.
pub fn is_in_place(call: &str) -> bool {
    let function = call.split('.').nth(1).unwrap_or_default();
    match function.strip_prefix("__i").and_then(|name| name.strip_suffix("__")) {
        Some(name) => !matches!(name, "nvert" | "ndex" | "nit"),
        None => function.ends_with('_') && !function.ends_with("__"),
    }
}

/// Whether a call only writes to its first argument.
pub fn overwrites_first(call: &str) -> bool {
    has_trait(call.split('.').nth(1).unwrap_or_default(), Trait::OverwritesFirst)
}
