"""Files written by the older tools, kept in archives beside the repository.

They are too many and too large to live in it. Without them the tests that need them are skipped, unless
ULPSCOPE_TEST_ALL is set.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from places import TEST_ALL

ARCHIVES = Path(__file__).resolve().parents[4] / "shared" / "golden"


def unpack(name: str, folder: Path) -> Path:
    """Unpacks one archive into the folder, and returns the folder it makes there."""
    archive = ARCHIVES / f"{name}.tar.gz"
    if not archive.exists():
        if os.environ.get(TEST_ALL):
            pytest.fail(f"the golden archive {archive} is missing")
        pytest.skip(f"no golden archive {archive}")
    with tarfile.open(archive) as files:
        # Releases of Python before 3.11.4 have no filters; the archives are our own.
        filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        files.extractall(folder, **filters)
    return folder / name
