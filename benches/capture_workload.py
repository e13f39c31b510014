"""One measurement of `benches/capture.py`, in a separate process, in the environment of one of the tools.

    python capture_workload.py TOOL WORKLOAD ROW FOLDER STEPS DELETED    prints a JSON object

The same process runs the steps first without and then with the tool, so that the conditions are
the same. CPU time is that of the process with all its threads. The tool's files are counted and truncated
between steps, outside the measured time; the caller deletes them at the end. (Before it creates a file, an
ext4 without a journal checks every file that was deleted in the last minutes: a deletion here would slow down
the next step. DELETED files are deleted before each step, to measure just that.) With whole tensors the same
files are written again by plain calls, to measure the share of the file system.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# See tests/python/conftest.py.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

# The network whose dumps the tests compare. It does not import pytest.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "python" / "support"))

from twin_programs import GPT

# Level, task, digest; None: the tool is loaded but records nothing.
ROWS: dict[str, tuple[str, str, bool] | None] = {
    "L1 statistics": ("L1", "statistics", False),
    "mix statistics": ("mix", "statistics", False),
    "L1 statistics + digest": ("L1", "statistics", True),
    "L1 tensor": ("L1", "tensor", False),
    "L1 overflow_check": ("L1", "overflow_check", False),
    "constructed, not started": None,
}
WARM_UP = 2


class Small(nn.Module):
    """Six element-wise calls on a tensor that fits into any cache."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.mul(x, self.scale)
        y = torch.sigmoid(y)
        y = torch.add(y, x)
        y = torch.tanh(y)
        y = torch.sub(y, 0.1)
        return torch.mul(y, 0.9)


class Large(nn.Module):
    """Calls on tensors of 64 MiB: the speed of writing to the disk decides."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.mul(x, 1.5)
        return torch.add(torch.sub(y, 0.25), 1.0)


def training(model: nn.Module, loss_of: Callable[[], Tensor]) -> Callable[[], None]:
    """A step of stochastic gradient descent."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        loss_of().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def workload(name: str) -> tuple[nn.Module, Callable[[], None]]:
    """A model and one step of it."""
    torch.manual_seed(0)
    if name == "GPT":
        # 10.5 M parameters.
        model: nn.Module = GPT(vocabulary=8192, places=64, width=256, heads=4, layers=8)
        tokens = torch.randint(0, 8192, (2, 65))

        def loss_of() -> Tensor:
            return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 8192), tokens[:, 1:].reshape(-1))

        return model, training(model, loss_of)
    if name == "API-heavy":
        model, x = nn.Sequential(*(Small() for _ in range(200))), torch.randn(8, 64)
        return model, training(model, lambda: model(x).mean())
    model, x = Large(), torch.randn(1 << 24)

    def step() -> None:
        with torch.no_grad():
            model(x)

    return model, step


class Ulpscope:
    """Records a step with Ulpscope."""

    def __init__(self, folder: Path, row: str) -> None:
        import ulpscope

        level, task, digest = ROWS[row] or ("L1", "statistics", False)
        self.run = ulpscope.capture(folder, level=level, task=task, digest="md5" if digest else None)

    def around(self, model: nn.Module, step: Callable[[], None]) -> None:
        self.run.start(model)
        step()
        self.run.stop()
        self.run.step()


class MindStudio:
    """The same with mindstudio-probe, set to record all calls, not only those of its default risk level."""

    def __init__(self, folder: Path, row: str) -> None:
        from msprobe.pytorch import PrecisionDebugger

        level, task, digest = ROWS[row] or ("L1", "statistics", False)
        config: dict[str, Any] = {
            "task": task,
            "dump_path": str(folder),
            "rank": [],
            "step": [],
            "level": level,
        }
        config |= {"risk_level": "ALL", task: {"scope": [], "list": [], "data_mode": ["all"]}}
        if digest:
            config[task]["summary_mode"] = "md5"
        file = folder / "config.json"
        file.write_text(json.dumps(config))
        self.debugger = PrecisionDebugger(config_path=str(file))

    def around(self, model: nn.Module, step: Callable[[], None]) -> None:
        self.debugger.start(model=model)
        step()
        self.debugger.stop()
        self.debugger.step()


class Lap:
    """Seconds of a step: wall time and CPU time."""

    def __init__(self, step: Callable[[], None]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        self.wall, self.cpu = time.perf_counter() - wall, time.process_time() - cpu


def laps(
    step: Callable[[], None], steps: int, before: Callable[[], None], after: Callable[[], None]
) -> list[Lap]:
    """Measured steps, after a warm-up."""
    made = []
    for number in range(WARM_UP + steps):
        before()
        lap = Lap(step)
        after()
        if number >= WARM_UP:
            made.append(lap)
    return made


def middle(made: list[Lap]) -> tuple[float, float]:
    """Median seconds: wall time, CPU time."""
    return statistics.median(lap.wall for lap in made), statistics.median(lap.cpu for lap in made)


class Written:
    """The files that a step wrote. A file with several names counts once."""

    def __init__(self) -> None:
        self.bytes, self.calls = 0, 0
        self.seen: set[Path] = set()
        # For the last step: the names of each tensor file, and its size.
        self.tensors: list[tuple[list[str], int]] = []

    def count_and_empty(self, folder: Path) -> None:
        for step in sorted(set(folder.glob("step*")) - self.seen):
            self.seen.add(step)
            files: dict[int, list[Path]] = {}
            for file in sorted(file for file in step.rglob("*") if file.is_file()):
                files.setdefault(file.stat().st_ino, []).append(file)
            sizes = [same[0].stat().st_size for same in files.values()]
            self.bytes = sum(sizes)
            self.tensors = [
                ([file.name for file in same], size)
                for same, size in zip(files.values(), sizes, strict=True)
                if same[0].parent.name == "dump_tensor_data"
            ]
            for dump in step.glob("*/dump.json"):
                self.calls = len(json.loads(dump.read_text())["data"])
            for same in files.values():
                os.truncate(same[0], 0)

    def made_plainly(self, folder: Path, times: int) -> list[Lap]:
        """Writes the same tensor files with as few calls as possible."""
        content = memoryview(os.urandom(max(size for _, size in self.tensors)))
        made = []
        for number in range(WARM_UP + times):
            again = folder / f"plain{number}"
            again.mkdir()
            files = [([str(again / name) for name in names], size) for names, size in self.tensors]

            def make(files: list[tuple[list[str], int]] = files) -> None:
                for (first, *others), size in files:
                    file = os.open(first, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
                    os.write(file, content[:size])
                    os.close(file)
                    for other in others:
                        os.link(first, other)

            made.append(Lap(make))
            for (first, *_), _ in files:
                os.truncate(first, 0)
        return made[WARM_UP:]


def sequential_write_speed(folder: Path, size: int) -> dict[str, float]:
    """GB/s of a plain write of as many bytes: into the page cache, and to the disk."""
    block = os.urandom(1 << 20)
    size = max(size, 64 << 20)
    file = folder / "plain"
    start = time.perf_counter()
    with file.open("wb", buffering=0) as plain:
        for _ in range(size >> 20):
            plain.write(block)
        cached = time.perf_counter() - start
        os.fsync(plain.fileno())
    flushed = time.perf_counter() - start
    file.unlink()
    return {"cached": size / cached / 1e9, "flushed": size / flushed / 1e9}


def make_and_delete(folder: Path, count: int) -> None:
    """Leaves the file system with as many files that were deleted just now."""
    files = [folder / f"deleted{number}" for number in range(count)]
    for file in files:
        file.touch()
    for file in files:
        file.unlink()


def nothing() -> None:
    """Nothing happens around a step."""


def peak_mb() -> float:
    """The peak memory of this process. Not ru_maxrss, which is inherited from the parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> None:
    """Measures."""
    tool, name, row, folder, steps = *sys.argv[1:4], Path(sys.argv[4]), int(sys.argv[5])
    deleted = int(sys.argv[6])
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    model, step = workload(name)
    base_wall, base_cpu = middle(laps(step, steps, nothing, nothing))
    base_peak = peak_mb()

    written = Written()
    recorder = {"ulpscope": Ulpscope, "mindstudio": MindStudio}[tool](folder, row)
    around = step if ROWS[row] is None else lambda: recorder.around(model, step)
    before, after = lambda: make_and_delete(folder, deleted), lambda: written.count_and_empty(folder)
    wall, cpu = middle(laps(around, steps, before, after))
    peak = peak_mb()
    result = {
        "ratio": cpu / base_cpu,
        "cpu": cpu,
        "base_cpu": base_cpu,
        "peak_above": peak - base_peak,
        "calls": written.calls,
        "bytes": written.bytes,
    }
    if written.calls:
        result["us_per_call"] = (cpu - base_cpu) / written.calls * 1e6
    if ROWS[row] is not None and ROWS[row][1] == "tensor":
        result["dump_speed"] = written.bytes / max(wall - base_wall, 1e-9) / 1e9
        result["files_cpu"] = middle(written.made_plainly(folder, steps))[1]
        result["disk_speed"] = sequential_write_speed(folder, written.bytes)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
