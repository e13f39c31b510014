"""``compare`` and ``compare_distributed`` of ``msprobe.pytorch``: our compare, with its rows and files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ulpscope._core import run_command
from ulpscope.compat.msprobe.exceptions import CompareException

# The parts of input_param, by the names of the function and of compare.json.
_TARGET = ("npu_json_path", "npu_path")
_GOLDEN = ("bench_json_path", "bench_path")

_RANK = re.compile(r"rank\d*")

# The exit code of a comparison that was made, whether or not the sides agree.
_MADE = (0, 1)


def compare(
    input_param: Mapping[str, Any],
    output_path: str | os.PathLike[str],
    stack_mode: bool = False,
    auto_analyze: bool = True,
    fuzzy_match: bool = False,
    **keywords: Any,
) -> None:
    """Compares two dump.json files; writes compare_result_*.xlsx, and advisor_*.txt with ``auto_analyze``."""
    for name, value in (
        ("stack_mode", stack_mode),
        ("auto_analyze", auto_analyze),
        ("fuzzy_match", fuzzy_match),
    ):
        if not isinstance(value, bool):
            raise _wrong(f"{name} must be a bool")
    if not isinstance(input_param, Mapping):
        raise _wrong("input_param must be a dict")
    target, golden = _path_of(input_param, _TARGET), _path_of(input_param, _GOLDEN)
    _compare(target, golden, output_path, stack_mode, auto_analyze, fuzzy_match, keywords.get("data_mapping"))


def compare_distributed(
    npu_dump_dir: str | os.PathLike[str],
    bench_dump_dir: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    **keywords: Any,
) -> None:
    """Compares the ranks of two steps, by their numbers."""
    if keywords.get("suffix"):
        raise _wrong("Argument 'suffix' is not supported for compare_distributed.")
    ranks = _ranks(npu_dump_dir), _ranks(bench_dump_dir)
    if len(ranks[0]) != len(ranks[1]):
        raise CompareException(
            CompareException.INVALID_PATH_ERROR,
            "The number of ranks in the two runs are different. Unable to match the ranks. Please use "
            "another folder to compare or use compare() api and manually match the ranks.",
        )
    _compare(
        npu_dump_dir,
        bench_dump_dir,
        output_path,
        keywords.get("stack_mode", False),
        keywords.get("auto_analyze", True),
        keywords.get("fuzzy_match", False),
        keywords.get("data_mapping"),
    )


def _compare(
    target: str | os.PathLike[str],
    golden: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    stack_mode: bool,
    auto_analyze: bool,
    fuzzy_match: bool,
    data_mapping: str | os.PathLike[str] | None,
) -> None:
    words = ["ulpscope", "compare", os.fspath(target), os.fspath(golden), "--style", "msprobe-1"]
    words += ["--output", os.fspath(output_path), "--format", "xlsx"]
    words += ["--stack_mode"] * stack_mode + ["--fuzzy_match"] * fuzzy_match
    if data_mapping is not None:
        words += ["--data-mapping", os.fspath(data_mapping)]
    before, results = _advice(output_path), _results(output_path)
    code = run_command(words)
    if not auto_analyze:
        for file in _advice(output_path) - before:
            file.unlink()
    if code not in _MADE and _results(output_path) == results:
        raise CompareException(CompareException.NOT_COMPARED, f"{target}, {golden}")


def _advice(output_path: str | os.PathLike[str]) -> set[Path]:
    return set(Path(output_path).glob("advisor*.txt"))


def _results(output_path: str | os.PathLike[str]) -> set[Path]:
    return set(Path(output_path).glob("compare_result*"))


def _path_of(input_param: Mapping[str, Any], names: tuple[str, str]) -> str:
    for name in names:
        value = input_param.get(name)
        if value is not None:
            if not isinstance(value, str | os.PathLike) or not Path(value).exists():
                problem = f"{name} {value!r} does not exist"
                raise CompareException(CompareException.INVALID_PATH_ERROR, problem)
            return os.fspath(value)
    raise CompareException(CompareException.INVALID_PATH_ERROR, f"Missing {names[0]} in input_param")


def _ranks(folder: str | os.PathLike[str]) -> list[str]:
    """The folders of ranks; anything else in the folder is an error."""
    try:
        names = sorted(entry.name for entry in Path(folder).iterdir())
    except OSError as error:
        raise CompareException(CompareException.INVALID_PATH_ERROR, str(error)) from None
    for name in names:
        if not _RANK.fullmatch(name):
            raise CompareException(
                CompareException.INVALID_PATH_ERROR,
                f"{folder} should only contain rank directories, but it has {name}",
            )
    return names


def _wrong(text: str) -> CompareException:
    return CompareException(CompareException.INVALID_PARAM_ERROR, text)
