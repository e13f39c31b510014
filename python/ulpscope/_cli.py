"""The script ``ulpscope`` of an installed wheel: the same command as the Rust binary.

``ulpscope run`` and ``ulpscope check`` are implemented here: they run a Python script, and calls of torch.
"""

import signal
import sys

from ulpscope._core import run_command


def main() -> int:
    """Runs the command line and returns its exit code."""
    if sys.argv[1:2] == ["run"]:
        from ulpscope._capture.launch import command

        return command.run(sys.argv[2:])
    if sys.argv[1:2] == ["check"]:
        from ulpscope._replay import command as check_command

        return check_command.run(sys.argv[2:])
    # The command writes its results there itself; what libraries print, as Ray if a node dies, is no result.
    sys.stdout = sys.stderr
    # Python would only note the interrupt, and deliver it after the command has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["ulpscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
