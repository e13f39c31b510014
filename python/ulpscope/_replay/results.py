"""What a check found, and its files: those of msprobe's ``acc_check``, with our columns at the end."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ulpscope._core import detail_columns, write_sheet

RESULT_COLUMNS = ("API name", "Forward Test Success", "Backward Test Success", "Message")
FAILED = "error"
RECORDED = "recorded"


@dataclass(frozen=True)
class CheckedTensor:
    """A judged result or gradient."""

    name: str
    """``Functional.linear.0.forward.output.0``; of a gradient ``Functional.linear.0.backward.output.1``."""
    status: str
    """``"pass"``, ``"warning"`` or ``"error"``."""
    message: str
    """Why; empty if there is nothing to say."""
    judged: str
    """``"recorded"``, or the device whose result was judged."""
    measured: tuple[Any, ...] = ()
    """The numbers of msprobe's columns."""
    error: float = 0.0
    """The error relative to the reference."""
    floor: float = 0.0
    """What rounding explains of it."""
    ratio: float = 0.0
    """How many times what rounding explains."""
    standard: str = ""
    """The standard that msprobe has for the API."""
    by_standard: str = ""
    """The status by that standard; empty if it needs the result of a different device."""
    limits: tuple[float, float] = (0.0, 0.0)
    """The largest errors that rounding explains, absolute: of the whole tensor (L2), and of one element."""

    def row(self) -> list[Any]:
        """Its row of details."""
        # Between the name and the status of a row that was not measured.
        missing = len(detail_columns()) - 9
        measured = list(self.measured) or [None] * missing
        numbers = [self.error, self.floor, self.ratio] if self.measured else [None] * 3
        ours = [self.judged, *numbers, self.standard, self.by_standard]
        return [self.name, *measured, self.status, self.message, *ours]


@dataclass(frozen=True)
class CheckedCall:
    """What became of a call."""

    call: str
    """``Functional.linear.0``"""
    step: int | None
    """The step; ``None`` in dumps without steps."""
    rank: str
    """The folder of the rank."""
    forward: str
    """``"pass"``, ``"warning"``, ``"error"``, ``"SKIP"``, or ``""`` if there is nothing to judge."""
    backward: str
    """The same for the gradients."""
    message: str
    """Why, for a call that failed or could not be made again."""
    tensors: tuple[CheckedTensor, ...] = ()
    """Its results and gradients."""
    repro: str = ""
    """The script that shows the failure with plain torch; empty if there is none."""
    no_repro: str = ""
    """Why a failing call has no script."""
    unread: bool = False
    """Whether it was not made again because its elements cannot be read."""

    @property
    def failed(self) -> bool:
        """Whether a result or a gradient is wrong."""
        return FAILED in (self.forward, self.backward)

    @property
    def skipped(self) -> bool:
        """Whether it could not be made again."""
        return self.forward == "SKIP"

    @property
    def place(self) -> str:
        """Step and rank, for names of files; empty without them."""
        step = "" if self.step is None else f"step{self.step}"
        return "_".join(part for part in (step, self.rank) if part)


@dataclass
class CheckResult:
    """The result of `ulpscope.check`. It is true if calls were replayed and none failed."""

    calls: list[CheckedCall] = field(default_factory=list)
    """In order of steps, ranks and execution."""
    problems: list[str] = field(default_factory=list)
    """What could not be read."""
    notes: list[str] = field(default_factory=list)
    """What limits the result, such as a run that was killed."""
    files: list[Path] = field(default_factory=list)
    """The files that were written."""

    def __bool__(self) -> bool:
        return self.exit_code == 0

    @property
    def failed(self) -> list[CheckedCall]:
        """The calls with a wrong result or gradient."""
        return [call for call in self.calls if call.failed]

    @property
    def skipped(self) -> list[CheckedCall]:
        """The calls that could not be made again, each with its reason."""
        return [call for call in self.calls if call.skipped]

    @property
    def exit_code(self) -> int:
        """0: nothing failed; 1: something failed; 2: nothing was replayed, or not all was read."""
        if self.failed:
            return 1
        is_partly_read = bool(self.problems) or any(call.unread for call in self.calls)
        return 2 if is_partly_read or len(self.skipped) == len(self.calls) else 0

    def counts(self) -> dict[str, int]:
        """How many calls passed, are doubtful, failed, and were skipped."""
        found = Counter(_word(call) for call in self.calls)
        return {word: found[word] for word in ("pass", "warning", "error", "SKIP")}

    @property
    def judged_here(self) -> int:
        """How many calls have only results that were computed now: their inputs or results are not recorded.

        They say nothing of what the recorded run computed.
        """
        judged = [{tensor.judged for tensor in call.tensors} for call in self.calls]
        return sum(bool(one) and RECORDED not in one for one in judged)

    def to_json(self) -> str:
        """Everything, as JSON text."""
        document = {
            "counts": self.counts(),
            "judged_here": self.judged_here,
            "calls": [dataclasses.asdict(call) for call in self.calls],
            "problems": self.problems,
            "notes": self.notes,
            "files": [str(file) for file in self.files],
        }
        return json.dumps(_strict(document), indent=1)

    def write(self, folder: Path) -> None:
        """Writes the two sheets, a pair for each rank where there are several."""
        folder.mkdir(parents=True, exist_ok=True)
        stamp = free_timestamp(folder)
        places = list(dict.fromkeys((call.step, call.rank) for call in self.calls))
        for place in places:
            calls = [call for call in self.calls if (call.step, call.rank) == place]
            suffix = f"_{calls[0].place}" if len(places) > 1 and calls[0].place else ""
            result = folder / f"accuracy_checking_result_{stamp}{suffix}.csv"
            details = folder / f"accuracy_checking_details_{stamp}{suffix}.csv"
            write_sheet(result, list(RESULT_COLUMNS), [_result_row(call) for call in calls])
            write_sheet(details, detail_columns(), list(_detail_rows(calls)))
            self.files += [result, details]


def _word(call: CheckedCall) -> str:
    states = (call.forward, call.backward)
    return next((word for word in ("error", "warning", "pass") if word in states), "SKIP")


def _result_row(call: CheckedCall) -> list[Any]:
    return [call.call, call.forward, call.backward, call.message]


def _detail_rows(calls: list[CheckedCall]) -> Iterator[list[Any]]:
    for call in calls:
        for tensor in call.tensors:
            yield tensor.row()
        if call.skipped:
            yield CheckedTensor(call.call, "SKIP", call.message, "").row()


def free_timestamp(folder: Path) -> str:
    """The time as the tool writes it; a second that has results already is skipped."""
    moment = time.time()
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(moment))
        if not any(stamp in entry.name for entry in folder.iterdir()):
            return stamp
        moment += 1


def _strict(value: Any) -> Any:
    """Numbers that JSON does not have become texts."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return value
