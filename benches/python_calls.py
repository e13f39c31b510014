"""The cost of a call from Python, compared with torch's own functions for the same numbers.

Rounds of all measurements are interleaved and the median of each is reported, so that other load on the
machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable

import torch

import ulpscope

ROUNDS = 15


def torch_five_calls(x: torch.Tensor) -> tuple[float, float, float, float, int]:
    """The numbers that the older tools record, and the count of NaN, as Python numbers."""
    return (
        torch.amax(x).item(),
        torch.amin(x).item(),
        torch.mean(x).item(),
        torch.norm(x).item(),
        int(torch.isnan(x).sum().item()),
    )


def seconds_per_call(run: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def compare(title: str, x: torch.Tensor, calls: int) -> None:
    ways: dict[str, Callable[[], object]] = {
        "ulpscope.stats": lambda: ulpscope.stats(x),
        "torch, five calls": lambda: torch_five_calls(x),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, run in ways.items():
            times[name].append(seconds_per_call(run, calls))
    ours, theirs = (statistics.median(times[name]) for name in ways)
    speed = x.numel() * x.element_size() / ours / 1e9
    row = f"{title:<28} {ours * 1e6:>12.2f} us {theirs * 1e6:>12.2f} us {theirs / ours:>8.1f} x"
    print(f"{row} {speed:>8.1f} GB/s")


def gil_is_free() -> str:
    """The progress of a second thread while a large tensor is measured, compared with its progress alone."""
    x = torch.randn(1 << 27)
    counts = [0]
    stop = threading.Event()

    def count() -> None:
        while not stop.is_set():
            counts[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    time.sleep(0.2)
    before, start = counts[0], time.perf_counter()
    ulpscope.stats(x)
    during, took = counts[0] - before, time.perf_counter() - start
    stop.set()
    thread.join()
    return f"another Python thread counted to {during} in the {took * 1e3:.0f} ms of one call"


def main() -> None:
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    torch.set_num_threads(threads)
    print(f"torch {torch.__version__} with {threads} thread(s); median of {ROUNDS} interleaved rounds")
    print(f"{'tensor':<28} {'ulpscope':>15} {'torch':>15} {'ratio':>10}")
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        name = str(dtype).removeprefix("torch.")
        small = torch.randn(4096 // dtype.itemsize).to(dtype)
        compare(f"{name}, 4 KiB", small, 20_000)
        compare(f"{name}, 1 MiB", torch.randn((1 << 20) // dtype.itemsize).to(dtype), 200)
    compare("float32, 256 MiB", torch.randn(1 << 26), 1)
    print(gil_is_free())


if __name__ == "__main__":
    main()
