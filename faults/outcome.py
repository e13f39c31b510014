"""What came of one case: the answers of every tool beside the truth, for other processes and for files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from faults.cases import Case, Truth

# How many answers of a tool are looked at and kept.
KEPT = 3


@dataclass(frozen=True)
class Answer:
    """One place that a tool names."""

    call: str
    """The call in the target's dump."""
    names: tuple[str, ...]
    """Every name the tool gives it: the call, its partner in the golden, the entry."""
    module: str | None
    """The call of the module it was made in."""
    kind: str
    """The tool's own word for what is wrong."""
    confidence: float | None = None
    proof: str | None = None
    """What replay says of it: proved, refuted or not replayable."""


@dataclass(frozen=True)
class Judgement:
    """What one tool says of a pair of dumps: its first answers, best first, or why it has none to give."""

    answers: tuple[Answer, ...] = ()
    total: int = 0
    """How many calls it names altogether."""
    error: str | None = None
    refuted: tuple[Answer, ...] = ()
    """Calls that it would have named, had replay not refuted it."""


@dataclass(frozen=True)
class Outcome:
    """A case that was run, or that could not be."""

    case: Case
    truth: Truth | None
    judgements: dict[str, Judgement] = field(default_factory=dict)
    error: str | None = None
    seconds: float = 0.0


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Plain values, from which `from_json` makes the same outcome."""
    return {"name": outcome.case.name, **asdict(outcome)}


def from_json(value: dict[str, Any]) -> Outcome:
    """The outcome that `as_json` wrote."""
    truth = value["truth"]
    if truth is not None:
        truth = Truth(**{**truth, "accepted": tuple(truth["accepted"])})
    judgements = {}
    for tool, said in value["judgements"].items():
        answers, refuted = (
            tuple(Answer(**{**answer, "names": tuple(answer["names"])}) for answer in said.get(part, ()))
            for part in ("answers", "refuted")
        )
        judgements[tool] = Judgement(answers, said["total"], said["error"], refuted)
    return Outcome(Case(**value["case"]), truth, judgements, value["error"], value["seconds"])


def read(path: Path) -> list[Outcome]:
    """The outcomes of a file written with `--json`."""
    return [from_json(value) for value in json.loads(path.read_text())["cases"]]


def by_name(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """In the order of their names, which no number of processes changes."""
    return sorted(outcomes, key=lambda outcome: outcome.case.name)
