//! NumPy's `.npz`: a zip archive of `.npy` arrays.
//!
//! Reading returns each uncompressed array (`numpy.savez`) in place, and each compressed one
//! (`numpy.savez_compressed`) in separate memory. Writing stores them uncompressed, each on a 64-byte boundary of the
//! file. The header of an `.npy` is a multiple of 64 bytes, so its elements are aligned as well.

use std::io::Write;

use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, beginning, shortened};
use crate::npy;
use crate::tensor::Tensor;
use crate::value::Value;
use crate::zip_entries::{self, Archive, ArchiveWriter};

/// An archive without entries consists only of the end of its directory.
const EMPTY_MAGIC: &[u8] = b"PK\x05\x06";

const SUFFIX: &str = ".npy";

/// Longer than any `.npy` header that is written here.
const MAX_HEADER: u64 = 1 << 17;

/// Reads all arrays, as a dictionary from name to tensor in the order of the archive.
///
/// An array that cannot be read, or an entry that is not an array, becomes [`Value::Unread`] with the reason. The
/// others are still read. If no array can be read, the first reason is the error.
pub fn read(bytes: &Bytes) -> Result<Value, Error> {
    if !bytes.starts_with(zip_entries::MAGIC) && !bytes.starts_with(EMPTY_MAGIC) {
        let expected = "an .npz file (a zip archive)";
        return Err(Error::whole(Fault::Magic { expected, found: beginning(bytes) }));
    }
    let budget = Budget::of_file(bytes.len());
    let mut archive = Archive::open(bytes, &budget)?;
    let names: Vec<String> = archive.names().map(str::to_owned).collect();
    let mut pairs = Vec::with_capacity(names.len());
    let mut first_error = None;
    for name in names {
        let Some(key) = name.strip_suffix(SUFFIX) else {
            if !name.ends_with('/') {
                let what = "an archive entry that is not an .npy array".to_owned();
                pairs.push((Value::Str(name), Value::Unread(what)));
            }
            continue;
        };
        // Errors of reading the entry contain its name; errors of reading its array do not.
        let array = archive
            .read(&name)
            .and_then(|entry| npy::read_within(&entry, &budget).map_err(|error| error.in_part(&name)));
        let value = match array {
            Ok(tensor) => Value::Tensor(tensor),
            Err(Error { fault: Fault::Unsupported(reason), .. }) => Value::Unread(reason),
            Err(error) => {
                let reason = error.to_string();
                first_error.get_or_insert(error);
                Value::Unread(reason)
            }
        };
        pairs.push((Value::Str(key.to_owned()), value));
    }
    let some_read = pairs.iter().any(|(_, value)| matches!(value, Value::Tensor(_)));
    match first_error {
        Some(error) if !some_read => Err(error),
        _ => Ok(Value::Dict(pairs)),
    }
}

/// Writes a dictionary from name to tensor. The same value always gives the same bytes.
pub fn write(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    let arrays = arrays(value)?;
    let mut archive = ArchiveWriter::new(out);
    for (name, tensor) in arrays {
        let view = tensor.view();
        let at_most = (view.packed_size() as u64).saturating_add(MAX_HEADER);
        archive.entry(&name, at_most, |payload| npy::write(&view, payload))?;
    }
    archive.finish()
}

/// The entry names and tensors of a value that an `.npz` can hold.
fn arrays(value: &Value) -> Result<Vec<(String, &Tensor)>, Error> {
    let unsupported = |reason: &str| Error::whole(Fault::Unsupported(reason.to_owned()));
    let Value::Dict(pairs) = value else {
        return Err(unsupported("an .npz holds named arrays only: give it a dictionary of tensors"));
    };
    let mut arrays = Vec::with_capacity(pairs.len());
    let mut seen = std::collections::HashSet::with_capacity(pairs.len());
    for (key, value) in pairs {
        let Value::Str(key) = key else {
            return Err(unsupported("the names of the arrays in an .npz are text"));
        };
        let Value::Tensor(tensor) = value else {
            return Err(unsupported("an .npz holds arrays only, not other values").in_part(key));
        };
        let name = format!("{key}{SUFFIX}");
        if !zip_entries::is_plain_name(&name) {
            return Err(Error::whole(Fault::EscapesFolder(shortened(&name))));
        }
        if !seen.insert(key) {
            return Err(unsupported("two arrays of the same name").in_part(key));
        }
        arrays.push((name, tensor));
    }
    Ok(arrays)
}
