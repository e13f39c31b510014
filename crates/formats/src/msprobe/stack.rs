//! `stack.json`: where each call was made.

use std::io::Write;

use super::LAYOUT;
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::json::{Event, Json, Reader, Writer};

/// The two forms of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackForm {
    /// From 8.0 on: `{"0": [[names], [lines]], ...}`, one entry for all calls with the same stack.
    Grouped,
    /// Before: `{name: [lines], ...}`.
    ByName,
}

/// A stack and the calls made from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The key of the entry: a running number when grouped, the name of the call otherwise.
    pub key: String,
    /// The calls: several when grouped, the key alone otherwise.
    pub names: Vec<String>,
    /// `File {path}, line {n}, in {function}, \n {code}`, innermost first.
    pub lines: Vec<String>,
    /// How the entry is written.
    pub form: StackForm,
}

/// Reads the entries of a `stack.json` in file order, then one error if the file is incomplete.
#[derive(Debug)]
pub struct StackJson<'a> {
    reader: Reader<'a>,
    done: bool,
}

impl<'a> StackJson<'a> {
    /// A reader at the first entry.
    pub fn new(bytes: &'a Bytes) -> Result<StackJson<'a>, Error> {
        let mut reader = Reader::new(bytes);
        match reader.expect_event()? {
            Event::ObjectStart => Ok(StackJson { reader, done: false }),
            other => Err(reader.unexpected("an object of stacks", &other)),
        }
    }

    fn read_stack(&mut self) -> Result<Option<Stack>, Error> {
        let key = match self.reader.expect_event()? {
            Event::Key(key) => key.into_owned(),
            _ => {
                self.reader.end()?;
                return Ok(None);
            }
        };
        let value = self.reader.value().map_err(|error| error.in_part(&key))?;
        match stack_of(key, value) {
            Ok(stack) => Ok(Some(stack)),
            Err((key, fault)) => Err(self.reader.error(fault).in_part(&key)),
        }
    }
}

impl Iterator for StackJson<'_> {
    type Item = Result<Stack, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let stack = self.read_stack().transpose();
        self.done = !matches!(stack, Some(Ok(_)));
        stack
    }
}

fn stack_of(key: String, value: Json) -> Result<Stack, (String, Fault)> {
    let found = value.describe();
    let parts = match value {
        Json::List(parts) => parts,
        _ => {
            return Err((key, Fault::malformed("a list of stack lines, or of names and stack lines", found)));
        }
    };
    let grouped = matches!(parts.as_slice(), [Json::List(_), Json::List(_)]);
    if !grouped {
        return match texts(parts) {
            Ok(lines) => Ok(Stack { names: vec![key.clone()], key, lines, form: StackForm::ByName }),
            Err(fault) => Err((key, fault)),
        };
    }
    let mut lists = parts.into_iter().map(|part| match part {
        Json::List(items) => texts(items),
        other => Err(Fault::malformed("a list of text", other.describe())),
    });
    match (lists.next(), lists.next()) {
        (Some(Ok(names)), Some(Ok(lines))) => Ok(Stack { key, names, lines, form: StackForm::Grouped }),
        (Some(Err(fault)), _) | (_, Some(Err(fault))) => Err((key, fault)),
        _ => Err((key, Fault::malformed("names and stack lines", found))),
    }
}

fn texts(items: Vec<Json>) -> Result<Vec<String>, Fault> {
    items
        .into_iter()
        .map(|item| match item {
            Json::Str(text) => Ok(text),
            other => Err(Fault::malformed("a line of text", other.describe())),
        })
        .collect()
}

/// Writes a `stack.json` entry by entry. Call [`StackWriter::finish`] at the end.
pub struct StackWriter<'w> {
    json: Writer<'w>,
}

impl<'w> StackWriter<'w> {
    /// Starts a file.
    pub fn new(out: &'w mut dyn Write) -> Result<StackWriter<'w>, Error> {
        let mut json = Writer::new(out, LAYOUT);
        json.start_object()?;
        Ok(StackWriter { json })
    }

    /// Writes one entry in its form.
    pub fn stack(&mut self, stack: &Stack) -> Result<(), Error> {
        self.json.key(&stack.key)?;
        match stack.form {
            StackForm::ByName => self.texts(&stack.lines),
            StackForm::Grouped => {
                self.json.start_list()?;
                self.texts(&stack.names)?;
                self.texts(&stack.lines)?;
                self.json.end()
            }
        }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<(), Error> {
        self.json.end()?;
        self.json.finish()
    }

    fn texts(&mut self, texts: &[String]) -> Result<(), Error> {
        self.json.start_list()?;
        texts.iter().try_for_each(|text| self.json.text(text))?;
        self.json.end()
    }
}
