//! Writes lines byte for byte as the tools do.

use std::io::Write;

use super::line::{Frame, Line, Payload, Shape, Values};
use crate::error::Error;
use crate::json::{Json, Layout, Writer};

/// Writes lines. Call [`LineWriter::finish`] at the end.
pub struct LineWriter<'w> {
    json: Writer<'w>,
}

impl<'w> LineWriter<'w> {
    /// A writer of lines.
    pub fn new(out: &'w mut dyn Write) -> LineWriter<'w> {
        LineWriter { json: Writer::new(out, Layout::OneLine) }
    }

    /// Writes one line and its line end.
    pub fn line(&mut self, line: &Line) -> Result<(), Error> {
        if let Line::Other(value) = line {
            self.json.json(value)?;
            return self.json.newline();
        }
        self.json.start_list()?;
        match line {
            Line::HooksTensor { name, values, dtype, shape } => {
                self.json.text(name)?;
                self.values(values)?;
                self.json.text(dtype)?;
                self.dims(shape)?;
            }
            Line::HooksValue { name, value } => {
                self.json.text(name)?;
                self.json.json(value)?;
            }
            Line::HooksFrame { name, frame } => {
                self.json.text(name)?;
                self.json.text(frame)?;
            }
            Line::PtdbgEntry { name, dump_step, payload, dtype, shape, stats } => {
                self.json.text(name)?;
                self.json.int(*dump_step)?;
                match payload {
                    Payload::Values(values) => self.values(values)?,
                    Payload::Digest(text) => self.json.text(text)?,
                }
                self.json.text(dtype)?;
                match shape {
                    Shape::Dims(dims) => self.dims(dims)?,
                    Shape::Text(text) => self.json.text(text)?,
                }
                self.items(stats)?;
            }
            Line::Stack { name, frames } => {
                self.json.text(name)?;
                self.frames(frames)?;
            }
            Line::Other(_) => {}
        }
        self.json.end()?;
        self.json.newline()
    }

    /// Flushes the buffer.
    pub fn finish(self) -> Result<(), Error> {
        self.json.finish()
    }

    fn values(&mut self, values: &Values) -> Result<(), Error> {
        self.json.start_list()?;
        match values {
            Values::Floats(values) => values.iter().try_for_each(|&value| self.json.float(value))?,
            Values::Ints(values) => values.iter().try_for_each(|&value| self.json.int(value.into()))?,
            Values::Mixed(values) => values.iter().try_for_each(|value| self.json.json(value))?,
        }
        self.json.end()
    }

    fn items(&mut self, items: &[Json]) -> Result<(), Error> {
        self.json.start_list()?;
        items.iter().try_for_each(|item| self.json.json(item))?;
        self.json.end()
    }

    fn dims(&mut self, dims: &[u64]) -> Result<(), Error> {
        self.json.start_list()?;
        dims.iter().try_for_each(|&dim| self.json.int(dim.into()))?;
        self.json.end()
    }

    fn frames(&mut self, frames: &[Frame]) -> Result<(), Error> {
        self.json.start_list()?;
        for frame in frames {
            self.json.start_list()?;
            self.json.text(&frame.file)?;
            self.json.text(&frame.line)?;
            self.json.text(&frame.function)?;
            match &frame.code {
                Some(code) => self.json.text(code)?,
                None => self.json.null()?,
            }
            self.json.end()?;
        }
        self.json.end()
    }
}
