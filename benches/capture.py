"""The cost of capture: CPU seconds of a training step with it, divided by those of the same step without it.

Ulpscope and mindstudio-probe 26.2, the latter in a separate environment, on an 8-layer GPT of 10 M
parameters (batch 2 x 64) and on a net of 200 modules with 6 element-wise calls on 8 x 64. SGD, one thread.
Every number is the median over processes. Each process measures with and without capture, so that a ratio
compares the same conditions. "files alone" is the time of plain calls that write the same files of
tensors: the lower limit of that row.

    python benches/capture.py FOLDER [--row TEXT] [--workload NAME] [--tool NAME] [--processes N] [--steps N]
        [--deleted N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from capture_workload import ROWS
from peer import VERSION, environment

WORKLOADS = ("GPT", "API-heavy")
TOOLS = ("ulpscope", "mindstudio")
# The target ratios for GPT and API-heavy.
GOALS = {
    "L1 statistics": (1.4, 4.0),
    "mix statistics": (1.6, 6.0),
    "L1 statistics + digest": (1.6, 4.5),
    "L1 tensor": (2.2, 7.0),
    "L1 overflow_check": (1.2, 1.2),
    "constructed, not started": (1.0, 1.0),
}

Measured = dict[str, Any]


def measure(
    python: Path, tool: str, workload: str, row: str, folder: Path, steps: int, deleted: int = 0
) -> Measured:
    """Measures in one process."""
    script = Path(__file__).with_name("capture_workload.py")
    command = [str(python), str(script), tool, workload, row, str(folder), str(steps), str(deleted)]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    result: Measured = json.loads(ended.stdout.splitlines()[-1])
    return result


def median(results: list[Measured], key: str) -> float | None:
    """The median of one number, if it was measured."""
    values = [result[key] for result in results if key in result]
    return statistics.median(values) if values else None


def text(value: float | None, form: str) -> str:
    """A number as text; empty for None."""
    return "" if value is None else form.format(value)


def print_costs(results: dict[tuple[str, str, str], list[Measured]]) -> None:
    """Prints the table of ratios."""
    print(
        "| setting | workload | tool | CPU s/step | without | ratio | goal | files alone | us/call | calls "
        "| MB | peak MB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for (row, workload, tool), measured in results.items():
        goal = GOALS[row][WORKLOADS.index(workload)] if tool == "ulpscope" else None
        size = median(measured, "bytes")
        cells = [
            row,
            workload,
            tool,
            text(median(measured, "cpu"), "{:.4f}"),
            text(median(measured, "base_cpu"), "{:.4f}"),
            text(median(measured, "ratio"), "{:.2f} x"),
            text(goal, "{:.2f} x"),
            text(median(measured, "files_cpu"), "{:.4f}"),
            text(median(measured, "us_per_call"), "{:.1f}"),
            text(median(measured, "calls"), "{:.0f}"),
            text(size and size / 1e6, "{:.1f}"),
            text(median(measured, "peak_above"), "+{:.0f}"),
        ]
        print("| " + " | ".join(cells) + " |")


def print_speeds(results: dict[str, list[Measured]]) -> None:
    """Prints how fast tensors are written to the disk."""
    print("\ntensors of 64 MiB, L1 tensor:\n")
    print("| tool | GB/s | plain write into the page cache | of it | plain write to the disk | of it |")
    print("|---|---|---|---|---|---|")
    for tool, measured in results.items():
        speed = statistics.median(result["dump_speed"] for result in measured)
        plain = {
            kind: statistics.median(result["disk_speed"][kind] for result in measured)
            for kind in ("cached", "flushed")
        }
        shares = [f"{plain[kind]:.2f} GB/s | {speed / plain[kind]:.2f}" for kind in ("cached", "flushed")]
        print(f"| {tool} | {speed:.2f} | {shares[0]} | {shares[1]} |")


def main() -> None:
    """Runs the requested measurements and prints them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--row", default="", help="only rows with this in their name")
    parser.add_argument("--workload", choices=WORKLOADS, action="append")
    parser.add_argument("--tool", choices=TOOLS, action="append")
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument(
        "--deleted", type=int, default=0, help="make and delete as many files before each step"
    )
    parser.add_argument("--peer", type=Path, help="environment with mindstudio-probe [default: made]")
    options = parser.parse_args()
    tools = options.tool or TOOLS
    pythons = {"ulpscope": Path(sys.executable)}
    if "mindstudio" in tools:
        pythons["mindstudio"] = (options.peer or environment()) / "bin" / "python"

    rows = [row for row in ROWS if options.row in row]
    results: dict[tuple[str, str, str], list[Measured]] = {
        (row, workload, tool): []
        for row in rows
        for workload in options.workload or WORKLOADS
        for tool in tools
        # The current release of the older tool has no such task.
        if tool == "ulpscope" or "overflow_check" not in row
    }
    speeds: dict[str, list[Measured]] = {tool: [] for tool in tools if "L1 tensor" in rows}
    shutil.rmtree(options.folder / "dumps", ignore_errors=True)
    folders = (options.folder / "dumps" / str(number) for number in itertools.count())
    # Round by round, so that other load on the machine affects all of them.
    for _ in range(options.processes):
        for (row, workload, tool), measured in results.items():
            measured.append(
                measure(pythons[tool], tool, workload, row, next(folders), options.steps, options.deleted)
            )
        for tool, measured in speeds.items():
            measured.append(measure(pythons[tool], tool, "large", "L1 tensor", next(folders), options.steps))
    shutil.rmtree(options.folder / "dumps")

    print(f"CPU seconds per step, median of {options.processes} processes; mindstudio-probe {VERSION}\n")
    print_costs(results)
    if speeds:
        print_speeds(speeds)


if __name__ == "__main__":
    main()
