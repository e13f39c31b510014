"""``ulpscope check``: arguments in, a summary out."""

from __future__ import annotations

import argparse
import json
import os
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ulpscope._replay import flags

if TYPE_CHECKING:
    from ulpscope._replay.jobs import Request
    from ulpscope._replay.results import CheckedCall, CheckResult

# How many failing and skipped calls are listed on the terminal; the files have all.
_LISTED = 20
# Of a command that Ctrl-C ended: 128, and the number of the signal.
_INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    """Runs the arguments of ``ulpscope check``. Returns the exit code."""
    parser = flags.parser()
    options = parser.parse_args(arguments)
    if options.forward or options.backward:
        _refuse_others(parser, options)
        from ulpscope._replay.overflow_replay import run_overflow_check

        return run_overflow_check(options.forward, options.backward)
    if options.dump is None:
        parser.error("the dump is missing, as in: ulpscope check dump/ -o check/")
    try:
        return _check(options)
    except (OSError, ValueError, ImportError) as error:
        print(f"ulpscope check: error: {shown(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if options.output is None:
            advice = "with -o DIR, a check can be continued"
        else:
            advice = "the same command with --resume continues"
        print(f"ulpscope check: interrupted; {advice}", file=sys.stderr)
        return _INTERRUPTED


def _refuse_others(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """An overflow check has no other options: none of them is ignored silently."""
    given = [
        name
        for name, value in vars(options).items()
        if name not in ("forward", "backward") and value != parser.get_default(name)
    ]
    if given:
        shown_names = ["DUMP" if name == "dump" else f"--{name.replace('_', '-')}" for name in given]
        parser.error(f"-forward and -backward cannot be combined with {', '.join(shown_names)}")


def _check(options: argparse.Namespace) -> int:
    if options.jobs < 1:
        raise ValueError("--jobs must be at least 1")
    if options.engine == "ray":
        if options.jobs != 1:
            raise ValueError("--jobs is for processes of this machine: with --engine ray use --rank-cores")
        if options.collectives:
            raise ValueError("--collectives starts processes on one machine: leave --engine ray out")
    elif options.address or options.located or options.rank_cores:
        raise ValueError("--address, --located and --rank-cores are for --engine ray")
    white_list, black_list = _lists(options)
    if options.bench is not None and options.output is None:
        raise ValueError("--bench needs -o DIR: it compares the details that are written there")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ImportError("check needs torch, which is not installed: pip install torch") from None
    from ulpscope._replay import jobs
    from ulpscope._replay.replay import ReplaySettings

    if options.module and "" not in sys.path:
        # Programs are started in their folder. Last, so that no file there hides an installed package.
        sys.path.append(str(Path.cwd()))
    request = jobs.Request(
        Path(options.dump),
        options.step,
        options.rank,
        tuple(white_list),
        tuple(black_list),
        ReplaySettings(options.device, options.standard, options.seed),
        None if options.output is None else Path(options.output),
        not options.no_repro,
        tuple(options.module),
        options.collectives,
    )
    progress = _Progress(not options.json)
    try:
        if options.engine == "ray":
            result = _on_ray(request, options)
        else:
            result = jobs.run(request, options.jobs, options.resume, progress.report)
    finally:
        progress.end()
    say(result.to_json() if options.json else _summary(result))
    for note in result.notes:
        print(f"note: {shown(note)}", file=sys.stderr)
    for problem in result.problems:
        print(f"error: {shown(problem)}", file=sys.stderr)
    if options.bench is None:
        return result.exit_code
    details = [file for file in result.files if "_details_" in file.name]
    ratios = compare_details(details, Path(options.bench), Path(options.output), sys.stderr)
    # 1, a wrong result, is said before 2, what could not be compared.
    return 1 if 1 in (result.exit_code, ratios) else max(result.exit_code, ratios)


def _on_ray(request: Request, options: argparse.Namespace) -> CheckResult:
    from ulpscope._scale.check_ranks import RayOptions, run

    cluster = RayOptions(options.address, options.located, options.rank_cores)
    return run(request, cluster, options.resume, lambda done, of, call: None)


def compare_details(own: list[Path], peer: Path, folder: Path, to: TextIO | None = None) -> int:
    """Judges the details of a check by those of a different device. Returns the exit code."""
    from ulpscope._replay.precision_compare import precision_compare

    to = to or sys.stdout
    try:
        found = precision_compare(own, peer, folder)
    except (OSError, ValueError) as error:
        print(f"ulpscope check: error: {shown(str(error))}", file=sys.stderr)
        return 2
    counts = found.counts
    print(
        f"compared with {shown(str(peer))}: {counts['pass']} pass, {counts['error']} with larger errors, "
        f"{counts['SKIP']} not judged",
        file=to,
    )
    for lines, title in ((found.failed, "larger errors"), (found.unpaired, "only in one of the files")):
        if lines:
            more = [f"  and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
            print("\n".join([f"{title}:", *(f"  {shown(line)}" for line in lines[:_LISTED]), *more]), file=to)
    for file in found.files:
        print(f"written: {shown(str(file))}", file=to)
    return found.exit_code


def _lists(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The lists of the flags, and those of a config.json."""
    white, black = list(options.white_list), list(options.black_list)
    if options.config is not None:
        given = read_object(options.config, 'an object with "run_ut" or "acc_check"')
        task = next((given[key] for key in ("run_ut", "acc_check") if isinstance(given.get(key), dict)), None)
        if task is None:
            raise ValueError(f'{options.config}: expected an object "run_ut" or "acc_check"')
        for key, into in (("white_list", white), ("black_list", black)):
            names: Any = task.get(key, [])
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{options.config}: {key} is {names!r}; expected a list of names")
            into += names
        if options.output is None and isinstance(task.get("error_data_path"), str):
            options.output = task["error_data_path"]
    return white, black


def read_object(path: str, expected: str) -> dict[str, Any]:
    """The object in a JSON file. Errors name the file and what was ``expected``."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON file: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: expected {expected}")
    return value


def _summary(result: CheckResult) -> str:
    counts = result.counts()
    total = len(result.calls)
    lines = [
        f"{total} calls: {counts['pass']} pass, {counts['warning']} doubtful, {counts['error']} wrong, "
        f"{counts['SKIP']} not replayed"
    ]
    if result.judged_here:
        lines.append(
            f"{result.judged_here} of them: judged is what this machine computes now, not the recorded run "
            "(the elements of inputs or results are not in the dump: inputs are drawn from statistics)"
        )
    for title, calls in (("wrong", result.failed), ("not replayed", result.skipped)):
        if calls:
            lines += ["", f"{title}:", *(_line(call) for call in calls[:_LISTED])]
            if len(calls) > _LISTED:
                lines.append(f"  and {len(calls) - _LISTED} more")
    if result.files:
        lines += ["", *(f"written: {shown(str(file))}" for file in result.files)]
    return "\n".join(lines)


def _line(call: CheckedCall) -> str:
    place = f"{shown(call.place.replace('_', ' '))} " if call.place and call.place != "rank" else ""
    repro = f"\n    repro: {shown(call.repro)}" if call.repro else ""
    if call.no_repro:
        repro = f"\n    no repro: {shown(call.no_repro)}"
    return f"  {place}{shown(call.call)}: {shown(call.message)}{repro}"


def say(text: str) -> None:
    """Prints to standard output; a reader that wants no more, such as ``head``, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # Python writes what is left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def shown(text: str) -> str:
    """Text that is safe on a terminal: names in dumps may contain anything."""
    return "".join(
        character if unicodedata.category(character)[0] != "C" else f"\\u{{{ord(character):x}}}"
        for character in text
    )


class _Progress:
    """How many calls are done, on standard error, if that is a terminal."""

    def __init__(self, wanted: bool) -> None:
        self._shows = wanted and sys.stderr.isatty()

    def report(self, done: int, of: int, call: CheckedCall) -> None:
        """Shows a number."""
        if self._shows and (done % 10 == 0 or done == of):
            print(f"\rchecking {done}/{of}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Removes the line."""
        if self._shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
