//! The part of the protobuf wire format that dumps and graphs need: reads and writes fields.
//!
//! A reader walks one message within the file and returns numbers and byte ranges, never copies. The caller
//! skips unknown fields. Groups, which none of these files has, are refused.

use std::ops::Range;

use crate::error::{Error, Fault, Place};

/// The fields of one message.
#[derive(Debug)]
pub struct Message<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
}

/// One field: its number, its offset and its content.
#[derive(Debug)]
pub struct Field {
    /// Its number in the message.
    pub number: u64,
    /// Where it begins in the file.
    pub at: usize,
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    Varint(u64),
    Bytes(Range<usize>),
    /// Four or eight bytes.
    Fixed(Range<usize>),
}

impl<'a> Message<'a> {
    /// The message in a range of the file. The caller has checked the range.
    pub fn new(file: &'a [u8], range: Range<usize>) -> Message<'a> {
        Message { file, at: range.start, end: range.end }
    }

    /// The next field, if there is one.
    pub fn next_field(&mut self) -> Result<Option<Field>, Error> {
        if self.at >= self.end {
            return Ok(None);
        }
        let at = self.at;
        let key = self.varint()?;
        let (number, wire_type) = (key >> 3, key & 7);
        if number == 0 || number > (1 << 29) - 1 {
            let fault = Fault::malformed("a field number from 1 to 2^29-1", number.to_string());
            return Err(Error::at(Place::Byte(at as u64), fault));
        }
        let payload = match wire_type {
            0 => Payload::Varint(self.varint()?),
            1 => self.skip(8).map(Payload::Fixed)?,
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.skip(length)?)
            }
            5 => self.skip(4).map(Payload::Fixed)?,
            _ => {
                let fault = Fault::malformed("wire type 0, 1, 2 or 5", wire_type.to_string());
                return Err(Error::at(Place::Byte(at as u64), fault));
            }
        };
        Ok(Some(Field { number, at, payload }))
    }

    /// A base-128 number of at most 64 bits.
    pub fn varint(&mut self) -> Result<u64, Error> {
        let at = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            if self.at >= self.end {
                let fault = Fault::truncated("the rest of a number", "the end of its message");
                return Err(Error::at(Place::Byte(at as u64), fault));
            }
            let byte = self.file[self.at];
            self.at += 1;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Error::at(
            Place::Byte(at as u64),
            Fault::malformed("a number of at most 64 bits", "a longer one"),
        ))
    }

    fn skip(&mut self, length: u64) -> Result<Range<usize>, Error> {
        let (start, left) = (self.at, self.end - self.at);
        match usize::try_from(length).ok().filter(|&length| length <= left) {
            Some(length) => {
                self.at += length;
                Ok(start..self.at)
            }
            None => {
                let found = format!("{left} to the end of its message");
                let fault = Fault::truncated(format!("a field of {length} bytes"), found);
                Err(Error::at(Place::Byte(start as u64), fault))
            }
        }
    }
}

impl Field {
    /// The field as a number.
    pub fn number_value(&self, name: &str) -> Result<u64, Error> {
        match self.payload {
            Payload::Varint(value) => Ok(value),
            _ => Err(self.mismatch(name, "a number")),
        }
    }

    /// The field as an enum or signed 32-bit number, which is sign-extended in the file.
    pub fn i32_value(&self, name: &str) -> Result<i32, Error> {
        self.number_value(name).map(|value| value as i32)
    }

    /// The field as bytes, text or a message.
    pub fn range(&self, name: &str) -> Result<Range<usize>, Error> {
        match &self.payload {
            Payload::Bytes(range) => Ok(range.clone()),
            _ => Err(self.mismatch(name, "bytes")),
        }
    }

    /// The bytes of a field of numbers of fixed width: a single one, or many packed together.
    pub fn fixed_width(&self, name: &str) -> Result<Range<usize>, Error> {
        match &self.payload {
            Payload::Fixed(range) | Payload::Bytes(range) => Ok(range.clone()),
            Payload::Varint(_) => Err(self.mismatch(name, "numbers of fixed width")),
        }
    }

    /// The field as text. Invalid UTF-8 is replaced: a bad name must not lose the file.
    pub fn text(&self, file: &[u8], name: &str) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&file[self.range(name)?]).into_owned())
    }

    /// Adds a field of repeated numbers: a single one, or many packed together.
    pub fn extend(&self, file: &[u8], name: &str, limit: usize, out: &mut Vec<u64>) -> Result<(), Error> {
        match &self.payload {
            Payload::Varint(value) => out.push(*value),
            Payload::Bytes(range) => {
                let mut packed = Message::new(file, range.clone());
                while packed.at < packed.end && out.len() <= limit {
                    out.push(packed.varint()?);
                }
            }
            Payload::Fixed(_) => return Err(self.mismatch(name, "numbers")),
        }
        if out.len() > limit {
            let fault = Fault::malformed(format!("at most {limit} {name}"), "more");
            return Err(Error::at(Place::Byte(self.at as u64), fault));
        }
        Ok(())
    }

    fn mismatch(&self, name: &str, expected: &str) -> Error {
        let found = match self.payload {
            Payload::Varint(_) => "a number",
            Payload::Bytes(_) => "bytes",
            Payload::Fixed(_) => "a fixed-width number",
        };
        Error::at(Place::Byte(self.at as u64), Fault::malformed(format!("{expected} for {name}"), found))
    }
}

/// Appends a number unless it is zero: an absent field means zero.
pub fn put_number(out: &mut Vec<u8>, number: u64, value: u64) {
    if value != 0 {
        put_varint(out, number << 3);
        put_varint(out, value);
    }
}

/// Appends bytes, text or a message, even when empty: empty items of a repeated field count too.
pub fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(out, number << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends text, unless it is empty.
pub fn put_text(out: &mut Vec<u8>, number: u64, text: &str) {
    if !text.is_empty() {
        put_bytes(out, number, text.as_bytes());
    }
}

/// Appends a base-128 number.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
