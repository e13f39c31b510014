"""``ulpscope run``: a script recorded as it is, without a line of it changed.

    flags, config.json ──► Settings
    script or module ──► program.py ──► runs as __main__
                              └─ imports torch ──► recording starts, an optimizer's step ends a step
                                                   └─ last wanted step ──► everything is taken away again

torch is not imported before the script does it: what a script sets in the environment for torch counts.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence

from ulpscope._capture.launch import flags
from ulpscope._capture.launch.program import Program
from ulpscope._capture.launch.recording import Recording
from ulpscope._capture.lifecycle.estimate import Estimation
from ulpscope._capture.settings import SettingsError


def run(arguments: Sequence[str]) -> int:
    """Runs what follows ``ulpscope run``. Returns the exit code, or raises what ends the script."""
    parser = flags.parser()
    ours, command = _split(parser, list(arguments))
    options, unknown = parser.parse_known_args(ours)
    if unknown:
        parser.error(_unknown(unknown[0], parser))
    if not command:
        parser.error(
            "the script to run is missing; give it after --, as in: ulpscope run --dump-path D -- train.py"
        )
    given = vars(options)
    is_dry, as_json = given.pop("dry_run"), given.pop("json")
    if as_json and not is_dry:
        parser.error("--json is for --dry-run: without it, what is printed is the script's")
    try:
        settings = flags.settings_from(given)
        program = Program.find(command)
        estimation = Estimation(settings) if is_dry else None
        recording = Recording(estimation.settings if estimation else settings, is_dry)
    except SettingsError as error:
        print(f"ulpscope run: error: {error}", file=sys.stderr)
        return 2
    recording.of(program)
    if estimation is not None:
        estimate = estimation.finish()
        print(estimate.to_json() if as_json else f"ulpscope: nothing was written; {estimate}")
    return 0


def _split(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our flags, and the command line of the script: what follows --, or begins with -m or the first word."""
    takes_value = {flag for action in parser._actions if action.nargs != 0 for flag in action.option_strings}
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            return arguments[:position], arguments[position + 1 :]
        if word == "-m" or not word.startswith("-"):
            break
        position += 2 if word in takes_value else 1
    return arguments[:position], arguments[position:]


def _unknown(word: str, parser: argparse.ArgumentParser) -> str:
    """What to say of a flag that there is not: which one may have been meant."""
    flag = word.partition("=")[0]
    # Without the dashes, which all of them have in common.
    known = {option.lstrip("-"): option for action in parser._actions for option in action.option_strings}
    near = difflib.get_close_matches(flag.lstrip("-"), known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else "ulpscope run --help lists the options"
    return f"unknown option {flag}; {hint}"
