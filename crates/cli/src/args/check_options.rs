//! The options of `ulpscope check`, for completions and the manual page.
//!
//! The command itself parses them in Python (`python/ulpscope/_replay/flags.py`), which this list has to match:
//! `tests/python/check/test_command.py` compares the two.

use super::run_options::PythonOption;

/// Names, values and help texts.
pub(super) const OPTIONS: [PythonOption; 20] = [
    ("output", Some("DIR"), "write the result files into DIR"),
    ("step", Some("N"), "steps to check, such as 0,2,4-6 (default: all)"),
    ("rank", Some("N"), "ranks to check, likewise"),
    ("white-list", Some("A,B"), "only these APIs: linear, Tensor.add"),
    ("black-list", Some("A,B"), "all but these APIs"),
    (
        "module",
        Some("P:C"),
        "make the calls of this module again: package:Class, package:function, model:Block(8)",
    ),
    ("collectives", None, "make collectives again too, with a gloo process for each rank"),
    ("bench", Some("FILE"), "the details of a check on a different device: judge the ratios of errors"),
    ("device", Some("D"), "judge what this device computes, too: cuda, npu, cpu"),
    (
        "standard",
        Some("S"),
        "native (default): more than rounding explains; msprobe: that tool's standard for each API",
    ),
    ("seed", Some("N"), "for inputs that are drawn (default: 1234)"),
    ("jobs", Some("N"), "processes (default: 1)"),
    ("resume", None, "go on where a check with the same DIR was interrupted"),
    ("engine", Some("E"), "ray: ranks are tasks of a Ray cluster"),
    ("address", Some("A"), "the Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT"),
    ("located", Some("L"), "every node has ranks of its own: auto, or a map of ulpscope locate"),
    ("rank-cores", Some("N"), "cores for each rank"),
    ("no-repro", None, "write no scripts for failing calls"),
    ("config", Some("FILE"), "a config.json with task run_ut: its white_list and black_list"),
    ("json", None, "print one JSON object"),
];

/// The values of options that take one of a few words.
pub(super) const VALUES: [(&str, &[&str]); 2] =
    [("standard", &["native", "msprobe"]), ("engine", &["threads", "ray"])];
