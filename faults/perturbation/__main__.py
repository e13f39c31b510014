"""Prints which tool names what: ten wrong operators, ten healthy networks.

    python -m faults.perturbation [--peer FOLDER]

Ulpscope judges amplification. mindstudio-probe 8.3.3, the last release with a free benchmark, runs in an
environment of its own, once for each of three changes. A wrong operator is found if the tool names it; how
many other calls it names is beside that. A healthy network should have no named call.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from faults.perturbation.bad import CASES
from faults.perturbation.healthy import NETWORKS

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benches"))

from peer import environment  # type: ignore[import-not-found]  # noqa: E402

RELEASE = "8.3.3"
COLUMNS = [
    ("ulpscope", "amplification"),
    ("msprobe", "bit_noise"),
    ("msprobe", "improve_precision"),
    ("msprobe", "no_change"),
]

Named = dict[str, list[str] | str]


def named(python: Path, tool: str, mode: str, folder: Path) -> Named:
    """The calls that a tool names in each case; a text if it failed."""
    ended = subprocess.run(
        [str(python), "-m", "faults.perturbation.worker", tool, mode, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    if ended.returncode != 0:
        sys.exit(f"{tool} {mode} ended with {ended.returncode}:\n{ended.stderr}")
    return dict(json.loads(line) for line in ended.stdout.splitlines())


def of_bad(calls: list[str] | str, wanted: str) -> str:
    """Whether the wrong operator is named, and how many others."""
    if isinstance(calls, str):
        return "failed"
    others = len({call for call in calls if not call.startswith(wanted)})
    found = "found" if len(set(calls)) > others else "missed"
    return f"{found}, {others} others" if others else found


def of_healthy(calls: list[str] | str) -> str:
    """How many calls are named per step."""
    if isinstance(calls, str):
        return "failed"
    return f"{len(calls) / 2:g} per step" if calls else "none"


def main() -> None:
    """Runs the tools and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", type=Path, help="environment with mindstudio-probe [default: made]")
    options = parser.parse_args()
    pythons = {
        "ulpscope": Path(sys.executable),
        "msprobe": (options.peer or environment(RELEASE)) / "bin" / "python",
    }
    with tempfile.TemporaryDirectory() as folder:
        results = [
            named(pythons[tool], tool, mode, Path(folder) / f"{tool}-{mode}") for tool, mode in COLUMNS
        ]
    heads = [f"{tool} {mode}" if tool == "ulpscope" else f"{RELEASE} {mode}" for tool, mode in COLUMNS]
    print(f"| wrong operator | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for case in CASES:
        print(
            f"| {case.fault} | " + " | ".join(of_bad(one[case.fault], case.named) for one in results) + " |"
        )
    print(f"\n| healthy network | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}")
    for network in NETWORKS:
        name = network.__name__
        print(f"| {name} | " + " | ".join(of_healthy(one[name]) for one in results) + " |")


if __name__ == "__main__":
    main()
