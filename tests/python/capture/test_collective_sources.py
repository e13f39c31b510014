"""Where tensors come from that two ranks have exchanged: of collectives, and of replicated models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captured import Captured
from two_ranks import run_two_ranks

pytestmark = pytest.mark.distributed

LEVELS = ("L1", "mix", "L2")

SCRIPT = """\
import sys
from datetime import timedelta
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
import ulpscope

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
store = dist.FileStore(str(folder / "store"), 2)
dist.init_process_group("gloo", rank=rank, world_size=2, store=store, timeout=timedelta(seconds=60))

def own():
    return torch.ones(2) * 2

def use(*tensors):
    for tensor in tensors:
        tensor.sin()

def blocking():
    t, got = own(), [own(), own()]
    dist.all_gather(got, t)
    use(t, *got)
    t, got = own(), own().repeat(2)
    dist.all_gather_into_tensor(got, t)
    use(t, got)
    t, got = own(), own()[:1]
    dist.reduce_scatter_tensor(got, t)
    use(t, got)
    t, got = own(), [own(), own()]
    dist.gather(t, got if rank == 0 else None, dst=0)
    use(t, *got)
    t, got = own(), own()
    dist.scatter(got, [t, t] if rank == 0 else None, src=0)
    use(t, got)
    t, got = own(), own()
    dist.all_to_all_single(output=got, input=t)
    use(t, got)
    t = own()
    dist.broadcast(t, src=1)
    use(t)
    t = own()
    dist.all_reduce(t)
    use(t)

def pending():
    t, got = own(), own().repeat(2)
    work = dist.all_gather_into_tensor(got, t, async_op=True)
    work.wait()
    use(t, got)
    t, got = own(), own()
    messages = [dist.P2POp(dist.isend, t, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
    for work in dist.batch_isend_irecv(messages):
        work.wait()
    use(t, got)

def objects():
    t, got = own(), [None, None]
    dist.all_gather_object(got, {"t": t})
    use(t, got[0]["t"], got[1]["t"])
    t = own()
    got = [t]
    dist.broadcast_object_list(got, 0)
    use(t, got[0])

for scenario in (blocking, pending, objects):
    for level in ("L1", "mix", "L2"):
        with ulpscope.capture(folder / f"{scenario.__name__}_{level}", level=level, strict=True):
            scenario()

for level in ("L0", "L1", "mix", "L2"):
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 1, bias=False)))
    with ulpscope.capture(folder / f"replicas_{level}", model=model, level=level, task="tensor") as run:
        for _ in range(2):
            model(torch.ones(1, 2) * (rank + 1)).sum().backward()
        run.step()
        with torch.no_grad():
            model(torch.ones(1, 2))
    assert model.module[0].weight.grad.tolist() == [[3.0, 3.0]]
dist.barrier()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of two ranks."""
    folder = tmp_path_factory.mktemp("collectives")
    run_two_ranks(SCRIPT, folder)
    return folder


def sources(folder: Path, scenario: str, level: str, rank: int) -> list[str]:
    """Of the tensors that the program has used."""
    calls: dict[str, Any] = Captured(folder / f"{scenario}_{level}", rank=f"rank{rank}").calls
    used = "Aten.sin." if level == "L2" else "Tensor.sin."
    found = [call["input_args"][0]["source"] for name, call in calls.items() if name.startswith(used)]
    # Of what the program has made itself, no more than that.
    return [name.removeprefix("Distributed.") if "Distributed" in name else "own" for name in found]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_written_to_names_the_collective(folder: Path, level: str, rank: int) -> None:
    gathered = ["own", "own"] if rank == 1 else ["gather.0.forward.output.1.0", "gather.0.forward.output.1.1"]
    assert sources(folder, "blocking", level, rank) == [
        *("own", "all_gather.0.forward.output.0.0", "all_gather.0.forward.output.0.1"),
        *("own", "all_gather_into_tensor.0.forward.output.0"),
        *("own", "reduce_scatter_tensor.0.forward.output.0"),
        *("own", *gathered),
        *("own", "scatter.0.forward.output.0"),
        *("own", "all_to_all_single.0.forward.output.0"),
        "own" if rank == 1 else "broadcast.0.forward.output.0",
        "all_reduce.0.forward.output.0",
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_asynchronous_ones_when_they_are_complete(folder: Path, level: str, rank: int) -> None:
    assert sources(folder, "pending", level, rank) == [
        *("own", "all_gather_into_tensor.0.forward.output.0"),
        *("own", "batch_isend_irecv.0.forward.output.0.1.tensor"),
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_tensors_in_objects(folder: Path, level: str, rank: int) -> None:
    whole = "all_gather_object.0.forward.output.0"
    received = "own" if rank == 0 else "broadcast_object_list.0.forward.output.0.0"
    assert sources(folder, "objects", level, rank) == ["own", f"{whole}.0.t", f"{whole}.1.t", "own", received]


@pytest.mark.parametrize("level", ["L0", *LEVELS])
@pytest.mark.parametrize("rank", [0, 1])
def test_replicas_whose_gradients_are_averaged_unseen(folder: Path, level: str, rank: int) -> None:
    captured = Captured(folder / f"replicas_{level}", rank=f"rank{rank}")
    found = [note for note in captured.ledger["notes"] if "DistributedDataParallel" in note]
    assert len(found) == 1
    assert found[0].endswith("the mean over all ranks, is recorded with the next number")
    # As the note says: what the pass records is this rank's own.
    if level in ("L0", "mix"):
        gradient = captured.calls["Module.module.0.Linear.parameters_grad.0"]["weight"][0]
        assert captured.tensor(gradient).tolist() == [[rank + 1.0, rank + 1.0]]
        mean = captured.calls["Module.module.0.Linear.parameters_grad.2"]["weight"][0]
        assert (captured.tensor(mean).tolist(), mean["source"]) == ([[3.0, 3.0]], "gradient:module.0.weight")
    if level in ("L1", "mix"):
        gradient = captured.calls["Functional.linear.0.backward"]["output"][1]
        assert captured.tensor(gradient).tolist() == [[rank + 1.0, rank + 1.0]]
    # Without a gradient there is nothing to average.
    following = Captured(folder / f"replicas_{level}", step=1, rank=f"rank{rank}")
    assert not [note for note in following.ledger["notes"] if "DistributedDataParallel" in note]
