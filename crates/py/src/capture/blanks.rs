//! Memory that nothing was written to yet: what is in it differs from run to run.

/// Functions that return memory as they find it: what is in it differs from run to run, and is nobody's result. (`new`
/// may be given elements, and `resize_` keep some: what uses them has their numbers.)
const BLANK: [&str; 9] = [
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "_efficientzerotensor",
];

/// Whether the results of a call are memory as it was found.
pub(super) fn is_blank(call: &str) -> bool {
    let mut parts = call.split('.').skip(1);
    BLANK.contains(&parts.next().unwrap_or_default()) && parts.nth(1) == Some("forward")
}

/// Functions that write to their first argument without a look at what is in it.
const OVERWRITING: [&str; 15] = [
    "__setitem__",
    "bernoulli_",
    "cauchy_",
    "constant_",
    "copy_",
    "exponential_",
    "fill_",
    "geometric_",
    "kaiming_uniform_",
    "log_normal_",
    "normal_",
    "random_",
    "set_",
    "uniform_",
    "zero_",
];

/// Whether a call does no more than write to its first argument.
pub(super) fn overwrites_first(call: &str) -> bool {
    OVERWRITING.contains(&call.split('.').nth(1).unwrap_or_default())
}
