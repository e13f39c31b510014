//! Which calls a capture level leaves out.

/// Whether a capture at this level records no call of this kind. Unknown levels leave out nothing.
pub(crate) fn leaves_out(level: &Option<String>, call: &str) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| call.starts_with(prefix));
    let (is_module, is_operator) = (begins(&["Module.", "Cell."]), call.starts_with("Aten."));
    match level.as_deref() {
        Some("L0") => !is_module,
        Some("L1") => is_module || is_operator,
        Some("mix") => is_operator,
        Some("L2") => is_module || begins(&["Functional.", "Torch.", "Tensor."]),
        _ => false,
    }
}
