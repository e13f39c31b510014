"""Runs of real ranks that are stages of a pipeline, compared with one process: healthy, and with a fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ulpscope
from places import SUPPORT

pytest.importorskip("torch.distributed.pipelining", reason="needs torch's stages")
pytest.importorskip("torch.distributed.fsdp", reason="needs FSDP2")

pytestmark = pytest.mark.distributed

SCRIPT = SUPPORT / "pipeline_programs.py"
# By these a process learns its rank, or that it has company.
ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
AXES = {"in_a_grid": "tp=2,pp=2"}
TASKS = ("tensor", "statistics")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of all runs, and those of the goldens."""
    folder = tmp_path_factory.mktemp("pipeline")
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
    golden = f"{program}_golden_{task}" if program in ("tied", "grouped") else f"golden_{task}"
    parallel = AXES.get(program, "pp=2")
    return ulpscope.compare(folder / f"{program}_{fault}_{task}", folder / golden, parallel=parallel)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("program", ["by_hand", "alternating", "tied", "torch_gpipe", "torch_1f1b"])
def test_healthy_stages_agree(folder: Path, program: str, task: str) -> None:
    compared = compare(folder, program, "healthy", task)
    assert compared.ok, f"{compared.reason}\n{compared.explain()}"
    # What is merged is compared, and not left out: these are all calls of the golden.
    assert compared.summary["only_in_golden"] == 0
    assert compared.summary["paired"] == {"mapped": 396 if program == "tied" else 401}
    assert any("the ranks are 2 stages" in note and "2 micro-batches" in note for note in compared.notes)


def test_a_healthy_grid_agrees(folder: Path) -> None:
    compared = compare(folder, "in_a_grid", "healthy", "tensor")
    assert compared.ok, f"{compared.reason}\n{compared.explain()}"
    assert compared.summary["paired"] == {"mapped": 401}
    # Partial sums of tensor parallelism are not known by statistics: nobody is blamed.
    by_statistics = compare(folder, "in_a_grid", "healthy", "statistics")
    assert by_statistics.agreement == "inconclusive"
    assert by_statistics.divergences == []


@pytest.mark.parametrize("task", TASKS)
def test_updates_that_each_stage_makes_by_one_call_are_not_judged(folder: Path, task: str) -> None:
    compared = compare(folder, "grouped", "healthy", task)
    assert compared.agreement == "inconclusive", compared.explain()
    assert compared.divergences == []
    assert any("not judged: what optimizer steps leave in parameters" in note for note in compared.notes)


def test_stages_with_names_of_their_own(folder: Path) -> None:
    notes = compare(folder, "by_hand", "healthy", "tensor").notes
    assert any("of stage 1 is layers.2." in note for note in notes)
    notes = compare(folder, "alternating", "healthy", "tensor").notes
    assert not any("names of their own" in note for note in notes)


def said(folder: Path, program: str, fault: str, task: str) -> list[str]:
    """What is said of each divergence, in order."""
    compared = compare(folder, program, fault, task)
    assert compared.agreement == "differ", compared.reason
    return [f"{found.call}: {found.why}" for found in compared.divergences]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("program", "place"),
    [
        ("by_hand", "(stage 1, where it is layers.1.attention.q.weight)"),
        ("alternating", "(stage 1)"),
        ("torch_1f1b", "(stage 1, where it is layers.1.attention.q.weight)"),
    ],
)
def test_a_stale_weight(folder: Path, program: str, place: str, task: str) -> None:
    [found] = said(folder, program, "stale", task)
    assert "rank 1's layers.3.attention.q.weight differs from the golden's" in found
    assert place in found


def test_a_stale_shard_of_a_stage(folder: Path) -> None:
    [found] = said(folder, "in_a_grid", "stale", "tensor")
    assert "rank 3's shard of layers.3.attention.q.weight differs from rows 16:32 of the golden's" in found
    assert "(stage 1" in found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    ("program", "ranks"),
    [("by_hand", ("rank 0", "rank 1")), ("in_a_grid", ("ranks 0 and 1", "ranks 2 and 3"))],
)
def test_stages_that_loaded_the_layers_of_each_other(
    folder: Path, program: str, ranks: tuple[str, str], task: str
) -> None:
    first, second = said(folder, program, "swapped", task)
    different = "equals a different parameter of the golden's"
    assert f"layers.0.before.weight of {ranks[0]} {different}, layers.2.before.weight" in first
    assert f"layers.2.before.weight of {ranks[1]} {different}, layers.0.before.weight" in second
    assert "so do 31 other parameters" in first


@pytest.mark.parametrize("task", TASKS)
def test_a_gradient_that_is_not_sent(folder: Path, task: str) -> None:
    [found] = said(folder, "by_hand", "no_gradient", task)
    assert "stage 0 (rank 0) has no backward pass" in found
    [found] = said(folder, "by_hand", "zero_gradient", task)
    assert "is zero on stage 0 (rank 0), although stage 1 computes the right gradient" in found


@pytest.mark.parametrize("task", TASKS)
def test_a_lost_micro_batch(folder: Path, task: str) -> None:
    [found] = said(folder, "by_hand", "lost", task)
    assert "the batch of rank 0 has 2 of the golden's 4 rows" in found


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("program", ["by_hand", "torch_gpipe"])
def test_gradients_that_are_not_divided_by_the_number_of_micro_batches(
    folder: Path, program: str, task: str
) -> None:
    [found] = said(folder, program, "undivided", task)
    assert "the gradients (ranks 0 and 1) are 2 times the golden's" in found


@pytest.mark.parametrize("task", TASKS)
def test_tied_embeddings(folder: Path, task: str) -> None:
    [found] = said(folder, "tied", "unsummed", task)
    assert "the gradient of words.weight is not the same on stages 0 and 1 (ranks 0 and 1)" in found
    [found] = said(folder, "tied", "stale_embedding", task)
    assert "rank 1's words.weight differs from the golden's" in found
    assert "(stage 1)" in found


def test_the_command_and_its_exit_codes(folder: Path) -> None:
    def run(fault: str, *more: str) -> subprocess.CompletedProcess[str]:
        target, golden = folder / f"by_hand_{fault}_tensor", folder / "golden_tensor"
        command = [sys.executable, "-m", "ulpscope", "compare", str(target), str(golden), *more]
        return subprocess.run(command, capture_output=True, text=True)

    assert run("healthy", "--parallel", "pp=2").returncode == 0
    assert run("stale", "--parallel", "pp=2").returncode == 1


def test_the_explanation_in_chinese(folder: Path) -> None:
    explained = compare(folder, "by_hand", "zero_gradient", "tensor").explain("zh")
    assert "在流水线阶段 0" in explained
    assert "上为零" in explained
