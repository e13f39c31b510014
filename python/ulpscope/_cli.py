"""The script ``ulpscope`` of an installed wheel: the same command as the Rust binary."""

import signal
import sys

from ulpscope._core import run_command


def main() -> int:
    """Runs the command line and returns its exit code."""
    # Python would only note the interrupt and deliver it after the command has ended by itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command(["ulpscope", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
