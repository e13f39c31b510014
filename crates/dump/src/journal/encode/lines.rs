//! The lines of a journal.

use ulpscope_formats::json::push_text;

use super::super::VERSION;
use super::values::{ObjectText, key, push_flag, push_int, push_text_or_null};

/// The end of every line, after its value.
pub const LINE_END: &[u8] = b"}\n";

impl ObjectText {
    /// Ends the object of a line.
    pub(super) fn close_line(self, out: &mut Vec<u8>) {
        out.extend_from_slice(LINE_END);
    }
}

/// The first line: the settings of the recording.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// `statistics`, `tensor` or `structure`.
    pub task: &'a str,
    /// `L0`, `L1`, `L2`, `mix` or `debug`.
    pub level: &'a str,
    /// `pytorch`.
    pub framework: &'a str,
    /// The folder of tensor files, if there is one.
    pub dump_data_dir: Option<&'a str>,
    /// The form of `stack.json`.
    pub stack_form: StackForm,
}

/// The forms of `stack.json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackForm {
    /// Calls with the same stack together, as msprobe has it from 8.1 on.
    #[default]
    Grouped,
    /// The stack of each call by its name, as in msprobe 1.x.
    ByName,
}

/// The key of the form in the header, and its value for [`StackForm::ByName`]. Grouped is what a header without it means.
pub(in crate::journal) const STACK_FORM: (&str, &str) = ("stack_form", "by_name");

impl Header<'_> {
    /// Appends the line.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut line = ObjectText::open(out);
        line.known_key(key!("ulpscope"), out);
        push_int(VERSION, out);
        for (key, text) in [
            (key!("task"), Some(self.task)),
            (key!("level"), Some(self.level)),
            (key!("framework"), Some(self.framework)),
            (key!("dump_data_dir"), self.dump_data_dir),
        ] {
            line.known_key(key, out);
            push_text_or_null(text, out);
        }
        if self.stack_form == StackForm::ByName {
            line.key(STACK_FORM.0, out);
            push_text_or_null(Some(STACK_FORM.1), out);
        }
        line.close_line(out);
    }
}

/// A line with a stack, before the first call made there.
#[derive(Clone, Copy, Debug)]
pub struct StackLine<'a> {
    /// Its number; calls refer to it.
    pub id: u64,
    /// The frames as a list of texts in JSON.
    pub frames: &'a str,
}

impl StackLine<'_> {
    /// Appends the line.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut line = ObjectText::open(out);
        line.known_key(key!("stack"), out);
        push_int(self.id.into(), out);
        line.known_key(key!("frames"), out);
        out.extend_from_slice(self.frames.as_bytes());
        line.close_line(out);
    }
}

/// A line about a call, with or without sections.
#[derive(Clone, Copy, Debug)]
pub enum CallLine<'a> {
    /// The call begins.
    Begin {
        /// Its name.
        name: &'a str,
        /// Its number; further lines refer to it. Without a number this is its only line.
        id: Option<u64>,
        /// The number of its stack.
        stack: Option<u64>,
        /// The call in which it was made.
        parent: Option<&'a str>,
    },
    /// There are more sections.
    More {
        /// The number of the call.
        id: u64,
    },
    /// The call has returned.
    End {
        /// The number of the call.
        id: u64,
        /// Whether the call is ordered by its end and not by its beginning.
        last: bool,
    },
}

impl CallLine<'_> {
    /// Appends the line up to its sections: an object, or a single value. [`LINE_END`] completes it.
    pub fn open(&self, out: &mut Vec<u8>) {
        let mut line = self.head(out);
        line.known_key(key!("data"), out);
    }

    /// Appends the line without sections.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.head(out).close_line(out);
    }

    /// Appends the line with the sections that `data` appends. If that fails, nothing is appended.
    pub fn encode_with<E>(
        &self,
        out: &mut Vec<u8>,
        data: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = out.len();
        self.open(out);
        match data(out) {
            Ok(()) => out.extend_from_slice(LINE_END),
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
        Ok(())
    }

    fn head(&self, out: &mut Vec<u8>) -> ObjectText {
        let mut line = ObjectText::open(out);
        match *self {
            CallLine::Begin { name, id, stack, parent } => {
                line.known_key(key!("call"), out);
                push_text(name, out);
                for (key, number) in [(key!("id"), id), (key!("stack"), stack)] {
                    if let Some(number) = number {
                        line.known_key(key, out);
                        push_int(number.into(), out);
                    }
                }
                if let Some(parent) = parent {
                    line.known_key(key!("parent"), out);
                    push_text(parent, out);
                }
            }
            CallLine::More { id } => {
                line.known_key(key!("more"), out);
                push_int(id.into(), out);
            }
            CallLine::End { id, last } => {
                line.known_key(key!("end"), out);
                push_int(id.into(), out);
                push_last(last, &mut line, out);
            }
        }
        line
    }
}

/// A line for a call that raised an error.
#[derive(Clone, Copy, Debug)]
pub struct RaisedLine {
    /// The number of the call.
    pub id: u64,
    /// Whether the call is ordered by its end.
    pub last: bool,
}

impl RaisedLine {
    /// Appends the line.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut line = ObjectText::open(out);
        line.known_key(key!("raised"), out);
        push_int(self.id.into(), out);
        push_last(self.last, &mut line, out);
        line.close_line(out);
    }
}

fn push_last(last: bool, line: &mut ObjectText, out: &mut Vec<u8>) {
    if last {
        line.known_key(key!("last"), out);
        push_flag(true, out);
    }
}
