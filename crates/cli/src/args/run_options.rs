//! The options of `ulpscope run`, for completions and the manual page.
//!
//! The command itself parses them in Python (`python/ulpscope/_capture/launch/flags.py`), which this list has to match:
//! `tests/python/capture/test_flags.py` compares the two.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};

use super::check_options;

/// The values of options that take one of a few words, or several with commas between them.
const VALUES: [(&str, &[&str]); 9] = [
    ("level", &["L0", "L1", "mix", "L2", "debug"]),
    ("task", &["statistics", "tensor", "structure", "overflow_check"]),
    ("data-mode", &["all", "forward", "backward", "input", "output"]),
    ("layers", &["all", "first", "last"]),
    ("digest", &["md5", "xxh3", "mix64"]),
    ("format", &["pack", "pt", "npy", "safetensors"]),
    ("device-statistics", &["auto", "host", "torch"]),
    ("on-overflow", &["raise", "stop"]),
    (
        "would-overflow",
        &[
            "float32",
            "float16",
            "bfloat16",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
        ],
    ),
];

/// Name, value and help text of an option that is parsed in Python.
pub(super) type PythonOption = (&'static str, Option<&'static str>, &'static str);

/// Names, values and help texts.
const OPTIONS: [PythonOption; 31] = [
    ("level", Some("L"), "L0 modules, L1 API calls (default), mix both, L2 every aten operator"),
    (
        "task",
        Some("T"),
        "statistics (default), tensor: the tensors too, structure: names only, overflow_check: only calls where NaN \
         or infinity begins",
    ),
    ("step", Some("N"), "steps wanted, as in 0,2-4 (default: all)"),
    ("rank", Some("N"), "ranks wanted, as in 0,2-4 (default: all)"),
    ("list", Some("A,B"), "only calls whose name contains one of these"),
    ("module", Some("P"), "only inside modules whose path matches: 'layers.*.mlp'"),
    ("call", Some("P"), "only calls whose name matches: 'Functional.*', 're:add|mul'"),
    ("scope", Some("A,B"), "only from call A to call B, by their full names"),
    ("data-mode", Some("M"), "out of forward, backward, input, output (default: all)"),
    ("layers", Some("WHICH"), "of repeated layers of one kind: all (default), first, last"),
    ("skip-scalars", None, "leave out plain numbers and texts"),
    ("skip-ints", None, "leave out tensors of integers and booleans"),
    ("dump-path", Some("DIR"), "the folder to write to; made where it is missing"),
    (
        "digest",
        Some("D"),
        "a digest of every tensor: xxh3, mix64 (on a GPU, too), or md5 (CRC-32, as in msprobe)",
    ),
    ("tensor-list", Some("A,B"), "with task statistics: save the tensors of these calls"),
    ("format", Some("F"), "of saved tensors: pack (default), pt, npy, safetensors"),
    ("no-stacks", None, "do not note the source lines"),
    ("max-bytes", Some("SIZE"), "stop recording at this size, as in 500M or 10G"),
    ("max-calls", Some("N"), "stop recording after this many calls"),
    (
        "device-statistics",
        Some("WHERE"),
        "measure tensors on devices: auto (there; default), host (after a copy), torch (all by torch)",
    ),
    ("cuda-graphs", None, "record CUDA graphs at each replay: the kernels that measure stay in the graphs"),
    ("overflow-nums", Some("N"), "end the run at the N-th overflow (default: 1; -1: never)"),
    (
        "on-overflow",
        Some("WHAT"),
        "at that number: raise ends the run (default; with --config: stop), stop ends only the check",
    ),
    (
        "would-overflow",
        Some("DTYPE"),
        "also count the values that this dtype would lose, such as float16 or float8_e4m3fn",
    ),
    (
        "dry-run",
        None,
        "write no dump: run the script for one step, and print the calls, files and bytes of a step",
    ),
    ("json", None, "with --dry-run: print the result as JSON"),
    (
        "jitter",
        Some("SEED"),
        "measure noise: move parameters, buffers and inputs by one unit in the last place; what the script learns meanwhile \
         is thrown away",
    ),
    (
        "drop-in",
        None,
        "run a script written for msprobe, ptdbg_ascend or torch_npu.hooks unmodified: its imports resolve to \
         Ulpscope, and it records as it says; the only other option allowed is --force",
    ),
    ("force", None, "with --drop-in: even if the older tool is installed"),
    ("config", Some("FILE"), "a config.json as msprobe has it; the flags here count first"),
    ("strict", None, "raise where a call cannot be recorded, instead of noting it"),
];

/// The command line, with the options that `run` and `check` have in Python.
///
/// They know none of the program's options for all commands: these become options of each other command.
pub(crate) fn with_python_options(program: Command) -> Command {
    let of_all: Vec<Arg> = program.get_arguments().filter(|option| option.is_global_set()).cloned().collect();
    let program = program.mut_args(|option| option.global(false));
    // Unlike `mut_subcommand`, this keeps the order of the commands.
    program.mut_subcommands(|command| match command.get_name() {
        "run" => command.args(arguments(&OPTIONS, &VALUES)),
        "check" => command.args(arguments(&check_options::OPTIONS, &check_options::VALUES)),
        _ => command.args(of_all.iter().map(|option| option.clone().global(false))),
    })
}

fn arguments<'a>(
    options: &'a [PythonOption],
    values: &'a [(&'static str, &'static [&'static str])],
) -> impl Iterator<Item = Arg> + 'a {
    options.iter().map(|&(name, value, help)| {
        let option = Arg::new(name).long(name).help(help);
        let Some(value) = value else { return option.action(ArgAction::SetTrue) };
        let option = option.value_name(value);
        match values.iter().find(|(known, _)| *known == name) {
            Some((_, words)) => option.value_parser(PossibleValuesParser::new(*words)),
            None => option,
        }
    })
}
