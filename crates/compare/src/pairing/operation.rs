//! The operation of a name: `Torch.add`, `Tensor.__iadd__`, `Tensor.add_` and `Aten.add.Tensor` are all `add`.

/// Python's method names for operators that have a different name in torch.
const OPERATORS: [(&str, &str); 8] = [
    ("truediv", "div"),
    ("true_divide", "div"),
    ("divide", "div"),
    ("multiply", "mul"),
    ("subtract", "sub"),
    ("negative", "neg"),
    ("invert", "bitwise_not"),
    ("absolute", "abs"),
];

/// Dunder names that begin with `i` or `r`, but are not in-place or reflected operators.
const PLAIN: [&str; 4] = ["invert", "index", "round", "reversed"];

/// The operation of an API or the class of a module, without its namespace or path. The user's own names are unchanged.
pub(crate) fn of(base: &str) -> &str {
    let Some((prefix, rest)) = base.split_once('.') else { return base };
    if prefix == "Module" {
        return rest.rsplit_once('.').map_or(rest, |(_, class)| class);
    }
    // `Aten.add.Tensor`, `Aten.add.default`: the overload. Other names may contain dots.
    let name = if prefix == "Aten" { rest.split('.').next().unwrap_or(rest) } else { rest };
    let word = match name.strip_prefix("__").and_then(|name| name.strip_suffix("__")) {
        Some(dunder) if PLAIN.contains(&dunder) => dunder,
        Some(dunder) => reflected(dunder),
        None => bare(name),
    };
    OPERATORS.iter().find(|(operator, _)| *operator == word).map_or(word, |(_, method)| method)
}

/// `iadd`, `radd` → `add`.
fn reflected(dunder: &str) -> &str {
    const OPERATIONS: [&str; 13] = [
        "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
        "rshift",
    ];
    match dunder.strip_prefix(['i', 'r']) {
        Some(rest) if OPERATIONS.contains(&rest) => rest,
        _ => dunder,
    }
}

/// Without the underscore of an in-place method, or that of an inner kernel such as `_softmax`.
fn bare(name: &str) -> &str {
    let trimmed = name.strip_suffix('_').unwrap_or(name);
    let trimmed = trimmed.strip_prefix('_').unwrap_or(trimmed);
    if trimmed.is_empty() { name } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn spellings_of_one_operation_agree() {
        for name in ["Torch.add", "Tensor.add", "Tensor.__add__", "Tensor.__iadd__", "Tensor.__radd__"] {
            assert_eq!(of(name), "add", "{name}");
        }
        for name in ["Tensor.add_", "Aten.add", "Aten.add.Tensor", "Aten.add_.Scalar"] {
            assert_eq!(of(name), "add", "{name}");
        }
        assert_eq!(of("Tensor.__truediv__"), of("Aten.div.Tensor"));
        assert_eq!(of("Functional.softmax"), of("Aten._softmax.default"));
    }

    #[test]
    fn different_operations_stay_apart() {
        assert_eq!(of("Tensor.__invert__"), "bitwise_not");
        assert_ne!(of("Tensor.__rshift__"), of("Tensor.__lshift__"));
        assert_eq!(of("Tensor.__index__"), "index");
        assert_eq!(of("Torch._"), "_");
        assert_eq!(of("Module.blocks.0.fc.Linear"), "Linear");
        assert_eq!(of("loss"), "loss");
    }
}
