"""Collectives of a dump of two ranks, made again by real processes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

import ulpscope
from two_ranks import run_two_ranks

pytestmark = pytest.mark.distributed

PROGRAM = """
import sys, torch, torch.distributed as dist, ulpscope
from torch.distributed import _functional_collectives as functional

rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
torch.manual_seed(rank)
x = torch.randn(8)
pair = dist.new_group([0, 1])
with ulpscope.capture(f"{folder}/dump", level="L1", task="tensor", file_format="pt"):
    dist.all_reduce(x.clone())
    dist.all_reduce(x.clone().bfloat16())
    dist.all_reduce(x.clone(), op=dist.ReduceOp.MAX, group=pair)
    dist.all_reduce(x.clone(), async_op=True).wait()
    # It cancels: the sum is small, its terms are not.
    dist.all_reduce(torch.full((4,), 1.1 if rank else -1.1) + 1e-7)
    dist.all_gather([torch.empty(8), torch.empty(8)], x)
    dist.all_gather_into_tensor(torch.empty(16), x)
    dist.reduce_scatter(torch.empty(4), [x[:4].clone(), x[4:].clone()])
    dist.reduce_scatter_tensor(torch.empty(4), x)
    dist.broadcast(x.clone(), src=1)
    dist.broadcast(torch.arange(3) * rank, 1)
    dist.reduce(x.clone(), dst=0)
    dist.all_to_all_single(torch.empty(8), x)
    dist.gather(x, [torch.empty(8), torch.empty(8)] if rank == 0 else None, dst=0)
    dist.scatter(torch.empty(8), [x, x + 1] if rank == 0 else None, src=0)
    if rank == 1:
        dist.send(x, 0)
    else:
        dist.recv(torch.empty(8), 1)
    functional.all_reduce(x, "sum", pair)
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    run_two_ranks(PROGRAM, folder)
    return folder / "dump"


@pytest.fixture
def dump(recorded: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(recorded, tmp_path / "dump"))


def collectives(dump: Path) -> dict[str, tuple[str, str]]:
    result = ulpscope.check(dump, collectives=True)
    found = [call for call in result.calls if call.call.startswith("Distributed.")]
    return {f"{call.rank}: {call.call}": (call.forward, call.message) for call in found}


def put(dump: Path, rank: int, entry: str, tensor: torch.Tensor) -> None:
    path = dump / "step0" / f"rank{rank}" / "dump_tensor_data" / f"{entry}.pt"
    path.unlink(missing_ok=True)
    ulpscope.save(path, tensor)


def get(dump: Path, rank: int, entry: str) -> torch.Tensor:
    return ulpscope.load(f"{dump}/step0/rank{rank}:{entry}").clone()


def test_healthy_collectives_pass_and_wrong_ones_are_named(dump: Path) -> None:
    healthy = collectives(dump)
    assert len(healthy) == 36
    assert {status for status, _ in healthy.values()} == {"pass"}
    factor, ulp, swapped, stale = (
        "Distributed.all_reduce.0.forward.output.0",
        "Distributed.broadcast.0.forward.output.0",
        "Distributed.all_gather.0.forward.output.0.0",
        "Distributed.recv.0.forward.output.0",
    )
    put(dump, 1, factor, get(dump, 1, factor) * 1.0001)
    one = get(dump, 0, ulp)
    one[3] = torch.nextafter(one[3], torch.tensor(9.0))
    put(dump, 0, ulp, one)
    put(dump, 0, swapped, get(dump, 0, "Distributed.all_gather.0.forward.output.0.1"))
    put(dump, 0, stale, torch.zeros(8))
    wrong = {name: message for name, (status, message) in collectives(dump).items() if status == "error"}
    assert set(wrong) == {
        "rank1: Distributed.all_reduce.0",
        "rank0: Distributed.broadcast.0",
        "rank0: Distributed.all_gather.0",
        "rank0: Distributed.recv.0",
    }
    assert "x what rounding explains" in wrong["rank1: Distributed.all_reduce.0"]
    assert "1 of 8 elements are not what was sent" in wrong["rank0: Distributed.broadcast.0"]


def test_missing_ranks_and_calls_are_named(dump: Path) -> None:
    record = dump / "step0" / "rank1" / "dump.json"
    document = json.loads(record.read_text())
    for number in (0, 1):
        del document["data"][f"Distributed.broadcast.{number}.forward"]
    # Of different sizes, gloo would wait for ever, or write where it must not.
    put(dump, 1, "Distributed.all_reduce.3.forward.input.0", torch.ones(3))
    document["data"]["Distributed.all_reduce.3.forward"]["input_args"][0]["shape"] = [3]
    record.write_text(json.dumps(document))
    found = collectives(dump)
    assert found["rank0: Distributed.broadcast.1"] == ("SKIP", "a collective: rank1 has no such call")
    assert found["rank0: Distributed.all_reduce.3"] == (
        "SKIP",
        "a collective: its tensors have different sizes on the ranks",
    )
    assert found["rank1: Distributed.barrier.0"][0] == "pass"
    shutil.rmtree(dump / "step0" / "rank1")
    alone = collectives(dump)
    assert set(alone.values()) == {("SKIP", "a collective needs the dumps of all its ranks: rank0, rank1, …")}


def test_without_the_option_they_are_listed(recorded: Path) -> None:
    result = ulpscope.check(recorded, rank=0, white_list=["all_reduce"])
    assert {call.message for call in result.skipped} == {
        "a collective: --collectives makes it again with the other ranks"
    }


def test_only_the_selected_rank_is_reported(recorded: Path) -> None:
    result = ulpscope.check(recorded, rank=1, white_list=["all_reduce"], collectives=True)
    assert {(call.rank, call.forward) for call in result.calls} == {("rank1", "pass")}


def test_too_many_ranks_are_listed(recorded: Path, tmp_path: Path) -> None:
    step = next(recorded.glob("step*"))
    for number in range(65):
        rank = tmp_path / step.name / f"rank{number}"
        rank.mkdir(parents=True)
        for name in ("dump.json", "construct.json", "stack.json"):
            shutil.copy(step / "rank0" / name, rank / name)
    result = ulpscope.check(tmp_path, rank=[64], collectives=True)
    reasons = {call.message for call in result.calls if call.call.startswith("Distributed.")}
    assert reasons == {"a collective of 65 ranks: they are made again with at most 64"}
