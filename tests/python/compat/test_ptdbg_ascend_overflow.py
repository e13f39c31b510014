"""Overflow checks of ptdbg_ascend's face: which call, which files, and the flag of an NPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import ulpscope
from device_programs import needs_python_devices

TAG = "ptdbg_dump_v4.0.T2"


def names(pkl: Path) -> list[str]:
    return [json.loads(line)[0] for line in pkl.read_text().splitlines()]


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
def test_the_flag_of_an_npu_decides(
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
        # The loss is far above 2, so that the first scaled loss is infinite.
        torch.nn.init.ones_(model.weight)
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


class Scaled:
    """A training whose loss scaler skips the first steps: the scaled loss overflows."""

    def __init__(self, scaler: Any) -> None:
        self.model = torch.nn.Linear(2, 2)
        torch.nn.init.ones_(self.model.weight)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
        self.scaler = scaler
        # Its gradient overflows, and the scaler does not see that.
        self.hidden = torch.zeros(1, requires_grad=True)

    def step(self, is_hidden: bool = False) -> None:
        loss = self.model(torch.full((1, 2), 64.0)).sum()
        if is_hidden:
            loss = loss + torch.sqrt(self.hidden).sum()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["torch.amp", "torch.cuda.amp"])
def test_an_overflow_that_the_loss_scaler_skips_does_not_count(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    if name == "torch.amp":
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    else:
        # Without CUDA it would be disabled: it is torch's class for the CPU with the methods of this one.
        kind = type("GradScaler", (torch.cuda.amp.GradScaler,), {"__init__": torch.amp.GradScaler.__init__})
        scaler = kind("cpu", init_scale=2.0**127)
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check)
    training = Scaled(scaler)
    training.step()
    training.step()
    saved = len(list(tmp_path.glob("*/rank0/*.pkl")))
    assert saved >= 2
    assert "the loss scaler skips this step" in caplog.text
    scaler = training.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with pytest.raises(ValueError, match=r"^\[overflow 1 times\]: .*Torch_sqrt_0_backward_"):
        training.step(is_hidden=True)
    assert len(list(tmp_path.glob("*/rank0/*.pkl"))) == saved + 1
    ptdbg.set_overflow_check_switch("OFF")


def test_the_largest_number_of_a_dtype_counts(ptdbg: ModuleType, tmp_path: Path) -> None:
    """As in the tool. A program that passes it as a scalar means it."""
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    torch.full((2,), torch.finfo(torch.float16).min, dtype=torch.float16) * 1
    torch.clamp(torch.full((2,), 65504.0), -65504.0, 65504.0).half()
    assert [path.name for path in tmp_path.glob("*/rank0/*.pkl")] == ["Tensor_half_0_forward_1.pkl"]


def test_masks_nan_and_uninitialised_memory(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    mask = torch.zeros(2).masked_fill(torch.tensor([True, True]), float("-inf"))
    torch.full((2,), torch.nan) + 1
    torch.empty(1 << 12).view(torch.int32).fill_(-1)
    torch.empty(1 << 12)
    assert not list(tmp_path.glob("*/rank0/*.pkl"))
    torch.softmax(mask, 0)
    assert [path.name for path in tmp_path.glob("*/rank0/*.pkl")] == ["Torch_softmax_0_forward_1.pkl"]


@pytest.mark.parametrize("overflow_nums", [-1, 5])
def test_the_files_for_a_replay_are_there_before_the_number_is_reached(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overflow_nums: int
) -> None:
    monkeypatch.chdir(tmp_path)
    debugger = ptdbg.PrecisionDebugger(str(tmp_path / "dump"), "overflow_check")
    debugger.configure_hook(overflow_nums=overflow_nums, need_replicate=True)
    debugger.start()
    torch.exp(torch.tensor([20.0], dtype=torch.float16))
    debugger.stop()
    (forward,) = tmp_path.glob("forward_info_*.json")
    assert list(json.loads(forward.read_text())) == ["Torch_exp_0_forward"]
    debugger.start()
    torch.exp(torch.tensor([20.0], dtype=torch.float16))
    debugger.step()
    assert list(json.loads(forward.read_text())) == ["Torch_exp_0_forward", "Torch_exp_1_forward"]


DEVICE = """
import sys, time
sys.path.insert(0, sys.argv[1])
import torch, standin_device
from standin_device import to_device, catch_up
from ulpscope.compat import ptdbg_ascend as ptdbg
"""

JUDGED_LATER = """
waits = []
standin_device.Event.synchronize = lambda event: (waits.append(1), catch_up())
x = to_device(torch.full((3,), 3e38))
debugger = ptdbg.PrecisionDebugger(sys.argv[2], "overflow_check")
debugger.configure_hook(overflow_nums=2)
debugger.start()
masked = torch.zeros_like(x).masked_fill(x > 0, float("-inf"))
kept = x * 2
(masked + 1).exp()
changed = torch.exp(x)
changed.zero_()
assert not waits
try:
    debugger.stop()
except ValueError as error:
    print(str(error).split("]")[0])
assert waits
"""


def on_device(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has the device, in a process of its own."""
    (folder / "run.py").write_text(DEVICE + program)
    capture = Path(__file__).parents[1] / "capture"
    command = [sys.executable, str(folder / "run.py"), str(capture), str(folder / "dump")]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@needs_python_devices
def test_results_on_a_device_are_judged_there_without_waiting(tmp_path: Path) -> None:
    """Tensors that are still as they were are saved, those that have changed are not."""
    ended = on_device(tmp_path, JUDGED_LATER)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "[overflow 2 times"
    kept, changed = (
        tmp_path / "dump" / TAG / "rank0" / name
        for name in ("Tensor___mul___0_forward_1.pkl", "Torch_exp_0_forward_2.pkl")
    )
    assert names(kept) == [
        "Tensor___mul___0_forward_stack_info",
        "Tensor___mul___0_forward_input.0",
        "Tensor___mul___0_forward_input.1",
        "Tensor___mul___0_forward_output",
    ]
    assert names(changed) == ["Torch_exp_0_forward_stack_info"]
    assert "its tensors were freed or changed before it was found" in ended.stderr
    assert "run.py" in changed.read_text()


def test_a_data_loader_drives_the_steps_of_an_overflow_check(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check", step=[0, 2], enable_dataloader=True)
    debugger.configure_hook(overflow_nums=-1)

    def train() -> None:
        for x in DataLoader(torch.ones(6, 2), batch_size=1):
            overflowing(x)

    with pytest.raises(Exception, match=r"^ptdbg: exit after iteration \[0, 2\]$"):
        train()
    found = sorted(str(path.relative_to(tmp_path / TAG)) for path in tmp_path.rglob("*.pkl"))
    name = "rank0/Tensor___mul___1_forward"
    assert found == [f"step0/{name}_1.pkl", f"step2/{name}_2.pkl"]


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


def test_the_files_for_a_replay_are_read_by_it(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the run to the verdict, forward and backward, with arguments of every kind."""
    monkeypatch.chdir(tmp_path)
    debugger = ptdbg.PrecisionDebugger(str(tmp_path / "dump"), "overflow_check")
    debugger.configure_hook(overflow_nums=3, need_replicate=True)
    debugger.start()
    x = torch.tensor([20.0, 1.0], dtype=torch.float16)
    torch.exp(x)
    torch.sum(torch.full((2,), 6e4, dtype=torch.bfloat16), dim=0, dtype=torch.float16)
    assert not list(tmp_path.glob("*_info_*.json"))
    small = torch.tensor([1e-3], requires_grad=True, dtype=torch.float16)
    with pytest.raises(ValueError, match=r"^\[overflow 3 times\]"):
        torch.reciprocal(small).backward()
    pid = os.getpid()
    forward, backward = Path(f"forward_info_{pid}.json"), Path(f"backward_info_{pid}.json")
    calls = json.loads(forward.read_text())
    assert list(calls) == ["Torch_exp_0_forward", "Torch_sum_0_forward", "Torch_reciprocal_0_forward"]
    given = ulpscope.load(calls["Torch_exp_0_forward"]["args"][0]["datapath"], "torch")
    assert torch.equal(given, x)
    assert list(json.loads(backward.read_text())) == ["Torch_reciprocal_0_backward"]
    stacks = json.loads(Path(f"stack_info_{pid}.json").read_text())
    assert "test_the_files_for_a_replay_are_read_by_it" in stacks["Torch_exp_0_forward"][0]
    assert {path.name for path in tmp_path.glob("*_real_data")} == {"forward_real_data", "backward_real_data"}
    code = subprocess.run(
        [sys.executable, "-m", "ulpscope", "check", "-forward", str(forward), "-backward", str(backward)],
        capture_output=True,
        text=True,
    )
    lines = code.stdout.splitlines()
    # Each verdict is followed by its stack.
    assert "in test_the_files_for_a_replay_are_read_by_it, torch.exp(x)" in lines[1]
    assert [line for line in lines if not line.startswith(" ")] == [
        "The Torch_exp_0_forward overflow is a normal overflow.",
        "The Torch_sum_0_forward overflow is a normal overflow.",
        "The Torch.reciprocal.0.backward overflow is a normal overflow.",
    ], code.stderr
    assert code.returncode == 0


UNMEASURED = """
def fail(event):
    raise torch.OutOfMemoryError("the device is full")
x = to_device(torch.full((2,), 3e38)).requires_grad_()
y = to_device(torch.ones(2))
ptdbg.set_dump_path(sys.argv[2])
ptdbg.register_hook(torch.nn.Linear(2, 2), ptdbg.overflow_check)
FAILS
(x * 10).sum().backward()
y.div_(0)
ptdbg.set_overflow_check_switch("OFF")
print(x.grad.cpu(), y.cpu())
"""


@needs_python_devices
@pytest.mark.parametrize(
    "fails",
    [
        "standin_device.full.add('linalg_vector_norm')",
        "standin_device.lacking.add('linalg_vector_norm')",
        "standin_device.Event.query = standin_device.Event.synchronize = fail",
    ],
    ids=["full", "lacks the operation", "numbers do not arrive"],
)
def test_values_that_cannot_be_measured_are_not_checked(fails: str, tmp_path: Path) -> None:
    """A device that is full, or that lacks the operation, does not end training."""
    ended = on_device(tmp_path, UNMEASURED.replace("FAILS", fails))
    assert (ended.returncode, ended.stdout) == (0, "tensor([10., 10.]) tensor([inf, inf])\n"), ended.stderr
    assert ended.stderr.count("values could not be measured") == 1
    assert not list(tmp_path.rglob("*.pkl"))


@needs_python_devices
def test_values_that_can_be_measured_end_training(tmp_path: Path) -> None:
    """Of the same program, on a device that does not fail."""
    ended = on_device(tmp_path, UNMEASURED.replace("FAILS", ""))
    assert "ValueError: [overflow 1 times]" in ended.stderr


@pytest.mark.slow
def test_the_replay_files_have_the_first_overflows(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    debugger = ptdbg.PrecisionDebugger(str(tmp_path / "dump"), "overflow_check")
    debugger.configure_hook(overflow_nums=-1, need_replicate=True)
    debugger.start()
    x = torch.full((2,), 3e38)
    for _ in range(1002):
        x * 2
    debugger.stop()
    found = json.loads((tmp_path / f"forward_info_{os.getpid()}.json").read_text())
    assert list(found) == [f"Tensor___mul___{number}_forward" for number in range(1000)]
    assert caplog.text.count("the first 1000 overflows") == 1


class Own(torch.Tensor):
    """A class of the program."""


class Operators(torch.utils._python_dispatch.TorchDispatchMode):
    """The operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_a_tensor_of_a_program_s_class_is_read_once(ptdbg: ModuleType, tmp_path: Path) -> None:
    """As any other: by none of torch's reductions, which read it once each and do not see the limit."""
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(torch.nn.ReLU(), ptdbg.overflow_check, overflow_nums=-1)
    x = torch.full((2,), 65504.0).as_subclass(Own)
    with Operators() as operators:
        x.neg()
        x.half()
    assert [name for name in operators.names if name not in ("detach", "alias")] == ["neg", "_to_copy"]
    assert [path.name for path in tmp_path.glob("*/rank0/*.pkl")] == ["Tensor_half_0_forward_1.pkl"]
