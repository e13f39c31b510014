//! Where a call belongs in the tree of modules, from its name and that of the module it was made in.

use std::borrow::Cow;

use ulpscope_dump::{CallKind, parse_key};
use ulpscope_formats::names::{CallName, LineName};

/// First words of the names of modules.
const MODULES: [&str; 2] = ["Module.", "Cell."];

/// Words between the name of a call and the position of its entry.
const ROLES: [&str; 3] = [".input.", ".output.", ".parameters."];

/// A call in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePlace {
    /// `forward`, `backward`, `parameters_grad`, `saved`.
    pub(crate) pass: &'static str,
    /// The operation, or the class of the module.
    pub(crate) op: String,
    /// The dotted path of the module; of a tensor, its name without the last word.
    pub(crate) path: String,
}

impl TreePlace {
    /// The place of a call; `parent` is the call of the module in which it was made.
    pub(crate) fn of(name: &str, parent: Option<&str>) -> TreePlace {
        let (base, _, kind) = parse_key(name);
        let pass = kind.word();
        if let Some((path, class)) = module_path(base) {
            return TreePlace { pass, op: class.to_owned(), path: path.to_owned() };
        }
        if kind == CallKind::Saved {
            let (path, op) = base.rsplit_once('.').unwrap_or(("", base));
            return TreePlace { pass, op: op.to_owned(), path: path.to_owned() };
        }
        let op = base.split_once('.').map_or(base, |(_, op)| op);
        let path = parent.map_or("", |parent| {
            let (base, _, _) = parse_key(parent);
            module_path(base).map_or(parent, |(path, _)| path)
        });
        TreePlace { pass, op: op.to_owned(), path: path.to_owned() }
    }
}

/// Whether it is a call of a module, whose name has the path.
pub(crate) fn is_module(name: &str) -> bool {
    MODULES.iter().any(|first| name.starts_with(first))
}

/// Path and class of a module: `Module.blocks.0.fc.Linear` → `blocks.0.fc`, `Linear`.
fn module_path(base: &str) -> Option<(&str, &str)> {
    let rest = MODULES.iter().find_map(|first| base.strip_prefix(first))?;
    Some(rest.rsplit_once('.').unwrap_or(("", rest)))
}

/// The call that an entry belongs to, by the entry's name: `Functional.linear.0.forward.input.0` →
/// `Functional.linear.0.forward`. An entry that belongs to no call is one itself.
pub(crate) fn call_of_entry(entry: &str) -> Cow<'_, str> {
    if entry.contains(".parameters_grad.") {
        return entry.rsplit_once('.').map_or(entry, |(call, _)| call).into();
    }
    let cut = ROLES.iter().filter_map(|role| entry.rfind(role)).max();
    if let Some(at) = cut {
        return entry[..at].into();
    }
    // ptdbg_ascend: `Functional_linear_0_forward_input.0`, which dumps name as all others.
    if let Some(LineName { base, index: Some(index), direction, .. }) = LineName::from_ptdbg(entry) {
        return CallName { base, index, direction }.to_msprobe().into();
    }
    let older = ["_input", "_output"].iter().filter_map(|role| entry.rfind(role)).max();
    older.map_or(entry, |at| &entry[..at]).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_tree() {
        let place = |name: &str, parent: Option<&str>| {
            let TreePlace { pass, op, path } = TreePlace::of(name, parent);
            (pass, op, path)
        };
        let expected = |pass, op: &str, path: &str| (pass, op.to_owned(), path.to_owned());
        let linear = "Module.blocks.0.fc.Linear.forward.0";
        assert_eq!(place(linear, None), expected("forward", "Linear", "blocks.0.fc"));
        assert_eq!(
            place("Functional.linear.3.forward", Some(linear)),
            expected("forward", "linear", "blocks.0.fc")
        );
        assert_eq!(place("Tensor.add.0.backward", None), expected("backward", "add", ""));
        assert_eq!(place("Torch.x.0.forward", Some("optimizer")), expected("forward", "x", "optimizer"));
        assert_eq!(
            place("Module.fc.Linear.parameters_grad", None),
            expected("parameters_grad", "Linear", "fc")
        );
        assert_eq!(place("blocks.0.weight", None), expected("saved", "weight", "blocks.0"));
        assert_eq!(place("", None), expected("saved", "", ""));
    }

    #[test]
    fn entries_belong_to_calls() {
        for (entry, call) in [
            ("Functional.linear.0.forward.input.0", "Functional.linear.0.forward"),
            ("Module.fc.Linear.forward.0.parameters.weight", "Module.fc.Linear.forward.0"),
            ("Module.input.fc.Linear.forward.0.output.0", "Module.input.fc.Linear.forward.0"),
            ("Module.fc.Linear.parameters_grad.0.weight", "Module.fc.Linear.parameters_grad.0"),
            ("Functional_conv2d_0_forward_input.0", "Functional.conv2d.0.forward"),
            ("Tensor___mul___1_backward_output", "Tensor.__mul__.1.backward"),
            ("0_Functional_conv2d_forward_input.0", "0_Functional_conv2d_forward"),
            ("blocks.0.weight", "blocks.0.weight"),
        ] {
            assert_eq!(call_of_entry(entry), call);
        }
    }
}
