//! The operation of a call: what the table of operators says of it, and its name.

use std::ops::Deref;

use ulpscope_dump::operators::{ApiName, Operator};

use crate::native::evidence::call_evidence::hashed;

/// What is known of the operation of a call.
#[derive(Clone, Copy, Debug)]
pub(in crate::native) struct Operation {
    /// Stands for its name, the same for `Torch.add`, `Tensor.__iadd__` and `Aten.add.Tensor`.
    pub(in crate::native) name: u64,
    known: Operator,
}

impl Operation {
    /// Of a call by its base: `Functional.linear`, `Tensor.__add__`, `Tensor.mul_`. A module may do anything.
    pub(in crate::native) fn of(base: &str, is_backward: bool) -> Operation {
        Operation { name: hashed(&ApiName::of(base).operation()), known: Operator::of(base, is_backward) }
    }

    /// Whether an argument, by the hash of its path, is added to what the others make and no factor of it.
    pub(in crate::native) fn is_added(&self, path: u64) -> bool {
        let keyword = if self.added == Some("0") { "input" } else { "bias" };
        self.added.is_some_and(|position| path == hashed(&position) || path == hashed(&keyword))
    }
}

impl Deref for Operation {
    type Target = Operator;

    fn deref(&self) -> &Operator {
        &self.known
    }
}
