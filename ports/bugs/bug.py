"""A bug, and the cases that come of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ports.runs import Case, Edit, Run, Where

Pairs = tuple[tuple[str, str], ...]
# The calls of the edited lines.
EDITED = Where()


@dataclass(frozen=True)
class Bug:
    """One mistake of a port."""

    name: str
    """`{architecture}/{what is wrong}`."""
    target: Run
    """The program, without the edit."""
    edits: tuple[Edit, ...]
    where: Where = EDITED
    modes: tuple[bool, ...] = (True, False)
    """Whether it is captured with its backward pass, without, or both."""
    elsewhere: Pairs = ()
    """Calls of goldens that do the work of the edited lines, by module path and name."""
    goldens: tuple[tuple[str, Run], ...] = ()
    """Goldens instead of those of its file; the same code is always one."""

    def cases(self, goldens: Mapping[str, Run]) -> Iterator[Case]:
        """One case for each golden."""
        others = dict(self.goldens) or dict(goldens)
        for kind, golden in {"same code": self.target, **others}.items():
            yield Case(
                f"bugs/{self.name}@{kind.replace(' ', '-')}",
                "bugs",
                kind,
                self.name.partition("/")[0],
                replace(self.target, edits=self.edits),
                golden,
                modes=self.modes,
                where=replace(self.where, golden=(*self.where.golden, *self.elsewhere)),
            )
