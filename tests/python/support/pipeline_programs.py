"""A small transformer in one process, and the same one in stages on two or four gloo ranks.

    python pipeline_programs.py RANK SIZE FOLDER

With SIZE 1 the golden runs are recorded, else those of one rank; ranks meet in FOLDER. Each run leaves a dump
of one step of training in FOLDER/{run}. One process makes all runs, since starting torch costs more than all
of them.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.nn import functional

import ulpscope
from sharded_programs import WIDTH, WORDS, Groups, Layer, batch, shard, stale

LAYERS, STAGES, PIECES = 4, 2, 2
TASKS = ("tensor", "statistics")


class Part(nn.Module):
    """Some layers of the model, with the embedding before the first and the head after the last."""

    def __init__(self, layers: range, *, ranks: int = 1, names: str = "own", tied: bool = False) -> None:
        super().__init__()
        if layers.start == 0 or (tied and layers.stop == LAYERS):
            self.words = nn.Embedding(WORDS, WIDTH)
        # Layers have the names that they have in the whole model, or those of their places in the stage.
        first = 0 if names == "own" else layers.start
        self.layers = nn.ModuleDict({str(first + at): Layer(ranks) for at in range(len(layers))})
        if layers.stop == LAYERS:
            self.last = nn.LayerNorm(WIDTH)
            self.head = None if tied else nn.Linear(WIDTH, WORDS)
        self.is_first, self.is_last = layers.start == 0, layers.stop == LAYERS

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self.words(x)
        for layer in self.layers.values():
            x = layer(x)
        if not self.is_last:
            return x
        x = self.last(x)
        return functional.linear(x, self.words.weight) if self.head is None else self.head(x)


def whole(*, tied: bool = False) -> Part:
    """The model of the golden, with biases and norms that are not trivial."""
    torch.manual_seed(3)
    model = Part(range(LAYERS), tied=tied)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def layers_of(stage: int) -> range:
    each = LAYERS // STAGES
    return range(stage * each, (stage + 1) * each)


def stage_model(stage: int, *, fault: str = "", place: int = 0, ranks: int = 1, **settings: Any) -> Part:
    """The layers of a stage, with the parameters of the whole model."""
    golden = whole(tied=settings.get("tied", False)).state_dict()
    model = Part(layers_of(stage), ranks=ranks, **settings)
    own = model.state_dict()
    first = layers_of(stage).start if settings.get("names", "own") == "own" else 0
    loaded = layers_of(1 - stage).start - layers_of(stage).start if fault == "swapped" else 0
    for name, parameter in own.items():
        wanted = name
        if name.startswith("layers."):
            _, number, rest = name.split(".", 2)
            wanted = f"layers.{int(number) + first + loaded}.{rest}"
        parameter.copy_(shard(name, golden[wanted], place, ranks) if ranks > 1 else golden[wanted])
    return model


def loss_of(result: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(result.flatten(0, 1), following.flatten())


def optimizer_of(model: nn.Module, grouped: bool) -> torch.optim.Optimizer:
    """Updates parameters one by one, or by calls that each get all of them."""
    if grouped:
        return torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    return torch.optim.SGD(model.parameters(), lr=0.1)


def train_whole(dump: Path, *, tied: bool = False, grouped: bool = False, **settings: Any) -> None:
    """One step of training in one process."""
    words, following = batch()
    model = whole(tied=tied)
    optimizer = optimizer_of(model, grouped)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        loss_of(model(words), following).backward()
        optimizer.step()
        run.step()


class Neighbours:
    """The ranks that have the stages before and after this one."""

    def __init__(self, rank: int, stage: int, step: int) -> None:
        self.before, self.after = rank - step, rank + step
        self.is_first, self.is_last = stage == 0, stage == STAGES - 1
        self.messages: list[tuple[dist.Work, Tensor]] = []

    def send(self, values: Tensor, to: int) -> None:
        """Returns at once: two ranks that wait for each other's sends would wait for ever."""
        self.messages.append((dist.isend(values, dst=to), values))

    def finish(self) -> None:
        for message, _ in self.messages:
            message.wait()


def forward(model: Part, words: Tensor, neighbours: Neighbours) -> tuple[Tensor, Tensor]:
    """What a stage receives, and what it makes of it."""
    received = words
    if not neighbours.is_first:
        received = torch.empty(*words.shape, WIDTH)
        dist.recv(received, src=neighbours.before)
        received.requires_grad_()
    made = model(received)
    if not neighbours.is_last:
        neighbours.send(made.detach(), neighbours.after)
    return received, made


def backward(piece: tuple[Tensor, Tensor], loss: Tensor | None, neighbours: Neighbours, fault: str) -> None:
    """Receives the gradient of what a stage made, and sends that of what it received."""
    received, made = piece
    if loss is None:
        gradient = torch.zeros_like(made)
        if fault == "no_gradient":
            return
        if fault != "zero_gradient":
            dist.recv(gradient, src=neighbours.after)
        made.backward(gradient)
    else:
        loss.backward()
    if not neighbours.is_first and fault not in ("no_gradient", "zero_gradient"):
        assert received.grad is not None
        neighbours.send(received.grad, neighbours.before)


def train_by_hand(model: Part, neighbours: Neighbours, fault: str, *, alternating: bool, tied: bool) -> None:
    """Every piece of the batch forward, then backward; or backward as soon as a gradient arrives."""
    words, following = batch()
    pieces = list(zip(words.chunk(PIECES), following.chunk(PIECES), strict=True))
    if fault == "lost":
        pieces = pieces[:-1]
    divisor = 1 if fault == "undivided" else PIECES
    waiting: list[tuple[tuple[Tensor, Tensor], Tensor | None]] = []
    ahead = 0 if alternating and neighbours.is_last else 1 if alternating else len(pieces)
    for some_words, some_following in pieces:
        piece = forward(model, some_words, neighbours)
        loss = loss_of(piece[1], some_following) / divisor if neighbours.is_last else None
        waiting.append((piece, loss))
        if len(waiting) > ahead:
            backward(*waiting.pop(0), neighbours, fault)
    while waiting:
        backward(*waiting.pop(0), neighbours, fault)
    neighbours.finish()
    if tied and fault != "unsummed":
        dist.all_reduce(model.words.weight.grad)


def by_hand(
    rank: int,
    dump: Path,
    fault: str,
    *,
    ranks: int = 1,
    alternating: bool = False,
    names: str = "own",
    tied: bool = False,
    grouped: bool = False,
    **settings: Any,
) -> None:
    """Stages with sends and receives of our own; neighbours share tensors if there are `ranks` of them."""
    stage, place = divmod(rank, ranks)
    model = stage_model(stage, fault=fault, place=place, ranks=ranks, names=names, tied=tied)
    if fault == "stale" and rank == STAGES * ranks - 1:
        stale(list(model.layers.values())[1].attention.q.weight)
    if fault == "stale_embedding" and stage == 1:
        stale(model.words.weight)
    optimizer = optimizer_of(model, grouped)
    neighbours = Neighbours(rank, stage, ranks)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        train_by_hand(model, neighbours, fault, alternating=alternating, tied=tied)
        optimizer.step()
        run.step()


def by_torch(rank: int, dump: Path, fault: str, *, alternating: bool, **settings: Any) -> None:
    """The same by torch's stages and schedules."""
    model = stage_model(rank, fault=fault)
    if fault == "stale" and rank == 1:
        stale(list(model.layers.values())[1].attention.q.weight)
    words, following = batch()
    words = words.contiguous()
    stage = PipelineStage(model, rank, STAGES, torch.device("cpu"))
    kind = Schedule1F1B if alternating else ScheduleGPipe
    schedule = kind(stage, n_microbatches=PIECES, loss_fn=loss_of, scale_grads=fault != "undivided")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        if rank == 0:
            schedule.step(words)
        else:
            schedule.step(target=following)
        optimizer.step()
        run.step()


FAULTS = ("healthy", "stale", "swapped", "no_gradient", "zero_gradient", "lost", "undivided")
RUNS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {
    "by_hand": (by_hand, {}, FAULTS),
    "alternating": (by_hand, {"alternating": True, "names": "whole"}, ("healthy", "stale")),
    "tied": (by_hand, {"tied": True}, ("healthy", "unsummed", "stale_embedding")),
    "grouped": (by_hand, {"grouped": True}, ("healthy",)),
    "torch_gpipe": (by_torch, {"alternating": False}, ("healthy", "undivided")),
    "torch_1f1b": (by_torch, {"alternating": True}, ("healthy", "stale")),
}
RUNS_OF_FOUR = {"in_a_grid": (by_hand, {"ranks": 2, "alternating": True}, ("healthy", "stale", "swapped"))}


def main() -> None:
    """Makes all runs of one rank."""
    rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    if size == 1:
        for task in TASKS:
            train_whole(folder / f"golden_{task}", task=task)
            train_whole(folder / f"tied_golden_{task}", task=task, tied=True)
            train_whole(folder / f"grouped_golden_{task}", task=task, grouped=True)
        return
    meeting = f"file://{folder / f'meeting{size}'}"
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    if size == 4:
        for group in ([0, 1], [2, 3]):
            made = dist.new_group(group)
            Groups.tensor = made if rank in group else Groups.tensor
    for name, (train, how, faults) in (RUNS_OF_FOUR if size == 4 else RUNS).items():
        for fault in faults:
            for task in TASKS:
                train(rank, folder / f"{name}_{fault}_{task}", fault, task=task, **how)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
