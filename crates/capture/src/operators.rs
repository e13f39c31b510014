//! Properties of functions that torch does not report: the only place where capture identifies a function by its
//! name.

use ulpscope_dump::returns_blank;

/// A property of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Returns uninitialised memory: its contents differ from run to run, and are no result. (`new` may be given
    /// elements, and `resize_` may keep some: calls that use these show their numbers.)
    ReturnsBlank,
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

/// The properties of a function, by name.
fn traits(function: &str) -> &'static [Trait] {
    use Trait::{KeepsOrder, MayCopyLate, OverwritesFirst, ReplacesMemory, ReturnsBlank, SharesElements};
    match function {
        blank if returns_blank(blank) => &[ReturnsBlank],
        "__setitem__" | "bernoulli_" | "cauchy_" | "constant_" | "exponential_" | "fill_" | "geometric_"
        | "kaiming_uniform_" | "log_normal_" | "normal_" | "random_" | "uniform_" | "zero_" => {
            &[OverwritesFirst]
        }
        "copy_" => &[OverwritesFirst, MayCopyLate],
        "_foreach_copy_" | "_to_copy" | "to" | "type" => &[MayCopyLate],
        "set_" => &[OverwritesFirst, ReplacesMemory],
        "detach" => &[SharesElements],
        "linear" => &[KeepsOrder],
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

/// Whether a call only writes to its first argument.
pub fn overwrites_first(call: &str) -> bool {
    has_trait(call.split('.').nth(1).unwrap_or_default(), Trait::OverwritesFirst)
}
