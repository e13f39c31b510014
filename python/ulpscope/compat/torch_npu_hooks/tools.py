"""``torch_npu.hooks.tools``: the comparison of two dumps."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import ulpscope
from ulpscope.compat.torch_npu_hooks import dumping, place

_log = logging.getLogger("ulpscope.compat.torch_npu_hooks")

# How many skipped operators are named.
_MAX_NAMED = 20


def compare(
    pkl_path1: str | os.PathLike[str],
    pkl_path2: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    shape_flag: bool = False,
) -> None:
    """Compares the dump under test with the reference, and writes the tool's table to ``output_path``.

    ``shape_flag``: operators match by name, dtype and shapes; otherwise by name alone. What matches nothing
    has no row, and is logged. One of several ranks compares its own files, if it has written these.
    """
    for name, path in (("pkl_path1", pkl_path1), ("pkl_path2", pkl_path2), ("output_path", output_path)):
        if not isinstance(path, str | os.PathLike) or Path(path).is_dir():
            raise RuntimeError(f"compare: {name} is {path!r}; give the path of a file")
    dumping.flush()
    own = [place.in_this_process(path) for path in (pkl_path1, pkl_path2)]
    if all(path.exists() for path in own):
        pkl_path1, pkl_path2 = own
        output_path = place.in_this_process(output_path)
    result = ulpscope.compare(pkl_path1, pkl_path2, style="torch_npu", match="shape" if shape_flag else None)
    result.to_csv(output_path)
    for problem in result.problems:
        _log.warning("%s", problem)
    skipped = result.partnerless
    for side, name, reason in skipped[:_MAX_NAMED]:
        _log.warning("skipped, only in the %s: %s (%s)", side, name, reason)
    if len(skipped) > _MAX_NAMED:
        _log.warning("skipped: %d operators more", len(skipped) - _MAX_NAMED)
