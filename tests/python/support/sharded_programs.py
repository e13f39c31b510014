"""A small transformer in one process, and the same one on two gloo ranks in several ways.

    python sharded_programs.py RANK SIZE FOLDER

With SIZE 1 the golden runs are recorded, else those of one rank; ranks meet in FOLDER. Each run leaves a dump
of one step of training in FOLDER/{run}. One process makes all runs, since starting torch costs more than all
of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

import ulpscope

WIDTH, HEADS, LAYERS, WORDS, BATCH, LENGTH = 32, 4, 2, 40, 4, 6

# The weights of the column-parallel layers are cut by rows, those of the row-parallel ones by columns.
CUT_BY_ROWS = ("q.weight", "k.weight", "v.weight", "up.weight", "up.bias", "q.bias", "k.bias", "v.bias")
CUT_BY_COLUMNS = ("out.weight", "down.weight")


class Groups:
    """The groups of this rank; None is all ranks."""

    tensor: Any = None
    data: Any = None


class Copied(torch.autograd.Function):
    """The same values on every rank; their gradients are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=Groups.tensor)
        return gradient


class Summed(torch.autograd.Function):
    """The sum over ranks; the gradient goes to every rank."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total, group=Groups.tensor)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class RowParallel(nn.Linear):
    """Each rank has some columns of the weight, and adds its bias to the sum alone."""

    is_summed = True

    def forward(self, x: Tensor) -> Tensor:
        partial = functional.linear(x, self.weight)
        if self.is_summed:
            partial = Summed.apply(partial)
        return partial + self.bias


class Attention(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH // ranks) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH) if ranks == 1 else RowParallel(WIDTH // ranks, WIDTH)
        self.is_cut = ranks > 1

    def forward(self, x: Tensor) -> Tensor:
        if self.is_cut:
            x = Copied.apply(x)
        heads = WIDTH // HEADS
        q, k, v = (one(x).unflatten(-1, (-1, heads)).transpose(1, 2) for one in (self.q, self.k, self.v))
        scores = torch.softmax(q @ k.transpose(-1, -2) / heads**0.5, dim=-1)
        return self.out((scores @ v).transpose(1, 2).flatten(2))


class Perceptron(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH // ranks)
        self.down = nn.Linear(2 * WIDTH, WIDTH) if ranks == 1 else RowParallel(2 * WIDTH // ranks, WIDTH)
        self.is_cut = ranks > 1

    def forward(self, x: Tensor) -> Tensor:
        if self.is_cut:
            x = Copied.apply(x)
        return self.down(functional.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self, ranks: int) -> None:
        super().__init__()
        self.before, self.attention = nn.LayerNorm(WIDTH), Attention(ranks)
        self.between, self.mlp = nn.LayerNorm(WIDTH), Perceptron(ranks)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class Transformer(nn.Module):
    def __init__(self, ranks: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(ranks) for _ in range(LAYERS))
        self.last, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        x = self.words(words)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.last(x))


def whole() -> Transformer:
    """The model of the golden, with biases and norms that are not trivial."""
    torch.manual_seed(3)
    model = Transformer()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    words = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=generator)
    return words[:, :-1], words[:, 1:]


def part(batch: tuple[Tensor, Tensor], rank: int, size: int) -> tuple[Tensor, Tensor]:
    return tuple(one.chunk(size)[rank] for one in batch)


def shard(name: str, value: Tensor, rank: int, size: int) -> Tensor:
    if name.endswith(CUT_BY_ROWS):
        return value.chunk(size, 0)[rank]
    return value.chunk(size, 1)[rank] if name.endswith(CUT_BY_COLUMNS) else value


def stale(value: Tensor) -> None:
    """As it was some steps of training ago."""
    with torch.no_grad():
        value.add_(0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))


def train(model: nn.Module, inputs: tuple[Tensor, Tensor], dump: Path, **settings: Any) -> None:
    """One step of training, recorded."""
    words, following = inputs
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        loss = functional.cross_entropy(model(words).flatten(0, 1), following.flatten())
        loss.backward()
        if Groups.data is not None:
            average(model)
        optimizer.step()
        run.step()


def average(model: nn.Module) -> None:
    """Averages gradients over the ranks that share the batch."""
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=Groups.data)
        parameter.grad /= dist.get_world_size(Groups.data)


def by_hand(rank: int, size: int, fault: str) -> nn.Module:
    """Column- and row-parallel layers with collectives of our own."""
    golden = whole().state_dict()
    model = Transformer(size)
    source = 0 if fault == "twice" else rank
    for name, parameter in model.named_parameters():
        is_twice = name == "layers.0.mlp.down.weight"
        parameter.data.copy_(shard(name, golden[name], source if is_twice else rank, size))
    if fault == "stale" and rank == 1:
        stale(model.layers[1].attention.q.weight)
    if fault == "stale_replica" and rank == 1:
        stale(model.layers[1].between.weight)
    if fault == "unreduced":
        model.layers[0].mlp.down.is_summed = False
    return model


def by_torch(rank: int, size: int, fault: str) -> nn.Module:
    """The same by torch's plans for tensor parallelism, with parameters that are DTensors."""
    model = whole()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
    for layer in model.layers:
        plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {
            "mlp.up": ColwiseParallel(),
            "attention.out": RowwiseParallel(),
            "mlp.down": RowwiseParallel(),
        }
        parallelize_module(layer, mesh, plan)
    if fault == "stale" and rank == 1:
        stale(local(model.layers[1].attention.q.weight.data))
    if fault == "stale_replica" and rank == 1:
        stale(local(model.layers[1].between.weight.data))
    if fault == "twice" and rank == 1:
        first = whole().layers[0].mlp.down.weight.data.chunk(size, 1)[0]
        local(model.layers[0].mlp.down.weight.data).copy_(first)
    if fault == "unreduced":
        keep_partial(model.layers[0].mlp.down)
    return model


def local(parameter: Tensor) -> Tensor:
    return parameter.to_local() if isinstance(parameter, DTensor) else parameter


def keep_partial(layer: nn.Module) -> None:
    """Hands on the local part of a result that is to be summed."""
    layer._forward_hooks.clear()
    layer.register_forward_hook(lambda module, inputs, output: output.to_local())


def fully_sharded(rank: int, size: int, fault: str) -> nn.Module:
    """FSDP2: every rank has a part of each parameter, and of the batch."""
    model = whole()
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("dp",))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    weight = model.layers[0].mlp.down.weight.data
    if fault == "stale" and rank == 1:
        stale(weight.to_local())
    if fault == "twice" and rank == 1:
        weight.to_local().copy_(whole().layers[0].mlp.down.weight.data.chunk(size, 0)[0])
    return model


def replicated(rank: int, size: int, fault: str) -> nn.Module:
    """DistributedDataParallel."""
    model = nn.parallel.DistributedDataParallel(whole(), broadcast_buffers=False)
    if fault == "stale" and rank == 1:
        stale(model.module.layers[0].mlp.down.weight.data)
    return model


def in_a_grid(rank: int, size: int, fault: str) -> nn.Module:
    """Four ranks: neighbours share tensors, and the two pairs share the batch."""
    model = by_hand(rank % 2, 2, "healthy")
    if fault == "stale" and rank == 3:
        stale(model.layers[1].attention.q.weight)
    return model


def enter_grid(rank: int) -> None:
    for group in ([0, 1], [2, 3]):
        made = dist.new_group(group)
        Groups.tensor = made if rank in group else Groups.tensor
    for group in ([0, 2], [1, 3]):
        made = dist.new_group(group)
        Groups.data = made if rank in group else Groups.data


RUNS: dict[str, tuple[Callable[[int, int, str], nn.Module], bool, tuple[str, ...]]] = {
    "by_hand": (by_hand, False, ("healthy", "unreduced", "twice", "stale", "stale_replica")),
    "by_torch": (by_torch, False, ("healthy", "unreduced", "twice", "stale", "stale_replica")),
    "fully_sharded": (fully_sharded, True, ("healthy", "twice", "stale")),
    "replicated": (replicated, True, ("healthy", "stale")),
}

TASKS = ("tensor", "statistics")


def main() -> None:
    """Makes all runs of one rank."""
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    wanted = list(RUNS)
    torch.set_num_threads(1)
    if size == 1:
        for task in TASKS:
            train(whole(), batch(), folder / f"golden_{task}", task=task)
        return
    meeting = f"file://{folder / f'meeting{size}'}"
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    if size == 4:
        enter_grid(rank)
        for fault in ("healthy", "stale"):
            inputs = part(batch(), rank // 2, 2)
            for task in TASKS:
                train(in_a_grid(rank, size, fault), inputs, folder / f"in_a_grid_{fault}_{task}", task=task)
        wanted = []
    for name in wanted:
        make, is_cut, faults = RUNS[name]
        inputs = part(batch(), rank, size) if is_cut else batch()
        for fault in faults:
            for task in TASKS:
                train(make(rank, size, fault), inputs, folder / f"{name}_{fault}_{task}", task=task)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
