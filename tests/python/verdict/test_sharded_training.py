"""Training on real ranks as jobs do it: AdamW, clipping, a vocabulary in parts, FSDP2 over DTensor TP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ulpscope
from places import SUPPORT

pytest.importorskip("torch.distributed.fsdp", reason="needs FSDP2")

pytestmark = pytest.mark.distributed

SCRIPT = SUPPORT / "sharded_training.py"
# By these a process learns its rank, or that it has company.
ENVIRONMENT = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of all runs, and those of the golden."""
    folder = tmp_path_factory.mktemp("training")
    alone = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(rank), str(size), str(folder)],
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


def agrees(compared: ulpscope.Comparison) -> None:
    assert compared.ok, f"{compared.reason}\n{compared.explain()}"
    assert compared.divergences == []
    # What is merged is compared, and not left out.
    assert compared.summary["only_in_golden"] == 0


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_vocabulary_in_parts_and_an_optimizer_of_many_calls_agree(folder: Path, task: str) -> None:
    agrees(ulpscope.compare(folder / f"by_hand_{task}", folder / f"golden_{task}", parallel="tp=2"))


def test_two_steps_of_sharded_parameters_agree(folder: Path) -> None:
    agrees(ulpscope.compare(folder / "fully_sharded_tensor", folder / "golden_tensor"))


def test_clipped_gradients_agree(folder: Path) -> None:
    compared = ulpscope.compare(folder / "fully_sharded_clipped_tensor", folder / "golden_clipped_tensor")
    agrees(compared)
    # The norms of the shards are those of the whole gradients.
    norms = [row for row in compared.rows if row["call"] == "Torch._foreach_norm.0.forward"]
    assert len(norms) > 20
    assert {row["verdict"] for row in norms} <= {"equal", "noise"}


def test_parameters_that_two_axes_cut_agree(folder: Path) -> None:
    agrees(ulpscope.compare(folder / "grid_healthy_tensor", folder / "golden_tensor", step=0))


def test_a_stale_shard_of_two_axes_is_named_at_its_first_use(folder: Path) -> None:
    compared = ulpscope.compare(folder / "grid_stale_tensor", folder / "golden_tensor", step=0)
    found = compared.first_divergence
    assert found is not None
    assert found.call == "Functional.linear.10.forward"
    assert "rank 3's shard of layers.1.mlp.up.weight differs from rows 48:64 of the golden's" in found.why


def test_indices_of_a_vocabulary_in_parts_are_no_missing_all_reduce(folder: Path) -> None:
    compared = ulpscope.compare(
        folder / "unreduced_statistics", folder / "golden_statistics", parallel="tp=2", step=0
    )
    found = compared.first_divergence
    assert found is not None
    assert "Functional.linear.11.forward.output.0" in found.why
    assert "an all-reduce is missing" in found.why
