"""The functions of torch_npu.hooks' face: values, names, errors, schedules, overflow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from hooks_scripts import run
from ulpscope.compat.torch_npu_hooks import (
    dumping,
    register_hook,
    schedule,
    seed_all,
    set_dump_path,
    wrap_acc_cmp_hook,
    wrap_async_datadump_hook,
)
from ulpscope.compat.torch_npu_hooks.tools import compare


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Each test is a process of its own, as far as the face is concerned."""
    monkeypatch.chdir(tmp_path)
    yield
    dumping.close()


def lines(path: str) -> list[list[Any]]:
    dumping.close()
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def test_seeds_give_the_same_weights() -> None:
    seed_all()
    first = torch.nn.Linear(3, 3).weight
    seed_all(1234)
    assert torch.equal(first, torch.nn.Linear(3, 3).weight)


def test_samples_are_ten_elements_and_three_statistics() -> None:
    """Of floats with dimensions only, without keyword arguments, as float32."""
    x = torch.arange(12, dtype=torch.float64).reshape(3, 4) / 3
    set_dump_path("a.pkl")
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=True)
    torch.add(x, other=x)
    torch.add(torch.tensor(1.0), torch.tensor([1, 2]))
    found = lines("a.pkl")
    assert [line[0] for line in found] == [
        "0_Torch_add_forward_input.0",
        "1_Torch_add_forward_output",
        "2_Torch_add_forward_output",
    ]
    values = x.float().flatten().tolist()
    mean = float(x.mean().float())
    assert found[0] == [
        "0_Torch_add_forward_input.0",
        [*values[:10], max(values), min(values), mean],
        "torch.float64",
        [3, 4],
    ]


def test_non_finite_values_are_bare_words() -> None:
    set_dump_path("a.pkl")
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=False)
    torch.neg(torch.tensor([float("inf"), 1.0]))
    dumping.close()
    assert "[-Infinity, -1.0]" in Path("a.pkl").read_text()


def test_gradients_are_those_of_the_inputs_first() -> None:
    """backward_input is the gradient of the inputs."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    set_dump_path("a.pkl")
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=False)
    (x * 3.0).backward(torch.ones(2))
    backward = [line for line in lines("a.pkl") if "mul___backward" in line[0]]
    assert [(line[0].split("backward_")[1], line[1]) for line in backward] == [
        ("input.0", [3.0, 3.0]),
        ("output.0", [1.0, 1.0]),
    ]


@pytest.mark.parametrize("path", [None, "", ".", "missing/x.pkl", 3])
def test_bad_paths_are_refused_at_the_call(path: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="set_dump_path"):
        set_dump_path(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "hook", "keywords"),
    [
        (None, wrap_acc_cmp_hook, {}),
        (torch.nn.ReLU(), print, {}),
        (torch.nn.ReLU(), wrap_acc_cmp_hook, {"sample": 3}),
        (torch.nn.ReLU(), wrap_acc_cmp_hook, {"schedule": 3}),
        (torch.nn.ReLU(), wrap_acc_cmp_hook, {"samples": True}),
        (torch.nn.ReLU(), wrap_async_datadump_hook, {"path": None}),
    ],
)
def test_bad_registrations_are_refused(
    model: Any, hook: Any, keywords: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(TypeError, match="register_hook"):
        register_hook(model, hook, **keywords)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("chosen", "steps"),
    [
        (schedule(), list(range(15))),
        (schedule(4, 10, 2), [4, 6, 8, 10]),
        (schedule(begin=5, stride=3), [5, 8, 11, 14]),
        (schedule(end=10, stride=3), [0, 3, 6, 9]),
    ],
)
def test_schedules(chosen: Any, steps: list[int]) -> None:
    assert [step for step in range(15) if chosen.is_enabled(step)] == steps


@pytest.mark.parametrize("numbers", [(-1,), (0, -1), (0, 5, 0), (3, 2), (0, 5, -1), ("0",)])
def test_illegal_schedules(numbers: tuple[Any, ...]) -> None:
    with pytest.raises(RuntimeError, match="Illegal Argument"):
        schedule(*numbers)


def test_operators_that_match_nothing_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Skipped until both sides match again, and logged."""
    x = torch.tensor([1.0, 2.0])
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    set_dump_path("cpu.pkl")
    torch.neg(x)
    torch.tanh(x)
    set_dump_path("npu.pkl")
    torch.exp(x)
    torch.tanh(x)
    compare("npu.pkl", "cpu.pkl", "result.csv")
    table = Path("result.csv").read_text().splitlines()
    assert len(table) == 3
    assert "tanh" in table[1]
    assert "only in the target: 0_Torch_exp_forward" in caplog.text
    assert "only in the golden: 0_Torch_neg_forward" in caplog.text
    compare("npu.pkl", "cpu.pkl", "by_shape.csv", shape_flag=True)
    assert len(Path("by_shape.csv").read_text().splitlines()) == 3


def test_a_text_dump_after_a_dump_of_tensors() -> None:
    set_dump_path("a.pkl")
    register_hook(torch.nn.ReLU(), wrap_async_datadump_hook, path="tensors")
    torch.tanh(torch.zeros(2))
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    torch.exp(torch.zeros(2))
    dumping.flush()
    assert "Torch_exp_forward" in Path("a.pkl").read_text()
    assert list(Path("tensors").glob("*_Torch_tanh_forward_output0_*.npy"))


def test_shapes_that_differ() -> None:
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    set_dump_path("a.pkl")
    torch.tanh(torch.zeros(2))
    set_dump_path("b.pkl")
    torch.tanh(torch.zeros(3))
    compare("a.pkl", "b.pkl", "shapes.csv")
    assert "cannot be calculated ,cannot be calculated,cannot be calculated" in Path("shapes.csv").read_text()


def test_a_listed_and_shown_dump() -> None:
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    set_dump_path("a.pkl")
    torch.tanh(torch.zeros(2))
    dumping.close()
    for command in (["ls", "a.pkl"], ["show", "a.pkl", "Torch.tanh.0.forward"]):
        shown = subprocess.run(
            [sys.executable, "-m", "ulpscope", *command], capture_output=True, text=True, check=True
        )
        assert "Torch.tanh.0.forward" in shown.stdout


OVERFLOW = """
import torch
from torch_npu.hooks import register_hook, wrap_checkoverflow_hook
register_hook(torch.nn.ReLU(), wrap_checkoverflow_hook)
x = torch.tensor([100.0], requires_grad=True)
torch.zeros(2).masked_fill(torch.tensor([True, False]), float("-inf"))
"""


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("torch.exp(x)", "Torch_exp_forward"),
        ("torch.ones(1).mul_(1e30).mul_(1e30)", "Tensor_mul__forward"),
        ("torch.sqrt(x - 100).sum().backward()", "Torch_sqrt_backward"),
    ],
)
def test_an_overflow_is_named_and_saved(statement: str, name: str, tmp_path: Path) -> None:
    error = run(OVERFLOW + statement, tmp_path, code=1).stderr
    files = list(tmp_path.iterdir())
    assert [file.name.startswith("Overflow_info_") for file in files] == [True]
    what = f"ValueError: [check overflow]: module name :'{name}' is overflow"
    assert f"{what} and dump file is saved in '{files[0]}'." in error
    found = [json.loads(line) for line in files[0].read_text().splitlines()]
    assert found[0][0] == f"{name}_stack_info.0"
    assert found[0][1].startswith("FrameInfo(")
    assert next(line[0] for line in found if "stack_info" not in line[0]).startswith(f"{name}_input")
    shown = subprocess.run(
        [sys.executable, "-m", "ulpscope", "ls", str(files[0])], capture_output=True, text=True, check=False
    )
    assert name.split("_")[1] in shown.stdout


FLAG = """
import sys, types
calls = []
flag = [True]
def clear():
    calls.append("clear")
    flag[0] = False
functions = types.SimpleNamespace(_check_overflow_npu=lambda: flag[0], _clear_overflow_npu=clear)
sys.modules["torch_npu"] = types.SimpleNamespace(_C=functions)
"""


def test_the_flag_of_an_npu_decides_and_is_cleared_when_the_hook_is_registered(tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    run(OVERFLOW + "assert calls == ['clear']\ntorch.relu(x)\n", tmp_path, before=FLAG)
    assert list(tmp_path.iterdir()) == []
    error = run(OVERFLOW + "flag[0] = True\ntorch.tanh(x)\n", tmp_path, code=1, before=FLAG).stderr
    assert "ValueError: [check overflow]: module name :'Torch_tanh_forward' is overflow" in error


def test_a_schedule_does_not_apply_to_the_overflow_check(tmp_path: Path) -> None:
    """As in the tool: the step is not one of the schedule."""
    imports = OVERFLOW.replace("import register_hook,", "import register_hook, schedule,")
    script = imports.replace(
        "wrap_checkoverflow_hook)", "wrap_checkoverflow_hook, schedule=schedule(5, 9, 2))"
    )
    error = run(script + "torch.exp(x)", tmp_path, code=1).stderr
    assert "ValueError: [check overflow]: module name :'Torch_exp_forward' is overflow" in error


SCALED = """
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.0)
hidden = torch.zeros(1, requires_grad=True)
def step(scale, hidden):
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(model(torch.full((1, 2), 64.0)).abs().sum() + hidden).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
step(2.0**127, 100.0)
"""


def test_an_overflow_that_the_loss_scaler_skips_is_expected(tmp_path: Path) -> None:
    ended = run(OVERFLOW + SCALED, tmp_path)
    assert "in a step that the loss scaler skips: expected" in ended.stderr
    assert list(tmp_path.iterdir()) == []
    unseen = OVERFLOW + SCALED + "step(2.0, torch.sqrt(hidden).sum())\n"
    error = run(unseen, tmp_path, code=1).stderr
    assert "ValueError: [check overflow]: module name :'Torch_sqrt_backward' is overflow" in error
    assert len(list(tmp_path.iterdir())) == 1


def test_a_sample_is_small() -> None:
    """Of large tensors 13 numbers are written, whatever their size."""
    sizes = {}
    x = torch.randn(200, 500)
    for sample in (True, False):
        set_dump_path("a.pkl")
        register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=sample)
        torch.neg(x)
        dumping.close()
        sizes[sample] = Path("a.pkl").stat().st_size
    assert sizes[True] < 1000
    assert sizes[False] > 1000 * sizes[True]


def test_a_sample_that_changes_within_a_file_is_refused() -> None:
    """Before the first line it may change."""
    set_dump_path("a.pkl")
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook, sample=False)
    torch.neg(torch.ones(20))
    with pytest.raises(RuntimeError, match="lines of a different sample; call set_dump_path"):
        register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    set_dump_path("b.pkl")
    register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
    torch.neg(torch.ones(20))
    dumping.close()
    assert [len(json.loads(Path(path).read_text().splitlines()[-1])[1]) for path in ("a.pkl", "b.pkl")] == [
        20,
        13,
    ]


def test_a_file_in_place_of_the_folder_of_tensors_is_refused() -> None:
    Path("a.pkl").touch()
    for path in ("a.pkl", "a.pkl/below"):
        with pytest.raises(RuntimeError, match=f"path is '{path}', which is a file; give a folder"):
            register_hook(torch.nn.ReLU(), wrap_async_datadump_hook, path=path)


def test_attention_runs_as_without_the_hook() -> None:
    """It calls ``Tensor.unflatten``, whose Python code calls the method of that name of its base class."""
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(2, 3, 8)
    expected = attention(x, x, x)[0]
    set_dump_path("a.pkl")
    register_hook(attention, wrap_acc_cmp_hook, seed=1)
    found = attention(x, x, x)[0]
    found.sum().backward()
    dumping.close()
    assert torch.equal(found, expected)
    names = [json.loads(line)[0].split("_", 1)[1] for line in Path("a.pkl").read_text().splitlines()]
    assert names.count("Tensor_unflatten_forward_output") == 1
    assert "Functional_softmax_forward_output" in names


def test_a_folder_of_tensors_is_listed_shown_and_compared() -> None:
    for folder, x in (("npu", torch.tensor([1.0, 2.0])), ("cpu", torch.tensor([1.0, 3.0]))):
        register_hook(torch.nn.ReLU(), wrap_async_datadump_hook, path=folder)
        torch.tanh(x)
        dumping.close()
    for words in (["ls", "npu"], ["show", "npu", "Torch.tanh.0.forward"]):
        shown = subprocess.run([sys.executable, "-m", "ulpscope", *words], capture_output=True, text=True)
        assert shown.returncode == 0
        assert "Torch.tanh.0.forward" in shown.stdout
    found = ulpscope.compare("npu", "cpu").first_divergence
    assert found is not None
    assert (found.kind, found.call) == ("origin differs", "Torch.tanh.0.forward")
