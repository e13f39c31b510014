//! One call, from its name to its last line.

use std::sync::Arc;

use ulpscope_dump::journal::encode::{CallLine, RaisedLine};

use crate::stack::CallStack;
use crate::state::StepId;

/// The kind of a call, which decides its name and order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{base}.{n}.forward`, ordered by start.
    Api,
    /// The same, for a function of the program.
    Program,
    /// `{base}.forward.{n}`, ordered by start: a module that is recorded as if it were one function.
    ModuleAsFunction,
    /// `{base}.forward.{n}`, ordered by end: a module follows the calls inside it.
    Module,
}

/// What is known of a call from its start.
#[derive(Debug)]
pub struct CallRecord {
    /// Its name in the dump.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: Kind,
    /// The step it began in. After that step, nothing of the call is recorded.
    pub step: StepId,
    /// Its number in the journal, if it is recorded.
    pub id: Option<u64>,
    /// Why the call itself is left out; `None` if it is wanted. Only checks set it: elsewhere it has no id then.
    pub forward_left_out: Option<&'static str>,
    /// For a checked call that contains others: its place in the order of the run.
    pub began_at: u64,
    /// Why its backward call is left out; `None` if it is wanted.
    pub backward_left_out: Option<&'static str>,
    /// Whether its backward call is part of the one that begins the scope.
    pub is_backward_first: bool,
    /// The call it is part of.
    pub parent: Option<Arc<str>>,
    /// Whether it is a recomputation for a backward call.
    pub is_recompute: bool,
    /// The number that the first graph node of the call would have; `None` when gradients are off.
    pub sequence: Option<u64>,
    /// The places of the results that it has written to; `None` if it produced all of them.
    pub written: Option<Vec<String>>,
    /// Whether it is ordered by its end: it follows the calls inside it.
    pub ends_last: bool,
}

impl CallRecord {
    /// A call of which only the name is known.
    pub fn new(name: Arc<str>, kind: Kind, step: StepId) -> CallRecord {
        CallRecord {
            name,
            kind,
            step,
            id: None,
            forward_left_out: None,
            began_at: 0,
            backward_left_out: None,
            is_backward_first: false,
            parent: None,
            is_recompute: false,
            sequence: None,
            written: None,
            ends_last: kind == Kind::Module,
        }
    }

    /// The name of the `number`th call of a base.
    pub fn name_of(base: &str, kind: Kind, number: u64) -> Arc<str> {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(number);
        match kind {
            Kind::Api | Kind::Program => [base, ".", number, ".forward"].concat().into(),
            Kind::Module | Kind::ModuleAsFunction => [base, ".forward.", number].concat().into(),
        }
    }

    /// The line for the start of the call.
    pub fn first_line(&self, id: u64, stack: Option<&CallStack>) -> CallLine<'_> {
        CallLine::Begin {
            name: &self.name,
            id: Some(id),
            stack: stack.map(|stack| stack.id),
            parent: self.parent.as_deref(),
        }
    }

    /// The line for the return of the call.
    pub fn last_line(&self) -> CallLine<'static> {
        CallLine::End { id: self.id.unwrap_or_default(), last: self.ends_last }
    }

    /// The line for an error raised by the call; `None` if it is not recorded.
    pub fn raised_line(&self) -> Option<RaisedLine> {
        self.id.map(|id| RaisedLine { id, last: self.ends_last })
    }

    /// Whether it produced the result at a place, or wrote to it: `1.0` is inside `1`.
    pub fn made(&self, place: &str) -> bool {
        let is_within = |written: &String| {
            place.strip_prefix(written.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.written.as_ref().is_none_or(|written| written.iter().any(is_within))
    }

    /// Whether it runs code of the program, which may access any tensor.
    pub fn is_opaque(&self) -> bool {
        self.kind != Kind::Api
    }

    /// Whether it counts as recorded.
    pub fn is_recorded(&self) -> bool {
        self.id.is_some()
    }

    /// Its name without direction and number.
    pub fn base(&self) -> &str {
        self.name.rsplitn(3, '.').nth(2).unwrap_or(&self.name)
    }
}
