//! The format before torch 1.6: five pickles in a row, then the storages.
//!
//! ```text
//! magic number | protocol version | sys_info | the object | storage keys | count, elements | count, elements ...
//! ```
//!
//! The storages follow the pickle that refers to them, and only the pickle contains the size of their
//! elements: the whole graph is searched for references first. Elements are little-endian on every machine.

use std::collections::HashMap;

use super::objects::Objects;
use super::storage::{Storage, Storages};
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::pickle::{self, Node, Pickle};
use crate::value::Value;

const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;
const PROTOCOL_VERSION: i128 = 1001;

/// Whether the bytes begin like such a file: with the magic number, in any pickle protocol.
pub(super) fn may_be(bytes: &Bytes) -> bool {
    // A pickle of one number is short; bytes after it are ignored.
    const HEAD: usize = 64;
    let head = bytes.slice(0..bytes.len().min(HEAD));
    let budget = Budget::of_file(head.len());
    pickle::read(&head, 0, &budget).is_ok_and(|pickle| pickle.int(pickle.root()) == Some(MAGIC))
}

pub(super) fn read(bytes: &Bytes) -> Result<Value, Error> {
    let budget = Budget::of_file(bytes.len());
    let magic = pickle::read(bytes, 0, &budget)?;
    let version = pickle::read(bytes, magic.range().end, &budget)?;
    if version.int(version.root()) != Some(PROTOCOL_VERSION) {
        return Err(version.unexpected(version.root(), format!("torch's file version {PROTOCOL_VERSION}")));
    }
    // The type sizes and byte order of the machine that wrote the file. They do not affect the rest.
    let machine = pickle::read(bytes, version.range().end, &budget)?;
    let object = pickle::read(bytes, machine.range().end, &budget)?;
    let keys = pickle::read(bytes, object.range().end, &budget)?;
    let storages = locate(bytes, &object, &keys)?;
    Objects::new(&object, Storages::legacy(storages, &budget), bytes.len(), &budget).root()
}

/// The place of each storage.
fn locate(bytes: &Bytes, object: &Pickle, keys: &Pickle) -> Result<HashMap<String, Bytes>, Error> {
    let mut referred: HashMap<&str, Storage<'_>> = HashMap::new();
    for id in object.ids() {
        if let Node::Persistent(reference) = object.node(id)
            && let Some(storage) = Storage::parse(object, *reference)?
        {
            referred.entry(storage.key).or_insert(storage);
        }
    }
    let Node::List(listed) = keys.node(keys.root()) else {
        return Err(keys.unexpected(keys.root(), "the list of storage keys"));
    };
    let mut storages = HashMap::with_capacity(listed.len());
    let mut at = keys.range().end;
    for &id in listed {
        let Some(key) = keys.text(id) else {
            return Err(keys.unexpected(id, "the key of a storage"));
        };
        let Some(storage) = referred.get(key) else {
            return Err(keys.unexpected(id, "the key of a storage that the object refers to"));
        };
        let part = |fault: Fault| {
            Error::at(Place::Byte(at as u64), fault).in_part(&format!("storage {}", shortened(key)))
        };
        let Some(element_size) = storage.element_size() else {
            let class = format!("{}.{}", storage.module, storage.class);
            return Err(part(Fault::Unsupported(format!(
                "the element size of {} is unknown, so later storages cannot be located",
                shortened(&class)
            ))));
        };
        let rest = &bytes[at..];
        let Some((count, rest)) = rest.split_first_chunk() else {
            return Err(part(Fault::truncated("an element count of 8 bytes", rest.len().to_string())));
        };
        let count = i64::from_le_bytes(*count);
        if i128::from(count) != storage.count {
            return Err(part(Fault::malformed(
                format!("{} elements, as the object says", storage.count),
                count.to_string(),
            )));
        }
        let size = usize::try_from(count).ok().and_then(|count| count.checked_mul(element_size));
        let Some(size) = size.filter(|&size| size <= rest.len()) else {
            return Err(part(Fault::truncated(
                format!("{count} elements of {element_size} bytes"),
                format!("{} bytes", rest.len()),
            )));
        };
        let start = at + size_of_val(&count);
        at = start + size;
        storages.insert(key.to_owned(), bytes.slice(start..at));
    }
    if may_be(&bytes.slice(at..bytes.len())) {
        let fault = Fault::malformed("one saved object", "a second one: save several as a dictionary");
        return Err(Error::at(Place::Byte(at as u64), fault));
    }
    Ok(storages)
}
