"""A check changes nothing: loss, gradients, parameters and random numbers are those of the program alone."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

import ulpscope
from twin_programs import GPT

MODES = [
    "amplification",
    "improve_precision",
    "bit_noise",
    "add_noise",
    "change_value",
    "no_change",
    "to_cpu",
]


class Everything(nn.Module):
    """Random numbers, running statistics, calls in place, a lookup that renormalises, recomputation."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 8, max_norm=1.0)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Dropout(0.2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        x, _ = self.lstm(self.drop(x))
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        x = checkpoint(self.inner, x, use_reentrant=False)
        x = x + torch.rand_like(x) + torch.empty_like(x).normal_()
        out = torch.empty_like(x)
        with torch.no_grad():
            torch.mul(x, 2, out=out)
        x = F.scaled_dot_product_attention(x, x, x + out, dropout_p=0.1)
        x[:, 0] += 1
        return x.cumsum(1).sum(-1)


def train(run: Any = None) -> list[torch.Tensor]:
    torch.manual_seed(3)
    model = Everything()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    kept = []
    for _ in range(2):
        loss = model(torch.randint(0, 10, (4, 5))).square().mean()
        loss.backward()
        kept += [loss.detach(), *(one.grad.clone() for one in model.parameters() if one.grad is not None)]
        optimizer.step()
        optimizer.zero_grad()
        if run is not None:
            run.step()
    return [*kept, *model.state_dict().values(), torch.rand(3)]


# Modes of the backward stage that change the same gradients as bit_noise.
SLOW = [("add_noise", "backward"), ("change_value", "backward"), ("no_change", "backward")]
RUNS = [
    pytest.param(mode, stage, marks=[pytest.mark.slow] if (mode, stage) in SLOW else [])
    for mode in MODES
    for stage in ("forward", "backward")
]


@pytest.mark.parametrize(("mode", "stage"), RUNS)
def test_loss_gradients_and_random_numbers_are_bit_identical(mode: Any, stage: Any, tmp_path: Path) -> None:
    plain = train()
    listed = ["."] if stage == "backward" else []
    with ulpscope.check.perturb(
        tmp_path, pert_mode=mode, fuzz_stage=stage, list=listed, max_sample=1000
    ) as check:
        checked = train(check)
    assert all(map(torch.equal, plain, checked))
    assert len(plain) == len(checked)


def test_a_plain_repetition_repeats_everything(tmp_path: Path) -> None:
    """No call of it differs when it is repeated: not one that draws random numbers or writes to arguments."""
    with ulpscope.check.perturb(tmp_path, pert_mode="no_change") as check:
        train(check)
    assert [str(one) for one in check.findings] == []


def test_bf16_autocast_is_bit_identical(tmp_path: Path) -> None:
    def loss() -> torch.Tensor:
        torch.manual_seed(0)
        model = GPT()
        tokens = torch.randint(0, 32, (2, 8))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = model(tokens).float().logsumexp(-1).mean()
        result.backward()
        return torch.cat([result.detach()[None], *(one.grad.flatten() for one in model.parameters())])

    plain = loss()
    for mode in ("amplification", "improve_precision", "bit_noise"):
        with ulpscope.check.perturb(tmp_path, pert_mode=mode):
            assert torch.equal(loss(), plain)


def test_torch_is_restored_afterwards(tmp_path: Path) -> None:
    apply, call = torch.autograd.Function.apply, nn.Module.__call__
    check = ulpscope.check.perturb(tmp_path, pert_mode="bit_noise")
    check.start()
    with (
        pytest.raises(RuntimeError, match="only one capture can record at a time"),
        ulpscope.capture(tmp_path),
    ):
        pass
    check.close()
    assert torch._C._len_torch_function_stack() == 0
    assert torch.autograd.Function.apply == apply
    assert nn.Module.__call__ is call
    with pytest.raises(RuntimeError, match="is closed"):
        check.start()


def test_errors_of_the_program_reach_it(tmp_path: Path) -> None:
    with ulpscope.check.perturb(tmp_path, pert_mode="bit_noise"), pytest.raises(RuntimeError, match="shape"):
        torch.ones(2) @ torch.ones(3, 3).reshape(2, 2)


@pytest.mark.parametrize(
    "settings",
    [{}, {"pert_mode": "bit_noise"}, {"fuzz_stage": "backward"}],
    ids=["default", "noise", "backward"],
)
def test_buffers_inside_of_reentrant_checkpointing_are_updated_once(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    def buffers(is_checked: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.randn(8, 4, requires_grad=True)
        with ulpscope.check.perturb(tmp_path, **settings) if is_checked else contextlib.nullcontext():
            checkpoint(model, x, use_reentrant=True).square().sum().backward()
        return list(model.buffers())

    assert all(map(torch.equal, buffers(is_checked=True), buffers(is_checked=False)))
