//! A tensor that is a part of a file: where a dump says it is, checked against the file before a byte is read.
//!
//! The dump alone says which bytes, as the header of the file is filled in only when a step ends. So a killed run and
//! a finished one are read in the same way, and nothing of a header is trusted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ulpscope_formats::json::Json;
use ulpscope_formats::msprobe::TensorItem;
use ulpscope_formats::{Access, Bytes, Error, Fault, Place, Tensor};
use ulpscope_tensor::{DType, contiguous_strides, element_count};

use crate::entry::TensorEntry;

/// Files that stay mapped at a time. A system limits the number of mappings.
const MAX_KEPT: usize = 256;

/// A few bytes may stand for any number of elements. A tensor may have this many, as one of a `.pt` file ...
const MIN_REPEATED: u64 = 1 << 32;

/// ... or this many for each byte of the file, if that is more.
const MAX_REPEATED_PER_BYTE: u64 = 8;

/// A part of a file of the rank's folder of tensors.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePart {
    /// The name of the file.
    pub file: String,
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The dtype of the elements, if it is not that of the entry.
    dtype: Option<String>,
    /// The shape of the elements, if it is not that of the entry: a dimension of 1 stands for all repetitions.
    shape: Option<Vec<u64>>,
}

impl FilePart {
    /// The part that an item names, if it names one in this file.
    pub(crate) fn of(file: &str, item: &TensorItem) -> Result<Option<FilePart>, Error> {
        let Some(place) = item.get("data_at") else { return Ok(None) };
        let [offset, length] = match numbers(place).as_deref() {
            Some(&[offset, length]) => [offset, length],
            _ => return Err(refused("data_at", "[offset, length] in bytes", place)),
        };
        let dtype = match item.get("data_dtype") {
            None => None,
            Some(Json::Str(dtype)) => Some(dtype.clone()),
            Some(other) => return Err(refused("data_dtype", "the name of a dtype", other)),
        };
        let shape = item.get("data_shape");
        let shape =
            shape.map(|shape| numbers(shape).ok_or_else(|| refused("data_shape", "dimensions", shape)));
        Ok(Some(FilePart { file: file.to_owned(), offset, length, dtype, shape: shape.transpose()? }))
    }

    /// The same elements in a different place.
    pub(crate) fn at(&self, offset: u64, length: u64) -> FilePart {
        FilePart { offset, length, ..self.clone() }
    }

    /// The tensor in the bytes of its file.
    fn tensor(&self, entry: &TensorEntry, bytes: &Bytes) -> Result<Tensor, Fault> {
        let dtype = match &self.dtype {
            Some(name) => name.parse().ok(),
            None => entry.dtype(),
        };
        let Some(dtype) = dtype else {
            let found = self.dtype.as_deref().unwrap_or(&entry.dtype);
            return Err(Fault::malformed("a dtype that can be read", format!("{found:?}")));
        };
        let Some(whole) = sizes(entry.shape.as_deref()) else {
            return Err(Fault::malformed("a shape", "none"));
        };
        let stored = match &self.shape {
            None => whole.clone(),
            Some(shape) => {
                sizes(Some(shape)).filter(|stored| is_repeated(stored, &whole)).ok_or_else(|| {
                    let expected = format!("a data_shape that repeats to {whole:?}");
                    Fault::malformed(expected, format!("{shape:?}"))
                })?
            }
        };
        let needed = element_count(&stored).and_then(|count| count.checked_mul(dtype.size()));
        if needed.map(|needed| needed as u64) != Some(self.length) {
            let expected = format!("the bytes of {dtype} of shape {stored:?}");
            return Err(Fault::malformed(expected, format!("data_at of {} bytes", self.length)));
        }
        let end = self.offset.checked_add(self.length).filter(|&end| end <= bytes.len() as u64);
        let Some(end) = end else {
            let expected = format!("{} bytes from byte {}", self.length, self.offset);
            return Err(Fault::truncated(expected, format!("a file of {} bytes", bytes.len())));
        };
        if self.shape.is_some() {
            let limit = (bytes.len() as u64).saturating_mul(MAX_REPEATED_PER_BYTE).max(MIN_REPEATED);
            let found = whole.iter().fold(1u64, |count, &dim| count.saturating_mul(dim as u64));
            if found > limit {
                return Err(Fault::TooLarge { what: "the number of repeated elements", limit, found });
            }
        }
        let part = bytes.slice(self.offset as usize..end as usize);
        Ok(expanded(dtype, &stored, whole, part)?)
    }
}

/// A tensor whose dimensions of 1 are repeated.
fn expanded(
    dtype: DType,
    stored: &[usize],
    whole: Vec<usize>,
    bytes: Bytes,
) -> Result<Tensor, ulpscope_tensor::ViewError> {
    let mut strides = contiguous_strides(stored, dtype.size());
    for (stride, (stored, whole)) in strides.iter_mut().zip(stored.iter().zip(&whole)) {
        if stored != whole {
            *stride = 0;
        }
    }
    Tensor::strided(dtype, whole, strides, bytes, 0)
}

fn is_repeated(stored: &[usize], whole: &[usize]) -> bool {
    stored.len() == whole.len()
        && stored.iter().zip(whole).all(|(stored, whole)| stored == whole || (*stored == 1 && *whole > 1))
}

fn sizes(shape: Option<&[u64]>) -> Option<Vec<usize>> {
    shape?.iter().map(|&dim| usize::try_from(dim).ok()).collect()
}

fn numbers(value: &Json) -> Option<Vec<u64>> {
    let number = |value: &Json| match value {
        Json::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    value.as_list()?.iter().map(number).collect()
}

fn refused(key: &str, expected: &str, found: &Json) -> Error {
    Error::at(Place::Part(key.to_owned()), Fault::malformed(expected, found.describe()))
}

/// The files of a rank that hold several tensors, mapped once each.
#[derive(Debug, Default)]
pub(crate) struct PartFiles(Mutex<HashMap<PathBuf, Bytes>>);

impl PartFiles {
    /// The tensor of an entry. `check` refuses links; it is asked whenever a file is mapped.
    pub(crate) fn tensor(
        &self,
        path: &Path,
        part: &FilePart,
        entry: &TensorEntry,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Tensor, Error> {
        let bytes = self.bytes(path, part, check)?;
        part.tensor(entry, &bytes).map_err(|fault| Error::whole(fault).in_file(path))
    }

    fn bytes(
        &self,
        path: &Path,
        part: &FilePart,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Bytes, Error> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A run that is still going on appends to its file.
        let is_inside = |bytes: &&Bytes| part.offset.saturating_add(part.length) <= bytes.len() as u64;
        if let Some(bytes) = files.get(path).filter(is_inside) {
            return Ok(bytes.clone());
        }
        check()?;
        let bytes = Bytes::map(path, Access::ReadOnly)?;
        if files.len() >= MAX_KEPT {
            files.clear();
        }
        files.insert(path.to_owned(), bytes.clone());
        Ok(bytes)
    }
}
