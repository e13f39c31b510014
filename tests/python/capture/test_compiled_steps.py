"""Steps that begin and end within a compiled region."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from captured import Captured

NOTE = "a compiled region was entered: what runs inside it is not seen"
RECORDED = "a compiled region was entered: it is recorded as one call, and what runs inside it is not seen"
OVERTAKEN = (
    "a call that began in an earlier step ended in this one: neither its output nor its "
    "gradients are recorded"
)


def program(step: Any) -> tuple[list[torch.Tensor], list[str]]:
    """Five steps in one compiled function, and a call after it; what was learnt, and the graphs."""
    torch._dynamo.reset()
    graphs: list[str] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph.code)
        return graph.forward

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend=backend)
    def train() -> None:
        for _ in range(5):
            loss = model(torch.ones(2, 4)).square().sum()
            torch._dynamo.graph_break()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            step()

    train()
    torch.cos(torch.ones(2))
    return [parameter.detach() for parameter in model.parameters()], graphs


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
@pytest.mark.parametrize("steps", [[], [0, 2, 5], [5]])
def test_steps_within_a_compiled_region(tmp_path: Path, level: str, steps: list[int]) -> None:
    modes = torch._C._len_torch_function_stack()
    wanted, graphs = program(lambda: None)
    with ulpscope.capture(tmp_path, level=level, step=steps) as run:
        found, made = program(run.step)
    assert all(torch.equal(one, other) for one, other in zip(wanted, found, strict=True))
    assert made == graphs
    assert torch._C._len_torch_function_stack() == modes
    for step in steps or range(6):
        captured = Captured(tmp_path, step)
        # The last begins inside, and what follows the region is in it.
        assert any("cos" in name for name in captured.calls) == (step == 5)
        if step == 0:
            assert captured.ledger["notes"] == [RECORDED]
            assert captured.calls["Compiled.train.0.forward"].get("output") is None
        else:
            ended = [OVERTAKEN] if step == 5 and not steps else []
            assert captured.ledger["notes"] == [*ended, NOTE]
