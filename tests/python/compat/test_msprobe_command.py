"""``python -m ulpscope.compat.msprobe``: the command lines of msprobe 1.x and 26.x."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from captured import capture_of


def msprobe(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope.compat.msprobe", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    for name in ("npu", "bench"):
        capture_of(tmp_path / name, lambda: torch.sin(torch.ones(3)), stack_form="by_name")
    return tmp_path


@pytest.mark.parametrize("flags", [[], ["-s", "-c", "-f"]])
def test_compare_of_the_first_release(dumps: Path, flags: list[str]) -> None:
    rank = "{}/step0/rank/{}.json"
    paths = {"npu_path": rank.format("npu", "dump"), "bench_path": rank.format("bench", "dump")}
    (dumps / "compare.json").write_text(json.dumps(paths | {"stack_path": rank.format("npu", "stack")}))
    ended = msprobe(dumps, "-f", "pytorch", "compare", "-i", "compare.json", "-o", "out", *flags)
    assert ended.returncode == 0, ended.stderr
    assert len(list((dumps / "out").glob("compare_result_*.xlsx"))) == 1
    assert bool(list((dumps / "out").glob("advisor*"))) == ("-c" not in flags)


def test_compare_of_the_current_release(dumps: Path) -> None:
    ended = msprobe(dumps, "compare", "-tp", "npu/step0", "-gp", "bench/step0", "-o", "out")
    assert ended.returncode == 0, ended.stderr
    header = next((dumps / "out").glob("compare_result*.csv")).read_text().splitlines()[0]
    assert header.startswith("NPU Name,Bench Name,")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "a subcommand is missing"),
        (["-f", "mindspore", "compare"], "-f takes pytorch"),
        (["-f", "pytorch", "compare", "-i", "none.json"], "none.json"),
        (["-f", "pytorch", "compare", "-i", "empty.json"], "Missing npu_path in configuration file"),
        (["merge_result", "-i", "x"], "use ulpscope merge"),
        (["overflow_check", "-i", "x"], "use ulpscope ls"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, words: list[str], problem: str) -> None:
    (tmp_path / "empty.json").write_text("{}")
    ended = msprobe(tmp_path, *words)
    assert ended.returncode == 2
    assert problem in ended.stderr
