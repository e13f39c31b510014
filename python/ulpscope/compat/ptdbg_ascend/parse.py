"""``python -m ulpscope.compat.ptdbg_ascend.parse``: the tool's shell, ``ulpscope shell --parse``.

With arguments it runs one command: ``… parse pk -f PKL -n API``. The package also has a function ``parse``.
It is in ``pkl_lines``, since a program must not be imported before it runs.
"""

from __future__ import annotations

import shlex
import signal
import sys
from collections.abc import Sequence

from ulpscope._core import run_command


def main(arguments: Sequence[str]) -> int:
    """Runs the shell, or one command; returns the exit code."""
    # Python would only note the interrupt, and deliver it after the session has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    line = ["-c", shlex.join(arguments)] if arguments else []
    return run_command(["ulpscope", "shell", "--parse", *line])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
