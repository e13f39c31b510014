//! `construct.json`: which module each call was made in.

use std::io::Write;

use super::LAYOUT;
use crate::bytes::Bytes;
use crate::error::Error;
use crate::json::{Event, Json, Reader, Writer};

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The call or module; also `optimizer`, `clip_grad` and `megatron_micro_step_number`.
    pub child: String,
    /// Its parent.
    pub parent: Parent,
}

/// The parent of a call or module.
#[derive(Clone, Debug, PartialEq)]
pub enum Parent {
    /// None: it is at the top.
    None,
    /// A module, `optimizer` or `clip_grad`.
    Name(String),
    /// The same, with the number of the micro-batch (Megatron).
    MicroStep(Option<String>, i128),
    /// Anything else, unchanged.
    Other(Json),
}

/// Reads the entries of a `construct.json` in file order, then one error if the file is incomplete.
#[derive(Debug)]
pub struct ConstructJson<'a> {
    reader: Reader<'a>,
    done: bool,
}

impl<'a> ConstructJson<'a> {
    /// A reader at the first entry.
    pub fn new(bytes: &'a Bytes) -> Result<ConstructJson<'a>, Error> {
        let mut reader = Reader::new(bytes);
        match reader.expect_event()? {
            Event::ObjectStart => Ok(ConstructJson { reader, done: false }),
            other => Err(reader.unexpected("an object of calls and their parents", &other)),
        }
    }

    fn read_link(&mut self) -> Result<Option<Link>, Error> {
        match self.reader.expect_event()? {
            Event::Key(child) => {
                let child = child.into_owned();
                let value = self.reader.value().map_err(|error| error.in_part(&child))?;
                Ok(Some(Link { child, parent: parent_of(value) }))
            }
            _ => {
                self.reader.end()?;
                Ok(None)
            }
        }
    }
}

impl Iterator for ConstructJson<'_> {
    type Item = Result<Link, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let link = self.read_link().transpose();
        self.done = !matches!(link, Some(Ok(_)));
        link
    }
}

fn parent_of(mut value: Json) -> Parent {
    match &mut value {
        Json::Null => Parent::None,
        Json::Str(name) => Parent::Name(std::mem::take(name)),
        Json::List(parts) => match parts.as_mut_slice() {
            [Json::Null, Json::Int(step)] => Parent::MicroStep(None, *step),
            [Json::Str(name), Json::Int(step)] => Parent::MicroStep(Some(std::mem::take(name)), *step),
            _ => Parent::Other(value),
        },
        _ => Parent::Other(value),
    }
}

/// Writes a `construct.json` entry by entry. Call [`ConstructWriter::finish`] at the end.
pub struct ConstructWriter<'w> {
    json: Writer<'w>,
}

impl<'w> ConstructWriter<'w> {
    /// Starts a file.
    pub fn new(out: &'w mut dyn Write) -> Result<ConstructWriter<'w>, Error> {
        let mut json = Writer::new(out, LAYOUT);
        json.start_object()?;
        Ok(ConstructWriter { json })
    }

    /// Writes one entry.
    pub fn link(&mut self, link: &Link) -> Result<(), Error> {
        self.json.key(&link.child)?;
        match &link.parent {
            Parent::None => self.json.null(),
            Parent::Name(name) => self.json.text(name),
            Parent::MicroStep(name, step) => {
                self.json.start_list()?;
                match name {
                    Some(name) => self.json.text(name)?,
                    None => self.json.null()?,
                }
                self.json.int(*step)?;
                self.json.end()
            }
            Parent::Other(value) => self.json.json(value),
        }
    }

    /// Ends the file.
    pub fn finish(mut self) -> Result<(), Error> {
        self.json.end()?;
        self.json.finish()
    }
}
