"""Shows what half and twice of each threshold of the verdicts does to the suites.

make thresholds                                      # builds what this needs, and runs it
python -m ports.thresholds --keep FOLDER --every 8 --faults 4
python -m ports.thresholds --only 'siblings.*' --markdown table.md

The thresholds are those of `crates/compare/src/native/thresholds.rs`. `ulpscope` has to be built with the
cargo feature `scaled-thresholds`; it then takes their factors from the environment. Dumps are made once, and
each setting compares them again. Of the ports that are not held out, every N-th is taken, and of a sample of
the faults in a model, in the order of their kinds and names.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ports.captures import ROOT, Captures
from ports.cases import cases
from ports.outcome import Pair, captured, compared
from ports.runs import Case
from ports.scoring import answers_of

FEATURE = "scaled-thresholds"
VARIABLE = "ULPSCOPE_THRESHOLD_SCALE"
SOURCE = ROOT / "crates" / "compare" / "src" / "native" / "thresholds.rs"
FACTORS = (0.5, 2.0)

# What a comparison says of a pair, in one word.
Score = Callable[[int, dict[str, Any]], str]


@dataclass(frozen=True)
class Subject:
    """A pair of dumps that is compared with every setting."""

    group: str
    """One of `GROUPS`."""
    target: Path
    golden: Path
    score: Score


@dataclass(frozen=True)
class Group:
    """Subjects that are counted together."""

    title: str
    good: str
    """The score that counts."""


GROUPS = {
    "ports": Group("healthy ports with exit code 0 and no call named", "quiet"),
    "bugs": Group("bugs in ports, exact", "exact"),
    "benign": Group("benign changes without an alarm", "quiet"),
    "faults": Group("planted faults, exact", "exact"),
}


def score_healthy(code: int, result: dict[str, Any]) -> str:
    """Of a healthy port."""
    answers = answers_of(result)
    return "named" if answers else ("quiet" if code == 0 else "doubt")


def score_bug(pair: Pair, code: int, result: dict[str, Any]) -> str:
    """Of a bug in a port."""
    return pair.place(answers_of(result), code) or "nothing"


def every(found: Sequence[Case], step: int) -> list[Case]:
    """Every so many of the cases of each part, in the order of kinds, ways to capture and names."""
    parts: dict[str, list[Case]] = {}
    for case in sorted(found, key=lambda one: (one.kind, one.task, one.backward, one.name)):
        parts.setdefault(case.part, []).append(case)
    return [case for part in sorted(parts) for case in parts[part][::step]]


def port_subjects(options: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    """Pairs of the suite of ports."""
    captures = Captures({"new": options.new, "old": options.old}, folder)
    try:
        for case in every([case for case in cases() if not case.held_out], options.every):
            try:
                pair = captured(case, captures)
            except Exception as error:
                print(f"{case.full_name}: left out: {error}", file=sys.stderr)
                continue
            if case.part == "healthy":
                yield Subject("ports", pair.target, pair.golden, score_healthy)
            else:
                yield Subject("bugs", pair.target, pair.golden, partial(score_bug, pair))
    finally:
        captures.close()


def fault_subjects(options: argparse.Namespace, folder: Path) -> Iterator[Subject]:
    """Pairs of the fault suite: a sample of the faults of one model."""
    from faults.__main__ import sample
    from faults.cases import Truth, run
    from faults.cases import cases as all_faults
    from faults.outcome import Answer, Judgement
    from faults.scoring import score

    def score_fault(truth: Truth, code: int, result: dict[str, Any]) -> str:
        named = [one for rank in result["ranks"] for one in rank.get("divergences", ())]
        answers = tuple(
            Answer(
                one["call"],
                tuple(name for name in (one["call"], one.get("golden_call"), one.get("entry")) if name),
                one.get("module"),
                one["kind"],
            )
            for one in named
        )
        return score(truth, Judgement(answers, len(answers))).place

    found = sample([case for case in all_faults(held_out=False) if case.model == options.model])
    for case in found[:: options.faults]:
        target, golden, truth = run(case, folder)
        if case.fault is None:
            yield Subject("benign", target, golden, score_healthy)
        elif truth.counts:
            yield Subject("faults", target, golden, partial(score_fault, truth))


def names_and_values(source: Path = SOURCE) -> list[tuple[str, str]]:
    """All thresholds of the table in a source file, in its order: name, and value as it is written."""
    body = source.read_text().partition("\nthresholds! {\n")[2].partition("\n}\n")[0]
    found: list[tuple[str, str]] = []
    group = ""
    for match in re.finditer(
        r"^    (?P<group>\w+) \{$|^        (?P<name>[A-Z_]+) = (?P<value>[^;]+);$", body, re.M
    ):
        group = match["group"] or group
        if match["name"]:
            found.append((f"{group}.{match['name']}", match["value"].replace("std::f64::consts::", "")))
    return found


def scores(subjects: Sequence[Subject], options: argparse.Namespace, setting: str) -> list[str]:
    """What every subject is with a setting, such as `routes.UNDONE=0.5`."""
    environment = {**os.environ, VARIABLE: setting}

    def judge(subject: Subject) -> str:
        found = compared(subject.target, subject.golden, (str(options.ulpscope),), environment)
        return subject.score(*found)

    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(judge, subjects))


def cell(subjects: Sequence[Subject], base: Sequence[str], found: Sequence[str]) -> str:
    """Gains and losses of each group, and how many scores changed at all."""
    changed = sum(one != other for one, other in zip(base, found, strict=True))
    if not changed:
        return "-"
    parts = []
    for name, group in GROUPS.items():
        of = [number for number, subject in enumerate(subjects) if subject.group == name]
        more = sum(found[number] == group.good for number in of) - sum(
            base[number] == group.good for number in of
        )
        if more:
            parts.append(f"{name} {more:+d}")
    return f"{', '.join(parts) or 'other places'} ({changed} changed)"


def table(
    subjects: Sequence[Subject],
    base: Sequence[str],
    rows: Sequence[tuple[str, str, list[list[str]]]],
) -> str:
    """The table, and what its rows are compared with."""
    lines = ["| compared | pairs | as they are |", "|---|---|---|"]
    for name, group in GROUPS.items():
        of = [number for number, subject in enumerate(subjects) if subject.group == name]
        if of:
            good = sum(base[number] == group.good for number in of)
            lines.append(f"| {name}: {group.title} | {len(of)} | {good} |")
    lines += ["", "| threshold | value | half | twice |", "|---|---|---|---|"]
    for name, value, found in rows:
        cells = " | ".join(cell(subjects, base, one) for one in found)
        lines.append(f"| `{name}` | {value} | {cells} |")
    return "\n".join(lines) + "\n"


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """What the user typed."""
    parser = argparse.ArgumentParser(
        prog="python -m ports.thresholds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="only thresholds of such names; repeatable"
    )
    parser.add_argument("--every", type=int, default=8, metavar="N", help="one in so many ports [default: 8]")
    parser.add_argument(
        "--faults", type=int, default=8, metavar="N", help="one in so many of the sampled faults [default: 8]"
    )
    parser.add_argument(
        "--model", default="gpt", help="the model of the fault suite, none for no faults [default: gpt]"
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="pairs at a time [default: 1]")
    parser.add_argument("--new", type=Path, default=ROOT / ".venv-ports-new", help="as for python -m ports")
    parser.add_argument("--old", type=Path, default=ROOT / ".venv-ports-old", help="as for python -m ports")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="dumps of ports, kept and used again")
    parser.add_argument(
        "--ulpscope",
        type=Path,
        default=ROOT / "target" / "debug" / "ulpscope",
        help=f"the command, built with the cargo feature {FEATURE} [default: target/debug/ulpscope]",
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there")
    options = parser.parse_args(given)
    for option in ("every", "faults", "jobs"):
        if getattr(options, option) < 1:
            parser.error(f"--{option}: expected at least 1, found {getattr(options, option)}")
    return options


def main(given: Sequence[str] | None = None) -> int:
    """Exit code 0 when every setting was compared."""
    options = arguments(given)
    patterns = options.only or ["*"]
    wanted = [one for one in names_and_values() if any(fnmatchcase(one[0], pattern) for pattern in patterns)]
    if not wanted:
        sys.exit(f"--only: no threshold is named like {' or '.join(patterns)}")
    with tempfile.TemporaryDirectory(prefix="thresholds-") as scratch:
        subjects = list(port_subjects(options, (options.keep or Path(scratch, "ports")).resolve()))
        if options.model != "none":
            subjects += fault_subjects(options, Path(scratch, "faults"))
        base = scores(subjects, options, "")
        rows: list[tuple[str, str, list[list[str]]]] = []
        start = time.monotonic()
        for number, (name, value) in enumerate(wanted, 1):
            found = [scores(subjects, options, f"{name}={factor}") for factor in FACTORS]
            rows.append((name, value, found))
            left = (time.monotonic() - start) / number * (len(wanted) - number) / 60
            cells = "; ".join(cell(subjects, base, one) for one in found)
            print(f"{number}/{len(wanted)} {left:.0f} min left  {name}: {cells}", file=sys.stderr, flush=True)
    printed = table(subjects, base, rows)
    if options.markdown is not None:
        options.markdown.write_text(printed)
    print(printed, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
