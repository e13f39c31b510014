"""The setting ``layout``: which tool's files are made of a recording."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ulpscope


def lines_of(file: Path) -> list[list[object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_all_steps_are_in_one_file_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "cpu.pkl"
    file.write_text("of an earlier run")
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    with ulpscope.capture(tmp_path / "work", layout="torch_npu_hooks", layout_path=file) as run:
        torch.relu(x).sum().backward()
        run.step()
        run.stop()
        torch.sigmoid(x)
        run.start()
        torch.tanh(x)
        run.stop()
        run.start()
        torch.exp(x)
    assert [line[0] for line in lines_of(file)] == [
        "0_Torch_relu_forward_input.0",
        "1_Torch_relu_forward_output",
        "2_Tensor_sum_forward_input.0",
        "3_Tensor_sum_backward_input.0",
        "4_Torch_relu_backward_input.0",
        "5_Torch_relu_backward_output.0",
        "6_Torch_tanh_forward_input.0",
        "7_Torch_tanh_forward_output",
        "8_Torch_exp_forward_input.0",
        "9_Torch_exp_forward_output",
    ]
    assert lines_of(file)[1][2:] == ["torch.float32", [2]]
    assert [path.name for path in tmp_path.iterdir()] == ["cpu.pkl"]


def test_a_killed_run_leaves_a_journal_that_can_be_read(tmp_path: Path) -> None:
    script = """
import os, torch, ulpscope
x = torch.ones(2)
with ulpscope.capture("work", layout="torch_npu_hooks", layout_path="cpu.pkl") as run:
    torch.relu(x)
    run.step()
    torch.tanh(x)
    os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    assert len(lines_of(tmp_path / "cpu.pkl")) == 2
    shown = subprocess.run(
        [sys.executable, "-m", "ulpscope", "ls", "work"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Torch.tanh.0.forward" in shown.stdout


def test_what_the_ledger_reports_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "cpu.pkl"
    x = torch.ones(2)
    with ulpscope.capture(
        tmp_path / "work", layout="torch_npu_hooks", layout_path=file, max_calls=1, data_mode="forward"
    ):
        torch.relu(x)
        torch.relu(x)
    assert len(lines_of(file)) == 2
    assert f"{file}: backward calls are not selected" in caplog.text


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "ptdbg"}, "layout is 'ptdbg'; expected one of msprobe, "),
        ({"layout": "torch_npu_hooks"}, "layout_path is None; layout 'torch_npu_hooks' needs the path"),
        ({"layout_path": "x.pkl"}, "layout_path is .*, but layout is 'msprobe'"),
        ({"layout": "torch_npu_hooks", "layout_path": "."}, "layout_path is .*, which is a folder"),
        ({"layout": "torch_npu_hooks", "layout_path": 3}, "layout_path is 3; expected the path of a file"),
        ({"layout": "torch_npu_hooks", "layout_path": "{epoch}"}, "{epoch} is no placeholder"),
        ({"layout": "torch_npu_hooks_async", "layout_path": "d"}, "needs task='tensor', file_format='npy'"),
        ({"sample": -1}, "sample is -1; expected a number of elements"),
        ({"sample": True}, "sample is True; expected a number of elements"),
        ({"gradients": "all"}, "gradients is 'all'; expected one of arguments, last_node"),
    ],
)
def test_wrong_layouts_are_refused_before_anything_is_made(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ulpscope.capture(tmp_path / "work", **settings)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
