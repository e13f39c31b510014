//! Reads and writes a file by its path, and detects its format.

mod detect;
mod format;
mod records;
mod regular;
mod unfinished;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::bytes::{Access, Bytes};
use crate::error::Error;
use crate::value::Value;

pub use format::{Format, Holds, Records, decode, encode, left_out};
pub use regular::open_regular;
pub(crate) use regular::regular_metadata;
pub use unfinished::{Unfinished, nameless};

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

/// Writes to a file. The system does not read remote files for us: it refuses a part that is absent, and a copy of it
/// in memory is written instead.
struct Copying<'a>(&'a File);

impl Write for Copying<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        /// Bytes that are copied at a time.
        const COPIED: usize = 1 << 20;
        match self.0.write(bytes) {
            #[cfg(unix)]
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                let copy = bytes[..bytes.len().min(COPIED)].to_vec();
                self.0.write(&copy)
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a file of any content, complete or absent, as [`write()`] does.
pub fn write_with(
    path: &Path,
    content: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let write = || {
        let unfinished = Unfinished::create(path).map_err(Error::whole)?;
        let mut out = BufWriter::with_capacity(1 << 20, Copying(unfinished.file()));
        content(&mut out)?;
        out.flush().map_err(Error::whole)?;
        drop(out);
        unfinished.finish().map_err(Error::whole)
    };
    write().map_err(|error| error.in_file(path))
}
