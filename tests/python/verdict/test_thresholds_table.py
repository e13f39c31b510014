"""The command that shows what half and twice of each threshold does."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ports.cases import cases
from ports.thresholds import (
    FACTORS,
    SOURCE,
    VARIABLE,
    Subject,
    cell,
    every,
    names_and_values,
    score_healthy,
    scores,
    table,
)

ROOT = Path(__file__).parents[3]

# Names a call as soon as a threshold is halved.
COMMAND = f"""#!{sys.executable}
import json, os
halved = os.environ[{VARIABLE!r}] == "routes.UNDONE=0.5"
found = [{{"call": "Torch.add.0.forward", "kind": "diverged here", "confidence": 1.0}}]
print(json.dumps({{"ranks": [{{"divergences": found if halved else []}}]}}))
raise SystemExit(1 if halved else 0)
"""


def subject(group: str, tmp_path: Path) -> Subject:
    return Subject(group, tmp_path, tmp_path, score_healthy)


def test_each_setting_is_compared_with_things_as_they_are(tmp_path: Path) -> None:
    command = tmp_path / "ulpscope"
    command.write_text(COMMAND)
    command.chmod(0o755)
    options = argparse.Namespace(ulpscope=command, jobs=2)
    subjects = [subject("ports", tmp_path), subject("ports", tmp_path), subject("benign", tmp_path)]
    base = scores(subjects, options, "")
    found = [scores(subjects, options, f"routes.UNDONE={factor}") for factor in FACTORS]
    assert base == ["quiet"] * 3
    assert found == [["named"] * 3, ["quiet"] * 3]
    assert table(subjects, base, [("routes.UNDONE", "1.0 / 16.0", found)]).splitlines() == [
        "| compared | pairs | as they are |",
        "|---|---|---|",
        "| ports: healthy ports with exit code 0 and no call named | 2 | 2 |",
        "| benign: benign changes without an alarm | 1 | 1 |",
        "",
        "| threshold | value | half | twice |",
        "|---|---|---|---|",
        "| `routes.UNDONE` | 1.0 / 16.0 | ports -2, benign -1 (3 changed) | - |",
    ]


def test_a_gain_and_a_loss_are_both_counted_as_changes(tmp_path: Path) -> None:
    bugs = [subject("bugs", tmp_path)] * 3
    assert cell(bugs, ["exact", "cut", "cut"], ["cut", "exact", "cut"]) == "other places (2 changed)"
    assert cell(bugs, ["exact", "cut", "cut"], ["exact", "exact", "cut"]) == "bugs +1 (1 changed)"


def test_every_part_keeps_its_share() -> None:
    known = [case for case in cases() if not case.held_out]
    chosen = every(known, 8)
    assert len({case.full_name for case in chosen}) == len(chosen)
    for part in ("healthy", "bugs"):
        share = sum(case.part == part for case in known) / 8
        assert abs(sum(case.part == part for case in chosen) - share) < 1


def test_every_threshold_of_the_table_is_listed() -> None:
    listed = names_and_values()
    assert ("routes.UNDONE", "1.0 / 16.0") in listed
    assert ("siblings.PRIOR_SPREAD", "LN_2") in listed
    lines = [line.strip() for line in SOURCE.read_text().splitlines()]
    rows = [line for line in lines if line[:1].isupper() and " = " in line]
    assert len(dict(listed)) == len(listed) == len(rows)


def test_no_pass_has_a_threshold_of_its_own() -> None:
    """A constant that a verdict depends on has its derivation in `thresholds.rs`, and is scaled there."""
    native = ROOT / "crates" / "compare" / "src" / "native"
    # A fact of a number format, and of the bytes that a share is stored in.
    facts = {"ACCUMULATOR", "LEAST", "DEVIATION"}
    found = {
        (path.name, name)
        for path in native.rglob("*.rs")
        if path.name != "thresholds.rs"
        for name in re.findall(
            r"^\s*(?:pub(?:\([^)]*\))? )?const (\w+): f64", path.read_text().split("mod tests")[0], re.M
        )
    }
    assert {(file, name) for file, name in found if name not in facts} == set()
