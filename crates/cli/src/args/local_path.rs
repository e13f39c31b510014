//! The paths that results are written to.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use ulpscope_formats::storage;

/// Reads a path, and refuses one that is not on this machine.
pub(super) fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| storage::refuse_to_write(&path).map(|()| path))
}
