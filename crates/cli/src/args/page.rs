//! The arguments of `ulpscope report` and `ulpscope view`.

use std::path::PathBuf;

use clap::Args;
use ulpscope_session::{Language, NumberRanges};

use super::local_path::local_path;

/// What a page shows.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The folder that ulpscope compare -o wrote to, or its result.json; or a dump
    #[arg(value_name = "RESULT|DUMP")]
    pub(crate) source: PathBuf,

    /// Read the dumps that a result names, too: for stacks, data flow and values of tensors. Only for a result that you
    /// trust: it may name any folder
    #[arg(long)]
    pub(crate) dumps: bool,

    /// Where the target of a result is now, if it was moved; implies --dumps
    #[arg(long, value_name = "DUMP")]
    pub(crate) target: Option<PathBuf>,

    /// Where the golden of a result is now, if it was moved; implies --dumps
    #[arg(long, value_name = "DUMP")]
    pub(crate) golden: Option<PathBuf>,

    /// Steps to show, such as 0,2,4-6 [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<NumberRanges>,

    /// Ranks to show, likewise
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<NumberRanges>,

    /// Language of the explanation: en or zh [default: the one of the result]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Write a page that shows a comparison or a dump: one html file, which needs no network
///
/// Of a comparison: the verdict, the first divergence, the error of every call, the modules of both sides, the details of
/// calls, and every row. With --dumps, stacks, data flow and values of tensors are read from the dumps that the result
/// names, if they are still there. Of a dump: its statistics by call and step, NaN and infinity, dead and saturated layers, gradients.
#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) page: PageArgs,

    /// The file to write, or a folder for report.html; overwrites. - is the standard output
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "report.html", value_parser = local_path())]
    pub(crate) output: PathBuf,
}

const REPORT_EXAMPLES: &str = "\
Examples:
  ulpscope report result/ --dumps -o report.html
  ulpscope report dump/ -o run.html
  ulpscope report result/ --step 0 --rank 1 -o - > rank1.html

Exit codes:
  0  the page was written
  2  something could not be read, or the page could not be written";

/// Show a comparison or a dump in a browser, from a server on this machine
///
/// The same page as ulpscope report writes. The browser reads what is in view, so that a million rows open at once, and
/// with --dumps, details of any call are read from the dumps while they are there. Only this machine can connect, and only with the
/// address that is printed. Ctrl-C ends it.
#[derive(Debug, Args)]
#[command(after_help = VIEW_EXAMPLES)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) page: PageArgs,

    /// The port to listen on [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

const VIEW_EXAMPLES: &str = "\
Examples:
  ulpscope view result/ --dumps
  ulpscope view result/ --port 8080

Exit codes:
  0  it was ended by Ctrl-C
  2  something could not be read, or the port is in use";
