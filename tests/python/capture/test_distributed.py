"""What collectives and messages between two real processes leave in a dump."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from capture_messages import GATHERS_INTO_TENSORS
from captured import Captured
from places import SUPPORT

pytestmark = pytest.mark.distributed

LEVELS = ("L1", "mix", "L2")

# By these a process learns its rank, or that it has company.
ENVIRONMENT = (
    *("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"),
    *("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of all scenarios, by both ranks."""
    folder = tmp_path_factory.mktemp("messages")
    script = SUPPORT / "capture_messages.py"
    without_ranks = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**without_ranks, "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=180)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(printed)
    return folder


def calls(folder: Path, scenario: str, level: str, rank: int) -> dict[str, Any]:
    """The collectives of a dump, by the rest of their names."""
    file = folder / f"{scenario}_{level}" / "step0" / f"rank{rank}" / "dump.json"
    data = json.loads(file.read_text())["data"]
    starts = "Distributed."
    return {
        name.removeprefix(starts).removesuffix(".forward"): call
        for name, call in data.items()
        if name.startswith(starts)
    }


def ledger(folder: Path, scenario: str, level: str, rank: int) -> dict[str, Any]:
    return json.loads((folder / f"{scenario}_{level}" / "step0" / f"rank{rank}" / "ledger.json").read_text())


def value(item: dict[str, Any]) -> float:
    """The value of a tensor that is the same everywhere."""
    assert item["Max"] == item["Min"]
    return item["Max"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_buffers_before_and_after(folder: Path, level: str, rank: int) -> None:
    found = calls(folder, "blocking", level, rank)
    own = rank + 1.0
    message = "send.0" if rank == 0 else "recv.0"
    assert list(found) == [
        "all_reduce.0",
        "all_gather.0",
        "all_gather.1",
        *(["all_gather_into_tensor.0"] if GATHERS_INTO_TENSORS else []),
        "broadcast.0",
        "reduce.0",
        "gather.0",
        "scatter.0",
        "barrier.0",
        message,
    ]
    reduced = found["all_reduce.0"]
    assert (value(reduced["input_args"][0]), value(reduced["output"][0])) == (own, 3.0)
    gathered = found["all_gather.0"]
    assert (gathered["input_args"][0], value(gathered["input_args"][1])) == (None, own)
    assert [value(item) for item in gathered["output"][0]] == [1.0, 2.0]
    by_name = found["all_gather.1"]
    assert by_name["input_kwargs"]["tensor_list"] is None
    assert [value(item) for item in by_name["output"][0]] == [1.0, 2.0]
    if GATHERS_INTO_TENSORS:
        joined = found["all_gather_into_tensor.0"]
        assert joined["input_args"][0] is None
        assert (joined["output"][0]["Max"], joined["output"][0]["Min"]) == (2.0, 1.0)
    assert value(found["broadcast.0"]["output"][0]) == 1.0
    if rank == 0:
        assert value(found["reduce.0"]["output"][0]) == 3.0
        assert found["gather.0"]["input_args"][1] is None
        assert [value(item) for item in found["gather.0"]["output"][1]] == [1.0, 2.0]
        assert value(found[message]["input_args"][0]) == 1.0
    else:
        assert found[message]["input_args"][0] is None
        assert value(found[message]["output"][0]) == 1.0
    assert found["scatter.0"]["input_args"][0] is None
    assert value(found["scatter.0"]["output"][0]) == 6.0 + rank


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("scenario", "results"),
    [
        ("waited", [3.0]),
        ("waited_in_another_order", [3.0, 30.0]),
        ("asked", [3.0]),
        ("followed", [3.0, 3.0]),
        ("never_waited", [3.0]),
    ],
)
def test_asynchronous_ones_are_recorded_when_complete(
    folder: Path, scenario: str, results: list[float], level: str
) -> None:
    """Neither before they are, nor after the program has changed the buffer again."""
    for rank in range(2):
        found = calls(folder, scenario, level, rank)
        recorded = [call for name, call in found.items() if name.startswith("all_reduce")]
        assert [value(call["output"][0]) for call in recorded] == results
        assert ledger(folder, scenario, level, rank)["notes"] == []


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_messages(folder: Path, level: str, rank: int) -> None:
    found = calls(folder, "messages", level, rank)
    own, other = rank + 1.0, 2.0 - rank
    assert list(found) == ["isend.0", "irecv.0"]
    assert value(found["isend.0"]["input_args"][0]) == own
    assert found["isend.0"]["output"][0] is None
    assert found["irecv.0"]["input_args"][0] is None
    assert value(found["irecv.0"]["output"][0]) == other
    found = calls(folder, "batched", level, rank)
    assert list(found) == ["batch_isend_irecv.0", "batch_isend_irecv.1"]
    for call in found.values():
        (sent, received), (_, result) = call["input_args"][0], call["output"][0]
        assert (value(sent["tensor"]), received["tensor"], value(result["tensor"])) == (own, None, other)
        assert [one["op"]["value"] for one in (sent, received)] == ["isend", "irecv"]


@pytest.mark.parametrize("level", LEVELS)
def test_functions_imported_before_capture_are_seen(folder: Path, level: str) -> None:
    assert list(calls(folder, "imported", level, 0)) == ["all_reduce.0", "broadcast.0"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("rank", [0, 1])
def test_functional_collectives(folder: Path, level: str, rank: int) -> None:
    found = calls(folder, "functionally", level, rank)
    assert list(found) == ["all_reduce.0", "all_gather_tensor.0"]
    assert value(found["all_reduce.0"]["input_args"][0]) == rank + 1.0
    assert value(found["all_reduce.0"]["output"][0]) == 3.0
    gathered = found["all_gather_tensor.0"]["output"][0]
    assert (gathered["shape"], gathered["Max"], gathered["Min"]) == ([8], 2.0, 1.0)


@pytest.mark.parametrize("level", LEVELS)
def test_objects_are_sent_by_other_collectives(folder: Path, level: str) -> None:
    found = calls(folder, "object_lists", level, 0)
    assert {"all_gather_object.0", "broadcast_object_list.0", "broadcast.0"} <= set(found)
    # Which collective it is, differs between releases of torch.
    assert any(name.startswith("all_gather") and "object" not in name for name in found)
    assert found["all_gather_object.0"]["input_args"][0] is None


@pytest.mark.parametrize("level", LEVELS)
def test_one_that_fails_does_not_hide_the_next(folder: Path, level: str) -> None:
    found = calls(folder, "failing", level, 0)
    assert list(found) == ["all_reduce.0", "all_reduce.1"]
    assert "output" not in found["all_reduce.0"]
    assert value(found["all_reduce.1"]["output"][0]) == 3.0


def test_no_buffer_is_taken_for_data_before_it_is_received(folder: Path) -> None:
    """Buffers hold NaN until then."""
    dumps = sorted(folder.glob("*_L1/step0/rank*/dump.json"))
    assert len(dumps) > 20
    for dump in dumps:
        for name, call in json.loads(dump.read_text())["data"].items():
            if name.startswith("Distributed."):
                assert not any(math.isnan(number) for number in maxima(call)), (dump, name)


def maxima(node: Any) -> list[float]:
    """Of every tensor below."""
    if isinstance(node, list):
        return [number for item in node for number in maxima(item)]
    if isinstance(node, dict):
        own = [node["Max"]] if isinstance(node.get("Max"), float) else []
        return own + [number for item in node.values() for number in maxima(item)]
    return []


def test_a_rank_that_gets_its_number_late(folder: Path) -> None:
    """Capture began before the process group did: each rank has its folder, with what it did before."""
    for step, names in [(0, ["full", "sin", "ones", "cos"]), (1, ["ones", "tan"])]:
        inside = folder / "early" / f"step{step}"
        assert sorted(path.name for path in inside.iterdir()) == ["rank0", "rank1"]
        for rank in range(2):
            captured = Captured(folder / "early", step, f"rank{rank}")
            assert list(captured.calls) == [f"Torch.{name}.0.forward" for name in names]
            if step == 0:
                given = captured.calls["Torch.sin.0.forward"]["input_args"][0]
                assert captured.tensor(given).tolist() == [rank, rank]
                data_dir = captured.document("dump.json")["dump_data_dir"]
                assert data_dir == str(captured.folder / "dump_tensor_data")
            assert captured.ledger["notes"] == []
            assert not (captured.folder / "journal.jsonl").exists()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "rank"),
        ({"RANK": "3"}, "rank3"),
        ({"SLURM_PROCID": "4"}, "rank4"),
        ({"OMPI_COMM_WORLD_RANK": "5"}, "rank5"),
        ({"PMI_RANK": "6"}, "rank6"),
        ({"RANK": "1", "SLURM_PROCID": "4"}, "rank1"),
        ({"RANK": "first"}, "rank"),
        # One of several that does not know yet which.
        ({"WORLD_SIZE": "2"}, "proc{process}"),
        ({"MASTER_ADDR": "localhost"}, "proc{process}"),
        ({"LOCAL_RANK": "1"}, "proc{process}"),
        ({"WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}, "rank"),
        ({"WORLD_SIZE": "2", "RANK": "1"}, "rank1"),
    ],
)
def test_the_rank_by_the_environment(
    variables: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ENVIRONMENT:
        monkeypatch.delenv(variable, raising=False)
    for variable, number in variables.items():
        monkeypatch.setenv(variable, number)
    with ulpscope.capture(tmp_path) as run:
        torch.cos(torch.ones(2))
        run.step()
    assert [path.name for path in (tmp_path / "step0").iterdir()] == [name.format(process=os.getpid())]


def test_processes_of_a_pool_that_have_no_rank(tmp_path: Path) -> None:
    """Each has a folder of its own, and neither deletes what another is writing."""
    script = (
        "import sys, torch, torch.multiprocessing as processes, ulpscope\n"
        "def work(number):\n"
        "    with ulpscope.capture(sys.argv[1]):\n"
        "        torch.cos(torch.ones(2))\n"
        "if __name__ == '__main__':\n"
        "    processes.spawn(work, nprocs=2)\n"
    )
    file = tmp_path / "pool.py"
    file.write_text(script)
    environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    subprocess.run([sys.executable, str(file), str(tmp_path / "dump")], check=True, env=environment)
    folders = sorted(path.name for path in (tmp_path / "dump" / "step0").iterdir())
    assert len(folders) == 2
    for name in folders:
        assert name.startswith("proc")
        assert "Torch.cos.0.forward" in Captured(tmp_path / "dump", 0, name).calls
