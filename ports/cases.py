"""All cases of the suite."""

from __future__ import annotations

from dataclasses import replace

from ports.bugs import bugs
from ports.healthy import healthy
from ports.held_out import is_held_out
from ports.runs import Case
from ports.unseen import unseen

WAYS = (("tensor", True), ("tensor", False), ("statistics", True))


def cases() -> list[Case]:
    """Every pair, captured in every way, in a fixed order; without the unseen ones."""
    return [
        replace(case, held_out=is_held_out(case.name))
        for case in captured_in_every_way([*healthy(), *bugs()])
    ]


def unseen_cases() -> list[Case]:
    """The same of those that nobody has seen results of."""
    return [replace(case, unseen=True) for case in captured_in_every_way([*unseen()])]


def captured_in_every_way(pairs: list[Case]) -> list[Case]:
    """One case for each pair and way."""
    names = [case.name for case in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"two cases have the same name: {sorted(n for n in names if names.count(n) > 1)[0]}")
    return [
        replace(case, task=task, backward=backward)
        for case in pairs
        for task, backward in WAYS
        if backward in case.modes
    ]
