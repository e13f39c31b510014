"""The command ``run_overflow_check.py`` that ptdbg_ascend's guide runs on what an overflow check wrote.

    python -m ulpscope.compat.ptdbg_ascend.run_overflow_check -forward ./forward_info_0.json

It says which overflows are normal. Unlike that command, it also takes overflows in the backward pass.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 0, 1 for an abnormal overflow, 2 for what cannot be made again."""
    parser = argparse.ArgumentParser(prog="run_overflow_check", allow_abbrev=False)
    parser.add_argument("-forward", "--forward_info_file", required=True, metavar="FILE")
    parser.add_argument("-backward", "--backward_info_file", metavar="FILE")
    # They choose how and where an NPU computes; here the CPU computes.
    parser.add_argument("-j", "--jit_compile", action="store_true", help="changes nothing")
    parser.add_argument("-d", "--device", type=int, metavar="ID", help="changes nothing")
    options = parser.parse_args(arguments)
    from ulpscope._replay.overflow_replay import run_overflow_check

    return run_overflow_check(options.forward_info_file, options.backward_info_file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
