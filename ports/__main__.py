"""Runs the suite of ports and prints what the comparison says of each.

python -m ports                                  # every case that is neither held out nor unseen
python -m ports --held-out                       # those that are: run them once, at the end
python -m ports --unseen                         # cases that nobody has seen results of: once, at the end
python -m ports --part bugs --case 'bugs/llama/*' --task tensor
python -m ports --json results.json --markdown table.md
python -m ports --read results.json              # the tables of an earlier run
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path

from faults.judges import Msprobe
from ports.captures import ROOT, Captures
from ports.cases import cases, unseen_cases
from ports.outcome import Outcome, as_outcomes, as_text, judged
from ports.runs import Case
from ports.table import line, markdown

PARTS = ("healthy", "bugs")


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the user typed."""
    parser = argparse.ArgumentParser(
        prog="python -m ports", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, help="only healthy ports, or only bugs")
    parser.add_argument(
        "--case", action="append", metavar="PATTERN", help="only cases of such names; repeatable"
    )
    parser.add_argument("--kind", metavar="PATTERN", help="only pairs of this kind, such as 'same code'")
    parser.add_argument("--task", choices=("tensor", "statistics"), help="only captures with this task")
    parser.add_argument(
        "--mode", choices=("forward", "backward"), help="only without or with the backward pass"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--held-out", action="store_true", help="the cases that are held out")
    chosen.add_argument("--unseen", action="store_true", help="the cases that nobody has seen results of")
    chosen.add_argument("--everything", action="store_true", help="held out or not, but not the unseen ones")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="cases at a time [default: 1]")
    parser.add_argument(
        "--new", type=Path, default=ROOT / ".venv-ports-new", help="environment with the newest libraries"
    )
    parser.add_argument(
        "--old", type=Path, default=ROOT / ".venv-ports-old", help="environment with the older release"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep the dumps there, and use those that are"
    )
    parser.add_argument(
        "--peer",
        type=Path,
        metavar="ENVIRONMENT",
        help="ask mindstudio-probe in this environment instead; statistics only, it reads no packs",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write one row per case there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there")
    parser.add_argument("--read", type=Path, metavar="FILE", help="run nothing: show what --json wrote")
    parser.add_argument(
        "--check", action="store_true", help="compare nothing: see whether cases run and are what they claim"
    )
    parser.add_argument("--list", action="store_true", help="run nothing: name the cases")
    options = parser.parse_args(given)
    if options.jobs < 1:
        parser.error(f"--jobs: expected at least 1, found {options.jobs}")
    if options.peer is not None and (options.task != "statistics" or options.jobs != 1):
        parser.error("--peer: expected --task statistics and one job")
    options.msprobe = None
    return options


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases that the options ask for."""
    return [
        case
        for case in (unseen_cases() if options.unseen else cases())
        if (options.unseen or options.everything or case.held_out == options.held_out)
        and options.part in (None, case.part)
        and options.task in (None, case.task)
        and (options.mode is None or case.backward == (options.mode == "backward"))
        and (options.kind is None or fnmatchcase(case.kind, options.kind))
        and (not options.case or any(fnmatchcase(case.name, pattern) for pattern in options.case))
    ]


def group_outcomes(group: list[Case], captures: Captures, options: argparse.Namespace) -> Iterator[Outcome]:
    """The outcomes of cases that share captures; their dumps are removed."""
    for case in group:
        yield judged(case, captures, options.check, options.msprobe)
    if options.keep is None:
        captures.forget()


def run(found: list[Case], options: argparse.Namespace) -> list[Outcome]:
    """Runs the cases and reports on stderr how it goes."""

    def group_of(case: Case) -> tuple[str, str, bool]:
        # Goldens are shared by the cases of an architecture and a way to capture.
        return case.architecture, case.task, case.backward

    groups = [list(group) for _, group in groupby(sorted(found, key=group_of), key=group_of)]
    done: list[Outcome] = []
    start = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ports-") as scratch:
        folder = options.keep or Path(scratch)
        environments = {"new": options.new, "old": options.old}
        places = [folder.resolve() / ("" if options.keep else str(number)) for number in range(options.jobs)]
        free = [Captures(environments, place) for place in places]
        pool = ThreadPoolExecutor(options.jobs)

        def work(group: list[Case]) -> None:
            captures = free.pop()
            try:
                for outcome in group_outcomes(group, captures, options):
                    done.append(outcome)
                    left = (time.monotonic() - start) / len(done) * (len(found) - len(done)) / 60
                    print(
                        f"{len(done)}/{len(found)} {left:.0f} min left  {line(outcome)}",
                        file=sys.stderr,
                        flush=True,
                    )
            finally:
                free.append(captures)

        waiting = [pool.submit(work, group) for group in groups]
        try:
            for finished in as_completed(waiting):
                finished.result()
        except KeyboardInterrupt:
            print("stopped: the tables are of the cases up to here", file=sys.stderr)
        finally:
            pool.shutdown(cancel_futures=True)
            for captures in free:
                captures.close()
    return sorted(done, key=lambda outcome: outcome.name)


def main(given: Sequence[str] | None = None) -> int:
    """Exit code 0 when the suite ran, whatever it found; 2 when a case failed to run, 130 when stopped."""
    options = arguments(given)
    code = 0
    if options.read is not None:
        done = as_outcomes(options.read.read_text())
    else:
        found = chosen_cases(options)
        if options.list:
            print(*(case.full_name for case in found), sep="\n")
            return 0
        if not found:
            sys.exit("no case has all that was asked for; --list without options names them")
        if options.peer is not None:
            options.msprobe = Msprobe(options.peer)
        try:
            done = run(found, options)
        finally:
            if options.msprobe is not None:
                options.msprobe.close()
        if any(outcome.error is not None for outcome in done):
            code = 2
        if len(done) < len(found):
            code = 130
    if options.check:
        print(f"{len(done)} cases ran, {sum(one.error is not None for one in done)} failed")
        return code
    if options.json is not None:
        options.json.write_text(as_text(done))
    if options.markdown is not None:
        options.markdown.write_text(markdown(done))
    print(markdown(done), end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
