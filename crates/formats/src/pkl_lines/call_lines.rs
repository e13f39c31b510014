//! Groups lines into calls and numbers the calls: the files do not say where a call ends, and some do not number
//! calls.

use std::collections::{HashMap, HashSet};

use super::kind::Kind;
use super::line::Line;
use crate::names::{Direction, LineName, Role};

/// Reads the name at the start of a line, as its tool writes it.
pub fn line_name(name: &str, kind: Kind) -> Option<LineName> {
    match kind {
        Kind::Ptdbg4 | Kind::Ptdbg6 => LineName::from_ptdbg(name),
        Kind::HooksSample | Kind::HooksFull | Kind::HooksOverflow => LineName::from_hooks(name),
    }
}

/// What a line adds to its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// An argument or result.
    Entry,
    /// A whole stack.
    Stack,
    /// One more frame of a stack.
    Frame,
}

impl Part {
    /// What a line adds.
    pub fn of(line: &Line) -> Part {
        match line {
            Line::Stack { .. } => Part::Stack,
            Line::HooksFrame { .. } => Part::Frame,
            _ => Part::Entry,
        }
    }
}

/// The lines of one call that have been read so far.
#[derive(Clone, Debug)]
pub struct CallLines {
    /// The name of the first line.
    pub name: LineName,
    /// Whether one of them is a stack.
    has_stack: bool,
    /// Role and position of the last argument or result.
    last: Option<(Role, Vec<usize>)>,
}

impl CallLines {
    /// A call that begins with a line of that name.
    pub fn begin(name: LineName, part: Part) -> CallLines {
        let mut lines = CallLines { name, has_stack: false, last: None };
        let name = lines.name.clone();
        lines.take(&name, part);
        lines
    }

    /// Whether a line continues this call. Tools write the inputs, then the outputs, each in order, so a line that
    /// goes back starts a new call of the same name. Frames come before them, and a stack comes once.
    pub fn continue_with(&self, name: &LineName, part: Part) -> bool {
        let same = (&self.name.base, self.name.index, self.name.direction)
            == (&name.base, name.index, name.direction);
        same && match (part, &self.last) {
            (Part::Stack, _) => !self.has_stack,
            (Part::Frame, last) => last.is_none(),
            (Part::Entry, None) => true,
            (Part::Entry, Some((role, path))) if *role == name.role => name.path > *path,
            (Part::Entry, Some((role, _))) => *role == Role::Input,
        }
    }

    /// Adds a line that [`CallLines::continue_with`] has accepted.
    pub fn take(&mut self, name: &LineName, part: Part) {
        match part {
            Part::Stack => self.has_stack = true,
            Part::Frame => {}
            Part::Entry => self.last = Some((name.role, name.path.clone())),
        }
    }
}

/// Numbers the calls.
#[derive(Debug, Default)]
pub struct CallNumbers {
    /// Used numbers, by name: a few bytes per call instead of a whole name.
    taken: HashMap<(String, Direction), Taken>,
    /// Forward calls, by name, that are not yet paired with a backward call; only for names without numbers.
    unanswered: HashMap<String, Vec<u64>>,
}

/// The numbers of the calls of one name.
#[derive(Debug, Default)]
struct Taken {
    numbers: HashSet<u64>,
    /// One more than the largest of them.
    next: u64,
}

impl CallNumbers {
    /// The call's own number, or the next free one if it has none or its number is used; and whether its number was
    /// used.
    pub fn give(&mut self, name: &LineName) -> (u64, bool) {
        let answered = match name.index {
            None => self.answered_forward(name),
            Some(_) => None,
        };
        let taken = self.taken.entry((name.base.clone(), name.direction)).or_default();
        let mut index = name.index.or(answered).unwrap_or(taken.next);
        let collides = !taken.numbers.insert(index);
        if collides {
            index = taken.next;
            taken.numbers.insert(index);
        }
        taken.next = taken.next.max(index.saturating_add(1));
        (index, collides)
    }

    /// torch_npu.hooks does not number calls. Gradients flow backwards, so a backward call most likely belongs to
    /// the last forward call of its name that is not paired yet.
    fn answered_forward(&mut self, name: &LineName) -> Option<u64> {
        let unanswered = self.unanswered.entry(name.base.clone()).or_default();
        match name.direction {
            Direction::Backward => unanswered.pop(),
            Direction::Forward => {
                let taken = self.taken.get(&(name.base.clone(), Direction::Forward));
                let next = taken.map_or(0, |taken| taken.next);
                unanswered.push(next);
                Some(next)
            }
        }
    }
}
