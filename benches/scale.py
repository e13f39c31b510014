"""Measures what the engine costs: one comparison in one process, and on a Ray cluster of two nodes.

    python benches/scale.py FOLDER [--ranks 1024] [--calls 500] [--tensor-ranks 64] [--megabytes 256]

Two pairs of dumps are made in FOLDER: statistics of many ranks, and tensors of fewer. Both are compared on
two cores of this machine: by one process with two threads, and by two nodes with one core each. CPU seconds
are those of all processes that take part.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python" / "support"))

from ray_cluster import RayCluster

ULPSCOPE = [sys.executable, "-m", "ulpscope"]
TICKS = os.sysconf("SC_CLK_TCK")


def statistics_dumps(folder: Path, ranks: int, calls: int) -> None:
    """One rank in a hundred has a fault in the middle."""
    for side in ("target", "golden"):
        for rank in range(ranks):
            place = folder / side / "step0" / f"rank{rank}"
            place.mkdir(parents=True, exist_ok=True)
            is_faulty = side == "target" and rank % 100 == 7
            data = {}
            for call in range(calls):
                factor = 1.5 if is_faulty and call >= calls // 2 else 1.0
                data[f"Functional.linear.{call}.forward"] = {
                    "input_args": [item(rank, call, 1.5 if is_faulty and call > calls // 2 else 1.0)],
                    "input_kwargs": {},
                    "output": [item(rank, call + 1, factor)],
                }
            write(place, "statistics", data)


def item(rank: int, call: int, factor: float) -> dict[str, object]:
    mean = (0.1 + 0.01 * ((rank + call) % 97)) * factor
    return {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4, 1024],
        "Max": mean * 3,
        "Min": -mean * 2,
        "Mean": mean,
        "Norm": mean * 64,
        "requires_grad": False,
    }


def write(place: Path, task: str, data: dict[str, object]) -> None:
    header = {"task": task, "level": "L1", "framework": "pytorch"}
    (place / "dump.json").write_text(json.dumps({**header, "data": data}))
    (place / "stack.json").write_text("{}")
    (place / "construct.json").write_text("{}")


def tensor_dumps(folder: Path, ranks: int, megabytes: int) -> None:
    """Tensors of 4 MB; the sides differ by rounding."""
    elements = 1 << 20
    generator = numpy.random.default_rng(0)
    values = generator.standard_normal(elements, dtype=numpy.float32)
    for rank in range(ranks):
        for side in ("target", "golden"):
            place = folder / side / "step0" / f"rank{rank}"
            (place / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
            data: dict[str, object] = {}
            for call in range(megabytes // 4):
                name = f"Functional.gelu.{call}.forward"
                tensor = values * numpy.float32(1 + rank + call)
                if side == "target":
                    tensor[call] *= 1 + 2**-23
                numpy.save(place / "dump_tensor_data" / f"{name}.output.0.npy", tensor)
                described = {
                    **item(rank, call, 1.0),
                    "shape": [elements],
                    "data_name": f"{name}.output.0.npy",
                }
                data[name] = {"input_args": [], "input_kwargs": {}, "output": [described]}
            write(place, "tensor", data)


class Processes:
    """CPU seconds and the largest memory of processes that come and go, sampled."""

    def __init__(self, sessions: list[int], driver: int) -> None:
        self._sessions, self._driver = {*sessions}, driver
        self._seconds: dict[int, float] = {}
        self.largest_driver = 0.0
        self._before = self._sample()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        """CPU seconds since the start."""
        self._is_over.set()
        self._thread.join()
        self._seconds.update(self._sample())
        return sum(seconds - self._before.get(process, 0.0) for process, seconds in self._seconds.items())

    def _run(self) -> None:
        while not self._is_over.wait(0.1):
            self._seconds.update(self._sample())

    def _sample(self) -> dict[int, float]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) in self._sessions:
                    found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / TICKS
                if int(folder.name) == self._driver:
                    pages = int((folder / "statm").read_text().split()[1])
                    self.largest_driver = max(self.largest_driver, pages * resource.getpagesize() / 1e9)
            except (OSError, IndexError):
                continue
        return found


def compare(folder: Path, options: list[str], sessions: list[int]) -> dict[str, float]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    words = [*ULPSCOPE, "compare", str(folder / "target"), str(folder / "golden"), "-o", str(out), *options]
    start = time.monotonic()
    driver = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    watched = Processes(sessions, driver.pid)
    _, status, used = os.wait4(driver.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    cpu = watched.stop() + used.ru_utime + used.ru_stime
    if code not in (0, 1):
        raise SystemExit(f"{' '.join(words)} ended with {code}")
    return {"seconds": seconds, "cpu": cpu, "driver_gb": watched.largest_driver}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--tensor-ranks", type=int, default=64)
    parser.add_argument("--megabytes", type=int, default=256, help="of tensors in each rank of each side")
    arguments = parser.parse_args()
    statistics = arguments.folder / f"statistics-{arguments.ranks}-{arguments.calls}"
    tensors = arguments.folder / f"tensors-{arguments.tensor_ranks}-{arguments.megabytes}"
    if not statistics.exists():
        statistics_dumps(statistics, arguments.ranks, arguments.calls)
    if not tensors.exists():
        tensor_dumps(tensors, arguments.tensor_ranks, arguments.megabytes)
    made = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    cluster = RayCluster(made / "c", ["a", "b"])
    try:
        for name, folder in (("statistics", statistics), ("tensors", tensors)):
            # The first run reads the files from disk, for both.
            compare(folder, ["--threads", "2"], [])
            here = compare(folder, ["--threads", "2"], [])
            there = compare(folder, ["--engine", "ray", "--address", cluster.address], cluster.sessions())
            overhead = there["cpu"] / here["cpu"] - 1
            print(
                f"{name}: one process {here['seconds']:.1f} s, {here['cpu']:.1f} s of CPU, "
                f"{here['driver_gb']:.2f} GB; "
                f"two nodes {there['seconds']:.1f} s, {there['cpu']:.1f} s of CPU, "
                f"driver {there['driver_gb']:.2f} GB; overhead {overhead:.0%} of CPU",
                flush=True,
            )
    finally:
        cluster.stop()
        shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    main()
