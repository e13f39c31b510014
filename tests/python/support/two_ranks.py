"""A script that runs on two ranks, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_two_ranks(script: str, folder: Path) -> None:
    """Gives each rank its number and the folder as arguments, and waits until both have ended well."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(printed)
