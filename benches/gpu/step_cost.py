"""What capture costs on a GPU: the time of a training step with it, divided by that of the same step without.

    python benches/gpu/step_cost.py [--output FILE] [--model TEXT] [--row TEXT] [--steps N]
                                    [--msprobe-python PYTHON] [--tiny --device cpu]

One table, medians of warm steps: GPT-2 medium, a Llama-shaped model of 1 B parameters, ResNet-50; bf16,
fused AdamW. Each row is a process, which trains the same model twice: without and with. Losses, gradients and
parameters have to be equal bit for bit. "memory" is what the peak of allocated memory grew by. The last lines
are the speed at which a tensor of 1 GiB is measured, and that of a copy. DebugMode is torch's own;
mindstudio-probe is measured where the Python of an environment with it is given. `--tiny --device cpu` tries
the script without a GPU: its times mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import shutil
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

# Settings of ulpscope.capture by row; None: constructed, not started.
CAPTURES: dict[str, dict[str, Any] | None] = {
    "L0": {"level": "L0"},
    "L1": {"level": "L1"},
    "L1 + digest": {"level": "L1", "digest": "xxh3"},
    "mix": {"level": "mix"},
    "L1, on the host": {"level": "L1", "device_statistics": "host"},
    "constructed, not started": None,
}
DEBUG_MODE = "DebugMode"
MINDSTUDIO = {"mindstudio-probe L0": "L0", "mindstudio-probe L1": "L1", "mindstudio-probe mix": "mix"}
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
    """Logs with torch's DebugMode, with hashes of outputs."""
    from torch.utils._debug_mode import DebugMode

    with DebugMode() as mode, mode.log_tensor_hashes():
        yield lambda: None


@contextlib.contextmanager
def mindstudio_row(row: str, model: torch.nn.Module, folder: str) -> Iterator[EndStep]:
    """Records with mindstudio-probe."""
    from msprobe.pytorch import PrecisionDebugger

    config = Path(folder) / "config.json"
    config.parent.mkdir(parents=True, exist_ok=True)
    section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"}
    common = {"task": "statistics", "dump_path": folder, "rank": [], "step": [], "level": MINDSTUDIO[row]}
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
    if row == DEBUG_MODE:
        return debug_mode_row
    return mindstudio_row if row in MINDSTUDIO else ulpscope_row


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def peak(device: str) -> int:
    return 0 if device == "cpu" else torch.cuda.max_memory_allocated()


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
    tensors = [*losses, *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())]
    return {"times": times[WARM:], "peak": peak(device), "tensors": [tensor.cpu() for tensor in tensors]}


def measure_row(options: argparse.Namespace) -> dict[str, Any]:
    """One row, in this process."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    with tempfile.TemporaryDirectory(prefix="step-cost-") as folder:
        plain = train(options, None, folder)
        with_tool = train(options, tool_of(options.row), f"{folder}/dump")
        pairs = zip(plain["tensors"], with_tool["tensors"], strict=True)
        return {
            "without": statistics.median(plain["times"]),
            "with": statistics.median(with_tool["times"]),
            "memory": with_tool["peak"] - plain["peak"],
            "is_same": all(torch.equal(one, other) for one, other in pairs),
        }


def measure_bandwidth(options: argparse.Namespace) -> dict[str, Any]:
    """Bytes per second of measuring a tensor, and of a copy.

    The former is the cost of a recorded call that computes nothing.
    """
    import ulpscope

    size = 1 << 20 if options.tiny else 1 << 30
    found = {}
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.ones(size // dtype.itemsize, dtype=dtype, device=options.device)
        target = torch.empty_like(x)

        def seconds(body: Callable[[], Any], times: int = 10) -> float:
            measured = []
            for _ in range(times):
                synchronize(options.device)
                begun = time.perf_counter()
                body()
                synchronize(options.device)
                measured.append(time.perf_counter() - begun)
            return statistics.median(measured[2:])

        copy = seconds(lambda target=target, x=x: target.copy_(x))
        plain = seconds(lambda x=x: torch.atleast_1d(x))
        folder = tempfile.mkdtemp(prefix="step-cost-")
        with ulpscope.capture(folder):
            recorded = seconds(lambda x=x: torch.atleast_1d(x))
        shutil.rmtree(folder)
        # The call has one argument and one result; a copy reads and writes.
        rates = {"measured": 2 * size / max(recorded - plain, 1e-9), "copied": 2 * size / copy}
        found[str(dtype).removeprefix("torch.")] = rates
    return found


def in_process(
    options: argparse.Namespace, *arguments: str, python: str = sys.executable
) -> dict[str, Any] | None:
    """The result of one row, measured in a process of its own; None if it failed."""
    common = ["--steps", str(options.steps), "--device", options.device]
    command = [python, __file__, *arguments, *common, *(["--tiny"] if options.tiny else [])]
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode != 0:
        last = ended.stderr.strip().splitlines()[-1:] or ["no message"]
        print(f"{' '.join(arguments)} failed: {last[0]}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def machine(device: str) -> str:
    name = platform.processor() or platform.machine() if device == "cpu" else torch.cuda.get_device_name()
    return f"{name}, torch {torch.__version__}"


def measure_all(options: argparse.Namespace) -> str:
    """The table."""
    lines = [machine(options.device), ""]
    lines += [
        "| model | row | without | with | ratio | goal | memory | same bits |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = [*CAPTURES, DEBUG_MODE, *(MINDSTUDIO if options.msprobe_python else [])]
    for name in [name for name in models.NAMES if options.only_model in name]:
        for row in [row for row in rows if options.only_row in row]:
            python = options.msprobe_python if row in MINDSTUDIO else sys.executable
            found = in_process(options, "--one", name, row, python=python)
            if found is None:
                lines.append(f"| {name} | {row} | | | failed | | | |")
                continue
            goals = dict(zip(models.NAMES, GOALS.get(row, ()), strict=False))
            lines.append(
                f"| {name} | {row} | {1000 * found['without']:.1f} ms | {1000 * found['with']:.1f} ms "
                f"| {found['with'] / found['without']:.2f} | {goals.get(name, '')} "
                f"| {found['memory'] / (1 << 20):.0f} MiB | {'yes' if found['is_same'] else 'NO'} |"
            )
            print(lines[-1], flush=True)
    rates = in_process(options, "--bandwidth")
    for dtype, rate in (rates or {}).items():
        share = rate["measured"] / rate["copied"]
        lines.append("")
        lines.append(
            f"1 GiB of {dtype}: measured at {rate['measured'] / 1e12:.2f} TB/s, copied at "
            f"{rate['copied'] / 1e12:.2f} TB/s (read and written): {share:.2f}"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    parser.add_argument("--model", dest="only_model", default="", help="only models whose name contains this")
    parser.add_argument("--row", dest="only_row", default="", help="only rows whose name contains this")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the script")
    parser.add_argument("--msprobe-python", help="the Python of an environment with mindstudio-probe")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "ROW"), help=argparse.SUPPRESS)
    parser.add_argument("--bandwidth", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        options.model, options.row = options.one
        print(json.dumps(measure_row(options)))
    elif options.bandwidth:
        print(json.dumps(measure_bandwidth(options)))
    else:
        table = measure_all(options)
        print(f"\n{table}")
        if options.output:
            options.output.write_text(table)


if __name__ == "__main__":
    main()
