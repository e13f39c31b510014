//! A file as the commands use it: named tensors, or records with a summary.

use std::path::Path;

use ulpscope_dump::tensor_at;
use ulpscope_formats::file::{self, Format};
use ulpscope_formats::{Access, Bytes, Error, Fault, Tensor, Value};

use crate::summary::{Summary, summary};

/// The content of a file.
pub(crate) enum Source {
    /// Tensors, and other values around them.
    Tensors(Value),
    /// Records of a run, summarised.
    Records(Summary),
}

impl Source {
    /// Reads a file of any known format.
    pub(crate) fn read(path: &Path) -> Result<Source, Error> {
        if let Some(source) = Source::entry(path)? {
            return Ok(source);
        }
        let (format, bytes) = open(path)?;
        bytes.reading(|| Source::decode(path, format, &bytes)).map_err(|error| error.in_file(path))
    }

    /// The tensor of a dump that a path addresses as `DUMP:ENTRY`.
    pub(crate) fn entry(path: &Path) -> Result<Option<Source>, Error> {
        Ok(tensor_at(path)?.map(|tensor| Source::Tensors(Value::Tensor(tensor))))
    }

    /// Reads an open file. Records are visited, not kept: they may be larger than memory.
    pub(crate) fn decode(path: &Path, format: Format, bytes: &Bytes) -> Result<Source, Error> {
        match summary(path, format, bytes)? {
            Some(summary) => Ok(Source::Records(summary)),
            None => file::decode(format, bytes).map(Source::Tensors),
        }
    }
}

/// Maps a file and detects its format.
pub(crate) fn open(path: &Path) -> Result<(Format, Bytes), Error> {
    let bytes = Bytes::map(path, Access::ReadOnly)?;
    let format = bytes.reading(|| Format::detect(path, &bytes)).map_err(|error| error.in_file(path))?;
    Ok((format, bytes))
}

/// The tensors of a value with dotted names; a bare tensor has an empty name.
pub(crate) fn tensors(value: &Value) -> Vec<(String, Tensor)> {
    value.tensors().into_iter().map(|(name, tensor)| (name, tensor.clone())).collect()
}

/// Whether a file is of an unknown format, instead of a broken file of a known one.
pub(crate) fn is_foreign(error: &Error) -> bool {
    matches!(error.fault, Fault::UnknownFormat { .. })
}

/// `file` or `file:tensor`.
pub(crate) fn label(path: &Path, tensor: &str) -> String {
    if tensor.is_empty() { path.display().to_string() } else { format!("{}:{tensor}", path.display()) }
}
