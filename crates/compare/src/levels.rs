//! Which calls a capture level leaves out.

use ulpscope_dump::operators::ApiName;

/// Whether a capture at this level records no call of this kind. Unknown levels leave out nothing.
pub(crate) fn leaves_out(level: &Option<String>, call: &str) -> bool {
    let name = ApiName::of(call);
    let (is_module, is_operator) = (name.is_module(), name.namespace == "Aten");
    match level.as_deref() {
        // A region compiled by torch.compile is recorded at every level.
        _ if name.namespace == "Compiled" => false,
        Some("L0") => !is_module,
        Some("L1") => is_module || is_operator,
        Some("mix") => is_operator,
        Some("L2") => is_module || matches!(name.namespace, "Functional" | "Torch" | "Tensor"),
        _ => false,
    }
}
