"""The file that `msprobe merge_result -config` names: which calls (``api``) and columns are merged.

Without the list ``compare_index``, these are all usual columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ulpscope._capture.settings import named_lists


@dataclass(frozen=True)
class MergeConfig:
    """Parts of names of calls, and names of columns."""

    apis: tuple[str, ...]
    metrics: tuple[str, ...]


def read(path: Path) -> MergeConfig:
    """Reads the file. Raises ``ValueError``."""
    found = named_lists.read(path, ("api", "compare_index"), "list", r"\S|\S.*\S")
    apis = tuple(item for name, item in found if name == "api")
    if not apis:
        raise ValueError(f"{path}: names no api; expected at least one, such as - Distributed.all_reduce")
    return MergeConfig(apis, tuple(item for name, item in found if name == "compare_index"))
