"""The file that `msprobe merge_result -config` names: which calls and which columns are merged.

    api:
    - Distributed.all_reduce
    compare_index:       # all usual columns, if absent
    - Max diff

Only this form is read, not all of YAML: anything else is an error that names the line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_MAX_BYTES = 1 << 20

_SECTION = re.compile(r"(\w+)\s*:\s*")
_ITEM = re.compile(r"\s*-\s+([\"']?)(\S|\S.*\S)\1\s*")


@dataclass(frozen=True)
class MergeConfig:
    """Parts of names of calls, and names of columns."""

    apis: tuple[str, ...]
    metrics: tuple[str, ...]


def read(path: Path) -> MergeConfig:
    """Reads the file. Raises ``OSError`` or ``ValueError``."""
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path}: more than {_MAX_BYTES} bytes; expected a short list")
    sections: dict[str, list[str]] = {"api": [], "compare_index": []}
    current: list[str] | None = None
    for number, line in enumerate(content.decode("utf-8-sig", "replace").splitlines(), 1):
        text = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not text or text == "---":
            continue
        if section := _SECTION.fullmatch(text):
            current = sections.get(section[1])
            if current is None:
                raise ValueError(f"{path}: line {number}: {section[1]!r}; expected api or compare_index")
        elif (item := _ITEM.fullmatch(text)) and current is not None:
            current.append(item[2])
        else:
            raise ValueError(
                f"{path}: line {number}: expected api:, compare_index:, or '- ' and a name below one"
            )
    if not sections["api"]:
        raise ValueError(f"{path}: names no api; expected at least one, such as - Distributed.all_reduce")
    return MergeConfig(tuple(sections["api"]), tuple(sections["compare_index"]))
