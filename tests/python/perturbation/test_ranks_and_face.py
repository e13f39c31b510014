"""Several ranks write one file; scripts written for msprobe run as they are."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ulpscope
from ulpscope._perturbation.findings import COLUMNS, append_row


def append(path: Path, rank: int) -> None:
    for number in range(200):
        append_row(
            path, COLUMNS, [rank, "bit_noise", "forward", number, "x" * (number * 7), "0", "d", "s", ""]
        )


def test_rows_of_several_ranks_are_whole_and_none_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "free_benchmark.csv"
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=append, args=(file, rank)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    with file.open() as lines:
        rows = list(csv.DictReader(lines))
    found = sorted((int(row["rank"]), int(row["step"]), len(row["api_name"])) for row in rows)
    assert found == [(rank, number, number * 7) for rank in range(4) for number in range(200)]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("mine\n")
    (tmp_path / "free_benchmark.csv").symlink_to(tmp_path / "other.txt")
    with pytest.raises(OSError, match="symbolic links"):
        append_row(tmp_path / "free_benchmark.csv", COLUMNS, [""] * len(COLUMNS))
    assert (tmp_path / "other.txt").read_text() == "mine\n"


def test_a_forked_process_is_left_alone(tmp_path: Path) -> None:
    with ulpscope.check.perturb(tmp_path, pert_mode="bit_noise") as check:
        child = os.fork()
        if child == 0:
            torch.exp(torch.full((4,), 90.0).bfloat16())
            os._exit(len(check.findings))
        assert os.waitpid(child, 0)[1] == 0
        assert not (tmp_path / "free_benchmark.csv").exists()
        torch.exp(torch.full((4,), 80.0).bfloat16())
    assert [one.api_name for one in check.findings][-1:] == ["Torch.exp.0.forward"]


# The guide's loop, with a model.
SCRIPT = """
import torch
from msprobe.pytorch import PrecisionDebugger

debugger = PrecisionDebugger(config_path='./config.json')
for _ in range(2):
    debugger.start()
    torch.matmul(torch.full((4, 64), 0.1).bfloat16(), torch.full((64, 4), 0.1).bfloat16()).sum(0)
    debugger.stop()
    debugger.step()
"""


@pytest.mark.slow
def test_a_script_for_msprobe_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    config = {"task": "free_benchmark", "dump_path": "./dump_path", "level": "L1"}
    config["free_benchmark"] = {"pert_mode": "bit_noise", "fuzz_device": "npu", "list": ["matmul"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    with (tmp_path / "dump_path" / "free_benchmark.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["step"], row["api_name"]) for row in rows] == [
        ("0", "Torch.matmul.0.forward"),
        ("1", "Torch.matmul.0.forward"),
    ]
    assert "Perturbation is bit_noise of Torch.matmul.0.forward." in ended.stdout
