//! Events: what the debugger writes of each tensor, and where a file has a graph.

use std::io::Write;
use std::ops::Range;

use super::data_type::TfType;
use super::tensor_proto;
use crate::bytes::Bytes;
use crate::error::{Error, Fault};
use crate::packed::write_packed;
use crate::protobuf::{Message, put_bytes, put_number, put_text, put_varint};
use crate::tensor::Tensor;

/// More values than a summary has.
const MAX_VALUES: usize = 1 << 16;

/// Every event begins with its time: the number of the field and that it has eight bytes, then these.
pub(crate) const EVENT_START: u8 = 0x09;
const TIME_FIELD: usize = 9;

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
    while let Some(field) = message.next_field()? {
        if field.number == 5 {
            return summary(file, field.range("summary")?);
        }
    }
    Err(Error::whole(Fault::malformed("an event with a tensor", "an event without a summary")))
}

fn summary(file: &Bytes, range: Range<usize>) -> Result<DebugTensor, Error> {
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        if field.number != 1 {
            continue;
        }
        let (mut watched, mut tensor) = (String::new(), None);
        let mut value = Message::new(file, field.range("value")?);
        while let Some(field) = value.next_field()? {
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

/// Writes the file of one tensor: an event without a time, of the first output of an operator.
pub fn write_debug_tensor(node: &str, tensor: &Tensor, out: &mut dyn Write) -> Result<(), Error> {
    let dtype = tensor.dtype();
    let Some(data_type) = TfType::of_dtype(dtype) else {
        return Err(Error::whole(Fault::Unsupported(format!("TensorFlow has no type for {dtype} elements"))));
    };
    let mut shape = Vec::new();
    for &size in tensor.shape() {
        let mut dim = Vec::new();
        put_number(&mut dim, 1, size as u64);
        put_bytes(&mut shape, 2, &dim);
    }
    let view = tensor.view();
    let size = view.len().saturating_mul(dtype.size());
    // Messages within messages, from the inside: each begins with the size of what follows, and the elements come last.
    let mut described = Vec::new();
    put_number(&mut described, 1, data_type.0);
    put_bytes(&mut described, 2, &shape);
    put_key_and_length(&mut described, 4, size);
    let mut value = Vec::new();
    put_text(&mut value, 7, &format!("{node}:0:DebugIdentity"));
    put_key_and_length(&mut value, 8, described.len() + size);
    let mut summary = Vec::new();
    put_key_and_length(&mut summary, 1, value.len() + described.len() + size);
    let mut event = vec![0; TIME_FIELD];
    event[0] = EVENT_START;
    put_key_and_length(&mut event, 5, summary.len() + value.len() + described.len() + size);
    for part in [event, summary, value, described] {
        out.write_all(&part).map_err(Error::whole)?;
    }
    write_packed(&view, out).map_err(Error::whole)
}

fn put_key_and_length(out: &mut Vec<u8>, field: u64, length: usize) {
    put_varint(out, field << 3 | 2);
    put_varint(out, length as u64);
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
    let is_event = file.get(start) == Some(&EVENT_START);
    (end.checked_add(RECORD_TAIL)? <= file.len() && is_event).then_some(start..end)
}

/// The graph of an event. An event begins with its time; nothing if the message is of a different kind.
fn in_event(file: &[u8], range: Range<usize>) -> Result<Option<Range<usize>>, Error> {
    if file.get(range.start) != Some(&EVENT_START) {
        return Ok(None);
    }
    let mut message = Message::new(file, range);
    while let Some(field) = message.next_field()? {
        if field.number == 4 {
            return field.range("graph_def").map(Some);
        }
    }
    Ok(None)
}

fn in_meta(file: &[u8]) -> Result<Option<Range<usize>>, Error> {
    let mut message = Message::new(file, 0..file.len());
    let mut seen = 0;
    while let Some(field) = message.next_field()? {
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
