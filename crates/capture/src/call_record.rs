//! One call, from its name to its last line.

use std::sync::Arc;

use ulpscope_dump::journal::encode::{CallLine, RaisedLine};

use crate::stack::CallStack;
use crate::state::StepId;

/// What kind of call it is, as far as names and order go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{base}.{n}.forward`, in the order of their beginnings.
    Api,
    /// The same, of a function of the program's own.
    Program,
    /// `{base}.forward.{n}`, in the order of their ends: a module follows what runs within it.
    Module,
}

/// What is known of a call from its beginning on.
#[derive(Debug)]
pub struct CallRecord {
    /// Its name in the dump.
    pub name: Arc<str>,
    /// What kind of call it is.
    pub kind: Kind,
    /// The step it began in. What happens to it when that is over is not recorded.
    pub step: StepId,
    /// Its number in the journal, if it is recorded.
    pub id: Option<u64>,
    /// Why it is left out, and its backward call with it; nothing if they are wanted.
    pub left_out: Option<&'static str>,
    /// The call it is part of.
    pub parent: Option<Arc<str>>,
    /// Whether it was made again for a backward call.
    pub is_recompute: bool,
    /// The number the first node of the graph made by the call would have; nothing when gradients are off.
    pub sequence: Option<u64>,
    /// The places of the results that it has written to; nothing where it has made all of them.
    pub written: Option<Vec<String>>,
}

impl CallRecord {
    /// A call of which nothing is known but its name.
    pub fn new(name: Arc<str>, kind: Kind, step: StepId) -> CallRecord {
        CallRecord {
            name,
            kind,
            step,
            id: None,
            left_out: None,
            parent: None,
            is_recompute: false,
            sequence: None,
            written: None,
        }
    }

    /// The name of the `number`th call of a base.
    pub fn name_of(base: &str, kind: Kind, number: u64) -> Arc<str> {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(number);
        match kind {
            Kind::Api | Kind::Program => [base, ".", number, ".forward"].concat().into(),
            Kind::Module => [base, ".forward.", number].concat().into(),
        }
    }

    /// The line that tells that the call has begun.
    pub fn first_line(&self, id: u64, stack: Option<&CallStack>) -> CallLine<'_> {
        CallLine::Begin {
            name: &self.name,
            id: Some(id),
            stack: stack.map(|stack| stack.id),
            parent: self.parent.as_deref(),
        }
    }

    /// The line that tells that the call has returned.
    pub fn last_line(&self) -> CallLine<'static> {
        CallLine::End { id: self.id.unwrap_or_default(), last: self.ends_last() }
    }

    /// The line that tells that the call has raised an error; nothing if it is not recorded.
    pub fn raised_line(&self) -> Option<RaisedLine> {
        self.id.map(|id| RaisedLine { id, last: self.ends_last() })
    }

    /// Whether it takes its place in the order of calls when it ends.
    fn ends_last(&self) -> bool {
        self.kind == Kind::Module
    }

    /// Whether it has made the result at a place, or written to it: `1.0` lies within `1`.
    pub fn made(&self, place: &str) -> bool {
        let is_within = |written: &String| {
            place.strip_prefix(written.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.written.as_ref().is_none_or(|written| written.iter().any(is_within))
    }

    /// Whether code of the program runs in it, which may come to any tensor.
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
