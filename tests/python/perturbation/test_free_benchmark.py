"""Task free_benchmark: what is changed, what is compared, what is written, what is logged."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope
from watched_runs import watched

# The guide's config.json, letter by letter except for the folder.
GUIDE = """
{
    "task": "free_benchmark",
    "dump_path": "./dump_path",
    "rank": [],
    "step": [],
    "level": "L1",

    "free_benchmark": {
        "scope": [],
        "list": [],
        "fuzz_device": "npu",
        "pert_mode": "improve_precision",
        "handler_type": "check",
        "fuzz_level": "L1",
        "fuzz_stage": "forward",
        "if_preheat": false,
        "preheat_step": 15,
        "max_sample": 20
    }
}
"""


@pytest.fixture
def closing() -> Iterator[None]:
    yield
    ulpscope.PrecisionDebugger.close()


def rows(folder: Path) -> list[dict[str, str]]:
    file = folder / "free_benchmark.csv"
    return list(csv.DictReader(file.open())) if file.exists() else []


def config(folder: Path, **section: Any) -> Path:
    """The guide's file with another folder and other keys."""
    keys = json.loads(GUIDE)
    keys["dump_path"] = str(folder / "out")
    keys.update({key: section.pop(key) for key in ("rank", "step", "level") if key in section})
    keys["free_benchmark"].update(section)
    path = folder / "config.json"
    path.write_text(json.dumps(keys))
    return path


class Wrong(torch.autograd.Function):
    """Rounds to three digits of the dtype's: in float32 it is right."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1.01 if x.dtype == torch.bfloat16 else x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


@pytest.mark.usefixtures("closing")
def test_the_guides_config_json_finds_a_wrong_operator(tmp_path: Path) -> None:
    debugger = ulpscope.PrecisionDebugger(config_path=config(tmp_path))
    x = torch.linspace(1, 2, 12).reshape(3, 4).bfloat16()
    outside = Wrong.apply(x)
    for _ in range(2):
        debugger.start()
        inside = Wrong.apply(x)
        torch.neg(x)
        debugger.stop()
        debugger.step()
    assert torch.equal(outside, inside), "check goes on with the original output"
    found = rows(tmp_path / "out")
    assert [(row["api_name"], row["step"]) for row in found] == [
        ("Autograd.Wrong.0.forward", "0"),
        ("Autograd.Wrong.0.forward", "1"),
    ]
    first = dict(found[0])
    assert 0.004 < float(first.pop("max_rel")) < 0.02
    assert first == {
        "rank": "",
        "pert_mode": "improve_precision",
        "stage": "forward",
        "step": "0",
        "api_name": "Autograd.Wrong.0.forward",
        "dtype": "torch.bfloat16",
        "shape": "torch.Size([3, 4])",
        "output_index": "",
    }
    header = (tmp_path / "out" / "free_benchmark.csv").read_text().splitlines()[0]
    assert header == "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index"


@pytest.mark.usefixtures("closing")
def test_only_wanted_steps_and_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    debugger = ulpscope.PrecisionDebugger(config_path=config(tmp_path, step=[1], rank=[1]))
    for _ in range(3):
        debugger.start()
        Wrong.apply(torch.ones(2).bfloat16())
        debugger.stop()
        debugger.step()
    assert [(row["step"], row["rank"]) for row in rows(tmp_path / "out")] == [("1", "1")]
    ulpscope.PrecisionDebugger.close()
    monkeypatch.setenv("RANK", "0")
    debugger = ulpscope.PrecisionDebugger(config_path=config(tmp_path, rank=[1]))
    debugger.start()
    Wrong.apply(torch.ones(2).bfloat16())
    debugger.stop()
    assert len(rows(tmp_path / "out")) == 1


@pytest.mark.usefixtures("closing")
def test_scope_and_list(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ulpscope.check")
    x = torch.ones(2).bfloat16()

    def perturbed(**keys: Any) -> list[str]:
        caplog.clear()
        debugger = ulpscope.PrecisionDebugger(config_path=config(tmp_path, **keys))
        debugger.start()
        F.relu(torch.exp(torch.neg(torch.exp(x))))
        torch.relu(x)
        debugger.stop()
        ulpscope.PrecisionDebugger.close()
        start = "[msprobe] Free Benchmark: Perturbation is improve_precision of "
        return [
            record.getMessage().removeprefix(start).removesuffix(".")
            for record in caplog.records
            if record.getMessage().startswith(start)
        ]

    assert perturbed(scope=["Torch.neg.0.forward", "Torch.exp.1.forward"]) == [
        "Torch.neg.0.forward",
        "Torch.exp.1.forward",
    ]
    assert perturbed(list=["relu"]) == ["Functional.relu.0.forward", "Torch.relu.0.forward"]
    assert len(perturbed()) == 5


RULES = [
    (
        {"scope": ["Torch.a.0.forward", "Torch.b.0.forward"], "list": ["a"]},
        "scope is given together with list",
    ),
    ({"level": "L0"}, "level is 'L0'; task free_benchmark works at level L1"),
    ({"fuzz_stage": "both"}, "free_benchmark.fuzz_stage is 'both'; expected one of forward, backward"),
    ({"fuzz_stage": "backward"}, "free_benchmark.fuzz_stage is 'backward', which needs a list"),
    (
        {"fuzz_stage": "backward", "list": ["a"], "handler_type": "fix"},
        "free_benchmark.fuzz_stage is 'backward'; handler_type 'fix' works with 'forward'",
    ),
    (
        {"pert_mode": "noise"},
        "free_benchmark.pert_mode is 'noise'; expected one of improve_precision, bit_noise",
    ),
    ({"pert_mode": "amplification"}, "free_benchmark.pert_mode is 'amplification'; expected one of"),
    ({"fuzz_device": "gpu"}, "free_benchmark.fuzz_device is 'gpu'; expected one of npu, cpu"),
    ({"fuzz_device": "cpu"}, "free_benchmark.fuzz_device is 'cpu', which needs pert_mode 'to_cpu'"),
    ({"pert_mode": "to_cpu"}, "free_benchmark.fuzz_device is 'npu'; pert_mode 'to_cpu' needs"),
    ({"handler_type": "repair"}, "free_benchmark.handler_type is 'repair'; expected one of check, fix"),
    *(
        (
            {"handler_type": "fix", "pert_mode": mode},
            f"free_benchmark.pert_mode is '{mode}'; handler_type 'fix'",
        )
        for mode in ("bit_noise", "add_noise", "change_value", "no_change")
    ),
    ({"fuzz_level": "L0"}, "free_benchmark.fuzz_level is 'L0'; expected one of L1"),
    ({"if_preheat": 1}, "free_benchmark.if_preheat is 1; expected true or false"),
    (
        {"if_preheat": True, "handler_type": "fix"},
        "free_benchmark.if_preheat is true, but handler_type 'fix'",
    ),
    ({"preheat_step": 0}, "free_benchmark.preheat_step is 0; expected a whole number above 0"),
    ({"preheat_step": 1.5}, "free_benchmark.preheat_step is 1.5"),
    ({"max_sample": -1}, "free_benchmark.max_sample is -1; expected a whole number above 0"),
    ({"max_sample": True}, "free_benchmark.max_sample is True"),
    ({"pertmode": "to_cpu"}, "free_benchmark.pertmode is not among the known keys"),
]


@pytest.mark.parametrize(("section", "message"), RULES)
def test_wrong_settings_are_errors_before_anything_runs(
    section: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ulpscope.SettingsError) as error:
        ulpscope.PrecisionDebugger(config_path=config(tmp_path, **section))
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("closing")
def test_absent_keys_have_the_guides_defaults(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"task": "free_benchmark", "dump_path": str(tmp_path / "out")}))
    settings = ulpscope.PrecisionDebugger(config_path=file).settings
    guide = json.loads(GUIDE)["free_benchmark"]
    assert {key: settings[key] for key in guide} == {**guide, "scope": (), "list": ()}


@pytest.mark.parametrize("mode", ["bit_noise", "add_noise", "change_value", "no_change"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_each_mode_changes(mode: str, dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.tensor([[1.0, -2.5], [0.0, 3.0]], dtype=dtype)
    with watched(tmp_path, pert_mode=mode) as function:
        function.call([torch.ones(1), torch.ones(1)], x)
    (given, _), ((new,), _) = function.runs
    assert given[0] is x
    tiny = {torch.bfloat16: 1e-4, torch.float16: 1e-6, torch.float32: 1e-8, torch.float64: 1e-16}[dtype]
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
    expected = {
        "bit_noise": torch.where(x == 0, x, (x.view(bits) ^ 1).view(dtype)),
        "add_noise": torch.where(x == 0, x, x + tiny),
        "change_value": torch.tensor([[3.0, -2.5], [0.0, 1.0]], dtype=dtype),
        "no_change": x,
    }[mode]
    assert torch.equal(new, expected)
    assert new.data_ptr() != x.data_ptr()
    assert torch.equal(x, torch.tensor([[1.0, -2.5], [0.0, 3.0]], dtype=dtype))


@pytest.mark.parametrize("mode", ["improve_precision", "bit_noise"])
def test_a_tensor_is_changed_wherever_it_is(mode: str, tmp_path: Path) -> None:
    low, whole = torch.ones(2).half(), torch.ones(2, dtype=torch.int32)
    brain, result = torch.ones(2).bfloat16(), torch.ones(1)
    # Without gradients, what is not changed is the same object.
    with torch.no_grad(), watched(tmp_path, pert_mode=mode) as function:
        function.call([result, result], [whole, (whole, low)], "text", b={"c": brain, "d": low})
    ((nested, text), named) = function.runs[1]
    assert (type(nested), type(nested[1]), text, list(named["b"])) == (list, tuple, "text", ["c", "d"])
    assert nested[0] is nested[1][0] is whole
    if mode == "improve_precision":
        for new in (nested[1][1], named["b"]["c"], named["b"]["d"]):
            assert new.dtype == torch.float32
            assert torch.equal(new, torch.ones(2))
    else:
        # The first one alone, at each of its places.
        assert nested[1][1] is named["b"]["d"]
        assert not (nested[1][1] == 1).any()
        assert named["b"]["c"] is brain


def test_precision_that_cannot_be_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ulpscope.check")
    with watched(tmp_path, pert_mode="improve_precision") as function:
        function.call([torch.ones(1)], torch.ones(2))
    assert [record.getMessage() for record in caplog.records] == [
        "[msprobe] Free Benchmark: For Watched.watch.0.forward,"
        "no input has a precision that can be raised. Cancel perturbation."
    ]


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [(torch.float16, 0.002), (torch.bfloat16, 0.004), (torch.float32, 0.0002), (torch.float64, 0.0002)],
)
def test_just_below_and_just_above_each_threshold(dtype: torch.dtype, allowed: float, tmp_path: Path) -> None:
    original = torch.tensor([1.0, 2.0, -4.0], dtype=dtype)
    below, above = (
        [original.double() * torch.tensor([1, 1, moved]) for moved in (1 + change, 1 / (1 + change))]
        for change in (allowed * 0.99, allowed * 1.01)
    )
    with watched(tmp_path, pert_mode="bit_noise") as function:
        for second in (*below, *above):
            function.call([original, second], original)
    names = [one.api_name for one in function.check.findings]
    assert names == ["Watched.watch.2.forward", "Watched.watch.3.forward"]
    # A plain repetition must not change at all.
    least = original * torch.tensor([1, 1, 1 + torch.finfo(dtype).eps], dtype=dtype)
    with watched(tmp_path, pert_mode="no_change") as function:
        function.call([original, original.clone()], original)
        function.call([original, least], original)
    assert [one.api_name for one in function.check.findings] == ["Watched.watch.1.forward"]


@pytest.mark.parametrize("mode", ["no_change", "bit_noise"])
def test_what_a_change_is(mode: str, tmp_path: Path) -> None:
    inf, nan = float("inf"), float("nan")
    # Two outputs, and what max_rel says; without a change, that there is no row.
    cases: list[tuple[list[float], list[float], str | None]] = [
        ([1, 2], [1, 2], None),
        ([1, 2], [1, 3], "0.5"),
        ([1, 3], [1, 2], "0.5"),
        ([1, -2], [1, 2], "symbol_flipping"),
        # A change of sign below the floor is none.
        ([1e-7], [-1e-7], None),
        ([inf, nan, 1], [inf, nan, 1], None),
        ([1.0], [inf], "inf"),
        ([inf], [1.0], "inf"),
        ([1.0], [nan], "nan"),
        ([nan], [1.0], "nan"),
        ([inf], [-inf], "symbol_flipping"),
        ([], [], None),
    ]
    with watched(tmp_path, pert_mode=mode) as function:
        for first, second, _ in cases:
            outputs = [torch.tensor(one, dtype=torch.float32) for one in (first, second)]
            function.call(outputs, torch.ones(1))
    found = [(one.api_name, one.max_rel) for one in function.check.findings]
    assert found == [
        (f"Watched.watch.{number}.forward", text) for number, (_, _, text) in enumerate(cases) if text
    ]


def test_a_large_tensor_is_judged_as_a_whole(tmp_path: Path) -> None:
    # More elements than are compared at a time.
    size = (1 << 22) + 100
    original, second, third = torch.ones(3, size)
    second[3], second[-3] = 1.5, 1.25
    third[-3] = float("nan")
    with watched(tmp_path, pert_mode="bit_noise") as function:
        function.call([(original, original, original), (original, second, third)], torch.ones(1))
    found = [(one.output_index, one.max_rel) for one in function.check.findings]
    assert found == [(1, "0.5"), (2, "nan")]


def logged(caplog: pytest.LogCaptureFixture, mode: str, folder: Path, call: Any) -> list[tuple[str, str]]:
    caplog.clear()
    with caplog.at_level(logging.INFO, "ulpscope.check"), ulpscope.check.perturb(folder, pert_mode=mode):
        call()
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_the_guides_log_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.ones(3)
    cases = [
        (lambda: torch.exp(x), "INFO", "Free Benchmark: Perturbation is bit_noise of Torch.exp.0.forward."),
        (
            lambda: torch.abs(x.int()),
            "INFO",
            "Free Benchmark: For Torch.abs.0.forward,dtype torch.int32 is not supported."
            " Cancel perturbation.",
        ),
        (
            lambda: torch.abs(x[:0]),
            "INFO",
            "Free Benchmark: For Torch.abs.0.forward,the input is an empty tensor. Cancel perturbation.",
        ),
        (
            lambda: torch.abs(x * 1e-12),
            "INFO",
            "Free Benchmark: For Torch.abs.0.forward,all values of the input are too small."
            " Cancel perturbation.",
        ),
        (
            lambda: torch.arange(3),
            "WARNING",
            "Free benchmark: 无标杆工具不支持当前算子的输入类型 Torch.arange.0.forward.",
        ),
    ]
    for call, level, text in cases:
        assert (level, f"[msprobe] {text}") in logged(caplog, "bit_noise", tmp_path, call)


def test_a_second_run_that_raises_never_ends_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            calls.append(x)
            if len(calls) > 1:
                raise RuntimeError("only once")
            return x + 1

    lines = logged(caplog, "bit_noise", tmp_path, lambda: Once.apply(torch.ones(2)))
    assert len(calls) == 2
    assert (
        "WARNING",
        "[msprobe] Free benchmark: For Autograd.Once.0.forward,"
        "the second run raised RuntimeError: only once. Cancel perturbation.",
    ) in lines
    assert "Autograd.Once" not in "".join(row["api_name"] for row in rows(tmp_path))


def test_position_in_a_tuple_and_sign(tmp_path: Path) -> None:
    x = torch.tensor([[1.0 + 2**-23, 1.0], [5.0, 6.0]])

    def parts(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return x.int(), x[1] * 1.0, (x[0, :1] - x[0, 1:]) * 1e6

    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> Any:
            return parts(x)

    with ulpscope.check.perturb(tmp_path, pert_mode="bit_noise", list=["Parts"]) as check:
        Parts.apply(x)
    assert [(one.output_index, one.max_rel) for one in check.findings] == [(2, "symbol_flipping")]
    assert [(row["output_index"], row["max_rel"]) for row in rows(tmp_path)] == [("2", "symbol_flipping")]


def test_needs_a_current_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    with pytest.raises(RuntimeError, match=r"needs PyTorch 2\.0 or newer; this is 1\.13\.1"):
        ulpscope.check.perturb(tmp_path)


def test_to_cpu_runs_on_the_cpu_in_float32(tmp_path: Path) -> None:
    kinds = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            kinds.append((x.device.type, x.dtype))
            return x * 1.01 if x.dtype == torch.float16 else x * 1

    with ulpscope.check.perturb(tmp_path, pert_mode="to_cpu", list=["Seen"]) as check:
        Seen.apply(torch.ones(2).half())
    assert kinds == [("cpu", torch.float16), ("cpu", torch.float32)]
    assert [one.api_name for one in check.findings] == ["Autograd.Seen.0.forward"]


@pytest.mark.parametrize("mode", ["bit_noise", "no_change", "improve_precision"])
def test_in_place_calls_inside_a_graph_run_a_second_time(mode: str, tmp_path: Path) -> None:
    weight = torch.linspace(1, 2, 8).bfloat16().requires_grad_()
    # A second run that raises would end the program.
    with ulpscope.check.perturb(tmp_path, pert_mode=mode, strict=True) as check:
        y = weight * 1.5
        y.add_(0.25)
        y.mul_(3)
        F.relu(y, inplace=True)
        (torch.zeros(8, dtype=torch.bfloat16).add_(y)).sum().backward()
    expected = torch.full((8,), 4.5).bfloat16()
    torch.testing.assert_close(weight.grad, expected)
    flagged = {finding.api_name for finding in check.findings}
    in_place = {"Tensor.add_.0.forward", "Tensor.mul_.0.forward", "Functional.relu.0.forward"}
    assert (in_place <= flagged) == (mode == "bit_noise")
