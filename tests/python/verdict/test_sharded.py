"""Runs of two real ranks, compared with one process that computes the same: healthy, and with a fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ulpscope
from places import SUPPORT

pytest.importorskip("torch.distributed.fsdp", reason="needs FSDP2")

pytestmark = pytest.mark.distributed

SCRIPT = SUPPORT / "sharded_programs.py"
# By these a process learns its rank, or that it has company.
ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
AXES = {
    "by_hand": "tp=2",
    "by_torch": None,
    "fully_sharded": None,
    "replicated": "dp=2",
    "in_a_grid": "tp=2,dp=2",
}
TASKS = ("tensor", "statistics")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of all runs, and those of the golden."""
    folder = tmp_path_factory.mktemp("sharded")
    alone = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    start = [sys.executable, str(SCRIPT)]
    processes = [
        subprocess.Popen(
            [*start, str(rank), str(size), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**alone, "WORLD_SIZE": str(size)},
        )
        for size in (1, 2, 4)
        for rank in range(size)
    ]
    printed = [process.communicate(timeout=300)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * 7, "\n".join(printed)
    return folder


def compare(folder: Path, program: str, fault: str, task: str) -> ulpscope.Comparison:
    target, golden = folder / f"{program}_{fault}_{task}", folder / f"golden_{task}"
    return ulpscope.compare(target, golden, parallel=AXES[program])


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("program", ["by_hand", "by_torch", "fully_sharded", "replicated"])
def test_a_healthy_run_agrees(folder: Path, program: str, task: str) -> None:
    compared = compare(folder, program, "healthy", task)
    assert compared.ok, f"{compared.reason}\n{compared.explain()}"
    assert any(" ranks were merged: " in note for note in compared.notes)
    # What is merged is compared, and not left out: the golden has 213 calls.
    assert compared.summary["only_in_golden"] == 0
    assert compared.summary["paired"] == {"mapped": 213}


def test_a_healthy_grid_agrees(folder: Path) -> None:
    compared = compare(folder, "in_a_grid", "healthy", "tensor")
    assert compared.ok, f"{compared.reason}\n{compared.explain()}"
    # The statistics of some gradients are those of sums that no collective returned: nobody is blamed.
    by_statistics = compare(folder, "in_a_grid", "healthy", "statistics")
    assert by_statistics.agreement == "inconclusive"
    assert by_statistics.divergences == []


def first(folder: Path, program: str, fault: str, task: str) -> str:
    compared = compare(folder, program, fault, task)
    assert compared.agreement == "differ", compared.reason
    found = compared.first_divergence
    assert found is not None
    return f"{found.call}: {found.why}"


@pytest.mark.parametrize("program", ["by_hand", "by_torch"])
@pytest.mark.parametrize("task", TASKS)
def test_a_missing_all_reduce(folder: Path, program: str, task: str) -> None:
    said = first(folder, program, "unreduced", task)
    assert "Functional.linear.5.forward.output.0" in said
    assert "an all-reduce is missing" in said
    assert "ranks 0 and 1" in said


@pytest.mark.parametrize(
    ("program", "slices"), [("by_hand", "columns"), ("by_torch", "columns"), ("fully_sharded", "rows")]
)
def test_a_shard_loaded_twice(folder: Path, program: str, slices: str) -> None:
    said = first(folder, program, "twice", "tensor")
    size = 32 if slices == "columns" else 16
    assert (
        f"rank 1's shard of layers.0.mlp.down.weight equals {slices} 0:{size} of the golden's; "
        f"expected {slices} {size}:{2 * size}" in said
    )
    assert "layers.0.mlp.down.weight" in first(folder, program, "twice", "statistics")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("program", ["by_hand", "by_torch"])
def test_a_stale_shard(folder: Path, program: str, task: str) -> None:
    said = first(folder, program, "stale", task)
    assert "layers.1.attention.q.weight" in said
    assert "rank 1" in said or task == "statistics"
    if task == "tensor":
        assert "rank 1's shard of layers.1.attention.q.weight differs from rows 16:32 of the golden's" in said


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("program", ["by_hand", "by_torch"])
def test_a_stale_replica(folder: Path, program: str, task: str) -> None:
    said = first(folder, program, "stale_replica", task)
    assert "rank 1's layers.1.between.weight differs from the golden's" in said


@pytest.mark.parametrize("task", TASKS)
def test_a_stale_part_of_gathered_parameters(folder: Path, task: str) -> None:
    said = first(folder, "fully_sharded", "stale", task)
    assert "layers.0.mlp.down.weight" in said
    if task == "tensor":
        assert "rank 1's shard of layers.0.mlp.down.weight differs from rows 16:32 of the golden's" in said


@pytest.mark.parametrize("task", TASKS)
def test_a_stale_replica_of_data_parallelism(folder: Path, task: str) -> None:
    said = first(folder, "replicated", "stale", task)
    assert "rank 1's layers.0.mlp.down.weight differs from the golden's" in said


def test_a_stale_shard_of_four(folder: Path) -> None:
    said = first(folder, "in_a_grid", "stale", "tensor")
    assert "rank 3's shard of layers.1.attention.q.weight differs from rows 16:32 of the golden's" in said
    assert "rank 3's layers.1.attention.q.weight differs" in first(folder, "in_a_grid", "stale", "statistics")


def test_the_command_and_its_exit_codes(folder: Path, tmp_path: Path) -> None:
    def run(fault: str, *more: str) -> subprocess.CompletedProcess[str]:
        target, golden = folder / f"by_hand_{fault}_tensor", folder / "golden_tensor"
        return subprocess.run(
            [sys.executable, "-m", "ulpscope", "compare", str(target), str(golden), *more],
            capture_output=True,
            text=True,
        )

    assert run("healthy", "--parallel", "tp=2").returncode == 0
    faulty = run("twice", "--parallel", "tp=2", "-o", str(tmp_path))
    assert faulty.returncode == 1
    assert "rank 1's shard of layers.0.mlp.down.weight" in faulty.stdout
    [rank] = json.loads((tmp_path / "result.json").read_text())["ranks"]
    assert rank["target"] == "2 ranks"
    too_many = run("healthy", "--parallel", "tp=4")
    assert too_many.returncode == 2
    assert "expected as many ranks as --parallel tp=4 has (4), found 2 ranks" in too_many.stderr


def test_the_explanation_in_chinese(folder: Path) -> None:
    said = compare(folder, "by_hand", "twice", "tensor").explain("zh")
    assert "rank 1 的 layers.0.mlp.down.weight 分片等于标杆的第 0:32 列" in said
    assert "应为第 32:64 列" in said
