"""What an import of the package brings along."""

from __future__ import annotations

import subprocess
import sys


def test_torch_is_not_imported() -> None:
    """Environment variables that a program sets for torch must count."""
    program = "import sys, ulpscope; print('torch' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
