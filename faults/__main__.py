"""Runs the fault suite and prints who found what.

    python -m faults                          # a sample: every fault, all benign pairs
    python -m faults --all --json results.json --markdown table.md
    python -m faults --held-out --all         # the seeds and the model that were kept for the end
    python -m faults --model gpt --fault scale-1.5 --benign none --tools ulpscope
    python -m faults --read results.json      # the tables of an earlier run

Lists are separated by commas. `none` among faults stands for benign pairs, among benign changes for
faults alone.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from faults import outcome as outcome_module
from faults.cases import Case, cases
from faults.judges import TOOLS
from faults.outcome import Outcome, as_json, by_name
from faults.processes import Job, outcomes
from faults.scoring import score
from faults.table import markdown, plain


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the user typed."""
    parser = argparse.ArgumentParser(
        prog="python -m faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", metavar="NAMES", help="only these models")
    parser.add_argument("--fault", metavar="NAMES", help="only these faults; none: benign pairs")
    parser.add_argument("--benign", metavar="NAMES", help="only these benign changes; none: faults alone")
    parser.add_argument("--seeds", metavar="NUMBERS", help="only these seeds")
    parser.add_argument("--task", metavar="NAMES", help="tensor, statistics, or both [default: both]")
    parser.add_argument("--tools", metavar="NAMES", help=f"those to be asked [default: {','.join(TOOLS)}]")
    parser.add_argument("--all", action="store_true", help="every case, not a sample")
    parser.add_argument("--held-out", action="store_true", help="the cases kept for the final run")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes [default: 2]")
    parser.add_argument("--peer", type=Path, help="environment with mindstudio-probe [default: made]")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the dumps there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every case there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables of the README there")
    parser.add_argument("--read", type=Path, metavar="FILE", help="run nothing: show what --json wrote")
    parser.add_argument("--list", action="store_true", help="run nothing: name the cases")
    options = parser.parse_args(given)
    if options.jobs < 1:
        parser.error(f"--jobs: expected at least 1, found {options.jobs}")
    return options


def wanted(option: str, text: str | None, known: set[str]) -> set[str]:
    """The names of a list; all where there is none."""
    if text is None:
        return known
    names = set(text.split(","))
    if unknown := sorted(names - known):
        sys.exit(f"{option}: expected some of {', '.join(sorted(known))}, found {', '.join(unknown)}")
    return names


def sample(found: list[Case]) -> list[Case]:
    """Every fault alone at every depth, on top of changes and by statistics at one of them.

    Each depth has one seed; seeds and depths take turns. Benign pairs are few, and stay.
    """
    depths: dict[tuple[str, str], list[str]] = {}
    seeds: dict[tuple[str, str, str], list[int]] = {}
    for case in found:
        if case.fault is not None:
            places = depths.setdefault((case.model, case.fault), [])
            if case.depth not in places:
                places.append(case.depth)
            known = seeds.setdefault((case.model, case.fault, case.depth), [])
            if case.seed not in known:
                known.append(case.seed)
    turns = {kind: turn for turn, kind in enumerate(depths)}

    def is_chosen(case: Case) -> bool:
        if case.fault is None:
            return True
        turn, places = turns[case.model, case.fault], depths[case.model, case.fault]
        known = seeds[case.model, case.fault, case.depth]
        place = places.index(case.depth)
        in_depth = (case.task == "tensor" and case.benign is None) or place == turn % len(places)
        return in_depth and case.seed == known[(turn + place) % len(known)]

    return [case for case in found if is_chosen(case)]


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """The cases that the options ask for."""
    found = cases(options.held_out, everything=options.all)
    for option, text, attribute in (
        ("--model", options.model, "model"),
        ("--fault", options.fault, "fault"),
        ("--benign", options.benign, "benign"),
        ("--seeds", options.seeds, "seed"),
        ("--task", options.task, "task"),
    ):
        # What is None is asked for by that name.
        known = {case: str(getattr(case, attribute)).replace("None", "none") for case in found}
        names = wanted(option, text, set(known.values()))
        found = [case for case in found if known[case] in names]
    return found if options.all or options.seeds else sample(found)


def environment(options: argparse.Namespace, tools: Sequence[str]) -> Path | None:
    """That of mindstudio-probe, made where it is missing; the benchmarks use the same."""
    if not any(tool.startswith("msprobe") for tool in tools):
        return None
    if options.peer is not None:
        return Path(options.peer)
    from benches.peer import environment as made

    return made()


def line(found: Outcome) -> str:
    """A case on one line of the progress."""
    if found.error is not None or found.truth is None:
        return f"{found.case.name}: failed: {(found.error or '').strip().splitlines()[-1]}"
    said = []
    for tool, judgement in found.judgements.items():
        if judgement.error is not None:
            said.append(f"{tool} failed")
        elif found.case.fault is None:
            said.append(f"{tool} {'FALSE ALARM' if judgement.answers else 'quiet'}")
        else:
            said.append(f"{tool} {score(found.truth, judgement).place}")
    below = "" if found.truth.counts or found.case.fault is None else " (below the floor)"
    return f"{found.case.name}: {', '.join(said)}{below}"


def until_stopped(found: Iterator[Outcome]) -> Iterator[Outcome]:
    """What comes before the user has had enough, so that it can be shown."""
    try:
        yield from found
    except KeyboardInterrupt:
        print("stopped: the tables are of the cases up to here", file=sys.stderr)


def run(found: list[Case], tools: tuple[str, ...], options: argparse.Namespace) -> list[Outcome]:
    """Runs the cases and tells how it goes."""
    done: list[Outcome] = []
    # Ended from outside is stopped, too: processes are ended and folders removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        folder = options.keep or Path(scratch)
        job = Job(tools, environment(options, tools), folder.resolve(), options.keep is not None)
        for outcome in until_stopped(outcomes(found, job, options.jobs)):
            done.append(outcome)
            left = (time.monotonic() - start) / len(done) * (len(found) - len(done)) / 60
            print(
                f"{len(done)}/{len(found)} {left:.0f} min left  {line(outcome)}", file=sys.stderr, flush=True
            )
    return by_name(done)


def main(given: Sequence[str] | None = None) -> int:
    """Exit code 0 when the suite ran, whatever it found; 130 when it was stopped."""
    options = arguments(given)
    code = 0
    tools = tuple(tool for tool in TOOLS if tool in wanted("--tools", options.tools, set(TOOLS)))
    if options.read is not None:
        done = by_name(outcome_module.read(options.read))
        tools = tuple(tool for tool in tools if any(tool in one.judgements for one in done))
    else:
        found = chosen_cases(options)
        if options.list:
            print(*(case.name for case in found), sep="\n")
            return 0
        if not found:
            sys.exit("no case has all that was asked for; --list without options names them")
        done = run(found, tools, options)
        code = 0 if len(done) == len(found) else 130
    if options.json is not None:
        written = {"tools": tools, "held_out": options.held_out, "cases": [as_json(one) for one in done]}
        options.json.write_text(json.dumps(written, indent=1))
    if options.markdown is not None:
        options.markdown.write_text(markdown(done, tools))
    print(plain(done, tools), end="")
    return code


if __name__ == "__main__":
    sys.exit(main())
