//! The commands that read one dump.

use std::path::PathBuf;

use clap::Args;
use ulpscope_session::{Language, NumberRanges};

use super::engine_options::EngineOptions;
use super::local_path::local_path;

/// Which dump, and which part of it.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// A dump: the folder a run left, one of its step or rank folders, a dump.json, a .pkl, a folder of tensor
    /// files, a checkpoint
    pub(crate) dump: PathBuf,

    /// Steps to look at, such as 0,2,4-6 [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<NumberRanges>,

    /// Ranks to look at, likewise
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<NumberRanges>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the calls of a dump in the order they ran
///
/// Dumps of msprobe, ptdbg_ascend and torch_npu.hooks are recognised by their content, and shown alike: one line
/// per call with the number of its entries, its name, what went in and came out, and the module it was made in. Of
/// tensor files and checkpoints every tensor is a line.
#[derive(Debug, Args)]
#[command(after_help = LS_EXAMPLES)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(crate) dump: DumpArgs,

    /// Only calls with this in their name; with * or ? in it, calls whose whole name is like it. `.` and `_` are the
    /// same
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
}

/// Show the statistics and the stack of a call
///
/// CALL is the name of a call or of one of its entries, or what several names begin with; `.` and `_` are the same
/// in it, so that names can be pasted from any tool. Where no name begins with it, upper and lower case are the same,
/// and then it may be any part of a name. Statistics are computed from the tensors where the dump has them, and are
/// those it recorded where it has not.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) dump: DumpArgs,

    /// The call
    pub(crate) call: String,
}

/// Find the calls that first produced NaN or infinity
///
/// A call is an origin if its results have NaN or infinities and its inputs do not, or if it makes NaN of infinities.
/// What arrives through a collective or a message is traced to the rank that sent it. An infinity that the program passes
/// on purpose, as the -inf of a mask, is no origin.
#[derive(Debug, Args)]
#[command(after_help = OVERFLOW_EXAMPLES)]
pub(crate) struct OverflowArgs {
    #[command(flatten)]
    pub(crate) dump: DumpArgs,

    /// Write anomaly_analyze_{nanoseconds}.json into DIR, in the layout of msprobe's overflow_check
    #[arg(short = 'o', long = "output", value_name = "DIR", value_parser = local_path())]
    pub(crate) output: Option<PathBuf>,

    /// The language of what an Ascend device reported: en or zh [default: $ULPSCOPE_LANG, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,

    #[command(flatten)]
    pub(crate) engine: EngineOptions,
}

const OVERFLOW_EXAMPLES: &str = "\
Examples:
  ulpscope overflow dump/
  ulpscope overflow dump/ --step 3 -o anomalies/
  ulpscope overflow dump/step0 --json
  ulpscope overflow dump/ --engine ray --located auto

Exit codes:
  0  every number is finite, or passed on purpose
  1  NaN or infinity was found
  2  something could not be read";

const LS_EXAMPLES: &str = "\
Examples:
  ulpscope ls dump/
  ulpscope ls dump/ --step 0 --rank 0,1 --filter linear
  ulpscope ls dump/step0/rank0/dump.json --filter 'Module.*.backward.*' --json

Exit codes:
  0  done
  1  no call matches the filter
  2  something could not be read";

const SHOW_EXAMPLES: &str = "\
Examples:
  ulpscope show dump/ Functional.linear.3.forward
  ulpscope show ptdbg_dump_v4.0/rank0 Functional_linear_3_forward_output
  ulpscope show dump/ Module.blocks.0 --json

Exit codes:
  0  done
  1  no call has CALL in its name
  2  something could not be read";
