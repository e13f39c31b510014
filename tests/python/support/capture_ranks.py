"""Distributed programs on two gloo ranks, each run without capture and under capture at every level.

    python capture_ranks.py RANK FOLDER

Both ranks are started side by side and meet in FOLDER. One pair of processes runs everything, since starting
torch costs more than all programs together. A rank leaves FOLDER/rank{R}.json: what differed, by program.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

import ulpscope
from capture_programs import changed, fingerprint, unwatched
from capture_programs.registry import Observed, Watch, train
from patches import left_behind, snapshot

try:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
except ImportError:
    # Torch before 2.6: distributed tensors are a prototype, and FSDP needs another device than the CPU.
    DTensor = None

LEVELS = ("L0", "L1", "mix", "L2")


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))


def batches() -> list[Tensor]:
    """Other ones on each rank."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    return [torch.randn(3, 4, generator=generator) for _ in range(2)]


def replicated(watch: Watch) -> Observed:
    """DistributedDataParallel, its hooks and reducer."""
    model = DistributedDataParallel(network(), bucket_cap_mb=1)
    return train(watch, model, batches(), lambda batch: model(batch).square().sum())


def replicated_accumulating(watch: Watch) -> Observed:
    model = DistributedDataParallel(network(), gradient_as_bucket_view=True, static_graph=False)

    def loss_of(batch: Tensor) -> Tensor:
        with model.no_sync():
            model(batch * 2).sum().backward()
        return model(batch).square().sum()

    return train(watch, model, batches(), loss_of)


def whole(value: Tensor) -> Tensor:
    return value.full_tensor() if isinstance(value, DTensor) else value


def sharded_wrapper(watch: Watch) -> Observed:
    """The first FSDP: flat parameters whose storage comes and goes."""
    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"), use_orig_params=True)
    return train(watch, model, batches(), lambda batch: model(batch).square().sum())


def sharded(watch: Watch) -> Observed:
    """The second: parameters are distributed tensors."""
    model = network()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    with watch(model) as run:
        for batch in batches():
            optimizer.zero_grad()
            loss = model(batch).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            run.step()
    parameters = [whole(parameter.detach()) for parameter in model.parameters()]
    return {"losses": losses, "parameters": parameters}


def distributed_tensors(watch: Watch) -> Observed:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with watch(None) as run:
        rows = distribute_tensor(torch.arange(16.0).reshape(4, 4), mesh, [Shard(0)])
        columns = distribute_tensor(torch.eye(4) * 2, mesh, [Replicate()])
        product = (rows @ columns).redistribute(mesh, [Replicate()])
        run.step()
    return {"product": product.to_local()}


def collectives(watch: Watch) -> Observed:
    """Every collective, blocking or not, and messages between two ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    made: list[Tensor] = []
    with watch(None) as run:
        for _ in range(2):
            x = torch.arange(4.0) + rank
            dist.all_reduce(x)
            pending = dist.all_reduce(x, op=dist.ReduceOp.MAX, async_op=True)
            pending.wait()
            parts = [torch.empty(4) for _ in range(size)]
            dist.all_gather(parts, x)
            joined = torch.empty(4 * size)
            if DTensor is not None:
                dist.all_gather_into_tensor(joined, x)
            else:
                joined.zero_()
            dist.broadcast(x, src=0)
            dist.reduce(x, dst=1)
            gathered = [torch.empty(4) for _ in range(size)] if rank == 0 else None
            dist.gather(x, gathered)
            scattered = torch.empty(4)
            dist.scatter(scattered, [x, x + 1] if rank == 0 else None)
            received = torch.empty(2)
            if rank == 0:
                dist.send(x[:2].clone(), dst=1)
                dist.recv(received, src=1)
            else:
                dist.recv(received, src=0)
                dist.send(x[:2].clone(), dst=0)
            other = torch.zeros(2)
            exchange = [
                dist.P2POp(dist.isend, received + 1, 1 - rank),
                dist.P2POp(dist.irecv, other, 1 - rank),
            ]
            for work in dist.batch_isend_irecv(exchange):
                work.wait()
            objects: list[object] = [None] * size
            dist.all_gather_object(objects, {"rank": rank})
            dist.barrier()
            made += [x, *parts, joined, *(gathered or []), scattered, received, other]
            run.step()
    return {"made": made, "objects": str(objects)}


PROGRAMS: list[Callable[[Watch], Observed]] = [
    replicated,
    replicated_accumulating,
    collectives,
    *([] if DTensor is None else [sharded_wrapper, sharded, distributed_tensors]),
]


def run(program: Callable[[Watch], Observed], watch: Watch) -> tuple[Observed, int]:
    """What a program leads to, and how many process groups it makes."""
    torch.manual_seed(5)
    before = dist.distributed_c10d._group_count
    observed = fingerprint(program(watch))
    return observed, dist.distributed_c10d._group_count - before


def main() -> None:
    """Runs everything on one rank."""
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=2,
        timeout=timedelta(seconds=60),
    )
    found: dict[str, list[str]] = {}
    for program in PROGRAMS:
        alone, groups_alone = run(program, unwatched)
        for level in LEVELS:
            before = snapshot()
            dumps = folder / f"{program.__name__}_{level}"
            watched, groups = run(
                program,
                lambda model, dumps=dumps, level=level: ulpscope.capture(dumps, model=model, level=level),
            )
            found[f"{program.__name__} {level}"] = [
                *changed(alone, watched, level),
                *left_behind(before, snapshot()),
                *(
                    []
                    if groups == groups_alone
                    else [f"makes {groups} groups, {groups_alone} without capture"]
                ),
            ]
    (folder / f"rank{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
