//! The table of functions whose names say something that torch does not tell: the one place where capture knows a function
//! by its name.

/// What a function is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trait {
    /// Returns memory as it finds it: what is in it differs from run to run, and is nobody's result. (`new` may be given
    /// elements, and `resize_` keep some: what uses them has their numbers.)
    ReturnsBlank,
    /// Writes to its first argument without a look at what is in it.
    OverwritesFirst,
    /// Can be told not to wait for a copy from another device (`non_blocking`): its elements arrive after the call.
    MayCopyLate,
    /// Its result has the elements of its first argument, of which torch does not tell.
    SharesElements,
    /// Gives its first argument other memory, and writes to none.
    ReplacesMemory,
    /// Is made of several nodes of the graph that lead to its arguments in the order of these: `linear` gives its input,
    /// and the transpose of its weight, to one product of matrices.
    KeepsOrder,
}

/// What the function of a name is known for.
fn traits(function: &str) -> &'static [Trait] {
    use Trait::{KeepsOrder, MayCopyLate, OverwritesFirst, ReplacesMemory, ReturnsBlank, SharesElements};
    match function {
        "_efficientzerotensor"
        | "empty"
        | "empty_like"
        | "empty_permuted"
        | "empty_strided"
        | "new"
        | "new_empty"
        | "new_empty_strided"
        | "resize_" => &[ReturnsBlank],
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

/// Whether the function of a name is known for something.
pub fn has_trait(function: &str, wanted: Trait) -> bool {
    traits(function).contains(&wanted)
}

/// Whether the results of a call are memory as it was found.
pub fn is_blank(call: &str) -> bool {
    let mut parts = call.split('.').skip(1);
    has_trait(parts.next().unwrap_or_default(), Trait::ReturnsBlank) && parts.nth(1) == Some("forward")
}

/// Whether a call does no more than write to its first argument.
pub fn overwrites_first(call: &str) -> bool {
    has_trait(call.split('.').nth(1).unwrap_or_default(), Trait::OverwritesFirst)
}
