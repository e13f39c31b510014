//! Options of commands that can run on several machines.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ulpscope_session::units::{EngineSettings, Located};

use super::local_path::local_path;

/// Where a comparison runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// In this process, on all cores
    #[default]
    Threads,
    /// As tasks of a Ray cluster, one for each rank of each step; needs a Python with the packages ulpscope and ray
    Ray,
}

/// Which engine, and how to reach it.
#[derive(Debug, Args)]
#[command(next_help_heading = "On several machines")]
pub(crate) struct EngineOptions {
    /// Where the ranks are read; the result is the same [default: threads]
    #[arg(long, value_name = "ENGINE", value_enum)]
    pub(crate) engine: Option<EngineName>,

    /// The Ray cluster: auto (the one that this machine belongs to), local (started for this command), HOST:PORT or
    /// ray://HOST:PORT [default: auto, or local if there is none]
    #[arg(long, value_name = "ADDRESS", requires = "engine")]
    pub(crate) address: Option<String>,

    /// Where the ranks are, if every node has ranks of its own: auto asks the nodes; a file is a map that `ulpscope
    /// locate` wrote [default: every node sees the paths that this machine sees]
    #[arg(long, value_name = "auto|MAP", requires = "engine")]
    pub(crate) located: Option<PathBuf>,

    /// Cores for each rank [default: those of the cluster, divided by the ranks]
    #[arg(long = "rank-cores", value_name = "N", requires = "engine")]
    pub(crate) rank_cores: Option<NonZeroU32>,

    /// Continue what was ended in DIR (-o): ranks that were done, and whose files are unchanged, are not read again
    #[arg(long, requires = "engine", requires = "output")]
    pub(crate) resume: bool,
}

impl EngineOptions {
    /// Where the dumps are.
    pub(crate) fn located(&self) -> anyhow::Result<Located> {
        Ok(self.located.as_deref().map(Located::parse).transpose()?.unwrap_or_default())
    }

    /// How to reach the engine, if it is one that needs Python.
    pub(crate) fn settings(&self, results: Option<&PathBuf>) -> Option<EngineSettings> {
        (self.engine == Some(EngineName::Ray)).then(|| EngineSettings {
            address: self.address.clone(),
            cores: self.rank_cores.map(NonZeroU32::get),
            results: results.cloned(),
        })
    }
}

/// How much may be moved between nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "On several machines")]
pub(crate) struct MoveOptions {
    /// How much of the tensors may be moved for each rank whose two sides are on different nodes, in bytes or with a unit
    /// (500MB, 2GiB); tensors beyond it are compared by statistics [default: 1GiB]
    #[arg(long = "move-limit", value_name = "SIZE", requires = "located", value_parser = size)]
    pub(crate) move_limit: Option<u64>,
}

/// Units of sizes, as in `500MB`.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

fn size(text: &str) -> Result<u64, String> {
    let unit = UNITS.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (number, factor) =
        unit.map_or((text, 1), |(unit, factor)| (text[..text.len() - unit.len()].trim_end(), factor));
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    size.ok_or_else(|| format!("expected a size such as 1073741824, 500MB or 2GiB, found {text:?}"))
}

/// Ask the nodes of a Ray cluster which ranks of a dump each has
///
/// For dumps that lie on the disks of the nodes, under the same path on each. The map is for `ulpscope compare --located`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LocateArgs {
    /// The dump, as the nodes name it
    pub(crate) dump: PathBuf,

    /// The Ray cluster: auto, HOST:PORT or ray://HOST:PORT [default: auto]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) address: Option<String>,

    /// Write the map into this file
    #[arg(short = 'o', long = "output", value_name = "MAP", value_parser = local_path())]
    pub(crate) output: Option<PathBuf>,

    /// Print the map as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

const EXAMPLES: &str = "\
Examples:
  ulpscope locate /local/npu_dump
  ulpscope locate /local/npu_dump -o located.json
  ulpscope compare /local/npu_dump /local/gpu_dump --engine ray --located located.json -o result/";
