"""The tables of the suite, and a case on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from ports.outcome import Outcome
from ports.scoring import PLACES


def line(outcome: Outcome) -> str:
    """A case on one line of the progress."""
    if outcome.error is not None:
        return f"{outcome.name}: FAILED TO RUN: {outcome.error.strip().splitlines()[-1]}"
    first = f"; first: {outcome.answers[0]}" if outcome.answers else ""
    final = "" if outcome.final_error is None else f", final results differ by {outcome.final_error:.1e}"
    if outcome.exit_code is None:
        return f"{outcome.name}: ran{final}"
    said = outcome.place or ("quiet" if outcome.exit_code == 0 and not outcome.named else "ALARM")
    return f"{outcome.name}: {said}, exit code {outcome.exit_code}, {outcome.named} named{final}{first}"


def way(outcome: Outcome) -> str:
    """How a pair was captured."""
    return f"{outcome.task}, {'with backward' if outcome.backward else 'forward only'}"


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def healthy_table(outcomes: Sequence[Outcome]) -> str:
    """Healthy ports by kind and way of capture."""
    rows = [
        "| healthy ports | captured | pairs | exit code 0 | exit code 1 or 2, none named | a call named "
        "| failed to run |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, captured, group in grouped(outcomes):
        ran = [one for one in group if one.error is None]
        clean = sum(one.exit_code == 0 and not one.named for one in ran)
        named = sum(one.named > 0 for one in ran)
        rows.append(
            f"| {name} | {captured} | {len(group)} | {clean} ({share(clean, len(ran))}) | "
            f"{len(ran) - clean - named} | {named} | {len(group) - len(ran)} |"
        )
    return "\n".join(rows) + "\n"


def bugs_table(outcomes: Sequence[Outcome]) -> str:
    """Bugs by kind and way of capture."""
    rows = [
        f"| bugs | captured | cases | {' | '.join(PLACES)} | failed to run |",
        f"|{'---|' * (len(PLACES) + 4)}",
    ]
    for name, captured, group in grouped(outcomes):
        places = Counter(one.place for one in group if one.error is None)
        failed = sum(one.error is not None for one in group)
        counts = " | ".join(
            f"{places[place]} ({share(places[place], len(group) - failed)})"
            if place == "exact"
            else str(places[place])
            for place in PLACES
        )
        rows.append(f"| {name} | {captured} | {len(group)} | {counts} | {failed} |")
    return "\n".join(rows) + "\n"


def grouped(outcomes: Iterable[Outcome]) -> list[tuple[str, str, list[Outcome]]]:
    """Outcomes by kind and way of capture; the sum over kinds first."""
    found: list[tuple[str, str, list[Outcome]]] = []
    ordered = sorted(outcomes, key=lambda one: (way(one), one.kind))
    for captured, group in groupby(ordered, key=way):
        members = list(group)
        found.append(("all", captured, members))
        found.extend(
            (kind, captured, list(part)) for kind, part in groupby(members, key=lambda one: one.kind)
        )
    return found


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Both tables, and the cases that are not what they claim."""
    parts = []
    if healthy := [one for one in outcomes if one.part == "healthy"]:
        parts.append(healthy_table(healthy))
    if bugs := [one for one in outcomes if one.part == "bugs"]:
        parts.append(bugs_table(bugs))
    return "\n".join(parts)
