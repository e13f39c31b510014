"""Training as it is done with torch, in one process and on several gloo ranks, recorded.

    python sharded_training.py RANK SIZE FOLDER

Each run has what sharded_programs.py leaves out: AdamW without ``foreach`` over two steps, gradients that
are clipped, a vocabulary that is cut by hand, and FSDP2 over tensor parallelism. With SIZE 1 the golden runs
are recorded, else those of one rank; ranks meet in FOLDER.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

import sharded_programs as programs
import ulpscope
from sharded_programs import WIDTH, WORDS, Groups, batch, local, part, shard, stale

TASKS = ("tensor", "statistics")


def without_key_bias(model: programs.Transformer) -> programs.Transformer:
    """Softmax ignores it: its gradient is rounding alone, of which AdamW makes whole steps."""
    for layer in model.layers:
        layer.attention.k.bias = None
    return model


def whole() -> programs.Transformer:
    """The model of the golden."""
    return without_key_bias(programs.whole())


class CutVocabulary(nn.Embedding):
    """Each rank has some rows, and knows only the words of these."""

    def forward(self, words: Tensor) -> Tensor:
        first = dist.get_rank(Groups.tensor) * self.num_embeddings
        is_foreign = (words < first) | (words >= first + self.num_embeddings)
        rows = functional.embedding((words - first).masked_fill(is_foreign, 0), self.weight)
        return programs.Summed.apply(rows.masked_fill(is_foreign[..., None], 0.0))


def train(
    model: nn.Module,
    inputs: tuple[Tensor, Tensor],
    dump: Path,
    *,
    steps: int = 1,
    clip: bool = False,
    **settings: Any,
) -> None:
    """Steps of training with AdamW, recorded."""
    words, following = inputs
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        for _ in range(steps):
            optimizer.zero_grad()
            functional.cross_entropy(model(words).flatten(0, 1), following.flatten()).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            run.step()


def cut_by_hand(rank: int, size: int, fault: str) -> nn.Module:
    """Tensor parallelism by hand, and a vocabulary that is cut too."""
    golden = whole().state_dict()
    model = without_key_bias(programs.Transformer(size))
    model.words = CutVocabulary(WORDS // size, WIDTH)
    for name, parameter in model.named_parameters():
        value = (
            golden[name].chunk(size)[rank]
            if name == "words.weight"
            else shard(name, golden[name], rank, size)
        )
        parameter.data.copy_(value)
    if fault == "unreduced":
        model.layers[1].mlp.down.is_summed = False
    return model


def fully_sharded(mesh: Any) -> nn.Module:
    """FSDP2."""
    model = whole()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def by_torch_in_a_grid(mesh: Any, rank: int, fault: str) -> nn.Module:
    """FSDP2 of what torch's tensor parallelism has cut."""
    model = whole()
    for layer in model.layers:
        plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"}
        plan |= {
            "mlp.up": ColwiseParallel(),
            "attention.out": RowwiseParallel(),
            "mlp.down": RowwiseParallel(),
        }
        parallelize_module(layer, mesh["tp"], plan)
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    if fault == "stale" and rank == 3:
        stale(local(model.layers[1].mlp.up.weight.data))
    return model


def main() -> None:
    """Makes all runs of one rank."""
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    if size == 1:
        for task in TASKS:
            train(whole(), batch(), folder / f"golden_{task}", steps=2, task=task)
        train(whole(), batch(), folder / "golden_clipped_tensor", clip=True, task="tensor")
        return
    meeting = f"file://{folder / f'meeting{size}'}"
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    if size == 2:
        inputs = part(batch(), rank, size)
        for task in TASKS:
            train(cut_by_hand(rank, size, ""), batch(), folder / f"by_hand_{task}", steps=2, task=task)
        train(
            cut_by_hand(rank, size, "unreduced"), batch(), folder / "unreduced_statistics", task="statistics"
        )
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        train(fully_sharded(mesh), inputs, folder / "fully_sharded_tensor", steps=2, task="tensor")
        train(fully_sharded(mesh), inputs, folder / "fully_sharded_clipped_tensor", clip=True, task="tensor")
    else:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        inputs = part(batch(), rank // 2, 2)
        for fault in ("healthy", "stale"):
            train(
                by_torch_in_a_grid(mesh, rank, fault), inputs, folder / f"grid_{fault}_tensor", task="tensor"
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
