"""``target_data`` and ``golden_data``: tensors that are not beside their records."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import ulpscope
from captured import capture_of
from ptdbg_files import write_rank


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Two dumps of tensors that agree, with the folder of tensors moved away and renamed."""
    for side in ("target", "golden"):
        capture_of(tmp_path / side, lambda: torch.sin(torch.arange(4.0)), task="tensor")
        shutil.move(tmp_path / side / "step0/rank/dump_tensor_data", tmp_path / f"{side}_data")
    return tmp_path


def test_the_tensors_of_a_dump_json(dumps: Path) -> None:
    without = ulpscope.compare(dumps / "target", dumps / "golden")
    assert not without.ok
    assert any("dump_tensor_data" in problem for problem in without.problems)
    folders = {"target_data": dumps / "target_data", "golden_data": dumps / "golden_data"}
    result = ulpscope.compare(dumps / "target", dumps / "golden", **folders)
    assert result.ok
    assert not result.problems
    assert [row["basis"] for row in result.rows] == ["value", "elements", "elements", "elements"]
    written = json.loads(result.to_json())
    assert {key: written[key] for key in folders} == {key: str(path) for key, path in folders.items()}


def test_the_command_says_how_to_compare_again(tmp_path: Path) -> None:
    """What is shown as the next step has the folders, since it would fail without them."""
    data = tmp_path / "data"
    target = write_rank(tmp_path / "target", data=data)
    golden = write_rank(tmp_path / "golden")
    values = np.load(data / "Torch_norm_1_forward_output.npy")
    np.save(data / "Torch_norm_1_forward_output.npy", values * np.float32(1.5))
    command = [str(Path(sys.executable).parent / "ulpscope"), "compare", target, golden]
    words = [*map(str, command), "--style", "ptdbg", "--target-data", str(data), "-o", str(tmp_path / "out")]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1, ended.stderr
    written = json.loads((tmp_path / "out" / "result.json").read_text())
    assert written["golden_data"] is None
    assert f"--target-data {data}" in written["explanation"]
    (advice,) = (tmp_path / "out").glob("advisor_*.txt")
    assert written["ranks"][0]["advice"] == advice.read_text()


def test_folders_that_cannot_be_used_are_refused(dumps: Path) -> None:
    target, golden = dumps / "target", dumps / "golden"
    with pytest.raises(OSError, match="none"):
        ulpscope.compare(target, golden, target_data=dumps / "none")
    with pytest.raises(ValueError, match="expected a folder of tensors, found a file"):
        ulpscope.compare(target, golden, golden_data=target / "step0/rank/dump.json")
    with pytest.raises(ValueError, match=r"expected a dump\.json or a \.pkl of ptdbg_ascend"):
        ulpscope.compare(dumps / "target_data", golden, target_data=dumps / "target_data")
    shutil.copytree(target / "step0", target / "step1")
    with pytest.raises(ValueError, match=r"expected one rank, .*, found 2 ranks"):
        ulpscope.compare(target, golden, target_data=dumps / "target_data")
