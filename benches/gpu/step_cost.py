"""What capture costs on a GPU: the time of a training step with it, divided by that of the same step without.

    python benches/gpu/step_cost.py [--output FOLDER] [--seconds 480] [--model TEXT] [--row TEXT] [--steps N]
                                    [--no-tests] [--msprobe-python PYTHON] [--tiny --device cpu]

First the tests that need a GPU (`pytest -m gpu`), then one table, medians of warm steps: GPT-2 medium, a
Llama-shaped model of 1 B parameters, ResNet-50; bf16, fused AdamW. Each row is a process, which trains the
same model twice: without and with. Losses, gradients and parameters have to be equal bit for bit; the row
"plain" says whether they are without any tool. "memory" is what the peak of torch's memory grew by, plus what
the device has allocated outside of torch. The last lines are the speed at which a tensor of 1 GiB is
measured, and that of a copy. DebugMode is torch's own; mindstudio-probe is measured where it can be
imported, or with the Python of an environment that has it.

Everything ends within `--seconds`: parts that do not fit, or fail, are listed with their reason. FOLDER
(benches/gpu/last_run; without a GPU only if it is given) gets `table.md`, `results.json` with all times, and
`tests.txt`, which are written after each part. `--tiny --device cpu` tries the script without a GPU: its
times mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import models
import torch

WARM = 2
# The longest that one row may take, in seconds.
ROW_SECONDS = 120
# What the last run on a GPU printed is kept beside the script.
LAST_RUN = Path(__file__).resolve().parent / "last_run"
TESTS = ["tests/python/capture/test_cuda_kernel.py", "tests/python/capture/test_cuda.py"]

# Without this cuBLAS may add in a different order each time, whatever torch is told.
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}

BY_TORCH = "L1, by torch's operations"
TENSORS = "L1, task tensor"

# Settings of ulpscope.capture by row; None: constructed, not started.
CAPTURES: dict[str, dict[str, Any] | None] = {
    "L0": {"level": "L0"},
    "L1": {"level": "L1"},
    "L1 + digest": {"level": "L1", "digest": "mix64"},
    "mix": {"level": "mix"},
    "constructed, not started": None,
    BY_TORCH: {"level": "L1", "device_statistics": "torch"},
    TENSORS: {"level": "L1", "task": "tensor"},
}
# Trained twice without any tool: whether the program itself repeats its bits, and how far times differ.
PLAIN = "plain"
DEBUG_MODE_LOG = "DebugMode, log only"
DEBUG_MODE = "DebugMode, with hashes"
# Level and kind of summary.
MINDSTUDIO = {
    "mindstudio-probe L0": ("L0", "statistics"),
    "mindstudio-probe L1": ("L1", "statistics"),
    "mindstudio-probe mix": ("mix", "statistics"),
    "mindstudio-probe L1 + md5": ("L1", "md5"),
}
# The ratios to reach, for GPT-2 medium and the 1 B model.
GOALS = {
    "L0": (1.10, 1.05),
    "L1": (1.5, 1.25),
    "L1 + digest": (1.6, 1.3),
    "mix": (1.8, 1.4),
    "constructed, not started": (1.0, 1.0),
}

EndStep = Callable[[], None]


@contextlib.contextmanager
def ulpscope_row(row: str, model: torch.nn.Module, folder: str) -> Iterator[EndStep]:
    """Records with Ulpscope."""
    import ulpscope

    settings = CAPTURES[row]
    if settings is None:
        ulpscope.capture(folder, model=model)
        yield lambda: None
        return
    with ulpscope.capture(folder, model=model, **settings) as run:
        yield run.step


@contextlib.contextmanager
def debug_mode_row(row: str, model: torch.nn.Module, folder: str) -> Iterator[EndStep]:
    """Logs with torch's DebugMode, with or without hashes of outputs."""
    from torch.utils._debug_mode import DebugMode

    with DebugMode() as mode, mode.log_tensor_hashes() if row == DEBUG_MODE else contextlib.nullcontext():
        yield lambda: None


@contextlib.contextmanager
def plain_row(row: str, model: torch.nn.Module, folder: str) -> Iterator[EndStep]:
    """Runs without any tool."""
    yield lambda: None


@contextlib.contextmanager
def mindstudio_row(row: str, model: torch.nn.Module, folder: str) -> Iterator[EndStep]:
    """Records with mindstudio-probe."""
    from msprobe.pytorch import PrecisionDebugger

    config = Path(folder) / "config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    level, summary = MINDSTUDIO[row]
    section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": summary}
    common = {"task": "statistics", "dump_path": folder, "rank": [], "step": [], "level": level}
    config.write_text(json.dumps({**common, "statistics": section}))
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start(model)

    def step() -> None:
        debugger.stop()
        debugger.step()
        debugger.start(model)

    try:
        yield step
    finally:
        debugger.stop()


def tool_of(row: str) -> Callable[[str, torch.nn.Module, str], Any]:
    if row in (DEBUG_MODE, DEBUG_MODE_LOG):
        return debug_mode_row
    if row == PLAIN:
        return plain_row
    return mindstudio_row if row in MINDSTUDIO else ulpscope_row


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def memory(device: str) -> int:
    """The peak of torch's memory, and what the device has allocated outside of it."""
    if device == "cpu":
        return 0
    free, total = torch.cuda.mem_get_info()
    return torch.cuda.max_memory_allocated() + total - free - torch.cuda.memory_reserved()


def train(options: argparse.Namespace, tool: Any, folder: str) -> dict[str, Any]:
    """The times of steps, the peak of memory, and a digest of everything that was computed."""
    device = options.device
    model, batch = models.made(options.model, device, options.tiny)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    times, losses = [], []
    with contextlib.nullcontext(lambda: None) if tool is None else tool(options.row, model, folder) as step:
        for _ in range(WARM + options.steps):
            synchronize(device)
            begun = time.perf_counter()
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            step()
            synchronize(device)
            times.append(time.perf_counter() - begun)
            losses.append(loss.detach())
        used = memory(device)
    tensors = [*losses, *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())]
    return {"times": times[WARM:], "memory": used, "tensors": [tensor.cpu() for tensor in tensors]}


def notes_of(folder: Path) -> list[str]:
    """What the ledgers of a dump say: whether the kernel was used, and what is missing."""
    said: set[str] = set()
    for path in folder.rglob("ledger.json"):
        ledger = json.loads(path.read_text())
        said |= {f"{count} tensors unread: {why}" for why, count in ledger["unread"].items()}
        said |= {f"failed: {why}" for why in ledger["failed"]} | set(map(str, ledger["notes"]))
        said |= {f"ended: {ledger['ended']}"} if ledger["ended"] else set()
    return sorted(said)


def measure_row(options: argparse.Namespace) -> dict[str, Any]:
    """One row, in this process."""
    # Attention is deterministic only without `warn_only`. Some of ResNet-50 has no deterministic form.
    torch.use_deterministic_algorithms(True, warn_only=options.model == "ResNet-50")
    # All memory is written before it is read, and the attention that is left repeats its bits.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    with tempfile.TemporaryDirectory(prefix="step-cost-") as folder:
        plain = train(options, None, folder)
        with_tool = train(options, tool_of(options.row), f"{folder}/dump")
        pairs = zip(plain["tensors"], with_tool["tensors"], strict=True)
        return {
            "without": statistics.median(plain["times"]),
            "with": statistics.median(with_tool["times"]),
            "memory": with_tool["memory"] - plain["memory"],
            "is_same": all(torch.equal(one, other) for one, other in pairs),
            "notes": notes_of(Path(folder) / "dump"),
            # All of them: medians hide what a noisy machine does.
            "times_without": plain["times"],
            "times_with": with_tool["times"],
        }


def seconds_of(body: Callable[[], Any], device: str, times: int = 20) -> float:
    """The time of one of several calls in a row, by the clock of the device."""
    body()
    if device == "cpu":
        begun = time.perf_counter()
        for _ in range(times):
            body()
        return (time.perf_counter() - begun) / times
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    first.record()
    for _ in range(times):
        body()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1000 / times


def measure_bandwidth(options: argparse.Namespace) -> dict[str, Any]:
    """Bytes per second of measuring a tensor, and of a copy.

    The former is the cost of a recorded call that computes nothing, which has one argument and one result.
    """
    import ulpscope

    size = 1 << 20 if options.tiny else 1 << 30
    found = {}
    for dtype in (torch.bfloat16, torch.float32, torch.float16, torch.int8):
        x = torch.ones(size // dtype.itemsize, dtype=dtype, device=options.device)
        target = torch.empty_like(x)
        copy = seconds_of(lambda target=target, x=x: target.copy_(x), options.device)
        rates = {"copied": 2 * size / copy}
        layouts = {
            "packed": x,
            "heads": x.view(-1, 128, 16, 64).transpose(1, 2),
            "transposed": x.view(1 << 8, -1).t(),
        }
        for name, view in layouts.items():
            for digest in (None, "mix64"):
                with (
                    tempfile.TemporaryDirectory(prefix="step-cost-") as folder,
                    ulpscope.capture(folder, stacks=False, digest=digest),
                ):
                    seconds = seconds_of(lambda view=view: torch.atleast_1d(view), options.device)
                rates[f"{name} + digest" if digest else name] = 2 * size / seconds
        found[str(dtype).removeprefix("torch.")] = rates
    return found


def measure_launches(options: argparse.Namespace) -> dict[str, float]:
    """Microseconds of the program for a call with a small tensor: without, and recorded."""
    import ulpscope

    x = torch.ones(64, device=options.device)

    def microseconds() -> float:
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            for _ in range(400):
                torch.atleast_1d(x)
            times.append((time.perf_counter() - begun) / 400 * 1e6)
            synchronize(options.device)
        return statistics.median(times)

    found = {"without": microseconds()}
    for where in ("auto", "torch"):
        with (
            tempfile.TemporaryDirectory(prefix="step-cost-") as folder,
            ulpscope.capture(folder, device_statistics=where),
        ):
            found[where] = microseconds()
    return found


def in_process(
    options: argparse.Namespace, *arguments: str, python: str = sys.executable
) -> tuple[dict[str, Any] | None, str]:
    """The result of one part, measured in a process of its own; or None, and why."""
    left = min(ROW_SECONDS, options.ends - time.monotonic())
    if left < 10:
        return None, "no time was left"
    common = ["--steps", str(options.steps), "--device", options.device]
    command = [python, __file__, *arguments, *common, *(["--tiny"] if options.tiny else [])]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=left, env={**os.environ, **DETERMINISTIC}
        )
    except subprocess.TimeoutExpired:
        return None, f"not done after {left:.0f} seconds"
    lines = ended.stdout.strip().splitlines()
    if ended.returncode != 0 or not lines:
        return None, (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    result: dict[str, Any] = json.loads(lines[-1])
    return result, ""


def machine(device: str) -> str:
    name = platform.processor() or platform.machine() if device == "cpu" else torch.cuda.get_device_name()
    return f"{name}, torch {torch.__version__}, Python {platform.python_version()}"


class Report:
    """What has been found so far, in files."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path | None = options.output
        self.rows: list[dict[str, Any]] = []
        self.parts: dict[str, Any] = {}
        self.skipped: list[dict[str, str]] = []
        self.machine = machine(options.device)
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)

    def write(self) -> None:
        """Writes all of it."""
        if self.folder:
            found = {key: getattr(self, key) for key in ("machine", "parts", "rows", "skipped")}
            (self.folder / "results.json").write_text(json.dumps(found, indent=1) + "\n")
            (self.folder / "table.md").write_text(self.table())

    def skip(self, part: str, why: str) -> None:
        """Notes that a part is missing."""
        self.skipped.append({"part": part, "why": why})
        print(f"skipped {part}: {why}", flush=True)
        self.write()

    def table(self) -> str:
        """The whole as Markdown."""
        lines = [self.machine, ""]
        if "tests" in self.parts:
            lines += [f"Tests: {self.parts['tests']}", ""]
        lines += [
            "| model | row | without | with | ratio | goal | memory | same bits |",
            "|---|---|---|---|---|---|---|---|",
            *map(table_row, self.rows),
        ]
        for dtype, rates in self.parts.get("bandwidth", {}).items():
            copied = rates["copied"]
            shares = [f"{name} {rate / copied:.2f}" for name, rate in rates.items() if name != "copied"]
            lines += ["", f"1 GiB of {dtype}: copied at {copied / 1e12:.2f} TB/s (read and written)."]
            lines += [f"Measured, as a part of that: {', '.join(shares)}"]
        if launches := self.parts.get("launches"):
            times = ", ".join(f"{name} {microseconds:.1f}" for name, microseconds in launches.items())
            lines += ["", f"A small call, in microseconds: {times}"]
        notes = sorted({f"- {row['row']}: {note}" for row in self.rows for note in row["notes"]})
        lines += ["", "Notes of the ledgers:", *notes] if notes else []
        skipped = [f"- {one['part']}: {one['why']}" for one in self.skipped]
        lines += ["", "Not measured:", *skipped] if skipped else []
        return "\n".join(lines) + "\n"


def table_row(row: dict[str, Any]) -> str:
    goals = dict(zip(models.NAMES, GOALS.get(row["row"], ()), strict=False))
    cells = [
        row["model"],
        row["row"],
        f"{1000 * row['without']:.1f} ms",
        f"{1000 * row['with']:.1f} ms",
        f"{row['with'] / row['without']:.2f}",
        goals.get(row["model"], ""),
        f"{row['memory'] / (1 << 20):.0f} MiB",
        "yes" if row["is_same"] else "NO",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def run_tests(options: argparse.Namespace, report: Report) -> None:
    """The tests that need a GPU, with at most a third of the time."""
    left = options.seconds / 3
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "--maxfail=30", *TESTS]
    try:
        ended = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=left)
        output, why = ended.stdout + ended.stderr, ""
    except subprocess.TimeoutExpired as expired:
        output, why = (expired.stdout or b"").decode(errors="replace"), f"not done after {left:.0f} seconds"
    if report.folder:
        (report.folder / "tests.txt").write_text(output)
    report.parts["tests"] = why or (output.strip().splitlines() or ["no output"])[-1]
    print(f"tests: {report.parts['tests']}", flush=True)
    report.write()


def measure_all(options: argparse.Namespace) -> None:
    """Tests, parts and rows: what matters most comes first."""
    report = Report(options)
    if options.tests and options.device != "cpu":
        run_tests(options, report)
    for part in ("bandwidth", "launches"):
        found, why = in_process(options, f"--{part}")
        if found is None:
            report.skip(part, why)
        else:
            report.parts[part] = found
    python = options.msprobe_python
    if python is None and importlib.util.find_spec("msprobe"):
        python = sys.executable
    if python is None:
        report.skip("mindstudio-probe", "it is not installed here, and no --msprobe-python was given")
    own = [PLAIN, *(row for row in CAPTURES if row not in (BY_TORCH, TENSORS))]
    others = [DEBUG_MODE_LOG, DEBUG_MODE, *(MINDSTUDIO if python else []), TENSORS, BY_TORCH]
    names = [name for name in models.NAMES if options.only_model in name]
    # Of the other tools, all with one model before the next.
    for rows, chosen_names in [(own, names), *((others, [name]) for name in names)]:
        for name in chosen_names:
            for row in [row for row in rows if options.only_row in row]:
                chosen = python if row in MINDSTUDIO and python else sys.executable
                found, why = in_process(options, "--one", name, row, python=chosen)
                if found is None:
                    report.skip(f"{name}, {row}", why)
                    continue
                report.rows.append({"model": name, "row": row, **found})
                report.write()
                print(f"{name}, {row}: {found['with'] / found['without']:.2f}", flush=True)
    report.write()
    print(f"\n{report.table()}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--output", type=Path, help="the folder for the table, the numbers and the tests' output"
    )
    parser.add_argument("--seconds", type=float, default=480, help="everything ends within this time")
    parser.add_argument("--no-tests", dest="tests", action="store_false", help="measure only")
    parser.add_argument("--model", dest="only_model", default="", help="only models whose name contains this")
    parser.add_argument("--row", dest="only_row", default="", help="only rows whose name contains this")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the script")
    parser.add_argument("--msprobe-python", help="the Python of an environment with mindstudio-probe")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "ROW"), help=argparse.SUPPRESS)
    parser.add_argument("--bandwidth", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--launches", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.ends = time.monotonic() + options.seconds
    if options.output is None and options.device != "cpu":
        options.output = LAST_RUN
    if options.one:
        options.model, options.row = options.one
        print(json.dumps(measure_row(options)))
    elif options.bandwidth:
        print(json.dumps(measure_bandwidth(options)))
    elif options.launches:
        print(json.dumps(measure_launches(options)))
    else:
        measure_all(options)


if __name__ == "__main__":
    main()
