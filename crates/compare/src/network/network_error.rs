//! Why a network cannot be compared.

use std::path::PathBuf;

/// Why a network cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// A file or folder cannot be read.
    #[error(transparent)]
    Read(#[from] ulpscope_formats::Error),
    /// The target is a dump of a different kind.
    #[error(
        "{}: expected the dump of an Ascend device (files type.operator.task.stream.time), found {found}: name it first, then \
         the dump that it is compared with",
        path.display()
    )]
    NotAnNpuDump {
        /// What the user named.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// The golden is neither TensorFlow's nor a device's.
    #[error(
        "{}: expected what TensorFlow dumped (tfdbg folders, or arrays name.output.time.npy) or the dump of an Ascend device, \
         found {found}",
        path.display()
    )]
    NotAGolden {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// TensorFlow's tensors are found through the graph alone.
    #[error("{}: operators of TensorFlow are found through the graph: add --graph GRAPH", .0.display())]
    NeedsGraph(PathBuf),
    /// The graph is that of a different network.
    #[error(
        "{}: this graph does not belong to the dump: none of its {operators} operators is among the {dumped} of the dump; name \
         the graph of the same run",
        graph.display()
    )]
    NotItsGraph {
        /// The graph.
        graph: PathBuf,
        /// Its operators.
        operators: usize,
        /// The operators of the dump.
        dumped: usize,
    },
    /// The graph is TensorFlow's: it does not say what became of its operators on the device.
    #[error(
        "{}: this is a graph of TensorFlow, but --graph expects the one that the device ran (ge_proto_*_Build.txt, or the \
         folder with it); TensorFlow's graph belongs to --golden-graph",
        .0.display()
    )]
    TensorflowGraph(PathBuf),
    /// No step or device of the target has a counterpart.
    #[error("{}: none of its steps and devices is one of the target's: select them with --step and --rank", .0.display())]
    NoCounterpart(PathBuf),
    /// The operator of a detailed comparison is not there.
    #[error("{0}")]
    NoSuchTensor(String),
}
