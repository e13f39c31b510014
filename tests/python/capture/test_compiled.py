"""Compiled code under capture: the same graphs, compiled as often, and the ledger says that it ran."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.utils import counters

import ulpscope
from capture_programs import changed, fingerprint
from levels import LEVELS


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.nn.functional.silu(self.up(x)) * 1.5)


def bent(x: Tensor) -> Tensor:
    return torch.tanh(2 * x) + x.cos()


def broken(x: Tensor) -> Tensor:
    y = x.sin() + 1
    torch._dynamo.graph_break()
    return (y * 2).exp()


Watch = Callable[[nn.Module | None], Any]


def function(watch: Watch) -> Any:
    x = torch.randn(3, requires_grad=True)
    fast = torch.compile(bent, backend="aot_eager")
    with watch(None):
        made = [fast(x), bent(x), fast(x)]
        sum(one.sum() for one in made).backward()
    return made, x.grad


def function_compiled_during_capture(watch: Watch) -> Any:
    x = torch.randn(3, requires_grad=True)
    with watch(None):
        fast = torch.compile(bent, backend="aot_eager")
        made = [fast(x), fast(x)]
        sum(one.sum() for one in made).backward()
    return made, fast(x), x.grad


def function_compiled_before_and_run_after(watch: Watch) -> Any:
    x = torch.randn(3)
    fast = torch.compile(bent, backend="aot_eager")
    made = [fast(x)]
    with watch(None):
        made += [fast(x), fast(x)]
    return [*made, fast(x)]


def submodule(watch: Watch) -> Any:
    model = nn.Sequential(Net(), torch.compile(Net(), backend="aot_eager"), nn.LayerNorm(4))
    x = torch.randn(2, 4)
    with watch(model):
        for _ in range(2):
            model(x).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def module_in_place(watch: Watch) -> Any:
    model = nn.Sequential(Net(), Net())
    if hasattr(model, "compile"):
        model[1].compile(backend="aot_eager")
    x = torch.randn(2, 4)
    with watch(model):
        model(x).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def graph_breaks(watch: Watch) -> Any:
    fast = torch.compile(broken, backend="aot_eager")
    with watch(None):
        return [fast(torch.randn(3)), fast(torch.randn(3))]


def recompiles(watch: Watch) -> Any:
    fast = torch.compile(bent, backend="aot_eager", dynamic=False)
    made = [fast(torch.randn(2))]
    with watch(None):
        made += [fast(torch.randn(size)) for size in (2, 3, 2, 4)]
    return [*made, fast(torch.randn(3))]


def disabled_inside(watch: Watch) -> Any:
    @torch._dynamo.disable
    def plain(x: Tensor) -> Tensor:
        return x.exp() + 1

    @torch.compile(backend="aot_eager")
    def fast(x: Tensor) -> Tensor:
        return plain(x * 2) * 3

    with watch(None):
        return [fast(torch.randn(3)), plain(torch.randn(3)), fast(torch.randn(3))]


def full_graph(watch: Watch) -> Any:
    model = Net()
    fast = torch.compile(model, backend="aot_eager", fullgraph=True)
    with watch(model):
        fast(torch.randn(2, 4)).sum().backward()
    return [parameter.grad for parameter in model.parameters()]


def threads(watch: Watch) -> Any:
    """Regions that overlap: each thread goes in and out while others are inside."""
    fast = torch.compile(bent, backend="aot_eager")
    inputs = [torch.randn(3) for _ in range(4)]
    fast(inputs[0])
    made: list[Tensor | None] = [None] * len(inputs)
    gate = threading.Barrier(len(inputs))

    def work(number: int) -> None:
        gate.wait()
        for _ in range(20):
            made[number] = fast(inputs[number]) + bent(inputs[number])

    with watch(None):
        running = [threading.Thread(target=work, args=(number,)) for number in range(len(inputs))]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        torch.sin(torch.ones(2))
    return made


def under_a_mode(watch: Watch) -> Any:
    """A mode of the user's that was entered after ours is left as it was entered."""
    fast = torch.compile(bent, backend="aot_eager")
    x = torch.randn(3)
    with watch(None):
        with torch.device("cpu"):
            made = [fast(x), torch.ones(2)]
        made.append(fast(torch.cos(x)))
    return made, torch._C._len_torch_function_stack()


def raising(watch: Watch) -> Any:
    @torch.compile(backend="aot_eager")
    def fast(x: Tensor) -> Tensor:
        return x.reshape(7) + 1

    with watch(None):
        with pytest.raises(Exception, match="7"):
            fast(torch.randn(3))
        return torch.cos(torch.ones(2))


PROGRAMS = [
    function,
    function_compiled_during_capture,
    function_compiled_before_and_run_after,
    submodule,
    module_in_place,
    graph_breaks,
    recompiles,
    disabled_inside,
    full_graph,
    threads,
    under_a_mode,
    raising,
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled by another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def observe(program: Callable[[Watch], Any], watch: Watch) -> tuple[Any, dict[str, Any]]:
    """What a program made, and what was compiled for it."""
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(3)
    made = fingerprint({"made": program(watch)})
    kinds = ("frames", "stats", "graph_break", "recompiles", "unimplemented")
    compiled = {kind: dict(counters[kind]) for kind in kinds}
    # Reasons tell the addresses of functions.
    return made, json.loads(re.sub(r"0x[0-9a-f]+", "", json.dumps(compiled)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_compiled_as_without_capture(program: Callable[[Watch], Any], level: str, tmp_path: Path) -> None:
    made, compiled = observe(program, lambda _: nullcontext())

    def watch(model: nn.Module | None) -> Any:
        return ulpscope.capture(tmp_path, model=model, level=level, strict=True)

    watched, compiled_watched = observe(program, watch)
    assert changed(made, watched, level) == []
    assert compiled_watched == compiled
    (ledger,) = (json.loads(file.read_text()) for file in tmp_path.glob("step0/rank/ledger.json"))
    # Every program runs something compiled, unless this release of torch cannot.
    entered = any("a compiled region was entered" in note for note in ledger["notes"])
    assert entered == (program is not module_in_place or hasattr(nn.Module, "compile"))


def test_what_is_outside_is_recorded(tmp_path: Path) -> None:
    """Before, between and after compiled regions, with their gradients."""
    torch.manual_seed(3)
    fast = torch.compile(bent, backend="aot_eager")
    x = torch.randn(3, requires_grad=True)
    with ulpscope.capture(tmp_path, level="L1", strict=True):
        y = fast(torch.exp(x))
        z = fast(torch.sin(y))
        torch.cos(z).sum().backward()
    data = json.loads((tmp_path / "step0/rank/dump.json").read_text())["data"]
    forward = [name for name in data if name.endswith(".forward")]
    assert forward == [
        "Torch.exp.0.forward",
        "Compiled.bent.0.forward",
        "Torch.sin.0.forward",
        "Compiled.bent.1.forward",
        "Torch.cos.0.forward",
        "Tensor.sum.0.forward",
    ]
    backward = {"Torch.exp.0.backward", "Torch.sin.0.backward", "Torch.cos.0.backward"}
    assert backward | {"Compiled.bent.0.backward", "Compiled.bent.1.backward"} <= set(data)


def test_a_thread_that_has_no_capture_gets_none(tmp_path: Path) -> None:
    """Backward of compiled code on a thread that was started before: it is left as it was found."""
    found: list[int] = []
    ready, go = threading.Event(), threading.Event()
    fast = torch.compile(bent, backend="aot_eager")
    x = torch.randn(3, requires_grad=True)

    def work() -> None:
        ready.set()
        go.wait(30)
        fast(x).sum().backward()
        found.append(torch._C._len_torch_function_stack())

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(30)
    with ulpscope.capture(tmp_path, level="L1"):
        go.set()
        thread.join(30)
    assert found == [0]


def traced(x: Tensor) -> Any:
    return torch.jit.trace(Net().eval(), x).graph


def scripted(x: Tensor) -> Any:
    return torch.jit.script(bent).graph


def symbolically_traced(x: Tensor) -> Any:
    return torch.fx.symbolic_trace(Net()).code


def made_by_fx(x: Tensor) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(bent)(x).code


def exported(x: Tensor) -> Any:
    return torch.export.export(Net(), (x,)).graph


def text(graph: Any) -> str:
    """As it is printed, without the numbers that make the names of classes unique."""
    return re.sub(r"\.___torch_mangle_\d+", "", str(graph))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "make", [traced, scripted, symbolically_traced, made_by_fx, exported], ids=lambda make: make.__name__
)
def test_graphs_are_those_without_capture(make: Callable[[Tensor], Any], level: str, tmp_path: Path) -> None:
    x = torch.ones(2, 4)
    try:
        torch.manual_seed(3)
        alone = text(make(x))
    except Exception as error:
        if torch.__version__.startswith("2.1."):
            pytest.skip(f"this release of torch cannot do it: {error!s:.80}")
        raise
    torch._dynamo.reset()
    torch.manual_seed(3)
    with ulpscope.capture(tmp_path, level=level, strict=True):
        watched = make(x)
    assert text(watched) == alone
    ledger = json.loads((tmp_path / "step0/rank/ledger.json").read_text())
    assert any("traced or exported" in note or "compiled region" in note for note in ledger["notes"])


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_module_compiled_by_torchscript(tmp_path: Path, level: str) -> None:
    """Its parameters are not in a dictionary as those of others are."""
    model = nn.Sequential(torch.jit.script(nn.Linear(2, 2)), nn.ReLU())
    with ulpscope.capture(tmp_path, model=model, level=level, strict=True):
        model(torch.ones(1, 2)).sum().backward()
    calls = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    (name,) = (name for name in calls if name.startswith("Module.0.") and ".forward." in name)
    assert set(calls[name]["parameters"]) == {"weight", "bias"}
    weight = calls[name]["parameters"]["weight"]
    assert weight["Max"] == pytest.approx(model[0].weight.max().item(), abs=1e-6)
