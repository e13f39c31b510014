"""``ulpscope run``: records a script without changing a line of it.

    flags, config.json ──► Settings
    script or module ──► program.py ──► runs as __main__
                              └─ imports torch ──► recording starts, an optimizer's step ends a step
                                                   └─ last selected step ──► everything is removed

torch is not imported before the script imports it: environment variables that a script sets for torch count.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from ulpscope._capture.launch import flags
from ulpscope._capture.launch.program import Program, hide_ourselves
from ulpscope._capture.launch.recording import Recording
from ulpscope._capture.lifecycle.estimate import Estimation, NothingMeasuredError
from ulpscope._capture.settings import SettingsError
from ulpscope._debugger import PrecisionDebugger


def run(arguments: Sequence[str]) -> int:
    """Runs the arguments of ``ulpscope run``. Returns the exit code, or raises what ends the script."""
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
    is_drop_in, force = given.pop("drop_in"), given.pop("force")
    if force and not is_drop_in:
        parser.error("--force is for --drop-in")
    if is_drop_in:
        return _run_drop_in(parser, given, command, force)
    is_dry, as_json = given.pop("dry_run"), given.pop("json")
    if as_json and not is_dry:
        parser.error("--json is for --dry-run: without it, what is printed is the script's")
    try:
        # A dry run writes to no folder of the user.
        settings = flags.settings_from(given, folder=tempfile.gettempdir() if is_dry else None)
        program = Program.find(command)
        estimation = Estimation(settings) if is_dry else None
        recording = Recording(estimation.settings if estimation else settings, is_dry)
    except SettingsError as error:
        print(f"ulpscope run: error: {error}", file=sys.stderr)
        return 2
    recording.of(program)
    if estimation is not None:
        try:
            estimate = estimation.finish()
        except NothingMeasuredError as error:
            print(f"ulpscope run: error: {error}", file=sys.stderr)
            return 2
        print(estimate.to_json() if as_json else f"ulpscope: nothing was written; {estimate}")
    return 0


def _run_drop_in(
    parser: argparse.ArgumentParser, given: dict[str, Any], command: list[str], force: bool
) -> int:
    """Runs a script that was written for an older tool, and sets up its own recording."""
    others = [key for key, value in given.items() if value != parser.get_default(key)]
    if others:
        parser.error(f"--drop-in leaves the settings to the script: remove {flags.flag_of(others[0])}")
    try:
        program = Program.find(command)
    except SettingsError as error:
        print(f"ulpscope run: error: {error}", file=sys.stderr)
        return 2
    from ulpscope.compat.drop_in import drop_in

    with drop_in(force):
        try:
            program.run()
        except BaseException as error:
            hide_ourselves(error)
            raise
        finally:
            # The script's own dump is complete before its imports are forgotten.
            PrecisionDebugger.close()
    return 0


def _split(parser: argparse.ArgumentParser, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our flags, and the script's command line: all after --, or from -m or the first positional on."""
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
    """The message for an unknown flag, with the most similar known one."""
    flag = word.partition("=")[0]
    # Without the dashes, which all flags share.
    known = {option.lstrip("-"): option for action in parser._actions for option in action.option_strings}
    near = difflib.get_close_matches(flag.lstrip("-"), known, n=1)
    hint = f"did you mean {known[near[0]]}?" if near else "ulpscope run --help lists the options"
    return f"unknown option {flag}; {hint}"
