"""The loops of msprobe's guide, with the smallest mends that make them run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from captured import Captured
from places import SUPPORT

# As printed, tabs and spaces are mixed, and the model, the data and the loss are left to the reader.
PARTS = """
import torch
model = torch.nn.Linear(4, 2)
data_loader = [(torch.ones(3, 4), torch.zeros(3, 2)) for _ in range(2)]
"""


def printed(number: str) -> str:
    return (SUPPORT / "guides" / f"msprobe_{number}.txt").read_text()


def mended(number: str) -> str:
    return PARTS + printed(number).replace("\t", "    ").replace(
        "    #...\n", "    loss = torch.tanh(output - label).sum()\n"
    )


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    (folder / "config.json").write_text(json.dumps({"task": "statistics", "level": "L1"}))
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("number", ["2_2", "2_3"])
def test_as_printed_it_is_no_python(number: str) -> None:
    with pytest.raises(IndentationError):
        compile(printed(number), "guide", "exec")


def test_whole_forward_and_backward_passes(tmp_path: Path) -> None:
    """Each iteration is a step, below the dump path of the constructor."""
    ended = run(tmp_path, mended("2_2"))
    assert ended.returncode == 0, ended.stderr
    for step in range(2):
        calls = list(Captured(tmp_path / "dump_path", step=step).calls)
        assert calls[:3] == [
            "Functional.linear.0.forward",
            "Tensor.__sub__.0.forward",
            "Torch.tanh.0.forward",
        ]
        assert calls[-1] == "Functional.linear.0.backward"
        assert "Torch.tanh.0.backward" in calls


def test_a_part_of_the_forward_pass_with_its_backward_pass(tmp_path: Path) -> None:
    """What comes after ``forward_backward_dump_end`` is not recorded, in neither direction."""
    ended = run(tmp_path, mended("2_3"))
    assert ended.returncode == 0, ended.stderr
    for step in range(2):
        calls = list(Captured(tmp_path / "dump_path", step=step).calls)
        assert calls == ["Functional.linear.0.forward", "Functional.linear.0.backward"]
