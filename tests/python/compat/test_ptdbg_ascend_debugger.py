"""``PrecisionDebugger`` of ptdbg_ascend's face: steps, data loaders, modes, overflows, acl mode."""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import ulpscope

TAG = "ptdbg_dump_v4.0.T2"


def names(pkl: Path) -> list[str]:
    return [json.loads(line)[0] for line in pkl.read_text().splitlines()]


def work(x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    y = torch.relu(x.permute(1, 0)).sum()
    y.backward()
    return y


def test_signatures_are_those_of_the_guide(ptdbg: ModuleType, tmp_path: Path) -> None:
    parameters = list(inspect.signature(ptdbg.PrecisionDebugger).parameters)
    assert parameters == ["dump_path", "hook_name", "rank", "step", "enable_dataloader"]
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    shown = {name: one.default for name, one in inspect.signature(debugger.configure_hook).parameters.items()}
    assert shown == {
        "mode": "api_stack",
        "scope": (),
        "api_list": (),
        "filter_switch": "OFF",
        "acl_config": None,
        "backward_input": (),
        "input_output_mode": ("all",),
        "summary_only": False,
    }
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check")
    shown = {name: one.default for name, one in inspect.signature(debugger.configure_hook).parameters.items()}
    # The last one is not in the guide, and can only be given by name.
    assert list(shown.items()) == [
        ("mode", None),
        ("acl_config", None),
        ("overflow_nums", 1),
        ("need_replicate", False),
        ("filter_switch", "OFF"),
    ]


def test_two_pieces_of_a_step_are_one_dump(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(dump_path=str(tmp_path), hook_name="dump", step=[0])
    for _ in range(2):
        debugger.start()
        work(torch.ones(2, 3))
        debugger.stop()
        torch.tanh(torch.ones(2))
        # On the class, too.
        ptdbg.PrecisionDebugger.start()
        work(torch.ones(2, 3))
        ptdbg.PrecisionDebugger.stop()
        debugger.step()
    folder = tmp_path / TAG
    assert [path.name for path in folder.iterdir()] == ["step0"]
    found = names(folder / "step0" / "rank0" / "api_stack_dump.pkl")
    assert {"Torch_relu_0_forward_output", "Torch_relu_1_backward_input.0"} <= set(found)
    assert not any("tanh" in name for name in found)


def test_only_the_steps_of_the_list_and_missing_ones_are_named(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump", step=[1, 3, 9])
    for _ in range(5):
        debugger.start()
        work(torch.ones(2, 3))
        debugger.stop()
        debugger.step()
    folder = tmp_path / TAG
    assert sorted(path.name for path in folder.iterdir()) == ["step1", "step3"]
    # Calls are counted anew in each step.
    debugger.close()
    assert "steps [9] were not reached" in caplog.text
    for step in ("step1", "step3"):
        assert "Torch_relu_0_forward_output" in names(folder / step / "rank0" / "api_stack_dump.pkl")


def test_without_a_list_each_step_replaces_the_last_and_that_is_said(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    for number in range(3):
        debugger.start()
        work(torch.full((2, 3), float(number)))
        debugger.stop()
        debugger.step()
    folder = tmp_path / TAG / "rank0"
    saved = ulpscope.load(folder / "api_stack_dump" / "Torch_relu_0_forward_input.0.npy", "torch")
    assert saved.unique().tolist() == [2.0]
    assert caplog.text.count("every step replaces the dump of the one before") == 1


def test_a_data_loader_drives_the_steps(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.PrecisionDebugger(str(tmp_path), "dump", step=[0, 2], enable_dataloader=True)
    done: list[torch.Tensor] = []

    def train() -> None:
        for x in DataLoader(torch.ones(6, 2, 3), batch_size=1):
            done.append(work(x[0]))

    with pytest.raises(Exception, match=r"^ptdbg: exit after iteration \[0, 2\]$"):
        train()
    assert len(done) == 3
    assert sorted(path.name for path in (tmp_path / TAG).iterdir()) == ["step0", "step2"]
    for step in ("step0", "step2"):
        assert "Torch_relu_0_backward_input.0" in names(
            tmp_path / TAG / step / "rank0" / "api_stack_dump.pkl"
        )


@pytest.mark.parametrize(
    ("configuration", "file", "expected"),
    [
        ({"mode": "list", "scope": ["Tensor_permute_0_forward", "Torch_relu_0_backward"]}, "list_dump", 6),
        ({"mode": "range", "scope": ["Tensor_permute_0_forward", "Torch_relu_0_forward"]}, "range_dump", 6),
        ({"mode": "stack", "scope": ["Tensor_permute_0_forward", "Torch_relu_0_forward"]}, "stack_dump", 0),
        ({"mode": "api_list", "api_list": ["relu"]}, "api_list_dump", 4),
        ({"mode": "all"}, "dump", None),
        ({"filter_switch": "OFF"}, "api_stack_dump", None),
        ({"input_output_mode": ["backward"]}, "api_stack_dump", None),
        ({"summary_only": True}, "api_stack_dump", 0),
    ],
)
def test_examples_of_configure_hook(
    ptdbg: ModuleType, tmp_path: Path, configuration: dict[str, Any], file: str, expected: int | None
) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    debugger.configure_hook(**configuration)
    debugger.start()
    work(torch.ones(2, 3))
    debugger.stop()
    folder = tmp_path / TAG / "rank0"
    assert names(folder / f"{file}.pkl")
    arrays = list((folder / file).iterdir()) if (folder / file).exists() else []
    assert len(arrays) == expected if expected is not None else arrays
    if configuration.get("input_output_mode"):
        assert all("_backward_" in path.name for path in arrays)


def test_a_second_debugger_ends_the_first(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = ptdbg.PrecisionDebugger(str(tmp_path / "1"), "dump")
    first.start()
    torch.relu(torch.ones(2))
    second = ptdbg.PrecisionDebugger(str(tmp_path / "2"), "dump")
    second.start()
    torch.tanh(torch.ones(2))
    second.stop()
    assert "construct it outside of loops" in caplog.text
    assert any("relu" in name for name in names(tmp_path / "1" / TAG / "rank0" / "api_stack_dump.pkl"))
    assert not any("relu" in name for name in names(tmp_path / "2" / TAG / "rank0" / "api_stack_dump.pkl"))


def overflowing(x: torch.Tensor) -> torch.Tensor:
    return x * 1e38 * 1e38


def test_overflows_end_training_at_the_given_number(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check, overflow_nums=3)
    x = torch.ones(2)
    overflowing(x)
    overflowing(x)
    pkl = tmp_path / TAG / "rank0" / "Tensor___mul___5_forward_3.pkl"
    with pytest.raises(ValueError, match=rf"^\[overflow 3 times\]: dump file is saved in '{pkl}'\.$"):
        overflowing(x)
    folder = tmp_path / TAG / "rank0"
    assert sorted(path.name for path in folder.glob("*.pkl")) == [
        "Tensor___mul___1_forward_1.pkl",
        "Tensor___mul___3_forward_2.pkl",
        "Tensor___mul___5_forward_3.pkl",
    ]
    first, *lines = [json.loads(line) for line in pkl.read_text().splitlines()]
    assert first[0] == "Tensor___mul___5_forward_stack_info"
    assert first[1][0][2] == "overflowing"
    assert [line[:2] for line in lines] == [
        ["Tensor___mul___5_forward_input.0", 101],
        ["Tensor___mul___5_forward_input.1", 101],
        ["Tensor___mul___5_forward_output", 101],
    ]
    saved = ulpscope.load(pkl.with_suffix("") / "Tensor___mul___5_forward_output.npy", "torch")
    assert saved.isinf().all()


def test_a_second_overflow_check_refuses_equal_names(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    for error in (ValueError, FileExistsError):
        ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check)
        with pytest.raises(error):
            overflowing(torch.ones(2))


def test_overflows_are_checked_between_on_and_off(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    with pytest.raises(ValueError, match="call register_hook"):
        ptdbg.set_overflow_check_switch("ON")
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check, overflow_nums=-1)
    ptdbg.set_overflow_check_switch("OFF")
    overflowing(torch.ones(2))
    assert not (tmp_path / TAG).exists()
    ptdbg.set_overflow_check_switch("ON", filter_switch="ON")
    overflowing(torch.ones(2))
    overflowing(torch.ones(2))
    ptdbg.set_overflow_check_switch("OFF")
    overflowing(torch.ones(2))
    folder = tmp_path / TAG / "rank0"
    assert len(list(folder.glob("*.pkl"))) == 2
    assert "Tensor___mul___3_forward_input.1" not in names(folder / "Tensor___mul___3_forward_1.pkl")


def test_an_overflow_check_says_that_it_dumps_no_acl_data(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "dump.json"
    config.write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    ptdbg.set_dump_path(str(tmp_path))
    model = torch.nn.Linear(2, 2)
    ptdbg.register_hook(model, ptdbg.overflow_check, dump_mode="acl", dump_config=str(config))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check")
    debugger.configure_hook(mode="acl", acl_config=str(config))
    assert caplog.text.count("ACL data of calls that overflow are not dumped") == 2


def test_the_debugger_checks_for_overflows_in_its_steps(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check", step=[1])
    debugger.configure_hook(overflow_nums=1)
    debugger.start()
    overflowing(torch.ones(2))
    debugger.stop()
    debugger.step()
    debugger.start()
    pkl = tmp_path / TAG / "step1" / "rank0" / "Tensor___mul___1_forward_1.pkl"
    with pytest.raises(ValueError, match=rf"^\[overflow 1 times\]: dump file is saved in '{pkl}'\.$"):
        overflowing(torch.ones(2))
    assert [path.name for path in (tmp_path / TAG).iterdir()] == ["step1"]


def test_an_overflow_check_without_a_path_writes_to_the_working_directory(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check)
    ptdbg.set_overflow_check_switch("ON")
    with pytest.raises(ValueError, match=r"\[overflow 1 times\]"):
        overflowing(torch.ones(2))
    ptdbg.set_overflow_check_switch("OFF")
    assert (tmp_path / TAG / "rank0" / "Tensor___mul___1_forward_1.pkl").exists()


def test_filter_switch_of_the_debuggers_overflow_check(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check")
    debugger.configure_hook(overflow_nums=-1, filter_switch="ON")
    debugger.start()
    overflowing(torch.ones(2))
    debugger.stop()
    found = names(tmp_path / TAG / "rank0" / "Tensor___mul___1_forward_1.pkl")
    assert found[1:] == ["Tensor___mul___1_forward_input.0", "Tensor___mul___1_forward_output"]


def test_the_switch_is_reported_in_the_words_of_the_tool(
    ptdbg: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ptdbg.set_dump_path(str(tmp_path), dump_tag="all")
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON")
    torch.relu(torch.ones(2))
    ptdbg.set_dump_switch("OFF")
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump", step=[1])
    for _ in range(3):
        debugger.start()
        torch.relu(torch.ones(2))
        debugger.stop()
        debugger.step()
    printed = [line.partition("-[INFO]")[2] for line in capsys.readouterr().out.splitlines()]
    on = "Dump switch is turned on. Dump data will be saved to {}. "
    off = "Dump switch is turned off. "
    assert printed == [on.format(tmp_path / "all_v4.0.T2"), off, on.format(tmp_path / TAG), off]


def test_a_profiler_may_run_beside_a_dump(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.acc_cmp_dump)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        ptdbg.set_dump_switch("ON")
        work(torch.ones(2, 3))
        ptdbg.set_dump_switch("OFF")
    assert {"aten::relu", "aten::permute", "aten::sum"} <= {event.key for event in profiler.key_averages()}
    found = names(tmp_path / TAG / "rank0" / "dump.pkl")
    assert {"Torch_relu_0_forward_output", "Torch_relu_0_backward_input.0"} <= set(found)


class Flag:
    """A stand-in of torch_npu whose flag the test sets; ``_C`` has functions, the debug mode operators."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_set = False
        self._C = SimpleNamespace(
            _check_overflow_npu=lambda: self.note("check"), _clear_overflow_npu=lambda: self.note("clear")
        )

    def note(self, call: str) -> bool:
        self.calls.append(call)
        found, self.is_set = self.is_set, self.is_set and not call.endswith("clear")
        return found

    def npu_get_float_status(self, status: torch.Tensor) -> torch.Tensor:
        return status + float(self.note("operator check"))

    def npu_clear_float_status(self, status: torch.Tensor) -> torch.Tensor:
        self.note("operator clear")
        return status


@pytest.mark.parametrize("debug", ["", "1"])
def test_the_flag_of_an_npu_tells_an_overflow(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, debug: str
) -> None:
    flag = Flag()
    monkeypatch.setitem(sys.modules, "torch_npu", flag)
    monkeypatch.setenv("OVERFLOW_DEBUG_MODE_ENABLE", debug)
    monkeypatch.setattr(torch.Tensor, "npu", lambda tensor: tensor, raising=False)
    x = torch.ones(2)
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    torch.relu(x)
    flag.is_set = True
    torch.tanh(x)
    torch.relu(x)
    assert [path.name for path in tmp_path.glob("*/rank0/*.pkl")] == ["Torch_tanh_0_forward_1.pkl"]
    check, clear = ("operator check", "operator clear") if debug else ("check", "clear")
    assert flag.calls == [clear, check, check, clear, check]


def test_a_cann_without_the_debug_mode_is_explained(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OVERFLOW_DEBUG_MODE_ENABLE", "1")
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check)
    assert "OVERFLOW_DEBUG_MODE_ENABLE=1 needs an Ascend NPU and torch_npu" in caplog.text

    def lacks(status: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("EZ3003: [PID: 1] No supported Ops kernel and engine are found")

    flag = Flag()
    flag.npu_clear_float_status = lacks  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "torch_npu", flag)
    monkeypatch.setattr(torch.Tensor, "npu", lambda tensor: tensor, raising=False)
    with pytest.raises(RuntimeError, match="EZ3003: this CANN does not support OVERFLOW_DEBUG_MODE_ENABLE=1"):
        ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check)


def test_dynamic_loss_scaling_goes_on_as_without_the_check(ptdbg: ModuleType, tmp_path: Path) -> None:
    def scales() -> list[float]:
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
        found = []
        for _ in range(3):
            scaler.scale(model(torch.full((1, 2), 64.0)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            found.append(scaler.get_scale())
        return found

    expected = scales()
    assert expected[1] < expected[0]
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    assert scales() == expected
    assert list(tmp_path.glob("*/rank0/Tensor___mul___0_forward_1.pkl"))


def test_a_data_loader_drives_the_steps_of_an_overflow_check(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check", step=[0, 2], enable_dataloader=True)
    debugger.configure_hook(overflow_nums=-1)
    with pytest.raises(Exception, match=r"^ptdbg: exit after iteration \[0, 2\]$"):
        for x in DataLoader(torch.ones(6, 2), batch_size=1):
            overflowing(x)
    found = sorted(str(path.relative_to(tmp_path / TAG)) for path in tmp_path.rglob("*.pkl"))
    name = "rank0/Tensor___mul___1_forward"
    assert found == [f"step0/{name}_1.pkl", f"step2/{name}_2.pkl"]


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


def test_acl_mode_counts_calls_over_the_pieces_of_a_step(
    ptdbg: ModuleType, tmp_path: Path, npu: Npu
) -> None:
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


def test_the_inputs_of_a_backward_call_that_overflows_are_the_gradients_of_its_results(
    ptdbg: ModuleType, tmp_path: Path
) -> None:
    ptdbg.set_dump_path(str(tmp_path), dump_tag="over")
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check)
    x = torch.zeros(2, requires_grad=True)
    with pytest.raises(ValueError, match=re.escape("[overflow 1 times]")):
        torch.sqrt(x).sum().backward()
    (given,) = tmp_path.glob("over_*/rank0/*/Torch_sqrt_0_backward_input.0.npy")
    (returned,) = tmp_path.glob("over_*/rank0/*/Torch_sqrt_0_backward_output.0.npy")
    assert np.isfinite(np.load(given)).all()
    assert np.isinf(np.load(returned)).all()


def test_an_overflow_check_that_begins_within_a_mode_of_the_program_leaves_that_mode_alone(
    ptdbg: ModuleType, tmp_path: Path
) -> None:
    ptdbg.set_dump_path(str(tmp_path), dump_tag="over")
    with torch.device("meta"):
        ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check)
    assert torch.ones(1).device.type == "cpu"
    with pytest.raises(ValueError, match=re.escape("[overflow 1 times]")):
        torch.log(torch.zeros(1))


def test_a_call_that_returns_its_argument_is_not_blamed_for_the_gradient(
    ptdbg: ModuleType, tmp_path: Path
) -> None:
    ptdbg.set_dump_path(str(tmp_path), dump_tag="over")
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    x = torch.zeros(2, requires_grad=True)
    torch.sqrt(x).contiguous().sum().backward()
    assert [path.name for path in tmp_path.glob("over_*/rank0/*.pkl")] == ["Torch_sqrt_0_backward_1.pkl"]


def test_a_number_that_no_array_has_is_a_line(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path), dump_tag="over")
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    torch.mul(torch.full((1,), 3e38), np.float64(3e38))
    (pkl,) = tmp_path.glob("over_*/rank0/Torch_mul_0_forward_1.pkl")
    assert "Torch_mul_0_forward_input.1" in pkl.read_text()
