"""Several ranks write one file; scripts written for msprobe run as they are."""

from __future__ import annotations

import csv
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from watched_runs import watched

OUTPUTS = 40
STEPS = 2


def find(folder: Path, rank: int, together: Any) -> None:
    """A rank whose outputs all change, and whose rows are of many lengths."""
    os.environ["RANK"] = str(rank)
    first = tuple(torch.ones((1,) * number) for number in range(OUTPUTS))
    second = tuple(one * 2 for one in first)

    def results() -> Iterator[Any]:
        yield first
        # All ranks are about to write now.
        together.wait(60)
        yield second

    with watched(folder, prefix="x" * (400 * rank + 1), pert_mode="bit_noise") as function:
        for _ in range(STEPS):
            function.call(results(), torch.ones(1))
            function.check.step()


def test_rows_of_several_ranks_are_whole_and_none_is_lost(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    together = context.Barrier(4)
    ranks = [context.Process(target=find, args=(tmp_path, rank, together)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    with (tmp_path / "free_benchmark.csv").open() as lines:
        rows = [list(row.values()) for row in csv.DictReader(lines)]
    expected = [
        [
            str(rank),
            "bit_noise",
            "forward",
            str(step),
            "x" * (400 * rank + 1) + ".watch.0.forward",
            "1.0",
            "torch.float32",
            f"torch.Size({[1] * number})",
            str(number),
        ]
        for rank in range(4)
        for step in range(STEPS)
        for number in range(OUTPUTS)
    ]
    # Ranks mix; the rows of each are in its order.
    assert sorted(rows, key=lambda row: int(row[0])) == expected


def test_a_rank_waits_while_another_writes_the_header(tmp_path: Path) -> None:
    columns = "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index\n"
    is_due, before = threading.Event(), []

    def results() -> Iterator[torch.Tensor]:
        yield torch.ones(1)
        is_due.set()
        yield torch.zeros(1)

    with (tmp_path / "free_benchmark.csv").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def write() -> None:
            is_due.wait(60)
            time.sleep(0.05)
            before.append(os.fstat(file.fileno()).st_size)
            file.write(columns)
            file.flush()
            fcntl.flock(file, fcntl.LOCK_UN)

        other = threading.Thread(target=write)
        other.start()
        with watched(tmp_path, pert_mode="bit_noise") as function:
            function.call(results(), torch.ones(1))
        other.join()
    assert before == [0]
    header, row = (tmp_path / "free_benchmark.csv").read_text().splitlines(keepends=True)
    assert header == columns
    assert row.startswith(",bit_noise,forward,0,Watched.watch.0.forward,")


def test_a_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "other.txt").write_text("mine\n")
    (tmp_path / "free_benchmark.csv").symlink_to(tmp_path / "other.txt")
    with watched(tmp_path, pert_mode="bit_noise") as function:
        for _ in range(2):
            function.call([torch.ones(1), torch.zeros(1)], torch.ones(1))
    assert (tmp_path / "other.txt").read_text() == "mine\n"
    assert len(function.check.findings) == 2, "the program goes on, and findings stay in memory"
    (error,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert error.startswith(f"{tmp_path / 'free_benchmark.csv'} cannot be written: ")
    assert "symbolic links" in error


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
