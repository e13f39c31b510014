"""``python -m ulpscope.compat.ptdbg_ascend.parse pk -f PKL -n API``: one command of the tool's shell.

The package also has a function ``parse``. It is in ``pkl_lines``, since a program must not be imported before
it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ulpscope.compat.ptdbg_ascend.exceptions import CompareException
from ulpscope.compat.ptdbg_ascend.pkl_lines import parse

_INSTEAD = {
    "vc": "ulpscope compare TARGET GOLDEN -o DIR",
    "dc": "ulpscope convert DUMP -o DIR --to npy",
    "pt": "ulpscope stats FILE",
    "cn": "ulpscope diff TARGET GOLDEN",
}


def main(arguments: Sequence[str]) -> int:
    """Runs one command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ulpscope.compat.ptdbg_ascend.parse",
        description="The statistics and stacks of an API in a .pkl: pk -f PKL -n API. "
        "The tool's other commands: " + "; ".join(f"{old}: {new}" for old, new in _INSTEAD.items()),
    )
    parser.add_argument("command", choices=["pk", *_INSTEAD], help="the command of the tool's shell")
    if len(arguments) == 0:
        return _refuse("there is no interactive shell; use pk -f PKL -n API, or --help")
    if arguments[0] in _INSTEAD:
        return _refuse(f"{arguments[0]}: use {_INSTEAD[arguments[0]]}")
    parser.add_argument("-f", "--file", required=True, metavar="PKL", help="the .pkl of a dump")
    parser.add_argument("-n", "--name", required=True, metavar="API", help="what the names begin with")
    options = parser.parse_args(arguments)
    try:
        parse(options.file, options.name)
    except (CompareException, OSError) as error:
        return _refuse(str(error))
    return 0


def _refuse(problem: str) -> int:
    print(f"parse: error: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
