//! The whole network: an NPU dump against the tensors of TensorFlow, paired by the graph.

use std::path::{Path, PathBuf};

use crate::reply::Reply;
use crate::session::Session;

/// Compares an NPU dump with a TF dump, and writes a result into a folder.
pub(super) fn compare(
    _session: &Session,
    [npu, tensors]: [&Path; 2],
    graph: Option<&Path>,
    _folder: &dyn Fn() -> Result<PathBuf, String>,
) -> Result<(PathBuf, Reply), String> {
    let graph = graph.map_or_else(|| "GRAPH".to_owned(), |graph| graph.display().to_string());
    Err(format!(
        "an NPU dump is compared with a TF dump by: ulpscope compare {} {} --graph {graph}",
        npu.display(),
        tensors.display()
    ))
}
