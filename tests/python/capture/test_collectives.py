"""Collectives whose buffers hold nothing yet, or nothing any more, and collectives as values."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import ulpscope
from captured import Captured
from two_ranks import run_two_ranks

pytestmark = pytest.mark.distributed

SCRIPT = """\
import sys
from datetime import timedelta
from pathlib import Path
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager
import ulpscope

rank, folder = int(sys.argv[1]), Path(sys.argv[2])
store = dist.FileStore(str(folder / "store"), 2)
dist.init_process_group("gloo", rank=rank, world_size=2, store=store, timeout=timedelta(seconds=60))

def mine():
    return torch.full((4,), rank + 1.0) if rank == 0 else torch.full((4,), float("nan"))

def roots():
    dist.broadcast(mine(), 0)
    dist.broadcast(tensor=mine(), src=0)
    dist.broadcast(mine(), 0, None, True).wait()
    dist.broadcast_object_list([{"rank": rank}], 0)
    x = torch.full((4,), rank + 1.0)
    dist.reduce(x, 0)
    dist.reduce(torch.full((4,), rank + 1.0), dst=0, async_op=True).wait()

def coalesced():
    a, b = torch.full((4,), rank + 1.0), torch.full((4,), rank + 10.0)
    with _coalescing_manager():
        dist.all_reduce(a)
        dist.all_reduce(b)
    a.add_(1)
    c = torch.full((4,), rank + 100.0)
    with _coalescing_manager(async_ops=True) as works:
        dist.all_reduce(c)
    works.wait()
    c.zero_()
    try:
        with _coalescing_manager():
            dist.all_reduce(a)
            raise KeyError
    except KeyError:
        dist.distributed_c10d._world.pg_coalesce_state.clear()

for scenario in (roots, coalesced):
    with ulpscope.capture(folder / scenario.__name__, strict=True):
        scenario()
dist.barrier()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of two ranks."""
    folder = tmp_path_factory.mktemp("collectives")
    run_two_ranks(SCRIPT, folder)
    return folder


def collectives(folder: Path, rank: int) -> dict[str, Any]:
    calls = Captured(folder, rank=f"rank{rank}").calls
    return {name.split(".", 1)[1]: call for name, call in calls.items() if name.startswith("Distributed.")}


def tensors(items: Any) -> list[Any]:
    return [item for item in items if item is not None and item["type"] == "torch.Tensor"]


def test_who_is_broadcast_to_has_no_input(folder: Path) -> None:
    sender, receiver = (collectives(folder / "roots", rank) for rank in range(2))
    names = [name for name in receiver if name.startswith("broadcast.")]
    # Three of ours, and those by which objects are sent.
    assert len(names) == len([name for name in sender if name.startswith("broadcast.")]) > 3
    for number, name in enumerate(names):
        given = [*receiver[name]["input_args"], *receiver[name]["input_kwargs"].values()]
        assert tensors(given) == [], name
        sent = tensors([*sender[name]["input_args"], *sender[name]["input_kwargs"].values()])
        assert len(sent) == 1
        got = tensors(receiver[name]["output"])
        assert [item["Max"] for item in got] == [item["Max"] for item in sent]
        assert number > 2 or got[0]["Max"] == 1.0


def test_who_is_not_reduced_to_has_no_output(folder: Path) -> None:
    receiver, sender = (collectives(folder / "roots", rank) for rank in range(2))
    for name in ("reduce.0.forward", "reduce.1.forward"):
        assert [item["Max"] for item in tensors(receiver[name]["output"])] == [3.0]
        assert tensors(sender[name]["output"]) == []
        assert [item["Max"] for item in tensors(sender[name]["input_args"])] == [2.0]


def test_what_is_done_together_has_its_results_at_the_end(folder: Path) -> None:
    for rank in range(2):
        calls = collectives(folder / "coalesced", rank)
        given = [tensors(call["input_args"])[0]["Max"] for call in calls.values()]
        assert given == [rank + 1.0, rank + 10.0, rank + 100.0, 4.0]
        made = [tensors(call["output"])[0]["Max"] for call in calls.values() if "output" in call]
        assert made == [3.0, 21.0, 201.0]
        found = Captured(folder / "coalesced", rank=f"rank{rank}")
        changed = found.calls["Tensor.add_.0.forward"]["input_args"][0]
        assert changed["source"] == "Distributed.all_reduce.0.forward.output.0"
        assert found.ledger["raised"] == {"Distributed.all_reduce: KeyError": 1}


class Reducing(torch.nn.Module):
    """Holds a collective."""

    def __init__(self) -> None:
        super().__init__()
        self.reduce = dist.all_reduce
        self.send = dist.isend


def test_a_collective_can_be_copied_and_pickled(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path):
        model = Reducing()
        for made in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            assert made.reduce == model.reduce
            assert made.send == model.send
        text = pickle.dumps(model.reduce)
        assert b"ulpscope" not in text
    # What was kept beyond the capture can be, too.
    assert pickle.loads(text) is dist.all_reduce
    assert pickle.loads(pickle.dumps(model)).reduce is dist.all_reduce
    assert copy.deepcopy(model).reduce == dist.all_reduce
