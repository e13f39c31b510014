"""The backward stage: gradients for a changed gradient of the outputs, on inputs that are kept until then."""

from __future__ import annotations

import gc
import logging
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope


class Fragile(torch.autograd.Function):
    """Its backward pass loses the gradient's digits."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        gradient = gradients[0]
        return (gradient + 1e6) - 1e6, gradient * 1


def test_a_fragile_backward_pass_is_found_with_the_position_of_its_gradient(tmp_path: Path) -> None:
    x = torch.linspace(1, 2, 6).requires_grad_()
    y = torch.linspace(3, 4, 6).requires_grad_()
    scale = torch.linspace(0.1, 0.25, 6)
    with ulpscope.check.perturb(
        tmp_path, pert_mode="improve_precision", fuzz_stage="backward", list=["Fragile"]
    ) as check:
        (Fragile.apply(x, y) * scale).sum().backward()
    assert check.findings == [], "float32 is not raised"
    x16, y16 = x.detach().bfloat16().requires_grad_(), y.detach().bfloat16().requires_grad_()
    with ulpscope.check.perturb(
        tmp_path, pert_mode="improve_precision", fuzz_stage="backward", list=["Fragile"]
    ) as check:
        (Fragile.apply(x16, y16) * scale.bfloat16()).sum().backward()
    assert [(one.api_name, one.stage, one.output_index) for one in check.findings] == [
        ("Autograd.Fragile.0.backward", "backward", 0)
    ]
    file = (tmp_path / "free_benchmark.csv").read_text().splitlines()
    assert len(file) == 2
    assert ",backward,0,Autograd.Fragile.0.backward," in file[1]


def test_healthy_calls_pass_in_every_kind_of_graph(tmp_path: Path) -> None:
    x = torch.randn(4, 4).requires_grad_()
    with ulpscope.check.perturb(
        tmp_path, pert_mode="bit_noise", fuzz_stage="backward", list=["."], strict=True
    ) as check:
        y = F.linear(x, x).relu() * 1
        y.mul_(2)
        y = y + y.clone().add_(1)
        a, b = torch.split(y, 2)
        values, _ = torch.topk(F.dropout(a, 0.5) * b, 2)
        torch.cat([values, a[:, :2]]).sum().backward()
    assert check.findings == []


def test_inputs_are_let_go_and_their_amount_is_bounded_and_stated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ulpscope.check")
    kept: list[weakref.ref[torch.Tensor]] = []
    with ulpscope.check.perturb(
        tmp_path, pert_mode="bit_noise", fuzz_stage="backward", list=["Torch.sin"], max_sample=2
    ) as check:
        leaf = torch.ones(1000, requires_grad=True)
        total = torch.zeros(())
        for _ in range(4):
            x = leaf * 2
            kept.append(weakref.ref(x))
            total = total + torch.sin(x).sum()
            del x
        total.backward()
        del total
        gc.collect()
        assert [one() for one in kept] == [None] * 4
        check.step()
    lines = [record.getMessage() for record in caplog.records]
    assert sum("Perturbation is bit_noise of Torch.sin" in line for line in lines) == 2
    assert (
        "[msprobe] Free Benchmark: For Torch.sin.2.backward,"
        "the inputs of 2 calls of it are kept (max_sample). Cancel perturbation."
    ) in lines
    assert (
        "[msprobe] Free benchmark: step 0 kept the inputs of up to 2 calls for the backward stage: 0.0 MB"
        in lines
    )


def test_an_input_that_the_program_changes_meanwhile_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ulpscope.check")
    with ulpscope.check.perturb(tmp_path, pert_mode="bit_noise", fuzz_stage="backward", list=["Torch.add"]):
        x = torch.ones(3, requires_grad=True) * 1
        y = torch.add(x, 1)
        x.mul_(5)
        y.sum().backward()
    assert any("an input was changed between" in record.getMessage() for record in caplog.records)


def test_after_stop_the_backward_pass_is_not_touched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ulpscope.check")
    check = ulpscope.check.perturb(tmp_path, pert_mode="bit_noise", fuzz_stage="backward", list=["exp"])
    check.start()
    y = torch.exp(torch.ones(2, requires_grad=True))
    check.stop()
    y.sum().backward()
    check.close()
    assert not any("Perturbation is" in record.getMessage() for record in caplog.records)
