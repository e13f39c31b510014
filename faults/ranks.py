"""Two processes that train one model together, and a sum over both that one of them never gets.

    python -m faults.ranks RANK FOLDER MODEL SEED BENIGN TASK MISSING

Each process takes half of the batch; after the backward pass every gradient is summed over both. In the
process ``FAULTY_RANK`` the sum number MISSING (none: -1) leaves its buffer as it was.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch.distributed as dist
from torch import Tensor

import ulpscope
from faults.benign import BENIGN, PLAIN, ULPS, threads
from faults.models import Program, build

Task = Literal["tensor", "statistics"]
TASKS: tuple[Task, ...] = ("tensor", "statistics")

RANKS = 2
FAULTY_RANK = 1
MODELS = ("gpt", "convnet")
SUM = "Distributed.all_reduce"


def capture(model: str, seed: int, benign: str, task: Task, missing: int, dump: Path) -> None:
    """Leaves the dump of both processes."""
    dump.mkdir(parents=True)
    arguments = [str(dump), model, str(seed), benign, task, str(missing)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "faults.ranks", str(rank), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "RANK": str(rank), "WORLD_SIZE": str(RANKS)},
        )
        for rank in range(RANKS)
    ]
    printed = [process.communicate()[0] for process in processes]
    (dump / "meeting").unlink(missing_ok=True)
    if any(process.returncode for process in processes):
        raise RuntimeError("expected both processes to end well, found:\n" + "\n".join(printed))


def parameters(model: str) -> int:
    """How many sums there are."""
    return len(list(build(model, 0).model.parameters()))


def _missing_once(original: Callable[..., Any], number: int) -> Callable[..., Any]:
    count = 0

    def all_reduce(tensor: Tensor) -> None:
        nonlocal count
        own = tensor.clone()
        original(tensor)
        if count == number:
            tensor.copy_(own)
        count += 1

    return all_reduce


def _step(program: Program) -> None:
    program.step()
    for parameter in program.model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= RANKS


def _main(rank: int, dump: Path, model: str, seed: int, benign: str, task: Task, missing: int) -> None:
    change = {**BENIGN, PLAIN.name: PLAIN, ULPS.name: ULPS}[benign]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{dump}/meeting",
        rank=rank,
        world_size=RANKS,
        timeout=timedelta(seconds=120),
    )
    program = build(model, seed)
    program.inputs, program.wanted = (
        whole.chunk(RANKS)[rank].contiguous() for whole in (program.inputs, program.wanted)
    )
    change.prepare(program)
    if rank == FAULTY_RANK and missing >= 0:
        # Below the recorder, which wraps what it finds.
        dist.all_reduce = _missing_once(dist.all_reduce, missing)
    with (
        threads(1),
        change.around(),
        ulpscope.capture(dump, model=program.model, level="mix", task=task, file_format="pt"),
    ):
        _step(program)
    dist.destroy_process_group()


if __name__ == "__main__":
    _main(
        int(sys.argv[1]),
        Path(sys.argv[2]),
        sys.argv[3],
        int(sys.argv[4]),
        sys.argv[5],
        next(task for task in TASKS if task == sys.argv[6]),
        int(sys.argv[7]),
    )
