//! The JSON header, parsed directly into types, without a tree. The densest text, a shape of single digits only,
//! has two bytes for each dimension of eight. Each tensor is charged to the file's budget when it is parsed, for its
//! memory here and as a value.

use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::METADATA;
use crate::budget::Budget;
use crate::error::{Error, Fault, Place, shortened};

/// The format's own limit for the header, so that every valid file can be read.
pub const MAX_HEADER_SIZE: u64 = 100_000_000;

/// Bytes of the length field before the header.
pub(super) const LENGTH_SIZE: usize = 8;

/// The header's description of one tensor.
#[derive(Deserialize)]
#[serde(expecting = "an object with dtype, shape and data_offsets")]
pub(super) struct Info {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub data_offsets: (u64, u64),
}

/// The whole header, in file order.
pub(super) struct Header {
    pub metadata: Vec<(String, String)>,
    pub tensors: Vec<(String, Info)>,
}

/// Memory of a tensor, here and as a value: its place in either list, its layout, and its shape and strides.
const TENSOR_SIZE: usize = 512;

/// Memory of an entry of the metadata, here and as a value.
const TEXTS_SIZE: usize = 192;

/// Reads the header. Also returns the byte where the elements begin. Its content is charged to `budget`.
pub(super) fn read(bytes: &[u8], budget: &Budget) -> Result<(Header, usize), Error> {
    let Some(length) = bytes.first_chunk::<LENGTH_SIZE>() else {
        let fault = Fault::truncated("8 bytes of header length", bytes.len().to_string());
        return Err(Error::at(Place::Byte(0), fault));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_SIZE {
        let fault = Fault::TooLarge { what: "header length", limit: MAX_HEADER_SIZE, found: length };
        return Err(Error::at(Place::Byte(0), fault));
    }
    let data_at = LENGTH_SIZE + length as usize;
    let Some(text) = bytes.get(LENGTH_SIZE..data_at) else {
        let found = (bytes.len() - LENGTH_SIZE).to_string();
        let fault = Fault::truncated(format!("{length} bytes of header"), found);
        return Err(Error::at(Place::Byte(LENGTH_SIZE as u64), fault));
    };
    let refused = Cell::new(None);
    let entries = Entries { charge: &Charge { budget, refused: &refused } };
    let mut json = serde_json::Deserializer::from_slice(text);
    let header = json.deserialize_map(entries).and_then(|header| json.end().map(|()| header));
    let header = header.map_err(|error| match refused.take() {
        Some(fault) => Error::at(Place::Byte(LENGTH_SIZE as u64), fault),
        None => in_json(text, &error),
    })?;
    Ok((header, data_at))
}

/// A JSON error at its byte of the file.
fn in_json(text: &[u8], error: &serde_json::Error) -> Error {
    let line_at: usize = text
        .split_inclusive(|&byte| byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum();
    let at = LENGTH_SIZE + line_at + error.column().saturating_sub(1);
    let message = error.to_string();
    let message = message.rsplit_once(" at line ").map_or(message.as_str(), |(message, _)| message);
    let message = shortened(message);
    let found = if error.is_data() { message } else { format!("broken JSON ({message})") };
    let expected = "a JSON header of names, each with dtype, shape and data_offsets";
    Error::at(Place::Byte(at as u64), Fault::malformed(expected, found))
}

/// Access to the budget from within the parser, whose own errors are only text.
struct Charge<'a> {
    budget: &'a Budget,
    /// Why the parser was stopped.
    refused: &'a Cell<Option<Fault>>,
}

impl Charge<'_> {
    fn take<E: de::Error>(&self, bytes: usize) -> Result<(), E> {
        self.budget.charge("tensors of the header", bytes).map_err(|fault| {
            let error = E::custom(&fault);
            self.refused.set(Some(fault));
            error
        })
    }
}

struct Entries<'a> {
    charge: &'a Charge<'a>,
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
        let mut header = Header { metadata: Vec::new(), tensors: Vec::new() };
        while let Some(name) = map.next_key::<String>()? {
            if name == METADATA {
                map.next_value_seed(Texts { charge: self.charge, pairs: &mut header.metadata })?;
            } else {
                self.charge.take(TENSOR_SIZE + name.len())?;
                let info: Info = map.next_value()?;
                self.charge.take(info.dtype.len() + 3 * size_of_val(info.shape.as_slice()))?;
                header.tensors.push((name, info));
            }
        }
        Ok(header)
    }
}

/// A map of text to text that keeps its order.
struct Texts<'a> {
    charge: &'a Charge<'a>,
    pairs: &'a mut Vec<(String, String)>,
}

impl<'de> DeserializeSeed<'de> for Texts<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Texts<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata of text to text")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            self.charge.take(TEXTS_SIZE + key.len() + text.len())?;
            self.pairs.push((key, text));
        }
        Ok(())
    }
}
