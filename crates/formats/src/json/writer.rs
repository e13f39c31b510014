//! Writes values in the layout of Python's `json` module.

use std::io::Write;

use super::{Event, Json, text};
use crate::error::{Error, Fault};

/// Size of the write buffer in bytes.
const BUFFER: usize = 64 << 10;

/// Where the spaces and line breaks go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// As `json.dump(..., indent=n)`.
    Indented(usize),
    /// As `json.dumps(...)`: one line, `", "` and `": "`.
    OneLine,
}

/// Writes values and containers in the order they are given. Call [`Writer::finish`] at the end.
pub struct Writer<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    layout: Layout,
    /// For every open container: its closing bracket, and whether it has an item yet.
    open: Vec<(u8, bool)>,
    after_key: bool,
}

impl<'w> Writer<'w> {
    /// A writer of one document, or of several lines.
    pub fn new(out: &'w mut dyn Write, layout: Layout) -> Writer<'w> {
        Writer { out, buffer: Vec::with_capacity(BUFFER + 1024), layout, open: Vec::new(), after_key: false }
    }

    /// Writes an event. A document copied event by event keeps its meaning and gets this layout.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event {
            Event::Null => self.null(),
            Event::Bool(flag) => self.bool(*flag),
            Event::Int(number) => self.int(*number),
            Event::Float(number) => self.float(*number),
            Event::Str(text) => self.text(text),
            Event::Key(key) => self.key(key),
            Event::ListStart => self.start_list(),
            Event::ObjectStart => self.start_object(),
            Event::ListEnd | Event::ObjectEnd => self.end(),
        }
    }

    /// Writes a whole tree.
    pub fn json(&mut self, value: &Json) -> Result<(), Error> {
        match value {
            Json::Null => self.null(),
            Json::Bool(flag) => self.bool(*flag),
            Json::Int(number) => self.int(*number),
            Json::Float(number) => self.float(*number),
            Json::Str(text) => self.text(text),
            Json::List(items) => {
                self.start_list()?;
                for item in items {
                    self.json(item)?;
                }
                self.end()
            }
            Json::Object(pairs) => {
                self.start_object()?;
                for (key, value) in pairs {
                    self.key(key)?;
                    self.json(value)?;
                }
                self.end()
            }
        }
    }

    /// Writes `null`.
    pub fn null(&mut self) -> Result<(), Error> {
        self.plain(b"null")
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, flag: bool) -> Result<(), Error> {
        self.plain(if flag { b"true" } else { b"false" })
    }

    /// Writes an integer.
    pub fn int(&mut self, number: i128) -> Result<(), Error> {
        self.plain(number.to_string().as_bytes())
    }

    /// Writes a float as Python's `repr`, or one of the words `NaN`, `Infinity`, `-Infinity`.
    pub fn float(&mut self, number: f64) -> Result<(), Error> {
        if number.is_nan() {
            self.plain(b"NaN")
        } else if number.is_infinite() {
            self.plain(if number > 0.0 { b"Infinity" } else { b"-Infinity" })
        } else {
            self.before_item();
            ulpscope_tensor::push_python_float(number, &mut self.buffer);
            self.pass_on()
        }
    }

    /// Writes a string.
    pub fn text(&mut self, text: &str) -> Result<(), Error> {
        self.before_item();
        text::encode(text, &mut self.buffer);
        self.pass_on()
    }

    /// Writes the key of the value that follows.
    pub fn key(&mut self, key: &str) -> Result<(), Error> {
        self.text(key)?;
        self.buffer.extend_from_slice(b": ");
        self.after_key = true;
        Ok(())
    }

    /// Opens a list.
    pub fn start_list(&mut self) -> Result<(), Error> {
        self.start(b'[', b']')
    }

    /// Opens an object.
    pub fn start_object(&mut self) -> Result<(), Error> {
        self.start(b'{', b'}')
    }

    /// Closes the innermost open container.
    pub fn end(&mut self) -> Result<(), Error> {
        if let Some((bracket, filled)) = self.open.pop() {
            if filled {
                self.break_line();
            }
            self.buffer.push(bracket);
        }
        self.pass_on()
    }

    /// Ends a line between two top-level values.
    pub fn newline(&mut self) -> Result<(), Error> {
        self.buffer.push(b'\n');
        self.pass_on()
    }

    /// Flushes the buffer. Open containers are not closed.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()
    }

    fn plain(&mut self, word: &[u8]) -> Result<(), Error> {
        self.before_item();
        self.buffer.extend_from_slice(word);
        self.pass_on()
    }

    fn start(&mut self, opening: u8, closing: u8) -> Result<(), Error> {
        self.before_item();
        self.buffer.push(opening);
        self.open.push((closing, false));
        self.pass_on()
    }

    /// Writes the comma, line break and indentation before an item or key.
    fn before_item(&mut self) {
        if std::mem::take(&mut self.after_key) {
            return;
        }
        let Some((_, filled)) = self.open.last_mut() else { return };
        let first = !std::mem::replace(filled, true);
        if !first {
            self.buffer.extend_from_slice(if self.layout == Layout::OneLine { b", " } else { b"," });
        }
        self.break_line();
    }

    fn break_line(&mut self) {
        if let Layout::Indented(width) = self.layout {
            self.buffer.push(b'\n');
            self.buffer.extend(std::iter::repeat_n(b' ', width * self.open.len()));
        }
    }

    fn pass_on(&mut self) -> Result<(), Error> {
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.write_all(&self.buffer).map_err(|error| Error::whole(Fault::Io(error)))?;
        self.buffer.clear();
        Ok(())
    }
}
