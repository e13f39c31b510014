"""A run with torch.compile against one without: they agree, or the compiled part that differs is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

import ulpscope


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(x)))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def wrong(graph: Any, inputs: Any) -> Any:
    """A compiler that takes the wrong form of GELU."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    def compiler(made: Any, example: Any) -> Any:
        for node in made.graph.nodes:
            if node.op == "call_function" and "gelu.default" in str(node.target):
                node.kwargs = {"approximate": "tanh"}
        made.recompile()
        return make_boxed_func(made.forward)

    return aot_autograd(fw_compiler=compiler)(graph, inputs)


def run(folder: Path, part: str, level: str, task: str, backend: Any = "aot_eager") -> Path:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net()
    program: Any = model
    if part == "model":
        program = torch.compile(model, backend=backend)
    elif part == "blocks":
        healthy = torch.compile(model.blocks[0], backend="aot_eager")
        model.blocks = nn.ModuleList([healthy, torch.compile(model.blocks[1], backend=backend)])
    elif part == "function":
        program = torch.compile(lambda x: model(x), backend=backend)
    x, target = torch.randn(30, 4) * 2, torch.randn(30, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(folder, model=model, level=level, task=task) as recorded:
        loss = nn.functional.mse_loss(program(x), target)
        loss.backward()
        optimizer.step()
        recorded.step()
    return folder


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled is left."""
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_eager_against_compiled(level: str, task: str, tmp_path: Path) -> None:
    eager = run(tmp_path / "eager", "nothing", level, task)
    named = {"model": "Compiled.Net.0.forward", "function": "Compiled.lambda.0.forward"}
    named["blocks"] = (
        "Module.blocks.1._orig_mod.Block.forward.0" if level == "L0" else "Compiled.Block.1.forward"
    )
    for part, name in named.items():
        compiled = run(tmp_path / part, part, level, task)
        for target, golden in ((compiled, eager), (eager, compiled)):
            healthy = ulpscope.compare(target, golden)
            assert healthy.agreement == "agree", (part, healthy.reason)
        bad = run(tmp_path / f"{part}-wrong", part, level, task, wrong)
        found = ulpscope.compare(bad, eager).first_divergence
        assert found is not None, part
        assert found.call == name, part
