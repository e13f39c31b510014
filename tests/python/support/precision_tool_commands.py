"""The commands of precision_tool's guide, as it prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_as_printed(
    folder: Path, *words: str, python3: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """``python3 precision_tool/cli.py WORDS`` in a folder, where python3 starts the given interpreter."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name, line in (
        ("python3", f"exec '{python3}' \"$@\""),
        ("ulpscope", f"exec '{sys.executable}' -m ulpscope \"$@\""),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    return subprocess.run(
        ["python3", "precision_tool/cli.py", *words],
        cwd=folder,
        input="",
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"},
        timeout=300,
    )
