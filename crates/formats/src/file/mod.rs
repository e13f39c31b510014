//! Reads and writes a file by its path, and detects its format.

mod format;
mod records;
mod regular;
mod unfinished;

use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::acl::{self, DumpFile};
use crate::bytes::{Access, Bytes};
use crate::error::{Error, Fault};
use crate::value::Value;
use crate::{npy, npz, pt, safetensors};

pub use format::Format;
pub use regular::open_regular;
pub(crate) use regular::regular_metadata;
pub use unfinished::{Unfinished, nameless};

/// The name that numpy gives to an array without a name.
const LONE_ARRAY: &str = "arr_0";

/// A file that was read.
#[derive(Debug)]
pub struct Opened {
    /// The detected format.
    pub format: Format,
    /// The content. Tensors share the mapped file where its layout allows.
    pub value: Value,
}

/// Reads a file of any known format.
pub fn read(path: &Path, access: Access) -> Result<Opened, Error> {
    let bytes = Bytes::map(path, access)?;
    let read = || {
        let format = Format::detect(path, &bytes)?;
        Ok(Opened { format, value: decode(format, &bytes)? })
    };
    bytes.reading(read).map_err(|error: Error| error.in_file(path))
}

/// Reads bytes of a known format.
pub fn decode(format: Format, bytes: &Bytes) -> Result<Value, Error> {
    match format {
        Format::Npy => npy::read(bytes).map(Value::Tensor),
        Format::Npz => npz::read(bytes),
        Format::Pt => pt::read(bytes),
        Format::Safetensors => safetensors::read(bytes),
        Format::PklLines => records::read_lines(bytes),
        Format::Msprobe => records::read_json(bytes),
        Format::Acl => acl::read(bytes).map(|dump| dump.to_value()),
    }
}

/// Writes a value in a format. `name` is the operator's name in an ACL dump.
pub fn encode(format: Format, value: &Value, name: &str, out: &mut dyn Write) -> Result<(), Error> {
    match format {
        Format::Npy => match value.tensors().as_slice() {
            [(_, tensor)] => npy::write(&tensor.view(), out),
            tensors => {
                let found = tensors.len();
                let message = format!("{format} holds one tensor, and there are {found}");
                Err(Error::whole(Fault::Unsupported(message)))
            }
        },
        Format::Npz if matches!(value, Value::Tensor(_)) => {
            npz::write(&Value::Dict(vec![(Value::Str(LONE_ARRAY.to_owned()), value.clone())]), out)
        }
        Format::Npz => npz::write(value, out),
        Format::Pt => pt::write(value, out),
        Format::Safetensors => safetensors::write(value, out),
        Format::PklLines => records::write_lines(value, out),
        Format::Msprobe => records::write_json(value, out),
        Format::Acl => acl::write(&DumpFile::from_value(value, name)?, out),
    }
}

/// The dotted paths of everything in a value that [`write()`] would silently leave out: a tensor format cannot hold
/// the plain values around the tensors. Values for which the write fails are not among them.
pub fn left_out(format: Format, value: &Value) -> Vec<String> {
    match format {
        Format::Pt | Format::Msprobe => return Vec::new(),
        Format::Safetensors => return safetensors::left_out(value),
        // Without tensors the value is a list of records, which is written completely.
        Format::PklLines if value.tensors().is_empty() => return Vec::new(),
        Format::Npy | Format::Npz | Format::Acl | Format::PklLines => {}
    }
    let mut paths = Vec::new();
    value.visit(&mut |path, part| {
        if !matches!(part, Value::Tensor(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_)) {
            paths.push(path.to_owned());
        }
    });
    paths
}

/// Writes a file that is complete or absent. An existing file is replaced atomically.
pub fn write(path: &Path, format: Format, value: &Value) -> Result<(), Error> {
    write_while(path, format, value, &|| Ok(()))
}

/// The same, with `go_on` called from time to time. If it returns an error, no file is left.
pub fn write_while(
    path: &Path,
    format: Format,
    value: &Value,
    go_on: &dyn Fn() -> io::Result<()>,
) -> Result<(), Error> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    write_with(path, |out| value.reading(|| encode(format, value, &name, &mut Asking { out, go_on })))
}

/// Calls `go_on` before every portion.
struct Asking<'a> {
    out: &'a mut dyn Write,
    go_on: &'a dyn Fn() -> io::Result<()>,
}

impl Write for Asking<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// Bytes between two calls.
        const PORTION: usize = 16 << 20;
        (self.go_on)()?;
        self.out.write(&bytes[..bytes.len().min(PORTION)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file of any content, complete or absent, as [`write()`] does.
pub fn write_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let write = || {
        let unfinished = Unfinished::create(path).map_err(Error::whole)?;
        let mut out = BufWriter::with_capacity(1 << 20, unfinished.file());
        content(&mut out)?;
        out.flush().map_err(Error::whole)?;
        drop(out);
        unfinished.finish().map_err(Error::whole)
    };
    write().map_err(|error| error.in_file(path))
}
