//! The interactive session.

use std::path::PathBuf;

use clap::Args;
use ulpscope_session::Language;

/// Look into NPU and TensorFlow dumps line by line, with the commands of precision_tool or of ptdbg_ascend.parse
///
/// The prompt is precision_tool's; with --parse it is that of ptdbg_ascend.parse, whose commands have different options.
/// help lists the commands. Any other line is a program of yours: typed at a terminal it goes to your own shell, in a
/// script it runs only with --allow-commands. Lines that are piped in are run one after the other, up to the end.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShellArgs {
    /// The folder of the data [default: DATA_ROOT_DIR of config.py, or ./precision_data]
    #[arg(value_name = "PRECISION_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Speak the commands of ptdbg_ascend.parse
    #[arg(long)]
    pub(crate) parse: bool,

    /// Run this line and end; may be given several times
    #[arg(short = 'c', long = "command", value_name = "LINE")]
    pub(crate) command: Vec<String>,

    /// In a script, also run lines that are programs
    #[arg(long)]
    pub(crate) allow_commands: bool,

    /// precision_tool's settings, read as data [default: ./precision_tool/config.py, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Texts that the guide has in Chinese: en or zh [default: $ULPSCOPE_LANG, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,
}

const EXAMPLES: &str = "\
Examples:
  ulpscope shell precision_data
  ulpscope shell --parse
  ulpscope shell precision_data -c 'cp left.npy right.npy -p 5'
  echo 'pt -n x.npy' | ulpscope shell precision_data

Exit codes:
  0  a session at a terminal ended, or every line of a script was done, whatever was found
  2  a line of a script failed; the lines after it were run";
