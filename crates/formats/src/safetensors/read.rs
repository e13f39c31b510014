//! Reads a file into a dictionary of tensors.

use std::collections::{HashMap, HashSet};

use ulpscope_tensor::{DType, element_count};

use super::header::{self, Header, Info};
use super::{DTYPE_KEY, METADATA, PACK_KEY, PADDING_NAME, UNFINISHED_KEY, stand_in};
use crate::budget::Budget;
use crate::bytes::Bytes;
use crate::error::{Error, Fault, Place, shortened};
use crate::tensor::{MAX_RANK, Tensor};
use crate::value::Value;

/// Reads every tensor, in the order of their offsets. Nothing is copied.
pub fn read(bytes: &Bytes) -> Result<Value, Error> {
    let budget = Budget::of_file(bytes.len());
    let (Header { metadata, mut tensors }, data_at) = header::read(bytes, &budget)?;
    let mut names = HashSet::new();
    for (name, _) in &tensors {
        if !names.insert(name.as_str()) {
            let fault = Fault::malformed("each name once", "a second tensor of this name");
            return Err(in_tensor(name, fault));
        }
    }
    drop(names);
    let of_metadata = |wanted: &str| metadata.iter().find(|(key, _)| key == wanted).map(|(_, text)| text);
    let is_pack = of_metadata(PACK_KEY).is_some();
    if let Some(instead) = of_metadata(UNFINISHED_KEY).filter(|_| is_pack) {
        let message =
            format!("its header was never filled in, because the run was killed; {}", shortened(instead));
        return Err(Error::whole(Fault::Unsupported(message)));
    }
    // Zero-sized tensors share an offset with their neighbour: the end decides which comes first.
    tensors.sort_by_key(|(_, info)| info.data_offsets);

    let data = bytes.slice(data_at..bytes.len());
    let marks: HashMap<&str, &str> = metadata
        .iter()
        .filter_map(|(key, dtype)| Some((key.strip_prefix(DTYPE_KEY)?, dtype.as_str())))
        .collect();
    let mut pairs = Vec::with_capacity(tensors.len() + 1);
    let mut restored = HashSet::new();
    let mut end_before = 0;
    for (name, info) in tensors {
        let piece = piece(&data, &info, end_before).map_err(|fault| in_tensor(&name, fault))?;
        end_before = info.data_offsets.1;
        if is_pack && name.starts_with(PADDING_NAME) {
            continue;
        }
        let mut value = value_of(&info, piece).map_err(|fault| in_tensor(&name, fault))?;
        if let (Some(mark), Value::Tensor(tensor)) = (marks.get(name.as_str()), &value) {
            value = Value::Tensor(restore(tensor, mark).map_err(|fault| in_tensor(&name, fault))?);
            restored.insert(format!("{DTYPE_KEY}{name}"));
        }
        pairs.push((Value::Str(name), value));
    }
    if end_before != data.len() as u64 {
        let fault = Fault::malformed(
            format!("the file to end with the last tensor, {end_before} bytes after the header"),
            format!("{} bytes after it", data.len()),
        );
        return Err(Error::at(Place::Byte(data_at as u64), fault));
    }

    let metadata: Vec<(Value, Value)> = metadata
        .into_iter()
        .filter(|(key, _)| !restored.contains(key) && key != PACK_KEY)
        .map(|(key, text)| (Value::Str(key), Value::Str(text)))
        .collect();
    if !metadata.is_empty() {
        pairs.insert(0, (Value::Str(METADATA.into()), Value::Dict(metadata)));
    }
    Ok(Value::Dict(pairs))
}

pub(super) fn in_tensor(name: &str, fault: Fault) -> Error {
    Error::at(Place::Part(format!("tensor {:?}", shortened(name))), fault)
}

/// The bytes of one tensor, which must follow those of the previous tensor.
fn piece(data: &Bytes, info: &Info, end_before: u64) -> Result<Bytes, Fault> {
    let (begin, end) = info.data_offsets;
    if begin != end_before {
        return Err(Fault::malformed(
            format!("data_offsets to begin where the tensor before ends, at {end_before}"),
            begin.to_string(),
        ));
    }
    if end < begin {
        return Err(Fault::malformed(
            "data_offsets that do not end before they begin",
            format!("[{begin}, {end}]"),
        ));
    }
    if end > data.len() as u64 {
        return Err(Fault::truncated(
            format!("elements in data_offsets [{begin}, {end}]"),
            format!("{} bytes after the header", data.len()),
        ));
    }
    Ok(data.slice(begin as usize..end as usize))
}

fn value_of(info: &Info, piece: Bytes) -> Result<Value, Fault> {
    if info.shape.len() > MAX_RANK {
        let (limit, found) = (MAX_RANK as u64, info.shape.len() as u64);
        return Err(Fault::TooLarge { what: "number of dimensions", limit, found });
    }
    let Some(dtype) =
        DType::ALL.into_iter().find(|dtype| dtype.safetensors_name() == Some(info.dtype.as_str()))
    else {
        let what = match info.dtype.as_str() {
            "F4" => "4-bit floats, two to a byte",
            "F6_E2M3" | "F6_E3M2" => "6-bit floats, four to three bytes",
            _ => "elements of a type this version does not know",
        };
        return Ok(Value::Unread(format!(
            "{what} (dtype {:?}, shape {:?}), are not read; convert them to float16 or float32 first",
            shortened(&info.dtype),
            info.shape
        )));
    };
    let shape: Option<Vec<usize>> = info.shape.iter().map(|&dim| usize::try_from(dim).ok()).collect();
    let needed = shape.as_deref().and_then(element_count).and_then(|count| count.checked_mul(dtype.size()));
    let (Some(shape), Some(needed)) = (shape, needed) else {
        return Err(Fault::malformed("a shape that fits the address space", format!("{:?}", info.shape)));
    };
    if needed != piece.len() {
        return Err(Fault::malformed(
            format!("{needed} bytes for {} of shape {shape:?}", info.dtype),
            format!("data_offsets of {} bytes", piece.len()),
        ));
    }
    Ok(Value::Tensor(Tensor::contiguous(dtype, shape, piece)?))
}

/// The tensor with the type that its metadata entry names.
fn restore(stored: &Tensor, mark: &str) -> Result<Tensor, Fault> {
    let unnamed = DType::ALL.into_iter().filter(|dtype| dtype.safetensors_name().is_none());
    let Some(dtype) = unnamed.clone().find(|dtype| dtype.name() == mark) else {
        let names = unnamed.map(DType::name).collect::<Vec<_>>().join(" or ");
        return Err(Fault::malformed(
            format!("{names} in its metadata entry {DTYPE_KEY}…"),
            format!("{:?}", shortened(mark)),
        ));
    };
    let (stored_as, added) = stand_in(dtype);
    let mut shape = stored.shape().to_vec();
    let last = added.and_then(|_| shape.pop());
    if stored.dtype().safetensors_name() != Some(stored_as) || last != added {
        let last = added.map(|dim| format!(" with a last dimension of {dim}")).unwrap_or_default();
        return Err(Fault::malformed(
            format!("{dtype} stored as {stored_as}{last}"),
            format!("{} of shape {:?}", stored.dtype(), stored.shape()),
        ));
    }
    Ok(Tensor::contiguous(dtype, shape, stored.storage().clone())?)
}
