"""Recording requested by environment variables: ``ULPSCOPE_DUMP``, ``ULPSCOPE_LEVEL``, and so on.

Each flag of ``ulpscope run`` has a variable: ``--data-mode`` is ``ULPSCOPE_DATA_MODE``. ``ULPSCOPE_DUMP`` is
``--dump-path`` and switches recording on.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Mapping

from ulpscope._capture.launch import flags
from ulpscope._capture.launch.recording import Recording
from ulpscope._capture.settings import Settings, SettingsError, unknown_key

PREFIX = "ULPSCOPE_"
SWITCH = "ULPSCOPE_DUMP"

# Variables with other uses: the language of explanations, and switches of tests and benchmarks.
_OTHER_VARIABLES = ("ULPSCOPE_LANG", "ULPSCOPE_TEST_", "ULPSCOPE_BENCH_")

# Flags that make sense only for the command.
_WITHOUT_VARIABLE = {"--help", "--dry-run", "--json", "--dump-path", "--drop-in", "--force"}

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


def record(environment: Mapping[str, str]) -> bool:
    """Records this process if its environment requests it; returns whether it does."""
    if multiprocessing.parent_process() is not None:
        # A worker process, such as a data loader's, inherits its parent's environment.
        return False
    if not environment.get(SWITCH):
        # An empty switch is off on purpose; a missing one may be a mistake.
        if SWITCH not in environment and (others := _ours(environment)):
            print(
                f"ulpscope: {others[0]} is set, but {SWITCH} is not: nothing is recorded; "
                f"set {SWITCH} to the folder to write to",
                file=sys.stderr,
            )
        return False
    Recording(settings_of(environment)).of_this_process()
    return True


def settings_of(environment: Mapping[str, str]) -> Settings:
    """The settings from the variables."""
    parser = flags.parser()
    known = {SWITCH: "--dump-path"}
    variable_of = {"dump_path": SWITCH}
    switches = set()
    for action in parser._actions:
        for flag in set(action.option_strings) - _WITHOUT_VARIABLE:
            if flag.startswith("--"):
                variable = PREFIX + flag.removeprefix("--").replace("-", "_").upper()
                known[variable] = flag
                variable_of[action.dest] = variable
                switches |= {variable} if action.nargs == 0 else set()
    words = []
    for variable in _ours(environment):
        if variable not in known:
            raise unknown_key(variable, known, "variables")
        value = environment[variable]
        if variable not in switches:
            words.append(f"{known[variable]}={value}")
        elif value.lower() in _YES:
            words.append(known[variable])
        elif value.lower() not in _NO:
            raise SettingsError(variable, f"is {value!r}; expected one of {', '.join(_YES[:2] + _NO[:2])}")
    given = vars(parser.parse_args(words))
    for command_only in ("dry_run", "json", "drop_in", "force"):
        del given[command_only]
    return flags.settings_from(given, variable_of.__getitem__)


def _ours(environment: Mapping[str, str]) -> list[str]:
    """The names of variables that are settings of a recording, right or wrong, in order."""
    return sorted(
        name for name in environment if name.startswith(PREFIX) and not name.startswith(_OTHER_VARIABLES)
    )
