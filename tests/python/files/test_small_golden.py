"""The small golden files of the repository: a clone without the archives reads every kind."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ulpscope

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def ls(path: Path) -> list[dict[str, Any]]:
    done = run("ls", "--json", path)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["ranks"]


@pytest.mark.parametrize(
    ("path", "tool", "task", "calls"),
    [
        ("pkl_dumps/ptdbg4/golden/dump.pkl", "ptdbg_ascend", "tensor", 3),
        ("pkl_dumps/ptdbg6/golden/dump.pkl", "ptdbg_ascend 6.0", "tensor", 3),
        ("pkl_dumps/torch_npu_hooks/golden.pkl", "torch_npu.hooks", "tensor", 3),
        ("msprobe/tensor_L0", "msprobe", "tensor", None),
        ("msprobe/md5_L1", "msprobe", "statistics", None),
        ("msprobe/xor_L1", "msprobe", "statistics", None),
        ("msprobe/stat_mix", "msprobe", "statistics", None),
    ],
)
def test_dumps_are_listed(path: str, tool: str, task: str, calls: int | None) -> None:
    (rank,) = ls(GOLDEN / path)
    if calls is None:
        calls = len(json.loads((GOLDEN / path / "dump.json").read_text())["data"])
    assert (rank["tool"], rank["task"], len(rank["calls"])) == (tool, task, calls)
    assert all(call["entries"] for call in rank["calls"])


@pytest.mark.parametrize("tool", ["ptdbg4", "ptdbg6", "torch_npu_hooks"])
def test_the_layer_that_is_off_is_found(tool: str) -> None:
    sides = [
        GOLDEN / "pkl_dumps" / tool / (f"{side}.pkl" if tool == "torch_npu_hooks" else f"{side}/dump.pkl")
        for side in ("target", "golden")
    ]
    found = ulpscope.compare(*sides)
    assert found.first_divergence is not None
    assert found.first_divergence.call == "Functional.linear.1.forward"
    assert ulpscope.compare(sides[1], sides[1])


@pytest.mark.parametrize(("tool", "style", "end"), [("ptdbg4", "ptdbg", "_"), ("ptdbg6", "ptdbg-6", ".")])
def test_rows_of_ptdbg_have_the_numbers_of_numpy(tmp_path: Path, tool: str, style: str, end: str) -> None:
    folder = GOLDEN / "pkl_dumps" / tool
    sides = [folder / side / "dump.pkl" for side in ("target", "golden")]
    done = run("compare", *sides, "-o", tmp_path, "--style", style, "--format", "csv,xlsx")
    assert done.returncode in (0, 1), done.stderr
    (sheet,) = tmp_path.glob("compare_result*.csv")
    assert list(tmp_path.glob("compare_result*.xlsx"))
    assert list(tmp_path.glob("advisor*.txt"))
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    for row in rows:
        target, golden = (
            np.load(folder / side / "dump" / f"{row['NPU Name']}.npy") for side in ("target", "golden")
        )
        largest = np.abs(target.astype(float) - golden.astype(float)).max()
        assert float(row["MaxAbsErr"]) == pytest.approx(largest, abs=1e-12)
        assert float(row["Bench max"]) == golden.max()
    assert rows[3]["NPU Name"] == end.join(["Functional", "linear", "1", "forward", "output"])


def test_rows_of_torch_npu_hooks(tmp_path: Path) -> None:
    sides = [GOLDEN / "pkl_dumps" / "torch_npu_hooks" / f"{side}.pkl" for side in ("target", "golden")]
    done = run("compare", *sides, "-o", tmp_path, "--style", "torch_npu", "--format", "csv")
    assert done.returncode in (0, 1), done.stderr
    (sheet,) = tmp_path.glob("compare_result*.csv")
    with sheet.open(newline="") as file:
        assert [row["MAPE"] for row in csv.DictReader(file)] == ["0.0%"] * 3 + ["1.0%"] * 3


@pytest.mark.parametrize(("name", "kind"), [("full", "nd"), ("nano", "nano")])
def test_dump_files_of_acl(name: str, kind: str) -> None:
    done = run("stats", "--json", GOLDEN / "acl" / f"{name}.dump")
    assert json.loads(done.stdout)["tensors"], kind


def test_every_data_type_of_acl_is_read_or_named() -> None:
    found = json.loads(run("stats", "--json", GOLDEN / "acl" / "every_type.dump").stdout)
    dtypes = {tensor["dtype"] for tensor in found["tensors"]}
    assert {"float32", "float16", "bfloat16", "hifloat8", "int8", "int64"} <= dtypes
    assert all("raw bytes are kept" in error for error in found["errors"])


@pytest.mark.parametrize("folder", ["npy", "npz", "pt", "safetensors", "pkl_lines"])
def test_a_folder_of_files(folder: str) -> None:
    found = json.loads(run("stats", "--json", GOLDEN / folder).stdout)
    read = {row["file"] for row in [*found["tensors"], *found["records"]]}
    assert len(read) > 0
    suffix = {"pkl_lines": ".pkl"}.get(folder, f".{folder}")
    assert {Path(file).suffix for file in read} == {suffix}
