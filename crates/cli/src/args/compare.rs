//! The arguments of `ulpscope compare`, ours and msprobe's.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use ulpscope_compare::{Matching, Parallel};
use ulpscope_report::SheetFormat;
use ulpscope_session::{Language, NumberRanges, StyleName};

use super::engine_options::{EngineOptions, MoveOptions};
use super::local_path::local_path;
use super::network_options::NetworkOptions;

/// msprobe's short flags with several letters, which our parser does not support, and their long names.
const MSPROBE_FLAGS: [(&str, &str); 8] = [
    ("-tp", "--target_path"),
    ("-gp", "--golden_path"),
    ("-fm", "--fuzzy_match"),
    ("-dm", "--data_mapping"),
    ("-cm", "--cell_mapping"),
    ("-lm", "--layer_mapping"),
    ("-da", "--diff_analyze"),
    ("-tensor_log", "--is_print_compare_log"),
];

/// Replaces msprobe's short flags by the long ones in a `compare` command line; leaves all others unchanged.
pub(crate) fn spell_out(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if command_of(&args).is_some_and(|command| command == "compare") {
        for arg in args.iter_mut().skip(1) {
            if let Some((_, long)) = MSPROBE_FLAGS.iter().find(|(short, _)| arg == short) {
                *arg = OsString::from(long);
            }
        }
    }
    args
}

/// The first word that is neither a flag nor the value of one.
fn command_of(args: &[OsString]) -> Option<&OsString> {
    let mut words = args.iter().skip(1);
    loop {
        let word = words.next()?;
        if word == "--threads" || word == "--color" {
            words.next();
        } else if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
    }
}

/// Compare two dumps: which calls agree, which call differs first, and the metrics of every entry
///
/// TARGET is the side under suspicion, GOLDEN the trusted one. Each is whatever a tool left: a dump's folder, one of
/// its steps or ranks, a dump.json, a .pkl of ptdbg_ascend or torch_npu.hooks, a folder of tensor files, a checkpoint,
/// a single tensor file. Elements are compared where both sides have them, else statistics, else digests.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// The dump under suspicion
    #[arg(required_unless_present = "target_path")]
    pub(crate) target: Option<PathBuf>,

    /// The trusted dump
    #[arg(required_unless_present = "golden_path")]
    pub(crate) golden: Option<PathBuf>,

    /// The folder of TARGET's tensors, if it is not beside its dump.json or .pkl
    #[arg(long = "target-data", value_name = "DIR")]
    pub(crate) target_data: Option<PathBuf>,

    /// The folder of GOLDEN's tensors, likewise
    #[arg(long = "golden-data", value_name = "DIR")]
    pub(crate) golden_data: Option<PathBuf>,

    /// Write result files into DIR, which is made if it is not there
    #[arg(short = 'o', long = "output", alias = "output_path", value_name = "DIR", value_parser = local_path())]
    pub(crate) output: Option<PathBuf>,

    /// What to write into DIR, comma-separated: sheets, or a page; result.json is always written [default: csv]
    #[arg(long, value_name = "FORMAT", value_enum, value_delimiter = ',')]
    pub(crate) format: Vec<OutputFormat>,

    /// How rows are measured, judged and laid out: native, or the rules of an older tool to the digit
    /// (torch_npu, ptdbg, ptdbg-6, msprobe-1, msprobe) [default: native]
    #[arg(long, value_name = "STYLE")]
    pub(crate) style: Option<StyleName>,

    /// How calls are paired: auto, exact, shape, fuzzy or align [default: auto; an older tool's own way in its
    /// style]
    #[arg(long = "match", value_name = "HOW")]
    pub(crate) matching: Option<Matching>,

    /// A second golden run (different thread count, kernel or seed, or recorded with jitter): what differs as much
    /// between it and GOLDEN is noise
    #[arg(long, value_name = "DUMP")]
    pub(crate) noise: Option<PathBuf>,

    /// How the ranks of TARGET share the work of GOLDEN's one process, such as tp=2,pp=2,dp=4[,order=tp-pp-dp]: their
    /// tensors are merged before they are compared [default: as capture recorded it, for distributed tensors]
    #[arg(long, value_name = "AXES")]
    pub(crate) parallel: Option<Parallel>,

    /// Replay blamed calls in raised precision from their recorded inputs: proves or refutes each verdict, and says which
    /// side is wrong. Needs dumps with tensors, and a Python with the packages ulpscope and torch
    #[arg(long, conflicts_with = "engine")]
    pub(crate) prove: bool,

    /// Steps to compare, such as 0,2,4-6 [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<NumberRanges>,

    /// Ranks to compare, likewise
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<NumberRanges>,

    /// msprobe's data mapping (YAML; also -dm): which entry of the target belongs to which of the golden
    #[arg(long = "data-mapping", alias = "data_mapping", value_name = "FILE")]
    pub(crate) data_mapping: Option<PathBuf>,

    /// msprobe's cell mapping (YAML; also -cm): which module belongs to which; without FILE, Cell and Module names are
    /// the same
    #[arg(long = "cell-mapping", alias = "cell_mapping", value_name = "FILE", num_args = 0..=1)]
    pub(crate) cell_mapping: Option<Option<PathBuf>>,

    /// msprobe's layer mapping (YAML; also -lm): which layer of a class belongs to which
    #[arg(long = "layer-mapping", alias = "layer_mapping", value_name = "FILE")]
    pub(crate) layer_mapping: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) engine: EngineOptions,

    #[command(flatten)]
    pub(crate) moving: MoveOptions,

    #[command(flatten)]
    pub(crate) network: NetworkOptions,

    /// Language of the explanation and the summary: en or zh [default: $ULPSCOPE_LANG, or en]
    #[arg(long, value_name = "LANG")]
    pub(crate) lang: Option<Language>,

    /// Print one JSON object: what result.json holds
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write diff_analyze_{timestamp}.json: the first differing call of each rank, as msprobe's -da
    #[arg(long = "diff-analyze", alias = "diff_analyze")]
    pub(crate) diff_analyze: bool,

    /// As msprobe's -tp: the target. With it the style is msprobe and the results go to ./output, unless said otherwise
    #[arg(long = "target_path", value_name = "PATH", conflicts_with = "target", requires = "golden_path")]
    pub(crate) target_path: Option<PathBuf>,

    /// As msprobe's -gp: the golden
    #[arg(long = "golden_path", value_name = "PATH", conflicts_with = "golden", requires = "target_path")]
    pub(crate) golden_path: Option<PathBuf>,

    /// As msprobe's -fm: the same as --match fuzzy
    #[arg(long = "fuzzy_match", conflicts_with = "matching")]
    pub(crate) fuzzy_match: bool,

    /// As msprobe: write .xlsx instead of .csv
    #[arg(long)]
    pub(crate) xlsx: bool,

    /// As msprobe 1.x: add a column with the stack of each call
    #[arg(short = 's', long = "stack_mode")]
    pub(crate) stack_mode: bool,

    /// As msprobe: accepted, and without effect; progress is shown on a terminal
    #[arg(long = "is_print_compare_log", hide = true)]
    pub(crate) print_log: bool,
}

/// What `--format` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// A sheet.
    Sheet(SheetFormat),
    /// A page, and the csv that it is made from.
    Html,
    /// A database, and the csv that it is made from.
    Sqlite,
    /// No sheet: `result.json` alone, which is always written.
    Json,
}

/// Every sheet, then `html`, `sqlite` and `json`.
const OUTPUT_FORMATS: [OutputFormat; SheetFormat::ALL.len() + 3] = {
    let mut all = [OutputFormat::Json; SheetFormat::ALL.len() + 3];
    all[SheetFormat::ALL.len()] = OutputFormat::Html;
    all[SheetFormat::ALL.len() + 1] = OutputFormat::Sqlite;
    let mut at = 0;
    while at < SheetFormat::ALL.len() {
        all[at] = OutputFormat::Sheet(SheetFormat::ALL[at]);
        at += 1;
    }
    all
};

impl ValueEnum for OutputFormat {
    fn value_variants<'a>() -> &'a [OutputFormat] {
        &OUTPUT_FORMATS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            OutputFormat::Sheet(format) => PossibleValue::new(format.name()).help(format.about()),
            OutputFormat::Html => PossibleValue::new("html")
                .help("report.html, a page that shows everything, and the csv that it is made from"),
            OutputFormat::Sqlite => PossibleValue::new("sqlite").help(
                "result.sqlite, a database of all ranks, and the csv that it is made from; needs a Python with ulpscope",
            ),
            OutputFormat::Json => {
                PossibleValue::new("json").help("No sheet: result.json alone, which is always written")
            }
        })
    }
}

const EXAMPLES: &str = "\
Examples:
  ulpscope compare npu_dump/ gpu_dump/ -o result/
  ulpscope compare npu_dump/step0 gpu_dump/step0 --rank 0-7 --format xlsx -o result/
  ulpscope compare npu_dump/ gpu_dump/ --format html -o result/
  ulpscope compare npu_dump/ gpu_dump/ --noise gpu_dump_again/
  ulpscope compare npu_dump/ gpu_dump/ --prove
  ulpscope compare sharded_dump/ single_dump/ --parallel tp=2,dp=4
  ulpscope compare npu_dump/ gpu_dump/ --engine ray -o result/
  ulpscope compare ported.safetensors original.safetensors
  ulpscope compare npu/dump.pkl cpu/dump.pkl --style ptdbg -o result/
  ulpscope compare npu_dump/ tf_dump/ --graph ge_proto_00000042_Build.txt -o result/
  ulpscope compare -tp npu_dump/step0 -gp gpu_dump/step0 -o result/      (as msprobe)

Exit codes:
  0  everything was compared and agrees
  1  something differs, or only one side has it
  2  nothing that was compared differs, but something could not be read or judged; or a result could not be written";
