//! The command line. Each command converts its arguments once; the code below sees no flags.

mod check_options;
mod compare;
mod convert;
mod dumps;
mod engine_options;
mod graph;
mod local_path;
mod network_options;
mod page;
mod pkl_style;
mod precision_tool;
mod run_options;
mod shell;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, Parser, Subcommand, ValueEnum};
use ulpscope_formats::file::Format;
use ulpscope_report::fields::{self, Field};
use ulpscope_report::{ColourChoice, SheetFormat};
use ulpscope_session::Language;

pub(crate) use compare::{CompareArgs, OutputFormat, spell_out};
pub(crate) use convert::ConvertArgs;
pub(crate) use dumps::{DumpArgs, LsArgs, OverflowArgs, ShowArgs};
pub(crate) use engine_options::LocateArgs;
pub(crate) use graph::{
    GraphArgs, GraphCastsArgs, GraphCommand, GraphDiffArgs, GraphDrawArgs, GraphInfoArgs, GraphLsArgs,
};
pub(crate) use page::{PageArgs, ReportArgs, ViewArgs};
pub(crate) use precision_tool::{PrecisionToolAction, PrecisionToolArgs};
pub(crate) use run_options::with_python_options;
pub(crate) use shell::ShellArgs;

use self::local_path::local_path;
use crate::output::Look;

const ABOUT: &str =
    "Compares two dumps of a model, looks into them, and measures, compares and converts tensor files";

fn long_about() -> String {
    let files = Format::general_extensions(", ");
    format!(
        "{ABOUT}.\n\nReads {files}, the JSON-lines .pkl of ptdbg_ascend and torch_npu.hooks, msprobe's dump.json, \
         stack.json and construct.json, and ACL dump files. A file's content decides what it is, not its name. Nothing \
         in a file is ever executed."
    )
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; what was compared agrees
  1  something differs, or only one side has it; ls, show, merge: nothing matches; overflow: NaN or
     infinity was found; check: a result is wrong
  2  something could not be read, compared or written, or there was nothing to read
Of several, a result that could not be written counts first, then a difference.";

/// Compares two dumps of a model, looks into them, and measures, compares and converts tensor files.
#[derive(Debug, Parser)]
#[command(
    name = "ulpscope",
    version,
    about = ABOUT,
    long_about = long_about(),
    after_help = EXIT_CODES,
    arg_required_else_help = true
)]
pub(crate) struct Low {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Threads to use, at most one per processor [default: all]; the results are the same for any number
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Whether to use colour; auto goes by NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, CLICOLOR and TERM, then by whether a
    /// terminal reads
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = ColourName::Auto)]
    pub(crate) color: ColourName,

    /// Show every column of a table, however wide the terminal is; names are cut beyond 200 characters (--json has them
    /// in full)
    #[arg(long, global = true)]
    pub(crate) wide: bool,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourName {
    #[default]
    Auto,
    Always,
    Never,
}

impl Low {
    /// How to show results.
    pub(crate) fn look(&self) -> Look {
        let json = match &self.command {
            // Standard output belongs to the script, to a shell or to a pager.
            Command::Run(_)
            | Command::Check(_)
            | Command::Shell(_)
            | Command::PrecisionTool(_)
            | Command::Completions(_)
            | Command::Man(_) => false,
            Command::Compare(args) => args.json,
            Command::Explain(args) => args.json,
            Command::Report(args) => args.page.json,
            Command::View(args) => args.page.json,
            Command::Stats(args) => args.json,
            Command::Diff(args) => args.json,
            Command::Convert(args) => args.json,
            Command::Merge(args) => args.json,
            Command::Locate(args) => args.json,
            Command::Ls(args) => args.dump.json,
            Command::Show(args) => args.dump.json,
            Command::Overflow(args) => args.dump.json,
            Command::Graph(args) => args.command.json(),
        };
        Look { colour: self.color.into(), wide: self.wide, json }
    }
}

impl From<ColourName> for ColourChoice {
    fn from(name: ColourName) -> ColourChoice {
        match name {
            ColourName::Auto => ColourChoice::Auto,
            ColourName::Always => ColourChoice::Always,
            ColourName::Never => ColourChoice::Never,
        }
    }
}

/// How to show results, as far as an invalid command line says so.
pub(crate) fn look_of_words(args: &[OsString]) -> Look {
    let words = args.iter().take_while(|word| *word != "--").map(|word| word.to_string_lossy());
    let words: Vec<_> = words.collect();
    let after = words.iter().position(|word| word == "--color").and_then(|at| words.get(at + 1));
    let joined = words.iter().find_map(|word| word.strip_prefix("--color="));
    let colour = after.map(AsRef::as_ref).or(joined).and_then(|name| ColourName::from_str(name, true).ok());
    let json = words.iter().any(|word| word == "--json");
    Look { colour: colour.unwrap_or_default().into(), wide: false, json }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(RunArgs),
    Check(CheckArgs),
    Compare(Box<CompareArgs>),
    Explain(ExplainArgs),
    Report(ReportArgs),
    View(ViewArgs),
    Stats(StatsArgs),
    Diff(DiffArgs),
    Convert(ConvertArgs),
    Merge(MergeArgs),
    Ls(LsArgs),
    Locate(LocateArgs),
    Show(ShowArgs),
    Overflow(OverflowArgs),
    Shell(ShellArgs),
    PrecisionTool(PrecisionToolArgs),
    Graph(GraphArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Run a Python script and record the inputs and outputs of its torch calls
///
/// Hands over to Python: this is python3 -m ulpscope run, for a Python that has the package ulpscope.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RunArgs {
    /// Options, then -- and the script with its arguments; ulpscope run --help lists the options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

/// Make the calls of a dump again, alone, and judge each result by raised precision
///
/// Hands over to Python: this is python3 -m ulpscope check, for a Python that has the packages ulpscope and torch.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct CheckArgs {
    /// Options and the dump; ulpscope check --help lists the options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub(crate) arguments: Vec<OsString>,
}

/// Print a script that has a shell complete commands and options
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell that reads it
    pub(crate) shell: clap_complete::Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  ulpscope completions bash > ~/.local/share/bash-completion/completions/ulpscope
  ulpscope completions fish > ~/.config/fish/completions/ulpscope.fish";

/// Print the manual page, of the program or of one command
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// The command [default: the program]
    pub(crate) command: Option<String>,
}

const MAN_EXAMPLES: &str = "\
Examples:
  ulpscope man | man -l -
  ulpscope man compare > ulpscope-compare.1";

/// Explain what a comparison found, and what to do next
///
/// RESULT is the folder that ulpscope compare -o wrote to, or a result.json. The dumps are not needed any more.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// A result.json, or the folder that holds one; of several below it, the newest
    pub(crate) result: PathBuf,

    /// Language of the explanation: en or zh [default: $ULPSCOPE_LANG, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,

    /// List every call of both programs in the N-th region of the result, from 1
    ///
    /// Two programs that make different calls may compute the same up to some values and not from others on: the calls
    /// between are a region.
    #[arg(long, value_name = "N", value_parser = region)]
    pub(crate) region: Option<NonZeroUsize>,

    /// Print one JSON object: the explanation, the calls by class, and the calls that introduced an error; with
    /// --region, that region
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show shape, dtype, statistics and first values of tensors
///
/// Folders are searched for files of a known format, in parallel; a file with several tensors gives one row for
/// each. A file that cannot be read is named on standard error, and the rest goes on.
#[derive(Debug, Args)]
#[command(after_help = STATS_EXAMPLES, after_long_help = stats_help())]
pub(crate) struct StatsArgs {
    /// Files, folders to search, or DUMP:ENTRY for one tensor of a dump
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) paths: Vec<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write each tensor's values into DIR as FILE.txt, one line per row; overwrites
    #[arg(
        long,
        value_name = "DIR",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ".",
        value_parser = local_path()
    )]
    pub(crate) txt: Option<PathBuf>,

    /// How many values to show of each tensor [default: 8; none in a table of several tensors]
    #[arg(long, value_name = "N")]
    pub(crate) first: Option<usize>,

    /// Also show a digest of each tensor's bytes
    #[arg(long, value_name = "KIND", value_enum)]
    pub(crate) digest: Option<DigestName>,
}

/// The available digests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DigestName {
    /// CRC-32, as msprobe writes it
    Crc32,
    /// MD5, as ptdbg_ascend and msprobe write it
    Md5,
    /// XXH3, 128 bits: the fastest
    Xxh3,
    /// 64 bits, which a GPU computes with the statistics
    Mix64,
}

/// Compare two tensor files: every metric, the first failing elements, the worst ones
///
/// TARGET is the side under suspicion, GOLDEN the trusted one. Tensors of files that hold several are paired by
/// name. An element fails when |target - golden| > atol + rtol * |golden|, or when only one of the two is NaN or
/// infinite. Tensors of different dtypes are compared by value, and a note says that they differ.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES, after_long_help = diff_help())]
pub(crate) struct DiffArgs {
    /// The file under suspicion, or DUMP:ENTRY for one tensor of a dump
    pub(crate) target: PathBuf,

    /// The trusted file, or DUMP:ENTRY
    pub(crate) golden: PathBuf,

    /// Absolute tolerance
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = tolerance, allow_negative_numbers = true)]
    pub(crate) atol: f64,

    /// Tolerance relative to the golden element
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = tolerance, allow_negative_numbers = true)]
    pub(crate) rtol: f64,

    /// Rows of each table of elements
    #[arg(short = 'p', long = "print", value_name = "N", default_value_t = 20)]
    pub(crate) print: usize,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put chosen rows and metrics of several results into one sheet, a column for each rank
///
/// RESULTS are sheets that compare wrote, ours or an older tool's, or folders of them; their names tell the ranks. Of a
/// folder that holds several comparisons the newest is taken.
#[derive(Debug, Args)]
#[command(after_help = MERGE_EXAMPLES)]
pub(crate) struct MergeArgs {
    #[arg(
        required = true,
        value_name = "RESULT",
        help = format!("{} files, or folders with compare_result files", SheetFormat::extensions())
    )]
    pub(crate) results: Vec<PathBuf>,

    /// Only rows whose name contains TEXT; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Vec<String>,

    /// Take every comparison in a folder, not only the newest
    #[arg(long)]
    pub(crate) all: bool,

    /// Columns to show side by side; may be given several times [default: the usual ones that have values]
    #[arg(long, value_name = "COLUMN")]
    pub(crate) metric: Vec<String>,

    #[arg(
        short = 'o',
        long = "output",
        value_name = "FILE",
        value_parser = local_path(),
        help = format!(
            "Write the sheet into FILE, which ends in {} [default: show it]",
            SheetFormat::extensions()
        )
    )]
    pub(crate) output: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

/// A format that `--to` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormatName(pub(crate) Format);

const FORMAT_NAMES: [FormatName; Format::ALL.len()] = {
    let mut all = [FormatName(Format::ALL[0]); Format::ALL.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = FormatName(Format::ALL[at]);
        at += 1;
    }
    all
};

impl ValueEnum for FormatName {
    fn value_variants<'a>() -> &'a [FormatName] {
        &FORMAT_NAMES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.extension()).help(self.0.about()))
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a finite number that is not negative".to_owned()),
    }
}

const STATS_EXAMPLES: &str = "\
Examples:
  ulpscope stats out.pt
  ulpscope stats dump/step0:Functional.linear.0.forward.input.0
  ulpscope stats dump/ --json > stats.json
  ulpscope stats out.npy --txt=text/ --first 100";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  ulpscope explain result/       (after ulpscope compare npu_dump/ gpu_dump/ -o result/)
  ulpscope explain result/result.json --json
  ulpscope explain result/ --lang zh
  ulpscope explain result/ --region 1

Exit codes:
  0  explained, whatever was found
  2  the result could not be read, or has no explanation or region of this number";

const DIFF_EXAMPLES: &str = "\
Examples:
  ulpscope diff npu/out.pt cpu/out.npy
  ulpscope diff npu/step0:Torch.mm.0.forward.output.0 cpu/step0:Torch.mm.0.forward.output.0
  ulpscope diff a.safetensors b.safetensors --atol 1e-5 --rtol 0
  ulpscope diff a.npy b.npy -p 50 --json

Exit codes:
  0  every pair agrees within the tolerance
  1  some pair differs, in shape or in elements, or a tensor is on one side only
  2  nothing that was read differs, but something could not be read";

const MERGE_EXAMPLES: &str = "\
Examples:
  ulpscope merge result/ --filter all_reduce --metric max_abs -o all_reduce.xlsx
  ulpscope merge rank0.csv rank1.csv --metric Cosine --metric MaxAbsErr";

/// The language: from the flag, else from the environment.
pub(crate) fn language(flag: Option<Language>) -> anyhow::Result<Language> {
    match flag {
        Some(language) => Ok(language),
        None => Language::of_environment().map_err(anyhow::Error::msg),
    }
}

fn region(text: &str) -> Result<NonZeroUsize, String> {
    let number: usize =
        text.parse().map_err(|_| format!("expected the number of a region, found {text:?}"))?;
    NonZeroUsize::new(number).ok_or_else(|| "--region must be at least 1".to_owned())
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let count: usize = text.parse().map_err(|_| format!("expected a number of threads, found {text:?}"))?;
    NonZeroUsize::new(count).ok_or_else(|| "--threads must be at least 1".to_owned())
}

fn stats_help() -> String {
    format!("{STATS_EXAMPLES}\n\nFields (table, JSON and Python):\n{}", explain(&fields::STATS))
}

fn diff_help() -> String {
    format!("{DIFF_EXAMPLES}\n\nMetrics (table, JSON and Python):\n{}", explain(&fields::DIFF))
}

fn explain(fields: &[Field]) -> String {
    let lines: Vec<String> = fields.iter().map(|(name, meaning)| format!("  {name:<16} {meaning}")).collect();
    lines.join("\n")
}
