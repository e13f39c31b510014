"""What capture takes of the host for tensors of a GPU, where there is none.

    python benches/gpu/host_cost.py [--level L1] [--layers 24] [--steps 10] [--task statistics]

A decoder with the calls of GPT-2 medium and tensors of a few KiB trains on the CPU, without and with capture.
Its tensors pose as those of a GPU (tests/python/capture/posing_gpu.py), and the driver for tests takes the
launches without computing anything. Printed is the CPU time of the thread that runs the program, per step,
and how often it launched: what a launch costs in the GPU's driver is missing. For a profile:

    perf record -g -- python benches/gpu/host_cost.py
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python" / "capture"))

import posing_gpu  # noqa: E402


def measured(options: argparse.Namespace) -> None:
    """Trains without and with capture, in turns, in this process."""
    import models
    import torch

    import ulpscope

    torch.set_num_threads(1)
    gpu = posing_gpu.Gpu()
    torch.manual_seed(0)
    size = models.TINY._replace(layers=options.layers)
    model = models.Decoder(size, models.GptBlock)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    batch = torch.randint(size.vocabulary, (size.batch, size.length))
    with tempfile.TemporaryDirectory(prefix="host-cost-") as folder, ulpscope.capture(folder):
        # The GPU is prepared, and its numbers are checked.
        torch.sin(batch.float())
    gpu.idle(True)

    def train(end_step: object) -> list[float]:
        times = []
        for _ in range(options.steps + 2):
            begun = time.thread_time()
            optimizer.zero_grad()
            model(batch).backward()
            optimizer.step()
            end_step()  # type: ignore[operator]
            times.append(time.thread_time() - begun)
        return times[2:]

    rounds = []
    for _ in range(options.rounds):
        plain = statistics.median(train(lambda: None))
        settings = {"level": options.level, "task": options.task}
        with tempfile.TemporaryDirectory(prefix="host-cost-") as folder, contextlib.ExitStack() as stack:
            run = stack.enter_context(ulpscope.capture(folder, model=model, **settings))
            before = gpu.count("launches")
            with_capture = statistics.median(train(run.step))
            launches = (gpu.count("launches") - before) / (options.steps + 2)
        rounds.append((1000 * plain, 1000 * with_capture, launches))
    for plain, with_capture, launches in rounds:
        added = with_capture - plain
        print(f"without {plain:.1f} ms, with {with_capture:.1f}: {added:.1f} ms, {launches:.0f} launches")


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--level", default="L1")
    parser.add_argument("--task", default="statistics")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        measured(options)
        return
    with tempfile.TemporaryDirectory(prefix="host-cost-") as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--here"]
        environment = {**posing_gpu.environment(Path(folder)), "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
        sys.exit(subprocess.run(command, env={**os.environ, **environment}).returncode)


if __name__ == "__main__":
    main()
