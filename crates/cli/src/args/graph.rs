//! The arguments of `ulpscope graph`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::local_path::local_path;

/// Look into the graphs that Ascend's compiler wrote: operators, tensors, casts
///
/// GRAPH is a file ge_proto_*.txt, its *.txt.json, or ge_onnx_*.pbtxt, or a folder of them. Of a folder the graphs of the
/// stage Build are read, which is what runs. Graphs are read as a stream: hundreds of megabytes are no problem.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    pub(crate) command: GraphCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// List operators; without a filter, how many there are of each type
    Ls(GraphLsArgs),
    /// Show an operator: its tensors, edges, fusion passes and attributes
    Info(GraphInfoArgs),
    /// List changes of dtype, and which of them lose precision or range
    Casts(GraphCastsArgs),
    /// Compare two graphs: operators, dtypes and layouts
    Diff(GraphDiffArgs),
    /// Draw the neighbourhood of an operator as SVG
    Draw(GraphDrawArgs),
}

#[derive(Debug, Args)]
pub(crate) struct GraphLsArgs {
    /// The graph, or a folder of graphs
    pub(crate) graph: PathBuf,

    /// Only operators with this in their name
    #[arg(short = 'n', long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) name: String,

    /// Only operators with this in their type
    #[arg(short = 't', long = "type", value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) op_type: String,

    /// Only operators made by a fusion pass with this in its name
    #[arg(short = 'f', long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) fusion: String,

    /// Only operators with this in the name of their kernel
    #[arg(short = 'k', long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) kernel: String,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphInfoArgs {
    /// The graph, or a folder of graphs
    pub(crate) graph: PathBuf,

    /// The operator: its name, or a part of it; `_` may stand for `/` and `.`
    pub(crate) op: String,

    /// Also show every attribute
    #[arg(short = 'a', long)]
    pub(crate) attributes: bool,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphCastsArgs {
    /// The graph, or a folder of graphs
    pub(crate) graph: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphDiffArgs {
    /// The first graph
    pub(crate) left: PathBuf,

    /// The second graph
    pub(crate) right: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct GraphDrawArgs {
    /// The graph, or a folder of graphs
    pub(crate) graph: PathBuf,

    /// The operator, as for info
    pub(crate) op: String,

    /// How many edges away operators are drawn
    #[arg(short = 's', long, value_name = "N", default_value_t = 2)]
    pub(crate) depth: usize,

    /// The image to write
    #[arg(short = 'o', long = "output", value_name = "SVG", value_parser = local_path())]
    pub(crate) output: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl GraphCommand {
    pub(crate) fn json(&self) -> bool {
        match self {
            GraphCommand::Ls(args) => args.json,
            GraphCommand::Info(args) => args.json,
            GraphCommand::Casts(args) => args.json,
            GraphCommand::Diff(args) => args.json,
            GraphCommand::Draw(args) => args.json,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  ulpscope graph ls ge_proto_00000042_Build.txt
  ulpscope graph ls precision_data/ --type Conv --fusion Bias
  ulpscope graph info ge_proto_00000042_Build.txt LeNet/conv1/Conv2D -a
  ulpscope graph casts precision_data/
  ulpscope graph diff run_a/ge_proto_00000042_Build.txt run_b/ge_proto_00000042_Build.txt
  ulpscope graph draw ge_proto_00000042_Build.txt LeNet/conv1/Conv2D -o conv1.svg

Exit codes:
  0  done
  1  ls, info, draw: no operator matches; diff: the graphs differ
  2  something could not be read or written";
