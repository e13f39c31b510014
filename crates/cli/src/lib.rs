//! The command line: converts arguments once, runs the command, and shows the result.
//!
//! ```text
//! argv ──► args (clap) ──► a command's own struct ──► work (formats, kernels) ──► report ──► stdout
//!                                                              └─► what went wrong ──► stderr
//! ```
//!
//! No number is computed and no byte decoded here. One bad tensor never loses a file and one bad file never loses a
//! run: failures are collected, the rest continues, and the exit code reports them.

mod args;
mod call_names;
mod commands;
mod dump_walk;
mod entries;
mod exit;
mod ledgers;
mod names;
mod output;
mod progress;
mod python;
mod records;
mod result_document;
mod result_files;
mod session_input;
mod source;
mod spool;
mod stats_report;
mod summary;
mod targets;
mod training;
mod values;
mod walk;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Parser;
use ulpscope_compare::Prover;
use ulpscope_formats::Watch;
use ulpscope_session::units::{Dispatcher, EngineSettings};

use crate::args::{Command, Low, OutputFormat};
use crate::exit::Exit;
use crate::output::{Look, Output};

/// Opens what makes calls again, for `compare --prove`; an error says what is missing.
pub type OpenProver<'a> = &'a (dyn Fn() -> Result<Box<dyn Prover + Send>, String> + Sync);

/// Opens what has ranks compared on other machines, for `--engine ray`; an error says what is missing.
pub type OpenDispatcher<'a> =
    &'a (dyn Fn(&EngineSettings) -> Result<Box<dyn Dispatcher + Send>, String> + Sync);

/// Writes a result folder as a database, for `--format sqlite`; returns its path.
pub type WriteDatabase<'a> = &'a (dyn Fn(&Path) -> Result<PathBuf, String> + Sync);

/// What only Python can do.
#[derive(Clone, Copy)]
pub struct PythonParts<'a> {
    /// For `compare --prove`.
    pub prover: OpenProver<'a>,
    /// For `--engine ray`.
    pub dispatcher: OpenDispatcher<'a>,
    /// For `--format sqlite`.
    pub database: WriteDatabase<'a>,
}

/// Runs the command line `args` (its first item is the program's name) and returns the exit code: see `exit.rs`. Commands
/// that need a part of Python are handed over to Python if it is not there.
pub fn run(args: impl IntoIterator<Item = OsString>, python: Option<PythonParts<'_>>) -> u8 {
    ulpscope_store::register();
    let args = args::spell_out(args);
    let low = match Low::try_parse_from(&args) {
        Ok(low) => low,
        Err(error) => return not_parsed(&error, args::look_of_words(&args)).code(),
    };
    let mut output = Output::of_process(low.look());
    let watch = Watch::start();
    let code = match execute(low, &args, python, &mut output) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => Exit::Done.code(),
        Err(error) => {
            let exit = output.fail(&format!("{error:#}"));
            let _ = output.flush();
            exit.code()
        }
    };
    // Some of the shown data was read from a file that was being shortened.
    watch.unreported().iter().for_each(|error| output.complain(&format!("error: {error}")));
    if watch.found_any() { Exit::Failed.code() } else { code }
}

/// The parts of Python that a command needs.
struct PythonNeeds {
    /// What needs them, for messages.
    because: &'static str,
    prover: bool,
    dispatcher: Option<EngineSettings>,
}

impl PythonNeeds {
    fn of(command: &Command) -> Option<PythonNeeds> {
        match command {
            Command::Compare(compare) => {
                let dispatcher = compare.engine.settings(compare.output.as_ref());
                let is_ray = dispatcher.is_some();
                let because = match (compare.prove, is_ray) {
                    (true, _) => "compare --prove",
                    (false, true) => "compare --engine ray",
                    (false, false) if compare.format.contains(&OutputFormat::Sqlite) => {
                        "compare --format sqlite"
                    }
                    (false, false) => return None,
                };
                Some(PythonNeeds { because, prover: compare.prove, dispatcher })
            }
            Command::Overflow(overflow) => {
                let dispatcher = overflow.engine.settings(overflow.output.as_ref())?;
                Some(PythonNeeds {
                    because: "overflow --engine ray",
                    prover: false,
                    dispatcher: Some(dispatcher),
                })
            }
            Command::Locate(locate) => {
                let settings =
                    EngineSettings { address: locate.address.clone(), ..EngineSettings::default() };
                Some(PythonNeeds { because: "locate", prover: false, dispatcher: Some(settings) })
            }
            _ => None,
        }
    }
}

/// Shows the help or the version, if requested; else the error in the command line.
fn not_parsed(said: &clap::Error, look: Look) -> Exit {
    let mut output = Output::of_process(look);
    let exit = if said.use_stderr() {
        output.usage(&said.render().to_string())
    } else {
        // A closed pipe is not our failure.
        let _ = output.help(&said.render());
        Exit::Done
    };
    let _ = output.flush();
    exit
}

fn execute(
    low: Low,
    args: &[OsString],
    python: Option<PythonParts<'_>>,
    output: &mut Output,
) -> anyhow::Result<u8> {
    let needs = PythonNeeds::of(&low.command);
    let (prover, dispatcher) = match (&needs, python) {
        (None, _) => (None, None),
        (Some(needs), None) => return python::run_in_python(needs.because, args[1..].to_vec()),
        (Some(needs), Some(python)) => {
            // On this thread: Python cannot load torch on one of the pool.
            let prover = needs.prover.then(|| (python.prover)()).transpose();
            let dispatcher = needs.dispatcher.as_ref().map(python.dispatcher).transpose();
            (prover.map_err(anyhow::Error::msg)?, dispatcher.map_err(anyhow::Error::msg)?)
        }
    };
    let parts = commands::compare::Parts {
        prover: prover.as_deref(),
        dispatcher: dispatcher.as_deref(),
        database: python.map(|python| python.database),
    };
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = low.threads {
        // More threads than cores are slower, and thousands of them stop the machine.
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        pool = pool.num_threads(threads.get().min(cores));
    }
    // A separate pool, not the process-wide one: under Python it may have other users.
    pool.build()?.install(|| {
        let exit = match low.command {
            Command::Run(args) => return commands::run::Run::from(args).run(),
            Command::Check(args) => return commands::check::Check::from(args).run(),
            Command::PrecisionTool(args) => return commands::precision_tool::run(args, output),
            Command::Stats(args) => commands::stats::Stats::try_from(args)?.run(output),
            Command::Compare(args) => match commands::network::CompareNetwork::asked_for(&args)? {
                Some(network) => network.run(output),
                None => commands::compare::Compare::try_from(*args)?.run(parts, output),
            },
            Command::Explain(args) => commands::explain::Explain::try_from(args)?.run(output),
            Command::Report(args) => commands::page::WritePage::from(args).run(output),
            Command::View(args) => commands::page::ServePage::from(args).run(output),
            Command::Diff(args) => commands::diff::Diff::from(args).run(output),
            Command::Convert(args) => commands::convert::Convert::try_from(args)?.run(output),
            Command::Merge(args) => commands::merge::Merge::from(args).run(output),
            Command::Locate(args) => match dispatcher.as_deref() {
                Some(dispatcher) => commands::locate::Locate::from(args).run(dispatcher, output),
                None => anyhow::bail!("locate needs a cluster"),
            },
            Command::Ls(args) => commands::ls::Ls::from(args).run(output),
            Command::Show(args) => commands::show::Show::from(args).run(output),
            Command::Overflow(args) => {
                commands::overflow::Overflow::try_from(args)?.run(dispatcher.as_deref(), output)
            }
            Command::Shell(args) => commands::shell::Shell::try_from(args)?.run(output),
            Command::Graph(args) => commands::graph::run(args, output),
            Command::Completions(args) => commands::manual::completions(&args, output),
            Command::Man(args) => commands::manual::man(&args, output),
        }?;
        // The reader may have closed the pipe; the result is still valid.
        output::unless_broken_pipe(output.flush())?;
        Ok(exit.code())
    })
}
