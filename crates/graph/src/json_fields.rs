//! The JSON that `atc` makes of a graph: repeated fields are lists, maps are lists of `{"key", "value"}`.

use std::borrow::Cow;

use ulpscope_formats::json::{Event, Reader};
use ulpscope_formats::{Bytes, Error};

use crate::fields::{Field, Fields, PORTION};

pub(crate) struct JsonFields<'a> {
    file: &'a Bytes,
    reader: Reader<'a>,
    released: usize,
    /// The open containers: a list has the name of its field.
    open: Vec<Option<Cow<'a, str>>>,
    name: Cow<'a, str>,
}

impl<'a> JsonFields<'a> {
    pub(crate) fn new(file: &'a Bytes) -> JsonFields<'a> {
        JsonFields { file, reader: Reader::new(file), released: 0, open: Vec::new(), name: Cow::Borrowed("") }
    }

    /// The name of what comes next: the last key, or the name of the list that it is in.
    fn current(&mut self) -> Cow<'a, str> {
        match self.open.last() {
            Some(Some(list)) => list.clone(),
            _ => std::mem::take(&mut self.name),
        }
    }
}

impl<'a> Fields<'a> for JsonFields<'a> {
    fn next(&mut self) -> Result<Option<Field<'a>>, Error> {
        let at = self.reader.position();
        if at - self.released > PORTION {
            self.file.release(self.released..at);
            self.released = at;
        }
        while let Some(event) = self.reader.event()? {
            let value = match event {
                Event::Key(key) => {
                    self.name = key;
                    continue;
                }
                Event::ListStart => {
                    let name = self.current();
                    self.open.push(Some(name));
                    continue;
                }
                Event::ListEnd => {
                    self.open.pop();
                    continue;
                }
                Event::ObjectStart => {
                    let name = self.current();
                    self.open.push(None);
                    // The outermost object is the file itself.
                    if self.open.len() == 1 {
                        continue;
                    }
                    return Ok(Some(Field::Start(name)));
                }
                Event::ObjectEnd => {
                    self.open.pop();
                    if self.open.is_empty() {
                        continue;
                    }
                    return Ok(Some(Field::End));
                }
                Event::Null => continue,
                Event::Bool(flag) => Cow::Borrowed(if flag { "true" } else { "false" }),
                Event::Int(number) => Cow::Owned(number.to_string()),
                Event::Float(number) => Cow::Owned(number.to_string()),
                Event::Str(text) => text,
            };
            let name = self.current();
            return Ok(Some(Field::Value(name, value)));
        }
        Ok(None)
    }
}
