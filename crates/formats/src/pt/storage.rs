//! Storages: the flat arrays of elements that tensors are views of.

use std::collections::HashMap;

use ulpscope_tensor::DType;

use crate::budget::Budget;
use crate::byte_order::{number_size, swapped};
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::pickle::{Id, Pickle};
use crate::zip_entries::Archive;

/// A reference to a storage, as the pickle has it:
/// `("storage", class, key, location, element count[, view])`.
#[derive(Clone, Copy)]
pub(super) struct Storage<'p> {
    pub module: &'p str,
    pub class: &'p str,
    pub key: &'p str,
    pub count: i128,
    /// First element and element count of the referenced part, if not the whole storage.
    pub part: Option<(i128, i128)>,
}

/// The element type of a storage class.
pub(super) enum Elements {
    /// All of one type.
    Typed(DType),
    /// Bytes; the tensor has the type.
    Untyped,
    /// Codes of a quantizer, of this many bytes.
    Quantized(usize),
    /// An unknown class.
    Unknown,
}

impl<'p> Storage<'p> {
    /// Parses a persistent id; nothing if it does not refer to a storage.
    pub fn parse(pickle: &'p Pickle, id: Id) -> Result<Option<Storage<'p>>, Error> {
        const EXPECTED: &str = "(\"storage\", class, key, location, element count)";
        let Some(&[kind, class, key, _location, count, ref rest @ ..]) = pickle.tuple(id) else {
            return match pickle.tuple(id).and_then(|parts| parts.first()) {
                Some(&kind) if pickle.text(kind) == Some("module") => Ok(None),
                _ => Err(pickle.unexpected(id, EXPECTED)),
            };
        };
        if pickle.text(kind) != Some("storage") {
            return Err(pickle.unexpected(kind, "\"storage\""));
        }
        let (Some((module, class)), Some(key)) = (pickle.global(class), pickle.text(key)) else {
            return Err(pickle.unexpected(id, EXPECTED));
        };
        let Some(count) = pickle.int(count).filter(|&count| count >= 0) else {
            return Err(pickle.unexpected(count, "an element count"));
        };
        let part = match *rest {
            [view, ..] => match pickle.tuple(view) {
                Some(&[_view_key, offset, length]) => match (pickle.int(offset), pickle.int(length)) {
                    (Some(offset), Some(length)) => Some((offset, length)),
                    _ => return Err(pickle.unexpected(view, "(view key, first element, element count)")),
                },
                _ => None,
            },
            [] => None,
        };
        Ok(Some(Storage { module, class, key, count, part }))
    }

    pub fn elements(&self) -> Elements {
        if !self.module.starts_with("torch") {
            return Elements::Unknown;
        }
        if let Some(dtype) = DType::from_storage_class(self.class) {
            return Elements::Typed(dtype);
        }
        match self.class {
            "UntypedStorage" => Elements::Untyped,
            "QInt8Storage" | "QUInt8Storage" | "QUInt4x2Storage" | "QUInt2x4Storage" => {
                Elements::Quantized(1)
            }
            "QInt32Storage" => Elements::Quantized(4),
            _ => Elements::Unknown,
        }
    }

    pub fn element_size(&self) -> Option<usize> {
        match self.elements() {
            Elements::Typed(dtype) => Some(dtype.size()),
            Elements::Untyped => Some(1),
            Elements::Quantized(size) => Some(size),
            Elements::Unknown => None,
        }
    }
}

/// Sign changes that torch stores as a flag beside the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Flip {
    Nothing,
    /// The conjugate bit: every second number of a complex storage.
    Imaginary,
    /// The negative bit: every number.
    All,
    /// Both bits.
    Real,
}

/// The change that the bytes of a storage need before they can be used in place.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Change {
    number_size: usize,
    swap: bool,
    flip: Flip,
}

/// The storages of a file.
pub(super) struct Storages<'a> {
    source: Source<'a>,
    /// Storages that had to be copied, once for each kind of change: a file cannot cause more copies than
    /// there are kinds, however often it refers to a storage.
    changed: HashMap<(String, Change), Bytes>,
    budget: &'a Budget,
}

enum Source<'a> {
    Zip { archive: Box<Archive<'a>>, folder: String, big_endian: bool, read: HashMap<String, Bytes> },
    Legacy(HashMap<String, Bytes>),
}

impl<'a> Storages<'a> {
    pub fn zip(archive: Archive<'a>, folder: String, big_endian: bool, budget: &'a Budget) -> Storages<'a> {
        let source = Source::Zip { archive: Box::new(archive), folder, big_endian, read: HashMap::new() };
        Storages { source, changed: HashMap::new(), budget }
    }

    pub fn legacy(storages: HashMap<String, Bytes>, budget: &'a Budget) -> Storages<'a> {
        Storages { source: Source::Legacy(storages), changed: HashMap::new(), budget }
    }

    /// The bytes of a reference, as little-endian elements of `dtype`.
    pub fn get(&mut self, storage: &Storage<'_>, dtype: DType, flip: Flip) -> Result<Bytes, Error> {
        let change = Change {
            number_size: number_size(dtype),
            swap: matches!(self.source, Source::Zip { big_endian: true, .. }) && dtype.size() > 1,
            flip,
        };
        let bytes = if change.swap || change.flip != Flip::Nothing {
            let name = (storage.key.to_owned(), change);
            match self.changed.get(&name) {
                Some(done) => done.clone(),
                None => {
                    let stored = self.as_stored(storage.key)?;
                    let charged = self.budget.charge("storages in the order of this machine", stored.len());
                    charged.map_err(Error::whole)?;
                    let done = change.apply(&stored);
                    self.changed.insert(name, done.clone());
                    done
                }
            }
        } else {
            self.as_stored(storage.key)?
        };
        let at = || Place::Part(format!("storage {}", shortened(storage.key)));
        let element_size = storage.element_size().unwrap_or(1);
        let bounds = |first: i128, count: i128| {
            let start = usize::try_from(first).ok()?.checked_mul(element_size)?;
            let size = usize::try_from(count).ok()?.checked_mul(element_size)?;
            Some(start..start.checked_add(size)?).filter(|range| range.end <= bytes.len())
        };
        if bounds(0, storage.count).is_none() {
            return Err(Error::at(
                at(),
                Fault::truncated(
                    format!("{} elements of {element_size} bytes", storage.count),
                    format!("{} bytes", bytes.len()),
                ),
            ));
        }
        match storage.part {
            None => Ok(bytes),
            Some((first, count)) => match bounds(first, count) {
                Some(range) => Ok(bytes.slice(range)),
                None => Err(Error::at(
                    at(),
                    Fault::malformed(
                        format!("a part of its {} bytes", bytes.len()),
                        format!("{count} elements of {element_size} bytes from element {first}"),
                    ),
                )),
            },
        }
    }

    fn as_stored(&mut self, key: &str) -> Result<Bytes, Error> {
        match &mut self.source {
            Source::Zip { archive, folder, read, .. } => match read.get(key) {
                Some(bytes) => Ok(bytes.clone()),
                None => {
                    let bytes = archive.read(&format!("{folder}{key}"))?;
                    read.insert(key.to_owned(), bytes.clone());
                    Ok(bytes)
                }
            },
            Source::Legacy(storages) => storages.get(key).cloned().ok_or_else(|| {
                Error::whole(Fault::malformed(
                    format!("a storage {:?}", shortened(key)),
                    format!("none among {}", storages.len()),
                ))
            }),
        }
    }
}

impl Change {
    fn apply(self, bytes: &[u8]) -> Bytes {
        let mut copy = if self.swap { swapped(bytes, self.number_size) } else { bytes.to_vec() };
        for (index, number) in copy.chunks_exact_mut(self.number_size).enumerate() {
            let flipped = match self.flip {
                Flip::Nothing => false,
                Flip::All => true,
                Flip::Imaginary => index % 2 == 1,
                Flip::Real => index % 2 == 0,
            };
            if flipped && let Some(top) = number.last_mut() {
                *top ^= 0x80;
            }
        }
        copy.into()
    }
}
