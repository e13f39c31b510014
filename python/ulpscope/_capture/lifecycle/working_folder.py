"""The folder of the journals, with a layout that writes its files elsewhere.

Such a layout has no place for the ledger: what it reports is logged. A finished step leaves nothing here.
A journal that could not be turned into files stays, and can be read as a dump.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from ulpscope._capture.lifecycle import folders, ranks


def discard_left(dump_path: Path) -> None:
    """Removes what a process that was killed left; raises if a capture still writes there."""
    if dump_path.is_dir():
        lock = folders.FolderLock(dump_path, ranks.folder_name(ranks.current_rank()))
        try:
            shutil.rmtree(dump_path, ignore_errors=True)
        finally:
            lock.release()


def layout_file(layout_path: str | None, folder: Path) -> str:
    """What a layout writes for the folder of a step: ``{step}`` and ``{rank}`` stand for its numbers."""
    step, rank = (re.sub(r"\D", "", part.name) or "0" for part in (folder.parent, folder))
    return str(layout_path).format(step=step, rank=rank)


def clear_step(folder: Path) -> list[str]:
    """Removes the folder of a finished step, and returns what its ledger reports."""
    if (folder / "journal.jsonl").exists():
        return []
    reports: list[str] = []
    with contextlib.suppress(OSError, ValueError):
        reports = _reports(json.loads((folder / "ledger.json").read_text(encoding="utf-8")))
    folders.discard(folder)
    return reports


def remove(dump_path: Path) -> None:
    """Removes the folder itself, if nothing is left in it."""
    with contextlib.suppress(OSError):
        dump_path.rmdir()


def _reports(ledger: dict[str, Any]) -> list[str]:
    """What was not recorded as it should be, and why."""
    counted = [
        f"{what}: {reason} ({count} times)"
        for what, key in (("not recorded", "failed"), ("without numbers", "unread"))
        for reason, count in (ledger.get(key) or {}).items()
    ]
    ended = [f"recording ended early: {ledger['ended']}"] if ledger.get("ended") else []
    return [*ended, *counted, *(ledger.get("notes") or [])]
