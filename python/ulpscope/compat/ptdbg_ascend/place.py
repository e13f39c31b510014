"""Where a dump goes: ``{path}/{tag}_v4.0.T2/[step{N}/]rank{R}/{mode}_dump.pkl`` and a folder of that name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

# The release whose files and names are imitated.
VERSION = "v4.0.T2"

DEFAULT_TAG = "ptdbg_dump"
ENVIRONMENT = "ASCEND_WORK_PATH"


@dataclass(frozen=True)
class Place:
    """A folder, the tag of a dump in it, and whether each step has its own folder."""

    path: Path
    tag: str = DEFAULT_TAG
    has_steps: bool = False

    @property
    def folder(self) -> Path:
        """The folder of the dump."""
        return self.path / f"{self.tag}_{VERSION}"

    @property
    def journal(self) -> Path:
        """The folder of the journal while calls are recorded."""
        return self.path / f"{self.tag}_{VERSION}.journal"

    def rank(self, rank: int, step: int) -> Path:
        """The folder of a rank in a step."""
        above = self.folder / f"step{step}" if self.has_steps else self.folder
        return above / f"rank{rank}"

    def pkl(self, mode: str) -> str:
        """The text file of a mode, with placeholders for the numbers of the step and of the rank."""
        step = "step{step}/" if self.has_steps else ""
        name = "dump.pkl" if mode == "all" else f"{mode}_dump.pkl"
        folder = str(self.folder).replace("{", "{{").replace("}", "}}")
        return f"{folder}/{step}rank{{rank}}/{name}"


def place_of(name: str, path: object, tag: object = DEFAULT_TAG, has_steps: bool = False) -> Place:
    """The place of a path, or of the environment; ``name`` is that of the argument in messages."""
    if path is None:
        work_path = os.environ.get(ENVIRONMENT)
        if not work_path:
            raise ValueError(
                f"{name} is None and {ENVIRONMENT} is not set: give a folder for the dump, or set "
                f"{ENVIRONMENT}"
            )
        path = Path(work_path) / "dump_data"
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"{name} is {path!r}; expected the path of a folder")
    folder = Path(os.fspath(path)).absolute()
    there = next(part for part in (folder, *folder.parents) if part.exists())
    if not there.is_dir():
        given = "which is" if there == folder else f"but {str(there)!r} is"
        raise ValueError(f"{name} is {str(path)!r}, {given} a file; expected a folder")
    if not isinstance(tag, str) or not tag or tag in (".", "..") or "/" in tag or "\0" in tag:
        raise ValueError(f"dump_tag is {tag!r}; expected the name of a folder")
    return Place(folder, tag, has_steps)
