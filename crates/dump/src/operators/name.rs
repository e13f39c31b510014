//! The name of an API in its parts: `Torch.add`, `Tensor.__iadd__`, `Tensor.add_` and `Aten.add.Tensor` are all `add`.

use crate::call::CallKind;
use crate::key::parse_key;

/// First words of the names of modules: PyTorch's, and MindSpore's.
const MODULES: [&str; 2] = ["Module", "Cell"];

/// Names in torch of what other names stand for.
const SYNONYMS: [(&str, &str); 11] = [
    ("absolute", "abs"),
    ("clip", "clamp"),
    ("concat", "cat"),
    ("concatenate", "cat"),
    ("divide", "div"),
    ("invert", "bitwise_not"),
    ("multiply", "mul"),
    ("negative", "neg"),
    ("subtract", "sub"),
    ("true_divide", "div"),
    ("truediv", "div"),
];

/// Python's operators that have a form in place (`__iadd__`) and a reflected one (`__radd__`).
const REFLECTED: [&str; 14] = [
    "add", "and", "div", "floordiv", "lshift", "matmul", "mod", "mul", "or", "pow", "rshift", "sub",
    "truediv", "xor",
];

/// The name of an API or a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiName<'a> {
    /// `Torch`, `Tensor`, `Functional`, `Aten`, `NPU`, `Distributed`, `Module`; empty for a name of the user's without dots.
    pub namespace: &'a str,
    /// The function as it is written: `__iadd__`, `_foreach_add_`, `linalg.norm`; of a module, its class.
    pub function: &'a str,
}

impl<'a> ApiName<'a> {
    /// Of a call without number and direction: `Functional.linear`, `Aten.add.Tensor`.
    pub fn of(base: &'a str) -> ApiName<'a> {
        let Some((namespace, rest)) = base.split_once('.') else {
            return ApiName { namespace: "", function: base };
        };
        let function = match namespace {
            _ if MODULES.contains(&namespace) => rest.rsplit_once('.').map_or(rest, |(_, class)| class),
            // `Aten.add.Tensor`, `Aten.add.default`: the overload. Other names may contain dots.
            "Aten" => rest.split('.').next().unwrap_or(rest),
            _ => rest,
        };
        ApiName { namespace, function }
    }

    /// Of a call as dumps name it, `Functional.linear.3.forward`, and what it computed.
    pub fn of_call(call: &'a str) -> (ApiName<'a>, CallKind) {
        let (base, _, kind) = parse_key(call);
        (ApiName::of(base), kind)
    }

    /// Whether it names a module, which may compute anything.
    pub fn is_module(&self) -> bool {
        MODULES.contains(&self.namespace)
    }

    /// The operation, in one spelling. Of a module, its class; the user's own names are unchanged.
    pub fn operation(&self) -> &'a str {
        if self.is_module() || self.namespace.is_empty() {
            return self.function;
        }
        let word = match self.dunder() {
            Some(dunder) => unreflected(dunder).map_or(dunder, |(_, operation)| operation),
            None => bare(self.function),
        };
        SYNONYMS.iter().find(|(other, _)| *other == word).map_or(word, |(_, operation)| operation)
    }

    /// The operation by which the table knows it: without the part of torch that it is in, and alike for lists.
    pub fn word(&self) -> &'a str {
        // The argument of `2 ** x` is the exponent.
        if self.function == "__rpow__" {
            return "rpow";
        }
        let last = ApiName { function: last(self.function), ..*self };
        let operation = last.operation().trim_matches('_');
        operation.strip_prefix("foreach_").unwrap_or(operation)
    }

    /// Whether it writes its result into its first argument and returns that: `add_`, `__iadd__`.
    pub fn is_in_place(&self) -> bool {
        let last = last(self.function);
        match self.dunder() {
            Some(dunder) => unreflected(dunder).is_some_and(|(form, _)| form == 'i'),
            None => last.ends_with('_') && !last.ends_with("__"),
        }
    }

    /// Whether it does the same to every element of lists: `_foreach_add`.
    pub fn is_foreach(&self) -> bool {
        last(self.function).trim_start_matches('_').starts_with("foreach_")
    }

    fn dunder(&self) -> Option<&'a str> {
        self.function.strip_prefix("__")?.strip_suffix("__")
    }
}

/// The last of the words of a function.
fn last(function: &str) -> &str {
    function.rsplit_once('.').map_or(function, |(_, last)| last)
}

/// `iadd`, `radd` → `i`, `r` and `add`.
fn unreflected(dunder: &str) -> Option<(char, &str)> {
    let form = dunder.chars().next().filter(|form| matches!(form, 'i' | 'r'))?;
    let operation = &dunder[1..];
    REFLECTED.contains(&operation).then_some((form, operation))
}

/// Without the underscore of an in-place method, or that of an inner kernel such as `_softmax`.
fn bare(name: &str) -> &str {
    let trimmed = name.strip_suffix('_').unwrap_or(name);
    let trimmed = trimmed.strip_prefix('_').unwrap_or(trimmed);
    if trimmed.is_empty() { name } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(base: &str) -> &str {
        ApiName::of(base).operation()
    }

    #[test]
    fn spellings_of_one_operation_agree() {
        for name in ["Torch.add", "Tensor.add", "Tensor.__add__", "Tensor.__iadd__", "Tensor.__radd__"] {
            assert_eq!(operation(name), "add", "{name}");
        }
        for name in ["Tensor.add_", "Aten.add", "Aten.add.Tensor", "Aten.add_.Scalar"] {
            assert_eq!(operation(name), "add", "{name}");
        }
        assert_eq!(operation("Tensor.__truediv__"), operation("Aten.div.Tensor"));
        assert_eq!(operation("Tensor.__idiv__"), operation("Tensor.div_"));
        assert_eq!(operation("Functional.softmax"), operation("Aten._softmax.default"));
    }

    #[test]
    fn different_operations_stay_apart() {
        assert_eq!(operation("Tensor.__invert__"), "bitwise_not");
        assert_ne!(operation("Tensor.__rshift__"), operation("Tensor.__lshift__"));
        assert_eq!(operation("Tensor.__index__"), "index");
        assert_eq!(operation("Tensor.__round__"), "round");
        assert_eq!(operation("Torch._"), "_");
        assert_eq!(operation("Module.blocks.0.fc.Linear"), "Linear");
        assert_eq!(operation("Torch.linalg.norm"), "linalg.norm");
        assert_eq!(operation("loss"), "loss");
        assert_eq!(operation("__iadd__"), "__iadd__");
    }

    #[test]
    fn the_table_knows_forms_of_one_operation_by_one_word() {
        for name in ["Torch._foreach_add_", "Torch._foreach_add", "Aten.add.Tensor", "Tensor.__radd__"] {
            assert_eq!(ApiName::of(name).word(), "add", "{name}");
        }
        assert_eq!(ApiName::of("Torch.linalg.norm").word(), "norm");
        assert_eq!(ApiName::of("NPU.npu_fusion_attention").word(), "npu_fusion_attention");
        assert_eq!(ApiName::of("Torch._").word(), "");
        assert_ne!(ApiName::of("Tensor.__rpow__").word(), ApiName::of("Tensor.__pow__").word());
    }

    #[test]
    fn writing_in_place_shows_in_the_name() {
        for name in [
            "Tensor.add_",
            "Tensor.__iadd__",
            "Tensor.__imatmul__",
            "Torch._foreach_add_",
            "Aten.add_.Tensor",
        ] {
            assert!(ApiName::of(name).is_in_place(), "{name}");
        }
        for name in
            ["Tensor.__index__", "Tensor.__add__", "Tensor.__radd__", "Tensor.__invert__", "Torch.add"]
        {
            assert!(!ApiName::of(name).is_in_place(), "{name}");
        }
        assert!(ApiName::of("Torch._foreach_mul_").is_foreach() && !ApiName::of("Torch.mul").is_foreach());
    }

    #[test]
    fn calls_are_split_from_the_end() {
        let (name, kind) = ApiName::of_call("Aten.add.Tensor.3.backward");
        assert_eq!((name.function, kind), ("add", CallKind::Backward));
        let (name, kind) = ApiName::of_call("Module.blocks.0.fc.Linear.forward.12");
        assert_eq!((name.function, kind), ("Linear", CallKind::Forward));
        assert_eq!(ApiName::of_call("loss").1, CallKind::Saved);
    }
}
