"""``PrecisionDebugger`` of ptdbg_ascend's face: steps, data loaders, modes."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

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
