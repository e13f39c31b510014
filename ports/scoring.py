"""What counts as found.

A healthy port is scored by its exit code and the calls that are named. A bug is scored by the first answer:

| place | the first answer is |
|---|---|
| `exact` | a call of the edited lines, or one that the case names |
| `cut` | another call, but at most 12 are named in all, or in a region on either side, one of them exact |
| `module` | another call of the same module, or the module |
| `elsewhere` | another call |
| `nothing` | missing: no call is named, and the exit code is not 0 |
| `clean` | missing, and the exit code is 0 although the final results differ: the worst answer |
| `no effect` | missing, exit code 0, and the final results do not differ: no fault of the tool |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from ports.dumps import Dump, forward_name
from ports.edits import Span
from ports.runs import Where

CUT = 12
PLACES = ("exact", "module", "cut", "elsewhere", "nothing", "clean", "no effect")
# Relative difference of final results from which on they differ: far above what a different order of float32
# sums gives in these small models.
DIFFERS = 1e-4


@dataclass(frozen=True)
class Answer:
    """One call that the comparison names."""

    call: str
    golden_call: str | None
    module: str | None
    kind: str
    confidence: float
    region: tuple[str, ...] = ()
    """If the programs part there: the calls of the target between what agrees and what differs."""
    golden_region: tuple[str, ...] = ()


@dataclass(frozen=True)
class Truth:
    """Where a bug is."""

    calls: frozenset[str]
    """Calls of the target."""
    golden_calls: frozenset[str] = frozenset()
    """Calls of the golden at the same lines, if it is the same code."""
    modules: frozenset[str] = frozenset()
    """Paths of the modules that they run in."""
    patterns: tuple[str, ...] = field(default=())
    """Names that are no calls, such as those of parameters."""


def at_lines(dump: Dump, spans: Iterable[Span]) -> set[str]:
    """The calls that an edited line makes, itself or through a function."""
    wanted = list(spans)
    return {
        call
        for call, lines in dump.lines.items()
        if any(file == path and first <= line <= last for file, line in lines for path, first, last in wanted)
    }


def at_modules(dump: Dump, wanted: Iterable[tuple[str, str]]) -> set[str]:
    """The calls of some names in some modules; a dot is the path of what runs in none."""
    pairs = [(module, name) for module, name in wanted if module]
    return {
        call
        for call in dump.modules
        for module, name in pairs
        if fnmatchcase(dump.module_of(call) or ".", module) and fnmatchcase(call, f"{name}.*")
    }


def truth_of(target: Dump, golden: Dump, spans: Sequence[Span], where: Where) -> Truth:
    """The calls that a case means."""
    lines = [(path, first, last + where.after) for path, first, last in spans] if where.lines else []
    calls, golden_calls = at_lines(target, lines), at_lines(golden, lines)
    calls |= at_modules(target, where.also)
    golden_calls |= at_modules(golden, (*where.also, *where.golden))
    patterns = [name for module, name in where.also if not module]
    modules = {path for call in calls if (path := target.module_of(call))}
    modules |= {path for call in golden_calls if (path := golden.module_of(call))}
    return Truth(frozenset(calls), frozenset(golden_calls), frozenset(modules), tuple(patterns))


def is_exact(answer: Answer, truth: Truth) -> bool:
    """Whether an answer is the planted call, in either direction."""
    if forward_name(answer.call) in truth.calls:
        return True
    if answer.golden_call is not None and forward_name(answer.golden_call) in truth.golden_calls:
        return True
    return any(fnmatchcase(answer.call, pattern) for pattern in truth.patterns)


def in_region(answer: Answer, truth: Truth) -> bool:
    """Whether a region of at most 12 calls on either side has the planted call."""
    sizes = (len(answer.region), len(answer.golden_region))
    calls = {forward_name(call) for call in answer.region}
    golden_calls = {forward_name(call) for call in answer.golden_region}
    return max(sizes) <= CUT and bool(calls & truth.calls or golden_calls & truth.golden_calls)


def place(
    answers: Sequence[Answer], truth: Truth, target: Dump, exit_code: int, final_error: float | None
) -> str:
    """The place of a bug among the answers."""
    if not answers:
        if exit_code != 0:
            return "nothing"
        return "clean" if final_error is not None and final_error > DIFFERS else "no effect"
    first = answers[0]
    if is_exact(first, truth):
        return "exact"
    if len(answers) <= CUT and any(is_exact(answer, truth) or in_region(answer, truth) for answer in answers):
        return "cut"
    path = target.module_of(first.call)
    if path is not None and path in truth.modules:
        return "module"
    return "elsewhere"


def answers_of(result: dict[str, Any]) -> list[Answer]:
    """The calls that a comparison's result.json names, in its order."""
    return [
        Answer(
            one["call"],
            one.get("golden_call"),
            one.get("module"),
            one["kind"],
            one["confidence"],
            *(
                tuple(call["name"] for call in (one.get("region") or {}).get(side, {}).get("computing", ()))
                for side in ("target", "golden")
            ),
        )
        for rank in result["ranks"]
        for one in rank.get("divergences", ())
    ]
