"""Compiled regions as calls of the dump: names, numbers and gradients are those without compiling."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch._inductor import config as inductor_config

import ulpscope
from captured import Captured

RECORDED = "a compiled region was entered: it is recorded as one call, and what runs inside it is not seen"
UNSEEN = "a compiled region was entered: what runs inside it is not seen"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.silu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = Block(), Block(), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.second(self.first(x)))


def whole(model: Net, backend: Any) -> Any:
    return torch.compile(model, backend=backend)


def whole_in_place(model: Net, backend: Any) -> Any:
    model.compile(backend=backend)
    return model


def blocks(model: Net, backend: Any) -> Any:
    model.first = torch.compile(model.first, backend=backend)
    model.second = torch.compile(model.second, backend=backend)
    return model


def blocks_in_place(model: Net, backend: Any) -> Any:
    for block in (model.first, model.second):
        block.compile(backend=backend)
    return model


def forwards(model: Net, backend: Any) -> Any:
    for block in (model.first, model.second):
        block.forward = torch.compile(block.forward, backend=backend)
    return model


def function(model: Net, backend: Any) -> Any:
    @torch.compile(backend=backend)
    def predict(x: Tensor) -> Tensor:
        return model(x)

    return predict


WAYS = [whole, whole_in_place, blocks, blocks_in_place, forwards, function]
Way = Callable[[Net, Any], Any]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled by another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def trained(folder: Path, way: Way | None, backend: Any = "aot_eager", **settings: Any) -> Captured:
    torch.manual_seed(0)
    model = Net()
    x, target = torch.randn(3, 4), torch.randn(3, 2)
    program = model if way is None else way(model, backend)
    with ulpscope.capture(folder, model=model, task="tensor", strict=True, **settings):
        nn.functional.mse_loss(program(x), target).backward()
    return Captured(folder)


def elements(found: Captured, entry: dict[str, Any]) -> Tensor:
    return found.tensor(entry)


@pytest.fixture(scope="module")
def eager(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    return trained(tmp_path_factory.mktemp("eager"), None, level="mix")


def same(found: Captured, entries: Any, other: Captured, others: Any) -> None:
    assert len(entries) == len(others) > 0
    for one, two in zip(entries, others, strict=True):
        if one is None or two is None:
            # The gradient of an argument that needs none.
            assert one is two
        else:
            torch.testing.assert_close(elements(found, one), elements(other, two))


needs_in_place = pytest.mark.skipif(
    not hasattr(nn.Module, "compile"), reason="no Module.compile in torch 2.1"
)


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize(
    "way",
    [blocks, pytest.param(blocks_in_place, marks=needs_in_place), forwards],
    ids=lambda way: way.__name__,
)
def test_a_compiled_module_is_the_call_that_it_is_without(
    way: Way, level: str, tmp_path: Path, eager: Captured
) -> None:
    found = trained(tmp_path, way, level=level)
    inner = "._orig_mod" if way is blocks else ""
    for name in ("first", "second"):
        for direction, entries in (
            ("forward", ("input_args", "output")),
            ("backward", ("input", "output")),
        ):
            call = found.calls[f"Module.{name}{inner}.Block.{direction}.0"]
            expected = eager.calls[f"Module.{name}.Block.{direction}.0"]
            for key in entries:
                same(found, call[key], eager, expected[key])
        for part in ("up", "down"):
            gradients = found.calls[f"Module.{name}{inner}.{part}.Linear.parameters_grad.0"]
            expected = eager.calls[f"Module.{name}.{part}.Linear.parameters_grad.0"]
            for parameter in ("weight", "bias"):
                same(found, gradients[parameter], eager, expected[parameter])
    # At level mix, the region stands for the functions inside.
    regions = [name for name in found.calls if name.startswith("Compiled.")]
    numbers = () if level == "L0" else (0, 1)
    assert sorted(regions) == [
        f"Compiled.Block.{n}.{way}" for n in numbers for way in ("backward", "forward")
    ]
    parents = found.document("construct.json")
    for name in regions:
        assert parents[name].startswith("Module."), (name, parents[name])
    assert found.ledger["notes"][0] == f"{RECORDED} (2 times)"
    assert found.ledger["seen"] == found.ledger["recorded"] == len(found.calls)


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize(
    "way", [whole, pytest.param(whole_in_place, marks=needs_in_place), function], ids=lambda way: way.__name__
)
def test_a_compiled_model_is_one_call(way: Way, level: str, tmp_path: Path, eager: Captured) -> None:
    found = trained(tmp_path, way, level=level)
    name = "predict" if way is function else "Net"
    call, backward = found.calls[f"Compiled.{name}.0.forward"], found.calls[f"Compiled.{name}.0.backward"]
    same(found, call["input_args"], eager, eager.calls["Module.first.Block.forward.0"]["input_args"])
    same(found, call["output"], eager, eager.calls["Module.head.Linear.forward.0"]["output"])
    same(found, backward["input"], eager, eager.calls["Module.head.Linear.backward.0"]["input"])
    assert backward["output"] == [None]
    # Its parameters are not among its arguments.
    prefix = "model." if way is function else ""
    names = [f"{prefix}{name}" for name, _ in Net().named_parameters()]
    assert list(call["parameters"]) == names
    sources = {parameter["source"] for parameter in call["parameters"].values()}
    assert sources == {f"parameter:{name.removeprefix(prefix)}" for name in names}
    if level != "L1":
        grads = [name for name in eager.calls if "parameters_grad" in name]
        assert sorted(name for name in found.calls if "parameters_grad" in name) == sorted(grads)
    if level == "L0" and way is not function:
        results = {"0": f"Compiled.{name}.0.forward.output.0"}
        assert found.ledger["returned"] == [{"calls": 1, "results": results}]
    if level != "L0":
        argument = found.calls["Functional.mse_loss.0.forward"]["input_args"][0]
        assert argument["source"] == f"Compiled.{name}.0.forward.output.0"


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_a_model_that_is_compiled_while_calls_are_recorded(level: str, tmp_path: Path) -> None:
    """torch keeps the method that it finds, which must be torch's."""

    def program(run: Any) -> tuple[list[Tensor], dict[str, Any]]:
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model = Net()
        x = torch.randn(3, 4)
        with run(model):
            fast = torch.compile(model, backend="aot_eager", fullgraph=True)
            made = [fast(x), fast(x)]
            sum(one.sum() for one in made).backward()
        made.append(fast(x))
        kinds = ("frames", "graph_break", "recompiles", "stats")
        gradients = [parameter.grad for parameter in model.parameters()]
        return [*made, *gradients], {kind: dict(counters[kind]) for kind in kinds}

    alone = program(lambda model: torch.enable_grad())
    watched = program(lambda model: ulpscope.capture(tmp_path, model=model, level=level, strict=True))
    assert all(torch.equal(one, other) for one, other in zip(alone[0], watched[0], strict=True))
    assert watched[1] == alone[1]
    forward = [name for name in Captured(tmp_path).calls if name.startswith("Compiled.Net.")]
    assert {"Compiled.Net.0.forward", "Compiled.Net.1.forward"} <= set(forward)


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="inductor writes C++")
def test_with_inductor(tmp_path: Path, eager: Captured) -> None:
    with inductor_config.patch({"cpp.vec_isa_ok": False, "compile_threads": 1}):
        found = trained(tmp_path, whole, "inductor", level="L1")
    call = found.calls["Compiled.Net.0.forward"]
    same(found, call["output"], eager, eager.calls["Module.head.Linear.forward.0"]["output"])


def test_a_function_that_changes_its_argument_and_one_that_raises(tmp_path: Path) -> None:
    @torch.compile(backend="aot_eager")
    def grow(x: Tensor, by: float = 1.0) -> dict[str, Tensor]:
        x.add_(by)
        return {"twice": x * 2}

    @torch.compile(backend="aot_eager")
    def fail(x: Tensor) -> Tensor:
        return x.reshape(7)

    x = torch.ones(3)
    with ulpscope.capture(tmp_path, level="L1"):
        grow(x, by=2.0)
        with pytest.raises(RuntimeError):
            fail(x)
        try:
            raise ValueError("of the program")
        except ValueError:
            # What is handled meanwhile is no error of the region.
            grow(x)
        torch.sin(x)
    found = Captured(tmp_path)
    first, second = found.calls["Compiled.grow.0.forward"], found.calls["Compiled.grow.1.forward"]
    assert first["input_args"][0]["Max"] == 1.0
    assert first["input_kwargs"]["by"]["value"] == 2.0
    assert first["output"][0]["twice"]["Max"] == 6.0
    assert second["output"][0]["twice"]["Max"] == 8.0
    assert sum(found.ledger["raised"].values()) == 1
    assert next(iter(found.ledger["raised"])).startswith("Compiled.fail")


def test_methods_and_lambdas_have_names(tmp_path: Path) -> None:
    class Model:
        @torch.compile(backend="aot_eager")
        def step(self, x: Tensor) -> Tensor:
            return x + 1

    fast = torch.compile(lambda x: x * 2, backend="aot_eager")
    x = torch.ones(2)
    with ulpscope.capture(tmp_path, level="L1"):
        fast(Model().step(x))
    assert list(Captured(tmp_path).calls) == ["Compiled.Model.step.0.forward", "Compiled.lambda.0.forward"]


def test_at_level_l0_a_function_within_a_module_is_part_of_it(tmp_path: Path) -> None:
    @torch.compile(backend="aot_eager")
    def act(x: Tensor) -> Tensor:
        return torch.tanh(x)

    class Act(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return act(x)

    model = nn.Sequential(nn.Linear(2, 2), Act())
    with ulpscope.capture(tmp_path, model=model, level="L0"):
        act(model(torch.ones(1, 2)))
    names = ["Module.0.Linear.forward.0", "Module.1.Act.forward.0", "Compiled.act.0.forward"]
    assert list(Captured(tmp_path).calls) == names


def test_selected_functions_leave_regions_out(tmp_path: Path) -> None:
    fast = torch.compile(torch.tanh, backend="aot_eager")
    with ulpscope.capture(tmp_path, level="L1", apis=["Torch.sin"]):
        torch.sin(fast(torch.ones(2)))
    found = Captured(tmp_path)
    assert list(found.calls) == ["Torch.sin.0.forward"]
    assert UNSEEN in found.ledger["notes"]


def test_a_profiler_of_the_program_keeps_its_place(tmp_path: Path) -> None:
    events: list[str] = []

    @torch.compile(backend="aot_eager")
    def double(x: Tensor) -> Tensor:
        return x * 2

    double(torch.ones(2))

    def profile(frame: Any, event: str, value: Any) -> None:
        events.append(event)

    with ulpscope.capture(tmp_path, level="L1"):
        sys.setprofile(profile)
        try:
            double(torch.ones(2))
            assert sys.getprofile() is profile
        finally:
            sys.setprofile(None)
        double(torch.ones(2))
        assert sys.getprofile() is None
    found = Captured(tmp_path)
    assert any("place of a profiler" in note for note in found.ledger["notes"])
    assert found.calls["Compiled.double.1.forward"]["output"][0]["Max"] == 2.0
    assert json.dumps(found.ledger["failed"]) == "{}"
