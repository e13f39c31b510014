"""Errors in relation to those of a different device, and msprobe's command lines for checks."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows(folder: Path, name: str) -> dict[str, dict[str, str]]:
    [path] = folder.glob(f"{name}_*.csv")
    with path.open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return {row[next(iter(row))]: row for row in found}


def details(folder: Path) -> Path:
    [path] = folder.glob("accuracy_checking_details_*.csv")
    return path


@pytest.fixture
def devices(tmp_path: Path) -> tuple[Path, Path]:
    """Dumps of two devices; the first has larger errors in its softmax and a wrong relu."""

    def record(folder: Path, is_worse: bool) -> Path:
        torch.manual_seed(0)
        x = torch.randn(16, 64, requires_grad=True)
        with ulpscope.capture(folder, level="L1", task="tensor", file_format="pt"):
            y = F.softmax(x, -1)
            z = torch.relu(x)
            torch.matmul(z, y.T).exp()
            x.double().sin()
        if is_worse:
            data = folder / "step0" / "rank" / "dump_tensor_data"
            for name, tensor in (
                ("Functional.softmax.0.forward.output.0", y.detach() * 1.001),
                ("Torch.relu.0.forward.output.0", z.detach() * 1.5),
            ):
                (data / f"{name}.pt").unlink()
                ulpscope.save(data / f"{name}.pt", tensor)
        return folder

    return record(tmp_path / "npu_dump", is_worse=True), record(tmp_path / "gpu_dump", is_worse=False)


def test_ratios_of_errors_judge_a_device(devices: tuple[Path, Path], tmp_path: Path) -> None:
    npu, gpu = (tmp_path / name for name in ("npu", "gpu"))
    for dump, out in zip(devices, (npu, gpu), strict=True):
        ulpscope.check(dump, output=out)
    words = ("-npu", details(npu), "-gpu", details(gpu), "-o", tmp_path / "out")
    ran = run("ulpscope.compat.msprobe", "-f", "pytorch", "api_precision_compare", *words)
    assert ran.returncode == 1, ran.stderr
    results = rows(tmp_path / "out", "api_precision_compare_result")
    assert {name: row["Forward Test Success"] for name, row in results.items()} == {
        "Functional.softmax.0": "error",
        "Torch.relu.0": "error",
        "Torch.matmul.0": "pass",
        "Tensor.exp.0": "pass",
        "Tensor.double.0": "SKIP",
        "Tensor.sin.0": "SKIP",
    }
    assert results["Tensor.sin.0"]["Message"] == "This data type does not support benchmark compare."
    judged = rows(tmp_path / "out", "api_precision_compare_details")
    row = judged["Functional.softmax.0.forward.output.0"]
    # The ratio is that of the two files; errors below the least that the tool knows count as that.
    own, peer = (rows(folder, "accuracy_checking_details")[row["API Name"]] for folder in (npu, gpu))
    for error in ("均方根误差", "相对误差最大值", "相对误差平均值"):
        expected = float(own[error]) / max(float(peer[error]), 2**-14)
        assert float(row[f"{error}比值"]) == pytest.approx(expected)
        assert row[f"{error}判定结果"] == ("error" if expected > (10 if "最大" in error else 2) else "pass")
    assert (row["比对结果"], row["比对算法"]) == ("error", "标杆比对法")
    assert judged["Torch.relu.0.forward.output.0"]["比对算法"] == "二进制一致法"
    assert judged["Torch.matmul.0.forward.output.0"]["比对算法"] == "ULP误差比对法"


def test_a_check_takes_the_details_of_a_different_device(devices: tuple[Path, Path], tmp_path: Path) -> None:
    npu, gpu = devices
    ulpscope.check(gpu, output=tmp_path / "gpu")
    words = ("-o", tmp_path / "npu", "--bench", details(tmp_path / "gpu"), "--white-list", "softmax,exp")
    ran = run("ulpscope", "check", npu, *words)
    assert ran.returncode == 1
    assert "larger errors:\n  Functional.softmax.0: ERROR: " in ran.stderr
    assert "only in one of the files:" in ran.stderr
    assert rows(tmp_path / "npu", "api_precision_compare_result")["Tensor.exp.0"]["Message"] == ""
    alone = run("ulpscope", "check", npu, "--bench", details(tmp_path / "gpu"))
    assert alone.returncode == 2
    assert "--bench needs -o DIR" in alone.stderr


@pytest.mark.parametrize("subcommand", ["run_ut", "multi_acc_check"])
def test_the_command_lines_of_the_checker_run_a_check(
    subcommand: str, devices: tuple[Path, Path], tmp_path: Path
) -> None:
    config = tmp_path / "config.json"
    lists: dict[str, Any] = {"white_list": ["relu", "softmax", "sin"], "black_list": ["sin"]}
    task = subcommand.removeprefix("multi_")
    config.write_text(json.dumps({"task": task, task: {**lists, "error_data_path": "./"}}))
    words = ["-api_info", devices[0] / "step0" / "rank" / "dump.json", "-o", tmp_path / "out"]
    words += ["-config", config, "-d", "0", "-save_error_data"]
    words += ["-n", "2"] if subcommand.startswith("multi_") else ["-j"]
    ran = run("ulpscope.compat.msprobe", subcommand, *words)
    assert ran.returncode == 1, ran.stderr
    results = rows(tmp_path / "out", "accuracy_checking_result")
    assert list(results) == ["Functional.softmax.0", "Torch.relu.0"]
    # Binary consistency is the standard of relu.
    assert results["Torch.relu.0"]["Forward Test Success"] == "error"
    saved = sorted(path.name for path in (tmp_path / "out" / "repro").iterdir())
    assert any(name.endswith("Torch.relu.0.safetensors") for name in saved)
