//! The JSON header, typed as it is parsed: never a tree of it. The densest text there is, a shape of nothing but
//! single digits, takes two bytes for each dimension of eight, so that a hostile header costs a few times its own
//! length, which is capped.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::METADATA;
use crate::error::{Error, Fault, Place, shortened};

/// The format's own cap on the header, so that every valid file can be read.
pub const MAX_HEADER_SIZE: u64 = 100_000_000;

/// Bytes of the length in front of the header.
pub(super) const LENGTH_SIZE: usize = 8;

/// What the header says about one tensor.
#[derive(Deserialize)]
#[serde(expecting = "an object with dtype, shape and data_offsets")]
pub(super) struct Info {
    pub dtype: String,
    pub shape: Vec<u64>,
    pub data_offsets: (u64, u64),
}

/// The whole header, in its own order.
pub(super) struct Header {
    pub metadata: Vec<(String, String)>,
    pub tensors: Vec<(String, Info)>,
}

/// Reads the header; also returns the byte at which the elements begin.
pub(super) fn read(bytes: &[u8]) -> Result<(Header, usize), Error> {
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
    let header = serde_json::from_slice(text).map_err(|error| in_json(text, &error))?;
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

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Header, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { metadata: Vec::new(), tensors: Vec::new() };
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA {
                        header.metadata.extend(map.next_value::<Texts>()?.0);
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A map of text to text that keeps its order.
struct Texts(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Texts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("metadata of text to text")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Texts(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}
