"""Speed of the older tools' faces, by the formulas of their guides: `python benches/faces.py`.

dump      ptdbg_ascend: bytes of the dump / (step with dump - step without)
compare   ptdbg_ascend: bytes of both dumps / time of compare
sample    torch_npu.hooks: size and time of a step with sample=True and sample=False
async     torch_npu.hooks: time of a step with wrap_async_datadump_hook, beside the step alone

Figures are medians of wall time and, in brackets, of CPU time; the caches of the system are warm.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ulpscope.compat import ptdbg_ascend as ptdbg
from ulpscope.compat import torch_npu_hooks as hooks
from ulpscope.compat.torch_npu_hooks import dumping


def main() -> None:
    """Prints a line per figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--width", type=int, default=1024, help="features of the model")
    parser.add_argument("--repeat", type=int, default=5, help="runs per figure")
    options = parser.parse_args()
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(options.width, 8, 4 * options.width, batch_first=True)
    x = torch.randn(4, 128, options.width)

    def step() -> None:
        layer(x).sum().backward()

    step()
    alone, alone_cpu = _median(step, options.repeat)
    print(f"step       {alone:7.3f} s ({alone_cpu:.3f}) without a dump")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            dumped, dumped_cpu = _median(lambda: _dump_for_ptdbg(layer, step, "npu"), options.repeat)
            _dump_for_ptdbg(layer, step, "gpu")
            ptdbg.set_dump_path("unused")
            compared, compared_cpu = _median(_compare_for_ptdbg, options.repeat)
        size = _size(Path("npu")) / 1e9
        speeds = [size / (dumped - alone), size / (dumped_cpu - alone_cpu)]
        print(f"dump       {dumped:7.3f} s ({dumped_cpu:.3f}), {size:.3f} GB: ", end="")
        print(f"{speeds[0]:.2f} GB/s ({speeds[1]:.2f} per CPU second)")
        speeds = [2 * size / compared, 2 * size / compared_cpu]
        print(f"compare    {compared:7.3f} s ({compared_cpu:.3f}): ", end="")
        print(f"{speeds[0]:.2f} GB/s ({speeds[1]:.2f} per CPU second)")
        for sample in (True, False):
            taken, cpu = _median(lambda: _dump_for_hooks(layer, step, sample), options.repeat)  # noqa: B023
            written = _size(Path("a.pkl")) / 1e6
            print(f"sample     {taken:7.3f} s ({cpu:.3f}), {written:9.3f} MB with sample={sample}")
        taken, cpu = _median(lambda: _tensors_for_hooks(layer, step), options.repeat)
        print(f"async      {taken:7.3f} s ({cpu:.3f}), {_size(Path('output')) / 1e6:9.3f} MB")
        dumping.close()
        os.chdir("/")


def _dump_for_ptdbg(layer: torch.nn.Module, step: Callable[[], None], folder: str) -> None:
    ptdbg.set_dump_path(folder)
    ptdbg.register_hook(layer, ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON")
    step()
    ptdbg.set_dump_switch("OFF")


def _compare_for_ptdbg() -> None:
    Path("out").mkdir(exist_ok=True)
    sides = {side: next(Path(side).glob("*/rank0/dump.pkl")) for side in ("npu", "gpu")}
    ptdbg.compare(
        {
            "npu_pkl_path": sides["npu"],
            "bench_pkl_path": sides["gpu"],
            "npu_dump_data_dir": sides["npu"].with_suffix(""),
            "bench_dump_data_dir": sides["gpu"].with_suffix(""),
        },
        "out",
    )


def _dump_for_hooks(layer: torch.nn.Module, step: Callable[[], None], sample: bool) -> None:
    hooks.set_dump_path("a.pkl")
    hooks.register_hook(layer, hooks.wrap_acc_cmp_hook, sample=sample)
    step()
    dumping.close()


def _tensors_for_hooks(layer: torch.nn.Module, step: Callable[[], None]) -> None:
    hooks.register_hook(layer, hooks.wrap_async_datadump_hook, path="output")
    step()
    dumping.close()


def _median(work: Callable[[], None], repeat: int) -> tuple[float, float]:
    taken: list[tuple[float, float]] = []
    for _ in range(repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    walls, cpus = zip(*taken, strict=True)
    return statistics.median(walls), statistics.median(cpus)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


if __name__ == "__main__":
    main()
