"""Calls that write into their arguments: what is in them afterwards is a result, and theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from captured import capture_of


@torch.library.custom_op("ulpscope_tests::gate", mutates_args=("out",))
def gate(x: Tensor, out: Tensor) -> None:
    """As kernels have it that are given memory for their results."""
    left, right = x.chunk(2, -1)
    out.copy_(F.silu(left) * right)


@torch.library.custom_op("ulpscope_tests::split", mutates_args=("low", "high"))
def split(x: Tensor, low: Tensor, high: Tensor) -> None:
    """Gives two results that way."""
    low.copy_(x.clamp(max=0))
    high.copy_(x.clamp(min=0))


def norms(items: list[dict[str, Any]]) -> list[float]:
    return [item["Norm"] for item in items]


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_an_operator_with_a_place_for_its_result(tmp_path: Path, level: str) -> None:
    x, out = torch.ones(2, 6), torch.zeros(2, 3)

    def program() -> None:
        gate(x, out)
        out.mul(2)
        gate(x, out=out)
        out.mul(2)

    captured = capture_of(tmp_path, program, level=level)
    multiply = "Tensor.mul" if level == "L1" else "Aten.mul"
    for number in range(2):
        name = f"ulpscope_tests.gate.{number}.forward"
        assert norms(captured.calls[name]["output"]) == pytest.approx([out.norm().item()])
        after = captured.calls[f"{multiply}.{number}.forward"]["input_args"][0]
        assert after["source"] == f"{name}.output.0"
        assert after["Norm"] == pytest.approx(out.norm().item())


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_an_operator_with_places_for_two(tmp_path: Path, level: str) -> None:
    x, low, high = torch.tensor([-3.0, 4.0]), torch.zeros(2), torch.zeros(2)

    def program() -> None:
        split(x, low, high)
        low.add(high)

    captured = capture_of(tmp_path, program, level=level)
    name = "ulpscope_tests.split.0.forward"
    assert norms(captured.calls[name]["output"]) == [3.0, 4.0]
    added = captured.calls["Tensor.add.0.forward" if level == "L1" else "Aten.add.0.forward"]
    assert [item["source"] for item in added["input_args"]] == [f"{name}.output.0", f"{name}.output.1"]


@torch.library.custom_op("ulpscope_tests::add_and_double", mutates_args=("residual",))
def add_and_double(x: Tensor, residual: Tensor) -> Tensor:
    """Returns one result, and writes another to its argument ``residual``."""
    residual.add_(x)
    return residual * 2


@pytest.mark.parametrize("level", ["L1", "L2"])
def test_an_operator_with_a_result_and_a_place(tmp_path: Path, level: str) -> None:
    x, residual = torch.ones(4), torch.ones(4)

    def program() -> None:
        add_and_double(x, residual)
        residual.sin()

    captured = capture_of(tmp_path, program, level=level)
    name = "ulpscope_tests.add_and_double.0.forward"
    assert norms(captured.calls[name]["output"]) == [8.0, 4.0]
    sine = captured.calls["Tensor.sin.0.forward" if level == "L1" else "Aten.sin.0.forward"]
    assert sine["input_args"][0]["source"] == f"{name}.output.1"


def test_what_optimizers_do_below_autograd(tmp_path: Path) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.full((3,), 2.0)

    def program() -> None:
        torch.optim.Adam([parameter], 0.1, foreach=True).step()
        parameter.mul(2)

    calls = capture_of(tmp_path, program, level="L2").calls
    update = calls["Aten._foreach_addcdiv_.0.forward"]
    assert norms(update["output"][0]) == pytest.approx([parameter.norm().item()])
    assert update["input_args"][1][0]["source"] == "Aten._foreach_lerp_.0.forward.output.0.0"
    after = calls["Aten.mul.0.forward"]["input_args"][0]
    assert after["source"] == "Aten._foreach_addcdiv_.0.forward.output.0.0"


def test_writes_through_views_and_beside_the_result_below_autograd(tmp_path: Path) -> None:
    mean, matrix = torch.zeros(3), torch.zeros(2, 2)

    def program() -> None:
        F.batch_norm(torch.randn(4, 3), mean, torch.ones(3), training=True)
        mean.mul(2)
        F.batch_norm(torch.randn(4, 3), mean, torch.ones(3), training=False)
        mean.mul(2)
        matrix[0] = 1.0
        matrix.mul(2)

    calls = capture_of(tmp_path, program, level="L2").calls
    sources = [calls[f"Aten.mul.{number}.forward"]["input_args"][0]["source"] for number in range(3)]
    assert sources == [
        "Aten.native_batch_norm.0.forward.output.3",
        "Aten.native_batch_norm.0.forward.output.3",
        "Aten.fill_.0.forward.input.0",
    ]


def test_level_l2_says_where_torch_computes_gradients_another_way(tmp_path: Path) -> None:
    def program() -> None:
        torch.randn(3, requires_grad=True).prod().backward()

    [note] = capture_of(tmp_path / "L2", program, level="L2").ledger["notes"]
    assert "gradients of prod, cumprod and linalg.eig" in note
    assert capture_of(tmp_path / "L1", program, level="L1").ledger["notes"] == []
