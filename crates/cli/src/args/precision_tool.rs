//! The one-shot commands of precision_tool.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use ulpscope_session::Language;

/// Run a training for precision_tool's data, or one of its commands
///
/// These are the commands of precision_tool/cli.py. init makes that folder beside a training script.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PrecisionToolArgs {
    #[command(subcommand)]
    pub(crate) action: PrecisionToolAction,

    /// precision_tool's settings, read as data [default: ./precision_tool/config.py, if there is one]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// Texts that the guide has in Chinese: en or zh [default: $ULPSCOPE_LANG, or en]
    #[arg(long, value_name = "LANG", global = true)]
    pub(crate) lang: Option<Language>,
}

#[derive(Debug, Subcommand)]
#[command(rename_all = "snake_case")]
pub(crate) enum PrecisionToolAction {
    /// Make the folder precision_tool in DIR: cli.py, tf_config.py, config.py and the fusion switch files
    Init {
        /// The folder of the training script
        dir: PathBuf,
        /// Replace files that exist
        #[arg(long)]
        force: bool,
    },
    /// Run a CPU or GPU training and write every tensor of its first step as npy
    TfDump {
        /// The command, as one argument
        command: String,
    },
    /// Run an NPU training with dump of its graph and its tensors
    NpuDump {
        /// The command, as one argument
        command: String,
    },
    /// Run an NPU training with overflow detection
    NpuOverflow {
        /// The command, as one argument
        command: String,
    },
    /// Open the shell on a folder of data
    Data {
        /// The folder
        dir: PathBuf,
    },
    /// Compare two tensors: the arguments of cp, as one argument or several
    Compare {
        /// Options and names
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run one step of a training from its checkpoint: -d all|cpu|npu -a dump|overflow, as one argument or several
    Train {
        /// Options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Compare two folders of NPU dump files: -lt LEFT -rt RIGHT, as one argument or several
    VectorCompare {
        /// Options
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Import the output of msquickcmp into a new precision_data, and open the shell on it
    Infer {
        /// The folder that msquickcmp wrote
        dir: PathBuf,
    },
}

const EXAMPLES: &str = "\
Examples:
  ulpscope precision-tool init .
  ulpscope precision-tool tf_dump 'python3 LeNet_cpu.py'
  ulpscope precision-tool npu_dump 'sh run_train.sh param1 param2'
  ulpscope precision-tool npu_overflow 'python3 LeNet_npu.py'
  ulpscope precision-tool compare 'left.npy right.npy -p 20'

Exit codes:
  tf_dump, npu_dump, npu_overflow: that of the training; 2 if it succeeded and left no data
  compare: 0 agree, 1 differ, 2 something could not be read
  the others: 0 done, 2 something could not be done";
