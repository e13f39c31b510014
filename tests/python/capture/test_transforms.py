"""Programs of ``torch.func``: what runs within a transform is read, two runs agree, and it is not slow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, functionalize, grad, hessian, jacrev, jvp, vmap

import ulpscope
from captured import Captured, capture_of

X = torch.linspace(-1, 1, 24).reshape(4, 6)
NET = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 1))
PARAMETERS = {
    name: torch.linspace(-1, 1, parameter.numel()).reshape(parameter.shape)
    for name, parameter in NET.named_parameters()
}


def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    return functional_call(NET, parameters, (x,)).square().mean()


def written_in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y[1].mul_(3)
    y.view(-1)[:4] = 7
    return y + 1


PROGRAMS: dict[str, Callable[[], Any]] = {
    "vmap": lambda: vmap(torch.sin)(X),
    "vmap of vmap": lambda: vmap(vmap(torch.sin), in_dims=1)(X),
    "grad": lambda: grad(loss)(PARAMETERS, X),
    "gradients of each sample": lambda: vmap(grad(loss), (None, 0))(PARAMETERS, X),
    "jvp": lambda: jvp(lambda x: torch.tanh(x).sum(), (X,), (X,)),
    "jacrev": lambda: jacrev(torch.tanh)(X[0]),
    "hessian": lambda: hessian(lambda x: (x**3).sum())(X[0]),
    "functionalize": lambda: functionalize(written_in_place)(X),
    "functionalize of vmap": lambda: functionalize(vmap(lambda x: x.clone().mul_(3)))(X),
    "functional_call": lambda: functional_call(NET, PARAMETERS, (X,)),
}


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_runs_agree_and_nothing_is_left_unread(tmp_path: Path, program: str, level: str) -> None:
    for name in ("a", "b"):
        captured = capture_of(tmp_path / name, PROGRAMS[program], level=level, model=NET, task="tensor")
        assert (captured.ledger["unread"], captured.ledger["failed"]) == ({}, {})
    found = ulpscope.compare(tmp_path / "a", tmp_path / "b")
    assert found.ok, found


def test_what_is_written_to_views_is_in_the_elements(tmp_path: Path) -> None:
    captured = capture_of(tmp_path, PROGRAMS["functionalize"], task="tensor", level="L1")
    added = captured.calls["Tensor.__add__.0.forward"]
    assert (captured.tensor(added["input_args"][0]) + 1).equal(written_in_place(X))
    assert captured.tensor(added["output"][0]).equal(written_in_place(X))


@pytest.mark.parametrize("program", ["vmap", "grad", "hessian"])
def test_a_run_that_differs_is_distinguished(tmp_path: Path, program: str) -> None:
    scale = torch.ones(())
    for name, factor in (("a", 1.0), ("b", 1.5)):
        scale.fill_(factor)
        programs: dict[str, Callable[[], Any]] = {
            "vmap": lambda: vmap(lambda x: torch.sin(x * scale))(X),
            "grad": lambda: grad(lambda x: torch.sin(x * scale).sum())(X),
            "hessian": lambda: hessian(lambda x: (x**3 * scale).sum())(X[0]),
        }
        capture_of(tmp_path / name, programs[program], task="tensor")
    assert not ulpscope.compare(tmp_path / "a", tmp_path / "b").ok


@pytest.mark.parametrize(
    ("program", "batches", "expected"),
    [
        ("vmap", 1, torch.sin(X)),
        # The outer one goes over the columns: its dimension comes first.
        ("vmap of vmap", 2, torch.sin(X).t()),
        ("grad", 0, None),
    ],
)
def test_the_dimensions_of_batches_are_in_front(
    tmp_path: Path, program: str, batches: int, expected: Tensor | None
) -> None:
    captured = capture_of(tmp_path, PROGRAMS[program], task="tensor")
    call = captured.calls["Functional.linear.0.forward" if program == "grad" else "Torch.sin.0.forward"]
    result = call["output"][0]
    assert result.get("batch_dims", 0) == batches
    if expected is not None:
        assert torch.equal(captured.tensor(result), expected)
        assert result["shape"] == list(expected.shape)


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_are_those_of_the_program_alone(tmp_path: Path, program: str) -> None:
    alone = PROGRAMS[program]()
    with ulpscope.capture(tmp_path, task="tensor"):
        captured = PROGRAMS[program]()
    torch.testing.assert_close(captured, alone, rtol=0, atol=0)


def test_the_batch_of_a_backward_pass_is_not_read(tmp_path: Path) -> None:
    """``is_grads_batched`` has wrappers of an older kind, which do not tell what they wrap."""
    x = torch.ones(3, requires_grad=True)
    capture_of(tmp_path, lambda: torch.autograd.grad(x * 2, x, torch.eye(3), is_grads_batched=True))
    assert list(Captured(tmp_path).ledger["unread"]) == ["inside a function transform (torch.func)"]


def seconds(program: Callable[[], Any], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        program()
    return (time.process_time() - start) / times


def test_a_transform_costs_no_more_than_other_calls(tmp_path: Path) -> None:
    """It took 40 to 80 times as long as the program alone: torch was asked for memory that is not there."""
    programs = [PROGRAMS["gradients of each sample"], PROGRAMS["hessian"]]
    for number, program in enumerate(programs):
        program()
        ratios = []
        for _ in range(5):
            alone = seconds(program, 10)
            with ulpscope.capture(tmp_path / str(number)):
                program()
                ratios.append(seconds(program, 5) / alone)
        assert statistics.median(ratios) < 15
