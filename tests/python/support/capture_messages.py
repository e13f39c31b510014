"""Collectives and messages of two gloo ranks under capture, each in all its ways.

    python capture_messages.py RANK FOLDER

A scenario is a function that runs under a capture of its own, into FOLDER/{scenario}. Ranks meet in FOLDER.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed import all_reduce
from torch.distributed import broadcast as spread

import ulpscope

# Gloo learnt it with torch 2.2.
GATHERS_INTO_TENSORS = not torch.__version__.startswith(("2.0", "2.1."))

SCENARIOS: dict[str, Callable[[int], Any]] = {}


def scenario(function: Callable[[int], Any]) -> Callable[[int], Any]:
    """Puts a scenario on the list."""
    SCENARIOS[function.__name__] = function
    return function


def filled(rank: int, size: int = 4) -> torch.Tensor:
    return torch.full((size,), rank + 1.0)


def rubbish(size: int = 4) -> torch.Tensor:
    """What a buffer holds before it is received into."""
    return torch.full((size,), float("nan"))


@scenario
def blocking(rank: int) -> None:
    x = filled(rank)
    dist.all_reduce(x)
    dist.all_gather([rubbish(), rubbish()], filled(rank))
    dist.all_gather(tensor_list=[rubbish(), rubbish()], tensor=filled(rank))
    if GATHERS_INTO_TENSORS:
        dist.all_gather_into_tensor(rubbish(8), filled(rank))
    dist.broadcast(filled(rank), 0)
    dist.reduce(filled(rank), 0)
    dist.gather(filled(rank), [rubbish(), rubbish()] if rank == 0 else None)
    dist.scatter(rubbish(), [filled(5), filled(6)] if rank == 0 else None)
    dist.barrier()
    if rank == 0:
        dist.send(filled(rank), 1)
    else:
        dist.recv(rubbish(), 0)


@scenario
def object_lists(rank: int) -> None:
    dist.all_gather_object([None, None], {"rank": rank})
    dist.broadcast_object_list([{"rank": rank}], 0)


@scenario
def waited(rank: int) -> None:
    x = filled(rank)
    work = dist.all_reduce(x, async_op=True)
    torch.sin(torch.ones(2))
    work.wait()
    x.mul_(100)


@scenario
def waited_in_another_order(rank: int) -> None:
    a, b = filled(rank), filled(rank) * 10
    first, second = dist.all_reduce(a, async_op=True), dist.all_reduce(b, async_op=True)
    second.wait()
    b.zero_()
    first.wait()
    a.zero_()


@scenario
def asked(rank: int) -> None:
    x = filled(rank)
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        pass
    x.zero_()
    work.wait()


@scenario
def followed(rank: int) -> None:
    x = filled(rank)
    dist.all_reduce(x, async_op=True).get_future().wait()
    x.zero_()
    y = filled(rank)
    dist.all_reduce(y, async_op=True).get_future().then(lambda _: y.zero_()).wait()


@scenario
def never_waited(rank: int) -> Any:
    x = filled(rank)
    work = dist.all_reduce(x, async_op=True)
    dist.barrier()
    dist.barrier()
    return work, x


@scenario
def messages(rank: int) -> None:
    got = rubbish()
    works = [dist.isend(filled(rank), 1 - rank), dist.irecv(got, 1 - rank)]
    for work in works:
        work.wait()
    got.zero_()


BEFORE: list[Any] = []


@scenario
def batched(rank: int) -> None:
    """Also with messages that were made before capture began, and waited for in the opposite order."""
    got = rubbish()
    exchange = [dist.P2POp(dist.isend, filled(rank), 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
    for work in reversed(dist.batch_isend_irecv(exchange)):
        work.wait()
    got.zero_()
    for work in dist.batch_isend_irecv(BEFORE):
        work.wait()
    BEFORE[:] = exchange


@scenario
def imported(rank: int) -> None:
    all_reduce(filled(rank))
    spread(filled(rank), 0)


@scenario
def functionally(rank: int) -> None:
    reduced = functional.all_reduce(filled(rank), "sum", [0, 1])
    gathered = functional.all_gather_tensor(filled(rank), 0, [0, 1])
    (reduced + gathered.sum()).sum()


@scenario
def failing(rank: int) -> None:
    try:
        dist.all_reduce([filled(rank)])
    except (TypeError, RuntimeError):
        dist.all_reduce(filled(rank))


def main() -> None:
    """Runs every scenario on one rank."""
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    # Begun before there is a group, so before there is a rank.
    early = ulpscope.capture(folder / "early", level="L1", task="tensor")
    early.start()
    torch.sin(torch.full((2,), float(rank)))
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    torch.cos(torch.ones(2))
    early.step()
    torch.tan(torch.ones(2))
    early.close()
    BEFORE[:] = [
        dist.P2POp(dist.isend, filled(rank), 1 - rank),
        dist.P2POp(dist.irecv, rubbish(), 1 - rank),
    ]
    for level in ("L1", "mix", "L2"):
        for name, function in SCENARIOS.items():
            with ulpscope.capture(folder / f"{name}_{level}", level=level, strict=True) as run:
                kept = function(rank)
                run.step()
            del kept
            dist.barrier()
    # Messages made under capture are good without it.
    for work in dist.batch_isend_irecv(BEFORE):
        work.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
