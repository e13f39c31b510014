"""Errors of one device in relation to those of a different one: msprobe's ``api_precision_compare``.

accuracy_checking_details of both ──► rows of the same name, judged in Rust ──► api_precision_compare_*.csv
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ulpscope._core import judge_ratios, ratio_columns, write_sheet
from ulpscope._replay.results import RESULT_COLUMNS, free_timestamp

_NAME, _DTYPE = "API Name", "DEVICE Dtype"
# What the tool requires of both files.
_REQUIRED = (
    _NAME,
    _DTYPE,
    *("小值域错误占比", "均方根误差", "相对误差最大值", "相对误差平均值", "误差均衡性", "二进制一致错误率"),
    *("inf/nan错误率", "相对误差错误率", "绝对误差错误率", "ULP误差平均值", "ULP误差大于阈值占比"),
    "双千指标",
)
_DIRECTIONS = ("forward", "backward")
_WORST = ("error", "warning", "pass", "SKIP")


@dataclass
class _Call:
    statuses: dict[str, list[str]] = field(default_factory=lambda: {way: [] for way in _DIRECTIONS})
    message: str = ""

    def row(self, name: str) -> list[str]:
        words = [next((word for word in _WORST if word in self.statuses[way]), "") for way in _DIRECTIONS]
        return [name, *words, self.message]


@dataclass
class PrecisionComparison:
    """What a comparison of two details found."""

    files: list[Path]
    """The result and the details."""
    counts: dict[str, int]
    """Calls by their worst status."""
    failed: list[str]
    """The calls with an error, each with its message."""
    unpaired: list[str]
    """Rows that only one of the files has."""

    @property
    def exit_code(self) -> int:
        """0: none failed; 1: some failed; 2: nothing could be compared."""
        if self.failed:
            return 1
        return 0 if any(count for word, count in self.counts.items() if word != "SKIP") else 2


def precision_compare(own: Iterable[Path], peer: Path, folder: Path) -> PrecisionComparison:
    """Judges the details of a check by those of a check on a different device."""
    rows = [row for path in own for row in _read(path)]
    theirs: dict[str, dict[str, str]] = {}
    for row in _read(peer):
        if theirs.setdefault(row[_NAME], row) is not row:
            raise ValueError(f"{peer}: {row[_NAME]} has several rows; expected one")
    calls: dict[str, _Call] = {}
    details: list[list[Any]] = []
    unpaired = []
    for row in rows:
        name = row[_NAME]
        other = theirs.pop(name, None)
        if other is None:
            unpaired.append(name)
            continue
        call, direction, api = _parts(name)
        status, message, cells = judge_ratios(api, row[_DTYPE].strip(), row, other)
        details.append(cells)
        found = calls.setdefault(call, _Call())
        found.statuses[direction].append(status)
        found.message = found.message or (message if status != "pass" else "")
    unpaired += list(theirs)
    results = [found.row(name) for name, found in calls.items()]
    folder.mkdir(parents=True, exist_ok=True)
    stamp = free_timestamp(folder)
    files = [folder / f"api_precision_compare_{kind}_{stamp}.csv" for kind in ("result", "details")]
    write_sheet(files[0], list(RESULT_COLUMNS), results)
    write_sheet(files[1], ratio_columns(), details)
    words = [next(word for word in _WORST if word in row[1:3]) for row in results]
    return PrecisionComparison(
        files,
        {word: words.count(word) for word in _WORST},
        [
            f"{row[0]}: {row[3].strip().replace(chr(10), '; ')}"
            for row, word in zip(results, words, strict=True)
            if word == "error"
        ],
        unpaired,
    )


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, restval="")
        missing = [column for column in _REQUIRED if column not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(
                f"{path}: the columns {', '.join(missing)} are missing; expected an "
                "accuracy_checking_details csv"
            )
        rows = [{key: value for key, value in row.items() if isinstance(key, str)} for row in reader]
    # A call that was not made has one row, without a direction.
    return [row for row in rows if any(f".{way}." in row[_NAME] for way in _DIRECTIONS)]


def _parts(name: str) -> tuple[str, str, str]:
    """The call, the direction and the API of ``Functional.linear.0.forward.output.0``."""
    direction = next(way for way in _DIRECTIONS if f".{way}." in name)
    call = name.partition(f".{direction}.")[0]
    parts = call.split(".")
    return call, direction, parts[-2] if len(parts) > 1 else call
