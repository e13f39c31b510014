//! The header of a file to which tensors are appended one by one.
//!
//! The header is in front of the elements and names all of them, so space for it is reserved: as many bytes as it may
//! have, blanks at first. The format allows blanks after the header's text. Elements follow each other without gaps,
//! as every reader of the format demands; where a tensor would not begin at a multiple of [`ALIGNMENT`], a filler of
//! a few bytes precedes it, named `__padding__.N`. [`read`](super::read()) leaves fillers out.
//!
//! ```text
//! header length | {"__metadata__":{"ulpscope.pack":"1"},NAME:{…},…}   blanks | elements, filler, elements, …
//! └──────────────────────── reserved ───────────────────────────────────────┘
//! ```

use ulpscope_tensor::DType;

use super::header::LENGTH_SIZE;
use super::{DTYPE_KEY, METADATA, PACK_KEY, PADDING_NAME, UNFINISHED_KEY, stand_in};
use crate::json::push_text;

/// Every tensor begins at a multiple of this many bytes.
pub const ALIGNMENT: u64 = 64;

/// What the header says until it is filled in.
const UNFINISHED: &str = "the journal.jsonl beside its folder says which tensors it holds: name that folder";

/// Bytes of the header around the descriptions of tensors.
const FRAME: usize = 256;

/// The most that a tensor with its filler takes: a name of some hundred characters, and 64 dimensions.
const MAX_DESCRIPTION: usize = 4 << 10;

/// The header of one file. It knows where the next tensor goes.
#[derive(Clone, Debug)]
pub struct ShardHeader {
    reserved: usize,
    tensors: Vec<u8>,
    /// Dtypes that the format has no name for, as entries of the metadata.
    marks: Vec<u8>,
    /// Bytes of elements and fillers so far.
    end: u64,
    fillers: u64,
}

/// Where a tensor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardPlace {
    /// The first byte of its elements in the file.
    pub offset: u64,
    /// Bytes of the filler before it.
    pub padding: u64,
}

/// A header as it was, to take back what was added since.
#[derive(Clone, Copy, Debug)]
pub struct ShardMark {
    tensors: usize,
    marks: usize,
    end: u64,
    fillers: u64,
}

impl ShardHeader {
    /// A header without tensors. `reserved` bytes precede the elements; a multiple of [`ALIGNMENT`].
    pub fn new(reserved: usize) -> ShardHeader {
        debug_assert!((reserved as u64).is_multiple_of(ALIGNMENT) && reserved > FRAME);
        ShardHeader { reserved, tensors: Vec::new(), marks: Vec::new(), end: 0, fillers: 0 }
    }

    /// Bytes before the elements.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    /// The size of the file.
    pub fn file_size(&self) -> u64 {
        self.reserved as u64 + self.end
    }

    /// Whether the description of any tensor has room.
    pub fn has_room(&self) -> bool {
        self.tensors.len() + self.marks.len() + FRAME + MAX_DESCRIPTION <= self.reserved
    }

    /// The bytes that a tensor of `length` bytes adds at most.
    pub fn most_added(length: u64) -> u64 {
        length.saturating_add(ALIGNMENT - 1)
    }

    /// Adds a tensor of `length` bytes. Returns nothing, and adds nothing, if its description has no room.
    pub fn add(&mut self, name: &str, dtype: DType, shape: &[usize], length: u64) -> Option<ShardPlace> {
        let before = self.mark();
        let padding = self.end.next_multiple_of(ALIGNMENT) - self.end;
        if padding > 0 {
            let filler = format!("{PADDING_NAME}{}", self.fillers);
            self.fillers += 1;
            self.describe(&filler, "U8", &[padding as usize], None, padding);
        }
        let offset = self.file_size();
        match dtype.safetensors_name() {
            Some(known) => self.describe(name, known, shape, None, length),
            None => {
                let (stored_as, added) = stand_in(dtype);
                self.describe(name, stored_as, shape, added, length);
                self.marks.push(b',');
                push_text(&[DTYPE_KEY, name].concat(), &mut self.marks);
                self.marks.push(b':');
                push_text(dtype.name(), &mut self.marks);
            }
        }
        if self.tensors.len() + self.marks.len() + FRAME > self.reserved {
            self.undo(before);
            return None;
        }
        Some(ShardPlace { offset, padding })
    }

    fn describe(&mut self, name: &str, dtype: &str, shape: &[usize], added: Option<usize>, length: u64) {
        let out = &mut self.tensors;
        out.push(b',');
        push_text(name, out);
        out.extend_from_slice(b":{\"dtype\":\"");
        out.extend_from_slice(dtype.as_bytes());
        out.extend_from_slice(b"\",\"shape\":[");
        for (position, dim) in shape.iter().copied().chain(added).enumerate() {
            if position > 0 {
                out.push(b',');
            }
            push_number(dim as u64, out);
        }
        out.extend_from_slice(b"],\"data_offsets\":[");
        push_number(self.end, out);
        out.push(b',');
        self.end += length;
        push_number(self.end, out);
        out.extend_from_slice(b"]}");
    }

    /// The header as it is.
    pub fn mark(&self) -> ShardMark {
        let ShardHeader { tensors, marks, end, fillers, .. } = self;
        ShardMark { tensors: tensors.len(), marks: marks.len(), end: *end, fillers: *fillers }
    }

    /// Takes back what was added since.
    pub fn undo(&mut self, mark: ShardMark) {
        self.tensors.truncate(mark.tensors);
        self.marks.truncate(mark.marks);
        (self.end, self.fillers) = (mark.end, mark.fillers);
    }

    /// The reserved bytes of a file whose header will be filled in later.
    pub fn unfinished(&self) -> Vec<u8> {
        let mut state = vec![b','];
        push_text(UNFINISHED_KEY, &mut state);
        state.push(b':');
        push_text(UNFINISHED, &mut state);
        self.compose(&state, &[])
    }

    /// The reserved bytes of a file that has all its tensors.
    pub fn finished(&self) -> Vec<u8> {
        self.compose(&self.marks, &self.tensors)
    }

    fn compose(&self, metadata: &[u8], tensors: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.reserved);
        bytes.extend_from_slice(&((self.reserved - LENGTH_SIZE) as u64).to_le_bytes());
        bytes.extend_from_slice(format!("{{\"{METADATA}\":{{\"{PACK_KEY}\":\"1\"").as_bytes());
        bytes.extend_from_slice(metadata);
        bytes.push(b'}');
        bytes.extend_from_slice(tensors);
        bytes.push(b'}');
        bytes.resize(self.reserved, b' ');
        bytes
    }
}

fn push_number(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(number.to_string().as_bytes());
}
