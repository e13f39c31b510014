"""Where a run writes: the folders of its rank, locked from the first record until the end.

rank ──► step{n}/rank{r} below dump_path ──► FolderLock
                                        └──► steps of an earlier capture, which are reported
"""

from __future__ import annotations

import logging
from pathlib import Path

from ulpscope._capture.lifecycle import exclusive, folders, ranks
from ulpscope._capture.settings import Settings
from ulpscope._core import Recorder

_log = logging.getLogger("ulpscope")

# How many steps of an earlier capture a message names.
_MAX_SHOWN = 8


class Destination:
    """The folders of one run."""

    def __init__(self, settings: Settings) -> None:
        self._dump_path = settings.dump_path
        self._wanted_ranks = settings.rank
        # Kept when the process leaves its group: all its steps stay in one rank's folders.
        self._rank: int | None = None
        self._lock: folders.FolderLock | None = None
        self._earlier: folders.EarlierSteps | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the folders are locked for this run."""
        return self._lock is not None

    def holds(self, dump_path: Path, rank_folder: str) -> bool:
        """Whether this run writes to these folders."""
        return self._lock is not None and self._lock.is_same_as(dump_path, rank_folder)

    def is_wanted_rank(self) -> bool:
        """Whether this rank is selected; True while it is unknown."""
        rank = self._known_rank()
        return not self._wanted_ranks or rank is None or rank in self._wanted_ranks

    def folder(self, step: int) -> Path:
        """The folder of a step under the rank that is known now."""
        return self._dump_path / f"step{step}" / ranks.folder_name(self._known_rank())

    def after_last_step(self, folder: Path) -> Path:
        """The folder for calls after all steps, instead of that of a step."""
        return self._dump_path / folders.AFTER_LAST_STEP / folder.name

    def take(self) -> None:
        """Locks the folders of this rank; raises if another capture writes to them."""
        rank_folder = ranks.folder_name(self._known_rank())
        if self._lock is None or self._lock.rank_folder != rank_folder:
            folders.make(self._dump_path)
            exclusive.make_room(self._dump_path, rank_folder)
            former, self._lock = self._lock, folders.FolderLock(self._dump_path, rank_folder)
            if former is not None:
                former.release()
            self._find_earlier_steps(rank_folder)

    def release(self) -> None:
        """Lets other captures write to the folders."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def report_earlier_steps(self, recorder: Recorder, recorded: tuple[Path | None, ...]) -> None:
        """Names the steps of an earlier capture that were not replaced: they look like this run's.

        The ledger of the first of the ``recorded`` folders that has one names them, too.
        """
        left = self._earlier.left() if self._earlier is not None else []
        if not left:
            return
        text = f"{_in_words(left)} in {self._dump_path}: recorded by an earlier capture, not by this one"
        _log.warning("%s. compare reads all of them as one run: delete them, or use a new folder", text)
        for folder in recorded:
            if folder and folder.parent.name not in left and (folder / "ledger.json").exists():
                recorder.note_in(folder, text)
                break

    def _known_rank(self) -> int | None:
        rank = ranks.current_rank()
        if rank is not None:
            self._rank = rank
        return self._rank

    def _find_earlier_steps(self, rank_folder: str) -> None:
        self._earlier = folders.EarlierSteps(self._dump_path, rank_folder)
        if found := self._earlier.left():
            _log.warning(
                "%s already has %s of an earlier capture. Steps that are recorded now replace them, "
                "the others stay: use a new folder for each run",
                self._dump_path,
                _in_words(found),
            )


def _in_words(names: list[str]) -> str:
    """The first of many names."""
    shown = ", ".join(names[:_MAX_SHOWN])
    return shown if len(names) <= _MAX_SHOWN else f"{shown} and {len(names) - _MAX_SHOWN} more"
