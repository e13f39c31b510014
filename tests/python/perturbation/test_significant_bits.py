"""Significant bits: noise of one unit at every output, the bits that stay, and where precision matters."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import ulpscope


def test_bits_gains_and_the_ranking_of_a_cancellation() -> None:
    x = torch.linspace(1, 2, 64, requires_grad=True)

    def program() -> torch.Tensor:
        y = torch.mul(x, 1.5)
        small = torch.sub(y + 1e4, 1e4)
        kept = torch.tanh(x) * 1e-4
        loss = (small + kept).sum()
        loss.backward()
        return loss.detach()

    report = ulpscope.check.significant_bits(program, samples=6)
    assert x.grad is not None
    bits = {one.name: one.bits for one in report.entries}
    assert bits["Torch.mul.0.forward.output.0"] == 24, "the first call has exact inputs"
    assert 22 < bits["Torch.tanh.0.forward.output.0"] <= 24
    # One unit of 1e4 is 2^-10, of numbers around 2.
    assert 9 < bits["Torch.sub.0.forward.output.0"] < 13
    calls = {one.name: one for one in report.calls}
    assert 1000 < (calls["Torch.sub.0.forward"].gain or 0) < 20000
    assert (calls["Tensor.sum.0.forward"].gain or 0) < 2
    assert report.raise_precision[0].name == "Tensor.__add__.0.forward", (
        "whose output is rounded most coarsely"
    )
    lower = [one.name for one in report.safe_to_lower()]
    assert "Tensor.__mul__.0.forward" in lower
    assert "Tensor.__add__.0.forward" not in lower
    assert [one.name for one in report.result] == ["result.0"]
    text = str(report)
    assert "raise precision here:\n  Tensor.__add__.0.forward: " in text


def test_it_is_repeatable_and_leaves_no_trace() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1)).bfloat16()
    x = torch.randn(4, 8).bfloat16()

    def program() -> torch.Tensor:
        model.zero_grad()
        loss = model(x).float().square().mean()
        loss.backward()
        return loss

    state = torch.get_rng_state()
    first = ulpscope.check.significant_bits(program, samples=3, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    assert ulpscope.check.significant_bits(program, samples=3, seed=5) == first
    assert ulpscope.check.significant_bits(program, samples=3, seed=6) != first
    linear = next(one for one in first.entries if one.name == "Functional.linear.1.forward.output.0")
    assert linear.of == 8
    assert 4 < linear.bits <= 8
    assert any(one.name.endswith(".backward.input.0") for one in first.entries)
    with pytest.raises(ValueError, match="samples is 0"):
        ulpscope.check.significant_bits(program, samples=0)


def test_without_gradients_the_ranking_is_by_gain() -> None:
    def program() -> None:
        y = torch.exp(torch.linspace(0, 1, 32))
        torch.sub(y * 1, 1.0 - 1e-6).log()
        torch.sub(torch.add(y, 1e5), 1e5)

    report = ulpscope.check.significant_bits(program)
    assert report.raise_precision[0].name == "Torch.sub.1.forward"
    assert report.safe_to_lower() == []


def test_a_program_that_steps_an_optimizer_is_refused() -> None:
    layer = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def program() -> torch.Tensor:
        optimizer.zero_grad()
        loss = layer(torch.ones(2, 4)).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    with pytest.raises(ValueError, match="leave the optimizer's step out"):
        ulpscope.check.significant_bits(program)
