//! Writes a value to a file.

use std::collections::HashSet;
use std::io::Write;

use super::header::LENGTH_SIZE;
use super::read::in_tensor;
use super::{DTYPE_KEY, LONE_TENSOR, MAX_HEADER_SIZE, METADATA, metadata_of, stand_in};
use crate::error::{Error, Fault, shortened};
use crate::packed::write_packed;
use crate::tensor::Tensor;
use crate::value::Value;

/// Writes every tensor of a value under its dotted name, and its `__metadata__`. The same value always gives the
/// same bytes: wider elements come first, which keeps every tensor aligned without gaps, and tensors of one
/// width keep their order. The format cannot hold anything else; [`left_out`] names what is lost.
pub fn write(value: &Value, out: &mut dyn Write) -> Result<(), Error> {
    let mut tensors = value.tensors();
    for (name, _) in &mut tensors {
        if name.is_empty() {
            LONE_TENSOR.clone_into(name);
        }
    }
    let mut names = HashSet::new();
    for (name, _) in &tensors {
        let problem = if name == METADATA {
            "a tensor cannot have this name, which the format keeps for itself; rename it"
        } else if !names.insert(name.as_str()) {
            "two tensors have this dotted name; rename one"
        } else {
            continue;
        };
        return Err(in_tensor(name, Fault::Unsupported(problem.into())));
    }
    tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype().size()));

    let header = compose(metadata_of(value).unwrap_or_default(), &tensors)?;
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(Error::whole)?;
    out.write_all(header.as_bytes()).map_err(Error::whole)?;
    for (_, tensor) in &tensors {
        write_packed(&tensor.view(), out).map_err(Error::whole)?;
    }
    Ok(())
}

/// The dotted paths of everything in a value that [`write()`] cannot store, shortened for a message.
pub fn left_out(value: &Value) -> Vec<String> {
    let carried = metadata_of(value).is_some();
    let within = format!("{METADATA}.");
    let mut paths = Vec::new();
    value.visit(&mut |path, leaf| {
        let container = matches!(leaf, Value::Tensor(_) | Value::Dict(_) | Value::List(_) | Value::Tuple(_));
        let in_metadata = carried && path.starts_with(&within);
        if !container && !in_metadata {
            paths.push(shortened(path));
        }
    });
    paths
}

/// The header, padded with blanks so that the elements begin at a multiple of eight.
fn compose(metadata: Vec<(&str, &str)>, tensors: &[(String, &Tensor)]) -> Result<String, Error> {
    let mut metadata: Vec<(String, String)> = metadata
        .into_iter()
        .filter(|(key, _)| !key.starts_with(DTYPE_KEY))
        .map(|(key, text)| (key.to_owned(), text.to_owned()))
        .collect();
    let mut entries = Vec::with_capacity(tensors.len() + 1);
    // 128 bits, because the views of a broadcast tensor may need more than any file can hold.
    let mut begin = 0u128;
    for (name, tensor) in tensors {
        let mut shape = tensor.shape().to_vec();
        let dtype = tensor.dtype().safetensors_name().unwrap_or_else(|| {
            let (stored_as, added) = stand_in(tensor.dtype());
            shape.extend(added);
            metadata.push((format!("{DTYPE_KEY}{name}"), tensor.dtype().name().to_owned()));
            stored_as
        });
        let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let end = begin + tensor.view().packed_size() as u128;
        entries.push(format!(
            "{}:{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{begin},{end}]}}",
            quoted(name)
        ));
        begin = end;
    }
    if !metadata.is_empty() {
        let texts: Vec<String> =
            metadata.iter().map(|(key, text)| format!("{}:{}", quoted(key), quoted(text))).collect();
        entries.insert(0, format!("\"{METADATA}\":{{{}}}", texts.join(",")));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(LENGTH_SIZE) - header.len()));
    if header.len() as u64 > MAX_HEADER_SIZE {
        return Err(Error::whole(Fault::TooLarge {
            what: "header length",
            limit: MAX_HEADER_SIZE,
            found: header.len() as u64,
        }));
    }
    Ok(header)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
