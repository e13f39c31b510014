"""What a case is: two runs of programs, and what is known about them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

NEW, OLD = "new", "old"


@dataclass(frozen=True)
class Edit:
    """A change of one place in a library's source."""

    module: str
    """The module whose source is edited, such as `transformers.models.llama.modeling_llama`."""
    old: str
    new: str
    """The replacement has the same number of lines, so that later lines keep their numbers."""
    nth: int = 0
    """Which occurrence of `old`, from 0."""


@dataclass(frozen=True)
class Where:
    """The place of a bug in the target: the calls of the edited lines, and those named here."""

    also: tuple[tuple[str, str], ...] = ()
    """Pairs of patterns: the module path that a call runs in, and the name of the call."""
    golden: tuple[tuple[str, str], ...] = ()
    """The same for calls of goldens that the target lacks, or computes in a different way."""
    lines: bool = True
    """Whether the edited lines themselves count; not if they run before the capture."""
    after: int = 0
    """How many later lines count, too: those that use what the edited lines no longer compute."""


@dataclass(frozen=True)
class Run:
    """One program in one environment."""

    program: str
    options: tuple[tuple[str, Any], ...] = ()
    environment: str = NEW
    edits: tuple[Edit, ...] = ()

    def key(self) -> str:
        """The same text for the same run."""
        edits = [(edit.module, edit.old, edit.new, edit.nth) for edit in self.edits]
        return json.dumps([self.program, self.options, self.environment, edits], sort_keys=True)


def run(program: str, environment: str = NEW, **options: Any) -> Run:
    """A run without edits."""
    return Run(program, tuple(sorted(options.items())), environment)


@dataclass(frozen=True)
class Case:
    """A pair of runs."""

    name: str
    part: str
    """`healthy` or `bugs`."""
    kind: str
    """How the two programs relate, such as `other release` or `same code`."""
    architecture: str
    target: Run
    golden: Run
    task: str = "tensor"
    backward: bool = True
    modes: tuple[bool, ...] = (True, False)
    """Whether the pair is captured with its backward pass, without, or both."""
    where: Where | None = None
    tolerance: float = 1e-4
    """Of a healthy port: how much its final results may differ, relatively; low precision is allowed more."""
    held_out: bool = field(default=False, compare=False)
    unseen: bool = field(default=False, compare=False)

    @property
    def full_name(self) -> str:
        """The name with the way it is captured."""
        return f"{self.name}/{self.task}/{'backward' if self.backward else 'forward'}"
