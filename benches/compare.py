"""Compares the same two dumps with Ulpscope and with mindstudio-probe, and prints the ratio.

Two pairs, made once: tensors (80 calls, 2.7 GB a side) and statistics (100,000 rows). The measure is the CPU
time of all processes, because machines are shared.

    python benches/compare.py FOLDER [--peer VENV] [--rounds N]
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from peer import environment

import ulpscope

CALLS = 80
ELEMENTS = 4 << 20
STATISTICS_CALLS = 20_000
ENTRIES_PER_CALL = 5


class Cost(NamedTuple):
    """The time and memory of a command."""

    wall: float
    cpu: float
    peak_mb: float


def tensor_item(name: str, shape: list[int], values: torch.Tensor | None, scale: float) -> dict[str, Any]:
    """The description of a tensor, as msprobe writes it."""
    numbers = [3.5 * scale, -3.25 * scale, 0.0125 * scale, 181.5 * scale]
    if values is not None:
        numbers = [values.max().item(), values.min().item(), values.mean().item(), values.norm().item()]
    item: dict[str, Any] = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape}
    item.update(zip(("Max", "Min", "Mean", "Norm"), numbers, strict=True))
    item["requires_grad"] = False
    if values is not None:
        item["data_name"] = f"{name}.pt"
    return item


def write_dump(folder: Path, task: str, data: dict[str, Any]) -> None:
    """A dump.json and the files beside it."""
    header = {
        "task": task,
        "level": "L1",
        "framework": "pytorch",
        "dump_data_dir": str(folder / "dump_tensor_data"),
    }
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}, indent=1))
    stacks = {"0": [list(data), ["File model.py, line 7, in forward, \n return layer(x)"]]}
    (folder / "stack.json").write_text(json.dumps(stacks, indent=1))
    (folder / "construct.json").write_text("{}")


def make_tensor_dump(folder: Path, noise: float) -> None:
    """Calls with an input and an output of 16 MiB each."""
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True)
    generator = torch.Generator().manual_seed(1)
    data: dict[str, Any] = {}
    for call in range(CALLS):
        key = f"Functional.linear.{call}.forward"
        entry: dict[str, Any] = {"input_args": [], "input_kwargs": {}, "output": []}
        for role, where in (("input", "input_args"), ("output", "output")):
            values = torch.randn(1024, ELEMENTS // 1024, generator=generator)
            values *= 1 + noise * torch.randn(values.shape, generator=torch.Generator().manual_seed(call))
            name = f"{key}.{role}.0"
            ulpscope.save(tensors / f"{name}.pt", values)
            entry[where].append(tensor_item(name, list(values.shape), values, 1.0))
        data[key] = entry
    write_dump(folder, "tensor", data)


def make_statistics_dump(folder: Path, noise: float) -> None:
    """Many small calls, statistics only."""
    folder.mkdir(parents=True)
    data: dict[str, Any] = {}
    for call in range(STATISTICS_CALLS):
        scale = (1 + call / STATISTICS_CALLS) * (1 + noise)
        items = [
            tensor_item("", [8, 128, 64 + call % 7], None, scale + entry) for entry in range(ENTRIES_PER_CALL)
        ]
        data[f"Functional.linear.{call}.forward"] = {
            "input_args": items[:3],
            "input_kwargs": {},
            "output": items[3:],
        }
    write_dump(folder, "statistics", data)


# The peak memory of a process includes that of its parent: start it from a small one without torch.
LAUNCHER = """
import json, os, resource, subprocess, sys, time
start = time.perf_counter()
ended = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([ended.returncode, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
sys.stderr.buffer.write(ended.stderr)
"""


def run(command: list[str]) -> Cost:
    """Runs a command; CPU time is that of all its processes, memory that of the largest."""
    launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    ended = subprocess.run(launched, capture_output=True, text=True, check=True)
    code, wall, cpu, peak = json.loads(ended.stdout)
    if code not in (0, 1):
        sys.exit(f"{command} ended with {code}:\n{ended.stderr}")
    return Cost(wall, cpu, peak)


def read_bandwidth(folders: list[Path]) -> float:
    """GB/s at which one core reads cached files: the best of two ways to read every byte."""
    files = [file for folder in folders for file in sorted((folder / "dump_tensor_data").glob("*.pt"))]
    best = 0.0
    for _ in range(3):
        for touch in (
            lambda file: np.bitwise_xor.reduce(
                np.memmap(file, dtype=np.uint8)[: file.stat().st_size // 8 * 8].view(np.uint64)
            ),
            lambda file: ulpscope.digest(ulpscope.load(file), "xxh3"),
        ):
            start = time.perf_counter()
            for file in files:
                touch(file)
            total = sum(file.stat().st_size for file in files)
            best = max(best, total / (time.perf_counter() - start) / 1e9)
    return best


def compare_with_peer(peer: Path, target: Path, golden: Path, out: Path) -> Cost:
    """The command of mindstudio-probe."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    sides = ["-tp", str(target / "dump.json"), "-gp", str(golden / "dump.json")]
    return run([str(peer / "bin" / "msprobe"), "compare", *sides, "-o", str(out)])


def compare_with_us(target: Path, golden: Path, out: Path, *options: str) -> Cost:
    """The command of Ulpscope."""
    shutil.rmtree(out, ignore_errors=True)
    program = str(Path(sys.executable).parent / "ulpscope")
    return run([program, "compare", str(target), str(golden), "-o", str(out), *options])


def median(costs: list[Cost]) -> Cost:
    """The median of each."""
    return Cost(*(statistics.median(column) for column in zip(*costs, strict=True)))


def show(name: str, cost: Cost, work: float, unit: str) -> None:
    """One line."""
    rate = f"{work / cost.wall:10.2f} {unit}/s {work / cost.cpu:10.3f} {unit}/CPU s"
    print(f"{name:<34} {cost.wall:8.2f} s {cost.cpu:8.2f} CPU s {rate} {cost.peak_mb:8.0f} MB")


def main() -> None:
    """Makes the dumps, runs both, prints ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", type=Path, help="environment with mindstudio-probe [default: made]")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder: Path = options.folder
    for name, make in (("tensor", make_tensor_dump), ("statistics", make_statistics_dump)):
        for side, noise in (("target", 1e-6), ("golden", 0.0)):
            if not (folder / name / side / "stack.json").exists():
                shutil.rmtree(folder / name / side, ignore_errors=True)
                make(folder / name / side, noise)
    peer = options.peer or environment()

    pair = [folder / "tensor" / "target", folder / "tensor" / "golden"]
    gigabytes = 2 * 2 * CALLS * ELEMENTS * 4 / 1e9
    bandwidth = read_bandwidth(pair)
    print(f"tensors: {gigabytes:.2f} GB both sides; one core reads {bandwidth:.1f} GB/s")
    rounds = range(options.rounds)
    one = median([compare_with_us(*pair, folder / "out", "--threads", "1") for _ in rounds])
    all_cores = median([compare_with_us(*pair, folder / "out") for _ in rounds])
    like_peer = median([compare_with_us(*pair, folder / "out", "--style", "msprobe") for _ in rounds])
    theirs = compare_with_peer(peer, *pair, folder / "out_peer")
    show("ulpscope, one thread", one, gigabytes, "GB")
    show("ulpscope, all cores", all_cores, gigabytes, "GB")
    show("ulpscope --style msprobe, all cores", like_peer, gigabytes, "GB")
    show("mindstudio-probe", theirs, gigabytes, "GB")
    print(f"  GB per CPU second: {theirs.cpu / one.cpu:.0f} x mindstudio-probe (one thread),", end=" ")
    print(f"{theirs.cpu / all_cores.cpu:.0f} x (all cores)")
    print(f"  all cores are {one.wall / all_cores.wall:.2f} x one;", end=" ")
    print(f"one thread is {gigabytes / one.wall / bandwidth:.2f} of the read bandwidth")

    pair = [folder / "statistics" / "target", folder / "statistics" / "golden"]
    rows = STATISTICS_CALLS * ENTRIES_PER_CALL
    print(f"statistics: {rows} rows")
    csv = median([compare_with_us(*pair, folder / "out", "--format", "csv") for _ in rounds])
    xlsx = median([compare_with_us(*pair, folder / "out", "--format", "xlsx") for _ in rounds])
    like_peer = median(
        [compare_with_us(*pair, folder / "out", "--format", "csv", "--style", "msprobe") for _ in rounds]
    )
    theirs = compare_with_peer(peer, *pair, folder / "out_peer")
    show("ulpscope, csv", csv, rows, "rows")
    show("ulpscope, xlsx", xlsx, rows, "rows")
    show("ulpscope --style msprobe, csv", like_peer, rows, "rows")
    show("mindstudio-probe, csv", theirs, rows, "rows")
    print(f"  {theirs.wall / csv.wall:.0f} x mindstudio-probe, {theirs.cpu / csv.cpu:.0f} x by CPU time")


if __name__ == "__main__":
    main()
