"""Truth and answer → how near the answer came, and the shares that are held against the bars.

A tool has found a fault when its first answer names the very call. Only faults count whose effect exceeds
twice the noise floor: below that, no tool can tell them from rounding. A case that a tool could not judge is
a fault it did not find; a benign pair it could not judge is no alarm, but is shown as failed, and breaks the
promise of silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from faults.cases import Case, Truth
from faults.outcome import KEPT, Answer, Judgement, Outcome

# What the first answer is; "error": the tool, or the case, failed.
PLACES = ("exact", "module", "elsewhere", "missed", "error")

# A module's name up to the words that tell its calls apart.
_MODULE_CALL = re.compile(r"\.(forward|backward|parameters_grad)(\.\d+)?$")


@dataclass(frozen=True)
class Score:
    """How near a tool came to a fault."""

    place: str
    """One of `PLACES`, of the first answer."""
    within_three: bool
    """One of the first three answers names the call."""


def module_path(call: str | None) -> str | None:
    """The module behind one of its calls, whatever the direction; None for calls of functions."""
    if call is None or not call.startswith("Module."):
        return None
    return _MODULE_CALL.sub("", call)


def is_exact(answer: Answer, truth: Truth) -> bool:
    """Whether the answer names the call that the fault was planted in."""
    right = {truth.call, *truth.accepted}
    return any(name in right for name in answer.names)


def is_in_module(answer: Answer, truth: Truth) -> bool:
    """Whether the answer is a call of the same module, or that module's own."""
    right = module_path(truth.module)
    return right is not None and right in (module_path(answer.module), module_path(answer.call))


def score(truth: Truth, judgement: Judgement) -> Score:
    """How near the first answers came to the fault."""
    if judgement.error is not None:
        return Score("error", False)
    if not judgement.answers:
        return Score("missed", False)
    first = judgement.answers[0]
    within_three = any(is_exact(answer, truth) for answer in judgement.answers[:KEPT])
    if is_exact(first, truth):
        return Score("exact", within_three)
    return Score("module" if is_in_module(first, truth) else "elsewhere", within_three)


@dataclass
class Tally:
    """Scores of one tool over some faults."""

    counted: int = 0
    """Faults whose effect exceeds twice the floor, and cases that failed before that was known."""
    below: int = 0
    """Faults whose effect does not."""
    exact: int = 0
    within_three: int = 0
    module: int = 0
    elsewhere: int = 0
    missed: int = 0
    error: int = 0

    def add(self, outcome: Outcome, tool: str) -> None:
        """Counts one fault."""
        truth = outcome.truth
        if truth is not None and not truth.counts:
            self.below += 1
            return
        self.counted += 1
        if truth is None:
            self.error += 1
            return
        found = score(truth, outcome.judgements[tool])
        setattr(self, found.place, getattr(self, found.place) + 1)
        self.within_three += found.within_three

    @property
    def exact_share(self) -> float | None:
        """The part of the counted faults that were found at the exact call; None where none counted."""
        return self.exact / self.counted if self.counted else None

    @property
    def within_three_share(self) -> float | None:
        """The part of the counted faults that are among the first three answers."""
        return self.within_three / self.counted if self.counted else None


@dataclass
class Alarms:
    """What one tool says of pairs in which nothing is wrong."""

    pairs: int = 0
    raised: int = 0
    error: int = 0

    def add(self, outcome: Outcome, tool: str) -> None:
        """Counts one pair."""
        self.pairs += 1
        if outcome.error is not None or outcome.judgements[tool].error is not None:
            self.error += 1
        elif outcome.judgements[tool].answers:
            self.raised += 1


@dataclass
class Replays:
    """What replay says of the calls that a tool names."""

    proved: int = 0
    not_replayable: int = 0
    refuted: int = 0
    true_refuted: int = 0
    """Of the refuted calls, those that a fault was planted in."""
    false_proved: int = 0
    """Of the proved calls, those that no fault was planted in."""

    def add(self, outcome: Outcome, tool: str) -> None:
        """Counts the answers to one case."""
        said, truth = outcome.judgements.get(tool), outcome.truth
        if said is None or truth is None:
            return
        for answer in said.answers:
            self.proved += answer.proof == "proved"
            self.not_replayable += answer.proof == "not replayable"
            is_right = outcome.case.fault is not None and is_exact(answer, truth)
            self.false_proved += answer.proof == "proved" and not is_right
        self.refuted += len(said.refuted)
        if outcome.case.fault is not None:
            self.true_refuted += sum(is_exact(answer, truth) for answer in said.refuted)


def replays(outcomes: Iterable[Outcome], tool: str) -> Replays:
    """What replay says over all outcomes."""
    result = Replays()
    for outcome in outcomes:
        result.add(outcome, tool)
    return result


def tally(outcomes: Iterable[Outcome], tool: str) -> Tally:
    """The scores of a tool over those outcomes that have a fault."""
    result = Tally()
    for outcome in outcomes:
        if outcome.case.fault is not None:
            result.add(outcome, tool)
    return result


def alarms(outcomes: Iterable[Outcome], tool: str) -> Alarms:
    """The false alarms of a tool over those outcomes that have no fault."""
    result = Alarms()
    for outcome in outcomes:
        if outcome.case.fault is None:
            result.add(outcome, tool)
    return result


@dataclass(frozen=True)
class Bar:
    """One promise about a part of the cases."""

    title: str
    covers: Callable[[Case], bool]
    exact: float | None = None
    """Least share of faults found at the exact call."""
    within_three: float | None = None
    """Least share of faults among the first three answers."""
    pairs: int | None = None
    """No false alarm on at least so many benign pairs."""


BARS = (
    Bar(
        "faults alone, tensors",
        lambda case: case.task == "tensor" and case.fault is not None and case.benign is None,
        exact=0.95,
        within_three=0.99,
    ),
    Bar(
        "faults on top of a benign change, tensors",
        lambda case: case.task == "tensor" and case.fault is not None and case.benign is not None,
        exact=0.80,
    ),
    Bar("benign changes, tensors", lambda case: case.task == "tensor" and case.fault is None, pairs=60),
    Bar(
        "faults alone, statistics",
        lambda case: case.task == "statistics" and case.fault is not None and case.benign is None,
        exact=0.80,
    ),
    Bar(
        "faults on top of a benign change, statistics",
        lambda case: case.task == "statistics" and case.fault is not None and case.benign is not None,
    ),
    Bar("benign changes, statistics", lambda case: case.task == "statistics" and case.fault is None, pairs=1),
)


def holds(bar: Bar, outcomes: Iterable[Outcome], tool: str) -> bool | None:
    """Whether a tool keeps a promise over the outcomes it covers; None where nothing was promised or run."""
    covered = [outcome for outcome in outcomes if bar.covers(outcome.case)]
    found, raised = tally(covered, tool), alarms(covered, tool)
    if bar.pairs is not None:
        return raised.raised == raised.error == 0 and raised.pairs >= bar.pairs if raised.pairs else None
    if bar.exact is None or found.exact_share is None or found.within_three_share is None:
        return None
    return found.exact_share >= bar.exact and found.within_three_share >= (bar.within_three or 0.0)
