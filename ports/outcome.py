"""Runs a case: two captures, a comparison, a score."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from faults.judges import Msprobe
from ports.captures import Captures
from ports.dumps import only_dump
from ports.runs import Case
from ports.scoring import Answer, Truth, answers_of, place, truth_of

# How many answers of a comparison are kept.
KEPT = 3


@dataclass(frozen=True)
class Outcome:
    """One row of the results."""

    name: str
    part: str
    kind: str
    architecture: str
    task: str
    backward: bool
    held_out: bool
    unseen: bool = False
    exit_code: int | None = None
    place: str | None = None
    """Of a bug: see `ports.scoring`."""
    named: int = 0
    """How many calls the comparison names."""
    answers: tuple[str, ...] = ()
    """The first of them."""
    wanted: tuple[str, ...] = ()
    """Of a bug: some of the calls that count as exact."""
    final_error: float | None = None
    """The largest relative difference among the final results."""
    reason: str = ""
    """The sentence of the comparison."""
    error: str | None = None
    seconds: float = 0.0


def final_error(target: Path, golden: Path) -> float | None:
    """The largest relative difference of the results that both runs have in the same shape."""
    import torch

    ours, theirs = torch.load(target), torch.load(golden)
    errors = [
        float((ours[name] - value).norm() / value.norm())
        for name, value in theirs.items()
        if name in ours and ours[name].shape == value.shape
    ]
    return max(errors) if errors else None


def compared(
    target: Path,
    golden: Path,
    ulpscope: Sequence[str] = (sys.executable, "-m", "ulpscope"),
    environment: Mapping[str, str] | None = None,
) -> tuple[int, dict[str, Any]]:
    """The exit code and the result of `ulpscope compare`."""
    command = [*ulpscope, "compare", str(target), str(golden), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"ulpscope compare ended with {done.returncode}: {done.stderr[-1500:]}") from None
    if "error" in result:
        raise RuntimeError(f"ulpscope compare ended with {done.returncode}: {result['error']['message']}")
    return done.returncode, result


def asked(peer: Msprobe, target: Path, golden: Path) -> tuple[int, list[Answer]]:
    """What mindstudio-probe says: calls whose rows are errors, and 1 if there are any."""
    said = peer.compare(target, golden)
    answers = [Answer(one.call, None, one.module, one.kind, 0.0) for one in said.answers]
    # Of many, only the first were kept: they are no cut.
    if said.total > len(answers):
        answers = answers[:1]
    return int(bool(answers)), answers


@dataclass(frozen=True)
class Pair:
    """The dumps of a case, and what is known about them."""

    target: Path
    golden: Path
    final_error: float | None
    truth: Truth | None
    """Of a bug."""

    def place(self, answers: Sequence[Answer], exit_code: int) -> str | None:
        """Of a bug: the place of the answers."""
        if self.truth is None:
            return None
        return place(answers, self.truth, only_dump(self.target), exit_code, self.final_error)


def captured(case: Case, captures: Captures) -> Pair:
    """Captures both runs of a case; raises if they are not what the case claims."""
    target = captures.made(case.target, case.task, case.backward)
    golden = captures.made(case.golden, case.task, case.backward)
    error = final_error(target.results, golden.results)
    if case.part == "healthy" and error is not None and error > case.tolerance:
        raise RuntimeError(f"not a healthy port: final results differ by {error:.2e}")
    truth = None
    if case.where is not None:
        truth = truth_of(only_dump(target.dump), only_dump(golden.dump), target.spans, case.where)
        if not truth.calls and not truth.patterns:
            raise RuntimeError("the case means no call of the target: its lines or patterns match none")
    return Pair(target.dump, golden.dump, error, truth)


def judged(case: Case, captures: Captures, check: bool = False, peer: Msprobe | None = None) -> Outcome:
    """Runs one case; with `check` without the comparison, to see whether the case is what it claims.

    With `peer` that tool compares.
    """
    start = time.monotonic()
    known = (
        case.full_name,
        case.part,
        case.kind,
        case.architecture,
        case.task,
        case.backward,
        case.held_out,
        case.unseen,
    )
    try:
        pair = captured(case, captures)
        wanted = () if pair.truth is None else (*sorted(pair.truth.calls)[:KEPT], *pair.truth.patterns)
        if check:
            seconds = round(time.monotonic() - start, 2)
            return Outcome(*known, wanted=wanted, final_error=pair.final_error, seconds=seconds)
        reason = ""
        if peer is None:
            code, result = compared(pair.target, pair.golden)
            answers, reason = answers_of(result), str(result.get("reason", ""))
        else:
            code, answers = asked(peer, pair.target, pair.golden)
        return Outcome(
            *known,
            exit_code=code,
            place=pair.place(answers, code),
            named=len(answers),
            answers=tuple(f"{one.call} ({one.kind}, {one.confidence:.2f})" for one in answers[:KEPT]),
            wanted=wanted,
            final_error=pair.final_error,
            reason=reason,
            seconds=round(time.monotonic() - start, 2),
        )
    except Exception:
        return Outcome(*known, error=traceback.format_exc(), seconds=round(time.monotonic() - start, 2))


def as_text(outcomes: Sequence[Outcome]) -> str:
    """JSON with one case per line, without what is empty."""
    rows = [
        json.dumps({name: value for name, value in asdict(one).items() if value not in (None, (), "")})
        for one in outcomes
    ]
    return '{"cases": [\n' + ",\n".join(rows) + "\n]}\n"


def as_outcomes(text: str) -> list[Outcome]:
    """The outcomes that `as_text` wrote."""

    def restored(row: dict[str, Any]) -> Outcome:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in row.items()
        }
        return Outcome(**values)

    return [restored(row) for row in json.loads(text)["cases"]]
