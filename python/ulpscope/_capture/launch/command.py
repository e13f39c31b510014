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
import os
import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ulpscope._capture.launch.after_import import after_import
from ulpscope._capture.launch.program import Program, hide_ourselves
from ulpscope._capture.lifecycle import folders, ranks
from ulpscope._capture.lifecycle.estimate import Estimation
from ulpscope._capture.settings import Settings, SettingsError
from ulpscope._capture.settings.config import Config
from ulpscope._capture.settings.settings import renamed

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.run import Run

_DESCRIPTION = """\
Runs a Python script and records what each call of torch in it takes and gives.

The script runs as "python train.py ARGS" would run it. A step ends with the step of its optimizer; without
an optimizer all is step 0. What follows the last step of training (an evaluation) is recorded in the folder
after_last_step. After the last wanted step the script goes on at full speed."""

_EXAMPLES = """\
examples:
  ulpscope run --dump-path dumps/cpu -- train.py --epochs 1
  ulpscope run --dump-path dumps/cpu --step 0,2-4 --level mix --task tensor -- train.py
  ulpscope run --config config.json -- -m package.train
  torchrun --nproc-per-node 2 -m ulpscope run --dump-path dumps/ddp -- train.py

then:
  ulpscope compare dumps/npu dumps/cpu"""

# What a setting is called here, where it is not its own name with dashes.
_FLAGS = {"file_format": "--format", "stacks": "--no-stacks"}


def run(arguments: Sequence[str]) -> int:
    """Runs what follows ``ulpscope run``. Returns the exit code, or raises what ends the script."""
    parser = _parser()
    flags, command = _split(parser, list(arguments))
    options, unknown = parser.parse_known_args(flags)
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
        settings = _settings(given)
        program = Program.find(command)
        estimation = Estimation(settings) if is_dry else None
        recording = _Recording(estimation.settings if estimation else settings, is_dry)
    except SettingsError as error:
        print(f"ulpscope run: error: {error}", file=sys.stderr)
        return 2
    recording.of(program)
    if estimation is not None:
        estimate = estimation.finish()
        print(estimate.to_json() if as_json else f"ulpscope: nothing was written; {estimate}")
    return 0


class _Enough(SystemExit):
    """Ends the script of a dry run after its step. Scripts let such an exception through."""


class _Recording:
    """One run from the import of torch to the last wanted step, or to the end of the script."""

    def __init__(self, settings: Settings, is_dry: bool = False) -> None:
        self._settings = settings
        self._is_dry = is_dry
        self._run: Run | None = None
        self._hook: Any = None
        self._has_torch = False
        self._process = os.getpid()
        # Without its folder the script need not run.
        self._made = folders.make(settings.dump_path)
        # Told before the script runs, which takes it only with torch; the rank may not be known before.
        folders.FolderLock(settings.dump_path, ranks.folder_name(ranks.current_rank())).release()
        self._optimizer: weakref.ref[Any] | None = None

    def of(self, program: Program) -> None:
        """Runs the program, recorded. What it raises goes on from here, without a trace of us."""
        waiting = after_import("torch", self._begin)
        try:
            program.run()
        except _Enough:
            # The step was measured, and nobody needs the rest.
            pass
        except BaseException as error:
            hide_ourselves(error)
            waiting.cancel()
            try:
                # What an error ends is the beginning of a step.
                self._end(has_come_to_end=isinstance(error, SystemExit))
            except Exception as ours:
                # The program's own error is the one to be seen.
                print(f"ulpscope: error: the dump may be incomplete: {ours}", file=sys.stderr)
            raise
        waiting.cancel()
        self._end(has_come_to_end=True)

    def _end(self, has_come_to_end: bool) -> None:
        if self._hook is not None:
            self._hook.remove()
        if self._process != os.getpid():
            # A forked child has come to the end of the script: the dump is its parent's, and not whole yet.
            return
        try:
            if self._run is not None and has_come_to_end:
                self._run.end_training()
            self._finish()
        finally:
            if self._is_dry:
                pass
            elif self._hook is not None:
                print(f"ulpscope: the dump is in {self._settings.dump_path}", file=sys.stderr)
            elif not self._has_torch:
                # Not where the script has put something there.
                folders.remove_empty(self._made)
                print("ulpscope: torch was not imported, nothing was recorded", file=sys.stderr)

    def _begin(self) -> None:
        self._has_torch = True
        try:
            self._start()
        except SettingsError as error:
            print(f"ulpscope: error: {error}; nothing is recorded", file=sys.stderr)
        except Exception as error:
            # The script's import of torch is not to fail by us.
            if self._settings.strict:
                raise
            print(f"ulpscope: error: {_in_words(error)}; nothing is recorded", file=sys.stderr)

    def _start(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from ulpscope._capture.lifecycle.run import Run

        run = Run(self._settings, gives_way=True)
        run.start()
        self._run = run
        self._hook = register_optimizer_step_post_hook(self._after_optimizer_step)

    def _after_optimizer_step(self, optimizer: Any, args: Any, keywords: Any) -> None:
        # Of several optimizers the first to step gives the beat: one iteration is one step.
        beat = self._optimizer() if self._optimizer else None
        if beat is None:
            self._optimizer = weakref.ref(optimizer)
        elif beat is not optimizer:
            return
        try:
            self._step()
        except Exception as error:
            if self._settings.strict:
                raise
            print(f"ulpscope: error: the dump may be incomplete: {_in_words(error)}", file=sys.stderr)

    def _step(self) -> None:
        if self._run is not None:
            self._run.step()
            if self._run.steps_done:
                # The hook stays: torch is walking through its hooks just now.
                self._finish()
                if self._is_dry:
                    raise _Enough

    def _finish(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()


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


def _settings(options: dict[str, Any]) -> Settings:
    path = options.pop("config")
    given = {key: value for key, value in options.items() if value is not None}
    try:
        config = Config({}) if path is None else Config.read(path)
        return config.settings(**given)
    except SettingsError as error:
        if error.key in given or (error.key == "dump_path" and path is None):
            raise renamed(error, _FLAGS.get(error.key, "--" + error.key.replace("_", "-"))) from None
        raise


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ulpscope run",
        usage="ulpscope run --dump-path DIR [options] -- SCRIPT [ARGS ...]   (or: -- -m MODULE [ARGS ...])",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=None,
    )
    add = parser.add_argument_group("what to record").add_argument
    add("--level", metavar="L", help="L0 modules, L1 API calls (default), mix both, L2 every aten operator")
    add("--task", metavar="T", help="statistics (default), tensor: the tensors too, structure: names only")
    add("--step", metavar="N", help="steps wanted, as in 0,2-4 (default: all)")
    add("--rank", metavar="N", help="ranks wanted, as in 0,2-4 (default: all)")
    add("--list", metavar="A,B", type=_words, help="only calls whose name contains one of these")
    add(
        "--module",
        metavar="P",
        action="append",
        help="only inside modules whose path matches: 'layers.*.mlp'",
    )
    add(
        "--call",
        metavar="P",
        action="append",
        help="only calls whose name matches: 'Functional.*', 're:add|mul'",
    )
    add("--scope", metavar="A,B", type=_words, help="only from call A to call B, by their full names")
    add(
        "--data-mode", metavar="M", type=_words, help="out of forward, backward, input, output (default: all)"
    )
    add("--layers", metavar="WHICH", help="of repeated layers of one kind: all (default), first, last")
    add("--skip-scalars", action="store_true", default=None, help="leave out plain numbers and texts")
    add("--skip-ints", action="store_true", default=None, help="leave out tensors of integers and booleans")
    add = parser.add_argument_group("what to write").add_argument
    add("--dump-path", metavar="DIR", help="the folder to write to; made where it is missing")
    add("--digest", metavar="D", help="a digest of every tensor: xxh3, or md5 (CRC-32, as in msprobe)")
    add(
        "--tensor-list",
        metavar="A,B",
        type=_words,
        help="with task statistics: save the tensors of these calls",
    )
    add("--format", metavar="F", dest="file_format", help="of saved tensors: pt (default), npy, safetensors")
    add("--no-stacks", action="store_false", default=None, dest="stacks", help="do not note the source lines")
    add("--max-bytes", metavar="SIZE", help="stop recording at this size, as in 500M or 10G")
    add("--max-calls", metavar="N", type=int, help="stop recording after this many calls")
    add = parser.add_argument_group("other").add_argument
    add(
        "--dry-run",
        action="store_true",
        help="write no dump: run the script for one step, and print the calls, files and bytes of a step",
    )
    add("--json", action="store_true", help="with --dry-run: print the result as JSON")
    add(
        "--jitter",
        metavar="SEED",
        type=int,
        help="measure noise: move parameters, buffers and inputs by one unit in the last place; "
        "what the script learns meanwhile is thrown away",
    )
    add("--config", metavar="FILE", help="a config.json as msprobe has it; the flags here count first")
    add(
        "--strict",
        action="store_true",
        default=None,
        help="raise where a call cannot be recorded, instead of noting it",
    )
    return parser
