//! Functions whose results are uninitialised memory, by their names in torch.

/// Their elements mean nothing: no two runs have the same.
const BLANK_FUNCTIONS: [&str; 11] = [
    "_efficientzerotensor",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_quantized",
    "empty_strided",
    "new",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
];

/// Whether the results of a function are uninitialised memory.
pub fn returns_blank(function: &str) -> bool {
    BLANK_FUNCTIONS.contains(&function)
}
