"""The examples of torch_npu.hooks' guide run with one import line changed."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy

from hooks_scripts import (
    MODULE_OP,
    MODULE_OP_MEND,
    NO_TORCHVISION,
    OVERFLOW,
    READ,
    RESNET,
    VALID_LABEL,
    run,
)

HEADER = (
    "NPU Name,Bench Name,NPU Tensor Dtype,Bench Tensor Dtype,NPU Tensor Shape,Bench Tensor Shape,"
    "Cosine,RMSE,MAPE"
)


def rows(path: Path) -> list[dict[str, str]]:
    text = path.read_text(encoding="utf-8")
    assert text.splitlines()[0] == HEADER
    return list(csv.DictReader(text.splitlines()))


def lines(path: Path) -> list[list[object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_module_op(tmp_path: Path) -> None:
    """Both dumps and the table, and nothing else."""
    assert "model_cpu" in run(MODULE_OP, tmp_path, code=1).stderr
    run(MODULE_OP, tmp_path, *MODULE_OP_MEND)
    found = rows(tmp_path / "module_result.csv")
    cpu = lines(tmp_path / "cpu_module_op.pkl")
    # Moving the model to its device is recorded, too.
    assert len(found) == 25
    assert {row["Cosine"] for row in found} <= {"1.0", "0.9999999999999999", "nan"}
    assert [line[0] for line in lines(tmp_path / "npu_module_op.pkl")] == [line[0] for line in cpu[:25]]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "cpu_module_op.pkl",
        "module_result.csv",
        "npu_module_op.pkl",
    ]


def test_module_op_without_sampling(tmp_path: Path) -> None:
    """Every element, flattened."""
    whole = ("wrap_acc_cmp_hook)\nseed", "wrap_acc_cmp_hook, sample=False)\nseed")
    run(MODULE_OP, tmp_path, *MODULE_OP_MEND, whole)
    for _, values, _, shape in lines(tmp_path / "cpu_module_op.pkl"):
        assert len(values) == numpy.prod(shape)  # type: ignore[arg-type, call-overload]
    assert len(rows(tmp_path / "module_result.csv")) == 25


def test_resnet_and_reading_a_line(tmp_path: Path) -> None:
    """Two models in one process; the line that the guide's script reads."""
    run(RESNET, tmp_path, NO_TORCHVISION, VALID_LABEL)
    assert len(rows(tmp_path / "resnet50_result.csv")) > 80
    printed = run(READ, tmp_path).stdout.splitlines()
    assert printed[0] == "0_Functional_conv2d_forward_input.0"
    assert len(json.loads(printed[1])) == 13
    assert printed[2:] == ["torch.float32", "[1, 3, 244, 244]"]


STEPS = """
import torch
import torch.nn as nn
from torch_npu.hooks import register_hook, wrap_acc_cmp_hook, schedule, step_schedule
from torch_npu.hooks import set_dump_path
model = nn.Linear(2, 2)
num_train_epochs = 2
dataloader = [torch.full((1, 2), float(step)) for step in range(12)]
set_dump_path("steps.pkl")
register_hook(model, wrap_acc_cmp_hook, schedule=schedule(4, 10, 2))
for epoch in range(num_train_epochs):
    # init step_num as 0
    step_schedule.reset_step()
    for step, inputs in enumerate(dataloader):
        output = model(inputs)
        loss = output.sum()
        loss.backward()
        # step_num increase 1
        step_schedule.step()
"""


def test_steps_of_every_epoch(tmp_path: Path) -> None:
    """Steps 4, 6, 8, 10 of each epoch, in one file and in order."""
    run(STEPS, tmp_path)
    found = lines(tmp_path / "steps.pkl")
    assert [int(str(line[0]).split("_")[0]) for line in found] == list(range(len(found)))
    inputs = [line[1][0] for line in found if "linear_forward_input.0" in str(line[0])]  # type: ignore[index]
    assert inputs == [4.0, 6.0, 8.0, 10.0] * 2


ASYNC = """
import torch
import torch.nn as nn
from torch_npu.hooks import register_hook, wrap_async_datadump_hook, schedule, step_schedule
module = nn.Sequential(nn.Linear(2, 1), nn.ReLU())
register_hook(module, wrap_async_datadump_hook, path='./output', schedule=schedule(1, 2))
for step in range(4):
    module(torch.full((2, 2), float(step))).sum().backward()
    step_schedule.step()
"""


def test_asynchronous_dump(tmp_path: Path) -> None:
    """Files of steps 1 and 2 that numpy opens; nothing is lost."""
    run(ASYNC, tmp_path)
    files = sorted(path.name for path in (tmp_path / "output").iterdir())
    memory = r"_shape\[[\d,]*\]_stride\[[\d,]*\]_offset\[\d+\]_format\[2\]"
    form = rf"\d+_\w+_(forward|backward)_(input|output)\d+{memory}\.npy"
    assert files
    assert all(re.fullmatch(form, name) for name in files)
    assert [name for name in files if "relu_backward_input0_shape[2,1]_stride[1,1]_offset[0]" in name]
    firsts = sorted(
        (int(name.split("_")[0]), numpy.load(tmp_path / "output" / name).flat[0])
        for name in files
        if "linear_forward_input0" in name
    )
    assert [value for _, value in firsts] == [1.0, 2.0]


def test_overflow_example(tmp_path: Path) -> None:
    """Without overflow the run ends as without the hook, and there is no file."""
    assert "model_npu" in run(OVERFLOW, tmp_path, NO_TORCHVISION, code=1).stderr
    run(OVERFLOW, tmp_path, NO_TORCHVISION, VALID_LABEL, ("model_npu(inputs)", "model(inputs)"))
    assert not list(tmp_path.iterdir())
