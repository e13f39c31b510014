"""acl mode of ptdbg_ascend's face, with a stand-in of torch_npu."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import ulpscope


class Npu:
    """Records the calls of ``torch_npu.npu``, and how far the program was when a dump began and ended."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.progress = 0
        self.dumped: list[int] = []

    def init_dump(self) -> None:
        self.calls.append("init_dump")
        self.dumped.append(self.progress)

    def set_dump(self, cfg_file: str) -> None:
        self.calls.append(("set_dump", cfg_file))

    def finalize_dump(self) -> None:
        self.calls.append("finalize_dump")
        self.dumped.append(self.progress)

    def synchronize(self) -> None:
        self.calls.append("synchronize")


@pytest.fixture
def npu(monkeypatch: pytest.MonkeyPatch) -> Npu:
    stand_in = Npu()
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace(npu=stand_in))
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "0")
    return stand_in


def test_acl_mode_dumps_one_api_and_initialises_once(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    ptdbg.set_dump_path(str(tmp_path / "dump_path"), dump_tag="forward")
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.acc_cmp_dump, dump_mode="acl", dump_config=str(config))
    ptdbg.set_dump_switch("ON", mode="acl", scope=["Torch_relu_1_forward"], filter_switch="OFF")
    for _ in range(3):
        torch.relu(torch.ones(2))
        npu.progress += 1
    ptdbg.set_dump_switch("OFF")
    # Around the second call: the first is done, the second is not.
    assert npu.dumped == [1, 1]
    assert npu.calls == [
        "init_dump",
        ("set_dump", str(config)),
        "synchronize",
        "synchronize",
        "finalize_dump",
    ]
    assert "uses more NPU memory" in caplog.text
    assert "TASK_QUEUE_ENABLE" not in caplog.text


def test_acl_mode_runs_a_backward_api_with_its_saved_gradient(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu, caplog: pytest.LogCaptureFixture
) -> None:
    os.environ["TASK_QUEUE_ENABLE"] = "1"
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    gradient = tmp_path / "Torch_relu_0_backward_input.0.npy"
    ulpscope.save(gradient, torch.ones(2))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    debugger.configure_hook(
        mode="acl",
        scope=["Torch_relu_0_backward"],
        acl_config=str(config),
        backward_input=[str(gradient)],
    )
    x = torch.ones(2, requires_grad=True)
    debugger.start()
    y = torch.relu(x)
    debugger.stop()
    assert npu.calls.count("init_dump") == npu.calls.count("finalize_dump") == 1
    assert x.grad is None
    y.sum().backward()
    assert x.grad is not None
    assert "acl mode needs export TASK_QUEUE_ENABLE=0" in caplog.text


def test_acl_mode_initialises_once_for_a_function_that_calls_another(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu
) -> None:
    """``F.batch_norm`` calls ``torch.batch_norm``."""
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    for name in ("Functional_batch_norm_0_forward", "Torch_batch_norm_0_forward"):
        debugger.configure_hook(mode="acl", scope=[name], acl_config=str(config))
        debugger.start()
        torch.nn.BatchNorm1d(2)(torch.ones(3, 2))
        debugger.stop()
    assert npu.calls.count("init_dump") == 1


def test_acl_mode_counts_calls_over_the_pieces_of_a_step(ptdbg: ModuleType, tmp_path: Path, npu: Npu) -> None:
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    debugger.configure_hook(mode="acl", scope=["Torch_relu_2_forward"], acl_config=str(config))
    for _ in range(2):
        for _ in range(2):
            debugger.start()
            for _ in range(2):
                torch.relu(torch.ones(2))
                npu.progress += 1
            debugger.stop()
        debugger.step()
    assert npu.dumped == [2, 2, 6, 6]


def test_acl_mode_runs_the_backward_of_a_call_with_a_list_of_tensors(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    gradient = tmp_path / "Torch_cat_0_backward_input.0.npy"
    ulpscope.save(gradient, torch.ones(4))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    debugger.configure_hook(
        mode="acl",
        scope=["Torch_cat_0_backward"],
        acl_config=str(config),
        backward_input=[str(gradient)],
    )
    debugger.start()
    torch.cat([torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)])
    assert npu.dumped == [0, 0]
    debugger.stop()
    debugger.step()
    debugger.start()
    torch.cat([torch.ones(2), torch.ones(2)])
    debugger.stop()
    assert npu.dumped == [0, 0]
    assert "Torch_cat_0 has no backward call: nothing of it requires a gradient" in caplog.text


def test_acl_mode_says_when_a_result_has_no_gradient(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.acc_cmp_dump, dump_mode="acl", dump_config=str(config))
    ptdbg.set_dump_switch("ON", mode="acl", scope=["Torch_sort_0_backward"])
    torch.sort(torch.ones(2, requires_grad=True))
    ptdbg.set_dump_switch("OFF")
    assert "is not of tensor type and cannot be automatically derived" in caplog.text
    assert npu.calls == []
