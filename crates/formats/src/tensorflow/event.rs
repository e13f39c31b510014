//! Events: what the debugger writes of each tensor, and where a file has a graph.

use std::ops::Range;

use super::tensor_proto;
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::protobuf::Message;
use crate::tensor::Tensor;

/// More values than a summary has.
const MAX_VALUES: usize = 1 << 16;

/// Bytes before a record of TensorBoard's files, and after it: its length and a checksum, and a checksum.
const RECORD_HEAD: usize = 12;
const RECORD_TAIL: usize = 4;

/// A tensor that TensorFlow's debugger dumped.
#[derive(Clone, Debug)]
pub struct DebugTensor {
    /// `LeNet/conv1/Conv2D:0:DebugIdentity`.
    pub watched: String,
    /// Its elements; none if they are handles of something else, such as a variable.
    pub tensor: Option<Tensor>,
}

/// Reads the file of one tensor: a bare event.
pub fn read_debug_tensor(file: &Bytes) -> Result<DebugTensor, Error> {
    let mut message = Message::new(file, 0..file.len());
    while let Some(field) = message.next()? {
        if field.number == 5 {
            return summary(file, field.range("summary")?);
        }
    }
    Err(Error::whole(Fault::malformed("an event with a tensor", "an event without a summary")))
}

fn summary(file: &Bytes, range: Range<usize>) -> Result<DebugTensor, Error> {
    let mut message = Message::new(file, range);
    while let Some(field) = message.next()? {
        if field.number != 1 {
            continue;
        }
        let (mut watched, mut tensor) = (String::new(), None);
        let mut value = Message::new(file, field.range("value")?);
        while let Some(field) = value.next()? {
            match field.number {
                7 => watched = field.text(file, "node_name")?,
                8 => tensor = Some(field.range("tensor")?),
                _ => {}
            }
        }
        if let Some(range) = tensor {
            return Ok(DebugTensor { watched, tensor: tensor_proto::read(file, range)? });
        }
    }
    Err(Error::whole(Fault::malformed("an event with a tensor", "a summary without one")))
}

/// Where a file has the `GraphDef` of a graph: a `.meta` file, a bare event, or a file of TensorBoard. Nothing if it has
/// none; of several the last, which is the complete one.
pub fn graph_range(file: &[u8]) -> Result<Option<Range<usize>>, Error> {
    if record(file, 0).is_some() {
        let (mut at, mut found) = (0, None);
        // A program that still runs has not written its last record completely.
        while let Some(range) = record(file, at) {
            at = range.end + RECORD_TAIL;
            found = in_event(file, range)?.or(found);
        }
        return Ok(found);
    }
    match in_event(file, 0..file.len())? {
        Some(range) => Ok(Some(range)),
        None => in_meta(file),
    }
}

/// The record that begins at a byte. Its length must leave room for the checksum after it.
fn record(file: &[u8], at: usize) -> Option<Range<usize>> {
    let head = file.get(at..at.checked_add(RECORD_HEAD)?)?;
    let length = u64::from_le_bytes(head.first_chunk().copied()?);
    let start = at + RECORD_HEAD;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    // Every event begins with its time, a double.
    let is_event = file.get(start) == Some(&0x09);
    (end.checked_add(RECORD_TAIL)? <= file.len() && is_event).then_some(start..end)
}

/// The graph of an event. An event begins with its time; nothing if the message is of a different kind.
fn in_event(file: &[u8], range: Range<usize>) -> Result<Option<Range<usize>>, Error> {
    if file.get(range.start) != Some(&0x09) {
        return Ok(None);
    }
    let mut message = Message::new(file, range);
    while let Some(field) = message.next()? {
        if field.number == 4 {
            return field.range("graph_def").map(Some);
        }
    }
    Ok(None)
}

fn in_meta(file: &[u8]) -> Result<Option<Range<usize>>, Error> {
    let mut message = Message::new(file, 0..file.len());
    let mut seen = 0;
    while let Some(field) = message.next()? {
        if field.number == 2 {
            return field.range("graph_def").map(Some);
        }
        seen += 1;
        if seen > MAX_VALUES {
            break;
        }
    }
    Ok(None)
}
