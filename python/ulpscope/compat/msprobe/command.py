"""The command line of msprobe, as commands of ulpscope.

    -f pytorch compare -i compare.json -o out [-s] [-c] [-f]     1.x: `compare` of this package
    compare -tp … -gp … -o … [-fm] [-dm …] …                     26.x: `ulpscope compare` has these flags
    merge_result -i DIR -o DIR -config FILE                      `ulpscope merge` into one sheet
    overflow_check -i DUMP -o DIR                                `ulpscope overflow`
    run_ut, acc_check, multi_… -api_info dump.json -o DIR        `ulpscope check` with the tool's standards
    api_precision_compare -npu FILE -gpu FILE -o DIR             ratios of the errors of two such checks

A subcommand that has no counterpart is named in the error, with exit code 2.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ulpscope._core import run_command
from ulpscope.compat.msprobe import accuracy_check, merge_config
from ulpscope.compat.msprobe.exceptions import CompareException
from ulpscope.compat.msprobe.pytorch.comparison import compare, compare_distributed

_INSTEAD = {
    "run_overflow_check": "use overflow_check: it names the call that returns NaN or infinity first",
    "parse": "use ulpscope stats, diff and convert on the files",
}


def main(arguments: Sequence[str]) -> int:
    """Runs a command line of msprobe; returns the exit code."""
    words = list(arguments)
    framework = None
    if words[:1] in (["-f"], ["--framework"]):
        framework, words = words[1:2], words[2:]
        if framework != ["pytorch"]:
            return _refuse("-f takes pytorch")
    if not words:
        return _refuse("a subcommand is missing, such as compare")
    subcommand, rest = words[0], words[1:]
    if subcommand == "merge_result":
        return _merge_result(rest)
    if subcommand == "overflow_check":
        return _overflow_check(rest)
    if subcommand in accuracy_check.CHECKS:
        return accuracy_check.check(subcommand, rest)
    if subcommand == "api_precision_compare":
        return accuracy_check.api_precision_compare(rest)
    if subcommand != "compare":
        instead = _INSTEAD.get(subcommand, "docs/migrate/msprobe.md lists what there is")
        return _refuse(f"{subcommand} has no counterpart with these arguments; {instead}")
    if framework is None:
        return run_command(["ulpscope", "compare", *rest])
    return _compare_first_release(rest)


def _compare_first_release(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="msprobe -f pytorch compare", allow_abbrev=False)
    parser.add_argument("-i", "--input_path", required=True)
    parser.add_argument("-o", "--output_path", nargs="?", default="./output", const="./output")
    parser.add_argument("-s", "--stack_mode", action="store_true")
    parser.add_argument("-c", "--compare_only", action="store_true")
    parser.add_argument("-f", "--fuzzy_match", action="store_true")
    parser.add_argument("-dm", "--data_mapping")
    options = parser.parse_args(words)
    try:
        given = json.loads(Path(options.input_path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return _refuse(f"{options.input_path}: {error}")
    if not isinstance(given, dict):
        return _refuse(f"{options.input_path}: expected an object with npu_path and bench_path")
    target, golden = given.get("npu_path", ""), given.get("bench_path", "")
    for name, side in (("npu_path", target), ("bench_path", golden)):
        if not isinstance(side, str) or not side:
            return _refuse(f"Missing {name} in configuration file {options.input_path}, please check!")
    settings = {
        "stack_mode": options.stack_mode,
        "auto_analyze": not options.compare_only,
        "fuzzy_match": options.fuzzy_match,
        "data_mapping": options.data_mapping,
    }
    try:
        if Path(target).is_dir() and Path(golden).is_dir():
            compare_distributed(target, golden, options.output_path, **settings)
        else:
            compare(given, options.output_path, **settings)
    except CompareException as error:
        return _refuse(str(error))
    return 0


def _merge_result(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="msprobe merge_result", allow_abbrev=False)
    parser.add_argument("-i", "--input_dir", required=True)
    parser.add_argument("-o", "--output_dir", required=True)
    parser.add_argument("-config", "--config-path", required=True)
    options = parser.parse_args(words)
    try:
        wanted = merge_config.read(Path(options.config_path))
        Path(options.output_dir).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        return _refuse(str(error))
    merged = Path(options.output_dir) / f"multi_ranks_compare_merge_{time.strftime('%Y%m%d%H%M%S')}.xlsx"
    filters = [word for name in wanted.apis for word in ("--filter", name)]
    metrics = [word for name in wanted.metrics for word in ("--metric", name)]
    output = ["--output", str(merged)]
    return run_command(["ulpscope", "merge", options.input_dir, *filters, *metrics, *output])


def _overflow_check(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="msprobe overflow_check", allow_abbrev=False)
    parser.add_argument("-i", "--input_path", required=True)
    parser.add_argument("-o", "--output_path", default="./output")
    options = parser.parse_args(words)
    return run_command(["ulpscope", "overflow", options.input_path, "--output", options.output_path])


def _refuse(problem: str) -> int:
    print(f"msprobe: error: {problem}", file=sys.stderr)
    return 2
