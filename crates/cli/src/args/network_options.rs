//! Options of `ulpscope compare` for a whole network of an Ascend device.

use std::path::PathBuf;

use clap::Args;

/// What `--graph` needs to know.
#[derive(Debug, Args)]
#[command(next_help_heading = "A whole network of an Ascend device, as msaccucmp")]
pub(crate) struct NetworkOptions {
    /// The graph of TARGET (ge_proto_*.txt, *.txt.json, ge_onnx_*.pbtxt, or their folder): TARGET is the dump of an Ascend
    /// device, GOLDEN what TensorFlow dumped (tfdbg folders, arrays name.output.time.npy) or a second device's dump
    #[arg(
        long,
        value_name = "GRAPH",
        conflicts_with_all = [
            "style", "matching", "noise", "parallel", "prove", "data_mapping", "cell_mapping", "layer_mapping", "target_data",
            "golden_data", "diff_analyze", "target_path", "fuzzy_match", "xlsx", "stack_mode", "format", "engine",
        ]
    )]
    pub(crate) graph: Option<PathBuf>,

    /// The graph of GOLDEN: of a device's dump whose graph differs, such as one without fusion; or TensorFlow's (.meta), to
    /// find the values of variables
    #[arg(long = "golden-graph", value_name = "GRAPH", requires = "graph")]
    pub(crate) golden_graph: Option<PathBuf>,

    /// Tensors with a smaller cosine differ; so do those whose relative distance is that of this angle
    #[arg(long = "min-cosine", value_name = "COSINE", requires = "graph")]
    pub(crate) min_cosine: Option<f64>,

    /// Add a column OverFlow: whether a float16 tensor has reached the end of its range
    #[arg(long = "overflow-detection", alias = "overflow_detection", requires = "graph")]
    pub(crate) overflow_detection: bool,

    /// Also write mapping_{timestamp}.csv: which file was compared with which
    #[arg(long = "map", requires = "graph")]
    pub(crate) mapping: bool,

    /// Also write the elements of one tensor of this operator: its first output, unless --op-input or --op-output names one
    #[arg(long = "op", value_name = "OP", requires = "graph")]
    pub(crate) op: Option<String>,

    /// The number of the input that --op is about
    #[arg(long = "op-input", value_name = "N", requires = "op", conflicts_with = "op_output")]
    pub(crate) op_input: Option<usize>,

    /// The number of the output that --op is about
    #[arg(long = "op-output", value_name = "N", requires = "op")]
    pub(crate) op_output: Option<usize>,

    /// How many of the largest differences of --op are listed [default: 20]
    #[arg(long = "top", value_name = "N", requires = "op")]
    pub(crate) top: Option<usize>,
}
