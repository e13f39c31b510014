"""The face's dump next to the tool's own dump of the same script (torch_npu.hooks v1.8.1, torch 2.1)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import golden

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch.nn.functional as F
from net import Net, data
from ulpscope.compat.torch_npu_hooks import register_hook, seed_all, set_dump_path, wrap_acc_cmp_hook
seed_all()
model = Net()
model.drop.eval()
register_hook(model, wrap_acc_cmp_hook, sample=sys.argv[2] == "sample")
x, ids, y = data()
set_dump_path("ours.pkl")
F.cross_entropy(model(x, ids), y).backward()
"""

# The tool reads arguments after the call: batch_norm has updated its running statistics by then.
AFTER_THE_CALL = {
    "Torch_batch_norm_forward_input.3",
    "Torch_batch_norm_forward_input.4",
    "Functional_batch_norm_forward_input.1",
    "Functional_batch_norm_forward_input.2",
}

# Calls that the tool does not wrap.
MORE = {"Tensor_to", "Torch_dropout", "Tensor___getitem__", "Functional_cross_entropy_loss"}


def lines(path: Path) -> list[list[object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def name(line: list[object]) -> str:
    return str(line[0]).split("_", 1)[1]


@pytest.mark.parametrize("kind", ["sample", "full"])
def test_every_line_of_the_tool_is_there_in_order(kind: str, tmp_path: Path) -> None:
    """Names, order, dtypes, shapes, values to float32 rounding."""
    theirs = lines(golden.unpack("torch_npu_hooks", tmp_path) / f"base_{kind}.pkl")
    scripts = golden.unpack("ptdbg", tmp_path) / "scripts"
    subprocess.run([sys.executable, "-c", SCRIPT, str(scripts), kind], cwd=tmp_path, check=True)
    ours = lines(tmp_path / "ours.pkl")
    assert [int(str(line[0]).split("_")[0]) for line in ours] == list(range(len(ours)))
    wrapped = [line for line in ours if not any(name(line).startswith(f"{more}_") for more in MORE)]
    assert [name(line) for line in wrapped] == [name(line) for line in theirs]
    for own, other in zip(wrapped, theirs, strict=True):
        assert own[2:] == other[2:], own[0]
        if name(own) not in AFTER_THE_CALL:
            assert own[1] == pytest.approx(other[1], rel=1e-4, abs=1e-5), own[0]
