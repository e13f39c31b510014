//! Inflates large compressed entries into a nameless file and maps it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::bytes::{Access, Bytes};
use crate::error::Fault;
use crate::file::nameless;

/// Bytes inflated at a time.
const PIECE: usize = 1 << 18;

/// Inflates `source`, an entry of `archive`. `corrupt` turns a read error of the source into a fault, and `check`
/// tests the number of bytes.
pub(super) fn on_disk(
    archive: &Bytes,
    source: &mut dyn Read,
    corrupt: impl Fn(io::Error) -> Fault,
    check: impl Fn(u64) -> Result<(), Fault>,
) -> Result<Bytes, Fault> {
    let folder = folder();
    let full = |error: io::Error| {
        let hint = "large compressed entries are unfolded there: free some space, or set TMPDIR";
        Fault::Io(io::Error::new(error.kind(), format!("{}: {error}; {hint}", folder.display())))
    };
    let mut file = nameless(&folder).map_err(full)?;
    let mut piece = vec![0; PIECE];
    let mut written = 0;
    loop {
        let count = match source.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(corrupt(error)),
        };
        file.write_all(&piece[..count]).map_err(full)?;
        written += count as u64;
    }
    check(written)?;
    map(&file, archive)
}

/// Maps the inflated file, writable if the archive is.
fn map(file: &File, archive: &Bytes) -> Result<Bytes, Fault> {
    let access = if archive.is_writable() { Access::CopyOnWrite } else { Access::ReadOnly };
    Bytes::map_file(file, access).map_err(|error| error.fault)
}

/// The folder for large temporary files: `TMPDIR`, or the one that Linux keeps on disk, because `/tmp` may be in
/// memory.
fn folder() -> PathBuf {
    const ON_DISK: &str = "/var/tmp";
    if std::env::var_os("TMPDIR").is_none() && Path::new(ON_DISK).is_dir() {
        return PathBuf::from(ON_DISK);
    }
    std::env::temp_dir()
}
