"""``compare`` of ptdbg_ascend: our compare in its style, with its files, lines and exit codes."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import ulpscope
from ulpscope.compat.ptdbg_ascend.exceptions import CompareException
from ulpscope.compat.ptdbg_ascend.tool_log import print_log, printable

_log = logging.getLogger("ulpscope.compat.ptdbg_ascend")

# How many operations without a partner are named.
_MAX_NAMED = 20

# A stack follows the entries of its call, or comes before them: it is within this many lines.
_MAX_LINES_BEFORE_A_STACK = 100_000

# The longest line that is read at once.
_MAX_LINE = 1024 * 1024

_IS_STACK = re.compile(rb'\["[^"]*stack_info"')

_PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Dumps:
    """The files of two runs: of each the .pkl and the folder of its .npy files."""

    npu_pkl: Path
    bench_pkl: Path
    npu_data: Path
    bench_data: Path


@dataclass(frozen=True)
class Options:
    """The optional arguments of ``compare``, and whether each row is printed."""

    stack_mode: bool = False
    auto_analyze: bool = True
    fuzzy_match: bool = False
    print_rows: bool = False

    def check(self) -> None:
        """Refuses what is not a bool."""
        if not isinstance(self.stack_mode, bool) or not isinstance(self.fuzzy_match, bool):
            raise refused(CompareException.INVALID_PARAM_ERROR, "Invalid input parameters")
        if not isinstance(self.auto_analyze, bool):
            text = "Params auto_analyze only support True or False."
            raise refused(CompareException.INVALID_PARAM_ERROR, text)


def compare(
    input_param: Mapping[str, Any],
    output_path: _PathLike,
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
) -> None:
    """Compares two dumps; writes compare_result_*.csv, and advisor_*.txt with ``auto_analyze``.

    ``input_param``: npu_pkl_path, bench_pkl_path, npu_dump_data_dir, bench_dump_data_dir, and
    is_print_compare_log, which prints each row. ``stack_mode``: the dumps have stacks, which are a column.
    ``fuzzy_match``: operations match whatever their numbers. What cannot be compared ends the script with the
    tool's exit code.
    """
    with ending_the_script():
        if not isinstance(input_param, Mapping) or not isinstance(output_path, str | os.PathLike):
            raise refused(CompareException.INVALID_PARAM_ERROR, "Invalid input parameters")
        printed = bool(input_param.get("is_print_compare_log", False))
        options = Options(stack_mode, auto_analyze, fuzzy_match, printed)
        options.check()
        dumps = Dumps(
            existing_file(input_param, "npu_pkl_path"),
            existing_file(input_param, "bench_pkl_path"),
            _data_folder(input_param, "npu_dump_data_dir"),
            _data_folder(input_param, "bench_dump_data_dir"),
        )
        output = existing_folder(output_path, "output_path")
        check_stacks(dumps, options)
        compare_dumps(dumps, output, options)


def compare_dumps(dumps: Dumps, output: Path, options: Options, suffix: str = "") -> None:
    """Compares, and writes the files of the tool; ``suffix`` stands in the name of the table."""
    if options.fuzzy_match:
        text = "This task uses fuzzy matching, which may affect the accuracy of the comparison."
        print_log("WARNING", text)
    try:
        result = ulpscope.compare(
            dumps.npu_pkl,
            dumps.bench_pkl,
            style="ptdbg",
            match="fuzzy" if options.fuzzy_match else None,
            target_data=dumps.npu_data,
            golden_data=dumps.bench_data,
        )
    except (OSError, ValueError) as error:
        raise refused(CompareException.INVALID_FILE_ERROR, str(error)) from error
    if options.print_rows:
        _print_rows(result)
    moment = _free_moment(output, f"compare_result{suffix}_*.csv")
    result.to_csv(output / f"compare_result{suffix}_{moment}.csv")
    if options.auto_analyze:
        _advise(result.advice[0], output / f"advisor_{_free_moment(output, 'advisor_*.txt')}.txt")
    _report_what_the_table_lacks(result)


def check_stacks(dumps: Dumps, options: Options) -> None:
    """The tool's check that ``stack_mode`` fits the dumps, except that dumps with stacks need no setting."""
    npu, bench = _has_stacks(dumps.npu_pkl), _has_stacks(dumps.bench_pkl)
    if npu != bench:
        text = "The dump mode of the two files is not same, please check the dump files"
        raise refused(CompareException.INVALID_COMPARE_MODE, text)
    if options.stack_mode and not npu:
        text = "The current file does not contain stack information, please turn off the stack_mode"
        raise refused(CompareException.INVALID_COMPARE_MODE, text)
    if npu and not options.stack_mode:
        print_log("INFO", "The dumps contain stack information: the result has the column NPU_Stack_Info.")


@contextmanager
def ending_the_script() -> Iterator[None]:
    """Ends the script with the code of the error, as the tool does."""
    try:
        yield
    except CompareException as error:
        print_log("ERROR", "Compare failed. Please check the arguments and do it again!")
        sys.exit(error.code)


def refused(code: int, text: str) -> CompareException:
    """The error, printed as the tool prints it."""
    print_log("ERROR", text)
    return CompareException(code, text)


def existing_file(input_param: Mapping[str, Any], key: str) -> Path:
    """A .pkl that is there and is not empty."""
    path = input_param.get(key)
    if not isinstance(path, str | os.PathLike):
        raise refused(CompareException.INVALID_PATH_ERROR, f"input_param has no {key}: expected a path")
    if not Path(path).is_file():
        raise refused(CompareException.INVALID_PATH_ERROR, f"{path} is an invalid file or non-exist.")
    if Path(path).stat().st_size == 0:
        raise refused(CompareException.INVALID_DUMP_FILE, f"dump file {path} have empty line!")
    return Path(path)


def existing_folder(path: Any, key: str) -> Path:
    """A folder that is there."""
    if not isinstance(path, str | os.PathLike):
        raise refused(CompareException.INVALID_PATH_ERROR, f"{key} is missing: expected a folder")
    if not Path(path).exists():
        raise refused(CompareException.INVALID_PATH_ERROR, f"The path {path} is not exist.")
    if not Path(path).is_dir():
        raise refused(CompareException.INVALID_PATH_ERROR, f"The path {path} is not a directory.")
    return Path(path)


def _data_folder(input_param: Mapping[str, Any], key: str) -> Path:
    if input_param.get(key) is None:
        text = (
            f"input_param has no {key}: statistics alone are compared by ulpscope compare NPU.pkl BENCH.pkl"
        )
        raise refused(CompareException.INVALID_PATH_ERROR, text)
    return existing_folder(input_param[key], key)


def _has_stacks(pkl: Path) -> bool:
    with pkl.open("rb") as file:
        lines = iter(lambda: file.readline(_MAX_LINE), b"")
        return any(_IS_STACK.match(line) for line in islice(lines, _MAX_LINES_BEFORE_A_STACK))


def _print_rows(result: ulpscope.Comparison) -> None:
    for row in result.rows:
        name = printable(row["NPU Name"])
        print(f"start compare: {name}")
        figures = f"cosine {row['Cosine']}, max_abs_err {row['MaxAbsErr']}"
        figures += f", max_relative_err {row['MaxRelativeErr']}, {row['Err_message'] or ''}"
        print(f"[{name}] Compare result: {figures}")


def _advise(advice: str, path: Path) -> None:
    print_log("INFO", "The summary of the expert advice is as follows: ")
    for line in advice.splitlines():
        print_log("INFO", line)
    path.write_text(advice, encoding="utf-8")
    print_log("INFO", f"The advisor summary is saved in: {path}")


def _report_what_the_table_lacks(result: ulpscope.Comparison) -> None:
    for problem in result.problems:
        _log.warning("%s", problem)
    lone = result.partnerless
    for side, name, reason in lone[:_MAX_NAMED]:
        _log.warning("not compared, only in the %s: %s (%s)", side, printable(name), reason)
    if len(lone) > _MAX_NAMED:
        _log.warning("not compared: %d more", len(lone) - _MAX_NAMED)


def _free_moment(folder: Path, pattern: str) -> str:
    """The local time for the name of a file; a second that has such a file is skipped."""
    moment = time.time()
    while True:
        text = time.strftime("%Y%m%d%H%M%S", time.localtime(moment))
        if not (folder / pattern.replace("*", text)).exists():
            return text
        moment += 1
