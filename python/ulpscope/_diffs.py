"""Several tensors compared by name."""

from __future__ import annotations

from ulpscope._core import Diff


class Diffs(dict[str, Diff]):
    """A :class:`Diff` for each tensor, by name. True if all of them agree, for use in ``assert``."""

    @property
    def ok(self) -> bool:
        """Whether every tensor agrees within its tolerance."""
        return all(diff.ok for diff in self.values())

    def __bool__(self) -> bool:
        return self.ok
