"""Where a process writes: the file that was set or, with several ranks, one file per rank.

In the tool all ranks append to one file, where nobody can tell their lines apart.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ulpscope._capture.lifecycle import ranks, working_folder

_log = logging.getLogger("ulpscope.compat.torch_npu_hooks")


def of_file(file: Path) -> str:
    """The text file, as a path for capture, which knows the rank when it writes."""
    if not ranks.is_one_of_several():
        return _escaped(file)
    _report(file, file.with_name(_named(file, "N")))
    return _escaped(file.parent / file.stem) + "_rank{rank}" + _escaped(file.suffix)


def of_folder(folder: Path) -> str:
    """The folder of tensors, as a path for capture."""
    if not ranks.is_one_of_several():
        return _escaped(folder)
    _report(folder, folder / "rankN")
    return _escaped(folder) + "/rank{rank}"


def in_this_process(file: str | os.PathLike[str]) -> Path:
    """The file that this process writes for the one that was set."""
    path = Path(file)
    if not ranks.is_one_of_several():
        return path
    rank = ranks.current_rank()
    # Capture counts a rank that is not known yet by its process.
    return path.with_name(_named(path, str(os.getpid() if rank is None else rank)))


def journal_of(file: Path) -> Path:
    """The folder of the journal while the file is recorded."""
    written = in_this_process(file)
    return written.with_name(f"{written.name}.journal")


def clear(file: Path) -> None:
    """Removes a file of an earlier run; raises if another process writes to it."""
    working_folder.discard_left(journal_of(file))
    in_this_process(file).unlink(missing_ok=True)


def _named(file: Path, rank: str) -> str:
    return f"{file.stem}_rank{rank}{file.suffix}"


def _report(given: Path, written: Path) -> None:
    _log.warning("%s is set in one of several ranks: rank N writes to %s", given, written)


def _escaped(path: str | Path) -> str:
    return str(path).replace("{", "{{").replace("}", "}}")
