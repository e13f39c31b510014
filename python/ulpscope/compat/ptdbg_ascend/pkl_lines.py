"""``parse`` of ptdbg_ascend: the statistics and stacks of calls in a .pkl, as text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ulpscope.compat.ptdbg_ascend.exceptions import CompareException
from ulpscope.compat.ptdbg_ascend.tool_log import print_log, printable

# The longest line that is read: a stack has some hundred frames.
_MAX_LINE = 16 * 1024 * 1024


def parse(pkl_file: str | os.PathLike[str], module_name_prefix: str = "", **keywords: str) -> None:
    """Prints the statistics and the stack of every call whose name begins with the prefix.

    The guide also calls the second argument ``moudule_name_prefix``.
    """
    prefix: Any = keywords.pop("moudule_name_prefix", None) or module_name_prefix
    if keywords:
        raise TypeError(f"parse() got an unexpected keyword argument {next(iter(keywords))!r}")
    if not isinstance(prefix, str) or not prefix:
        text = "The parameter:module_name_prefix is not a string."
        print_log("ERROR", text)
        raise CompareException(CompareException.INVALID_PARAM_ERROR, text)
    if not isinstance(pkl_file, str | os.PathLike) or not Path(pkl_file).is_file():
        text = f"{pkl_file} is an invalid file or non-exist."
        print_log("ERROR", text)
        raise CompareException(CompareException.INVALID_PATH_ERROR, text)
    has_title, is_found = False, False
    for line in _lines(pkl_file):
        if not isinstance(line[0], str) or not line[0].startswith(prefix):
            continue
        is_found = True
        match line:
            case [str(name), list(frames)] if "stack_info" in name:
                _print_stack(name, frames)
            case [name, _, _, dtype, shape, [largest, smallest, mean, *_], *_]:
                if not has_title:
                    print("\nStatistic Info:")
                    has_title = True
                figures = f"[max: {largest}][min: {smallest}][mean: {mean}]"
                print(printable(f"  [{name}][dtype: {dtype}][shape: {shape}]{figures}"))
    if not is_found:
        print_log("WARNING", f"{os.fspath(pkl_file)} has no API whose name begins with {prefix}.")


def _lines(pkl_file: str | os.PathLike[str]) -> Iterator[list[Any]]:
    """The lines of the file. A line that cannot be read is reported and left out."""
    with Path(pkl_file).open("rb") as file:
        number = 0
        while line := file.readline(_MAX_LINE):
            number += 1
            if not line.strip():
                continue
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                values = None
            if isinstance(values, list) and values:
                yield values
            else:
                print_log("WARNING", f"{os.fspath(pkl_file)}: line {number} is not a line of a dump.")


def _print_stack(name: str, frames: list[Any]) -> None:
    print(printable(f"\nTrace back({name}):"))
    for frame in reversed(frames):
        match frame:
            case [file, line, function, code, *_]:
                print(printable(f'  File "{file}", line {line}, in {function}'))
                print(printable(f"    {code}"))
