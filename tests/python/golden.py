"""Files written by the older tools, kept in archives beside the repository.

They are too many and too large to live in it. Whoever has no archives skips what needs them; a build server
must have them.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

ARCHIVES = Path(__file__).resolve().parents[3] / "shared" / "golden"


def unpack(name: str, folder: Path) -> Path:
    """Unpacks one archive into the folder, and returns the folder it makes there."""
    archive = ARCHIVES / f"{name}.tar.gz"
    if not archive.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"the golden archive {archive} is missing")
        pytest.skip(f"no golden archive {archive}")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / name
