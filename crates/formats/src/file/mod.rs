//! A file by its path: what is it, read it, write it.

mod format;
mod records;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::acl::{self, DumpFile};
use crate::bytes::{Access, Bytes};
use crate::error::{Error, Fault};
use crate::value::Value;
use crate::{npy, npz, pt, safetensors};

pub use format::Format;

/// The name numpy gives to an array that comes without one.
const LONE_ARRAY: &str = "arr_0";

/// A file that was read.
#[derive(Debug)]
pub struct Opened {
    /// What the file turned out to be.
    pub format: Format,
    /// What it holds. Tensors share the mapped file where its layout allows.
    pub value: Value,
}

/// Reads a file of any known format.
pub fn read(path: &Path, access: Access) -> Result<Opened, Error> {
    let bytes = Bytes::map(path, access)?;
    let read = || {
        let format = Format::detect(path, &bytes)?;
        Ok(Opened { format, value: decode(format, &bytes)? })
    };
    read().map_err(|error: Error| error.in_file(path))
}

/// Reads bytes that are known to be of a format.
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

/// Writes a value as bytes of a format. `name` is what an ACL dump calls its operator.
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

/// The dotted paths of everything in a value that [`write`] would leave out without a word: a format of tensors
/// has no place for the plain values around them. What a format refuses aloud is not among them.
pub fn left_out(format: Format, value: &Value) -> Vec<String> {
    match format {
        Format::Pt | Format::Msprobe => return Vec::new(),
        Format::Safetensors => return safetensors::left_out(value),
        // Without tensors, they are records, and whole.
        Format::PklLines if value.tensors().is_empty() => return Vec::new(),
        Format::Npy | Format::Npz | Format::Acl | Format::PklLines => {}
    }
    let mut paths = Vec::new();
    value.visit("", &mut |path, part| {
        if !matches!(part, Value::Tensor(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_)) {
            paths.push(path.to_owned());
        }
    });
    paths
}

/// Writes a file that is complete or absent: the bytes go into a temporary file beside it, which then takes its
/// name. A file that was there is replaced in the same instant.
pub fn write(path: &Path, format: Format, value: &Value) -> Result<(), Error> {
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    write_with(path, |out| encode(format, value, &name, out))
}

/// Writes a file of any content, complete or absent, as [`write`] does.
pub fn write_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let write = || {
        let (temporary, file) = create_beside(path).map_err(Error::whole)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let written = content(&mut out)
            .and_then(|()| out.flush().map_err(Error::whole))
            .and_then(|()| fs::rename(&temporary, path).map_err(Error::whole));
        if written.is_err() {
            // The first failure is the one to report; a file left behind would only confuse.
            let _ = fs::remove_file(&temporary);
        }
        written
    };
    write().map_err(|error| error.in_file(path))
}

/// A new file in the folder of `path`, under a name nobody else uses.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    if path.file_name().is_none() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    }
    loop {
        // Short, whatever the target's name is: a name of full length has no room for a suffix.
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_file_name(format!(".ulpscope-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}
