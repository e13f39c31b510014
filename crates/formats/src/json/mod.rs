//! JSON as Python writes it: an event reader, a value tree for small parts, and a writer with Python's layout.
//!
//! The older tools write their dumps with `json.dump`. That is JSON plus the bare words `NaN`, `Infinity` and
//! `-Infinity`, and the files can be larger than memory. Therefore the base is a pull [`Reader`] over mapped
//! bytes, whose own memory does not grow with the file. [`Json`] is built only for parts that are known to be
//! small (one call, one line). Numbers keep their kind, because `63` and `63.0` distinguish releases. The
//! [`Writer`] prints them as Python's `repr` does, so that a file read and written again is unchanged.
//!
//! ```text
//! bytes ──► Reader ──► Event, Event, …          (any size)
//!                └──► Json                       (one value, within the Budget of its text)
//! Event or Json ──► Writer ──► bytes as json.dump(indent=…) or json.dumps would write them
//! ```

mod event;
mod reader;
pub(crate) mod skip;
mod text;
pub(crate) mod tree;
mod writer;

pub use event::Event;
pub use reader::Reader;
pub use text::encode as push_text;
pub use tree::Json;
pub use ulpscope_tensor::python_float_repr;
pub use writer::{Layout, Writer};

use crate::error::Error;

/// Maximum nesting depth. The tools that write these files stop at 400 levels of arguments, plus a few around them.
pub const MAX_DEPTH: usize = 1024;

/// Reads a whole document as one value.
pub fn read(bytes: &[u8]) -> Result<Json, Error> {
    let mut reader = Reader::new(bytes);
    let value = reader.value()?;
    reader.end()?;
    Ok(value)
}

/// Where the value at `at`, or after spaces there, ends. The value is skipped without decoding, so its text may
/// still be invalid. Returns nothing if it is malformed or nested very deeply; a [`Reader`] can say which.
pub fn end_of_value(bytes: &[u8], at: usize) -> Option<usize> {
    skip::value(bytes, at)
}

/// Writes one value in the given layout, without a newline after it.
pub fn write(value: &Json, layout: Layout, out: &mut dyn std::io::Write) -> Result<(), Error> {
    let mut writer = Writer::new(out, layout);
    writer.json(value)?;
    writer.finish()
}
