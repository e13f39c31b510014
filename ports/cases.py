"""All cases of the suite."""

from __future__ import annotations

from dataclasses import replace

from ports.bugs import bugs
from ports.healthy import healthy
from ports.held_out import is_held_out
from ports.runs import Case

WAYS = (("tensor", True), ("tensor", False), ("statistics", True))


def cases() -> list[Case]:
    """Every pair, captured in every way, in a fixed order."""
    found = [*healthy(), *bugs()]
    names = [case.name for case in found]
    if len(set(names)) != len(names):
        raise ValueError(f"two cases have the same name: {sorted(n for n in names if names.count(n) > 1)[0]}")
    return [
        replace(case, task=task, backward=backward, held_out=is_held_out(case.name))
        for case in found
        for task, backward in WAYS
        if backward in case.modes
    ]
