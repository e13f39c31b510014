"""Two programs with different calls that should compute the same: judged by what they compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, HEADS, LENGTH = 32, 4, 10


class PlainBlock(nn.Module):
    """A block as a library writes it: three projections, attention call by call, a norm by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.norm, self.norm_2 = nn.Parameter(torch.rand(WIDTH) + 0.5), nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def normed(self, x: Tensor, weight: Tensor, fault: str) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        return weight * (x * torch.rsqrt(variance + (1e-2 if fault == "epsilon" else 1e-6)))

    def attention(self, x: Tensor, fault: str) -> Tensor:
        split = (*x.shape[:-1], HEADS, -1)
        query, key, value = (
            layer(x).view(split).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        if fault == "swapped":
            query, key = key, query
        scores = query @ key.transpose(2, 3)
        if fault != "scale":
            scores = scores * (WIDTH // HEADS) ** -0.5
        mask = torch.full((LENGTH, LENGTH), torch.finfo(x.dtype).min).triu(1 if fault != "mask" else 2)
        weights = (scores + mask).softmax(-1 if fault != "softmax" else -2)
        return self.o_proj((weights @ value).transpose(1, 2).reshape(x.shape))

    def forward(self, x: Tensor, fault: str = "") -> Tensor:
        x = x + self.attention(self.normed(x, self.norm, fault), fault)
        inner = functional.gelu(
            self.up(self.normed(x, self.norm_2, fault)), approximate="tanh" if fault == "gelu" else "none"
        )
        return (x if fault != "residual" else 0) + self.down(inner)


class FusedBlock(nn.Module):
    """The same block as somebody else writes it: one projection, one attention call, one call for a norm."""

    def __init__(self, plain: PlainBlock) -> None:
        super().__init__()
        parts = [plain.q_proj.weight, plain.k_proj.weight, plain.v_proj.weight]
        self.qkv = nn.Parameter(torch.cat(parts).detach())
        self.out = nn.Parameter(plain.o_proj.weight.detach().clone().t().contiguous())
        self.scales = nn.ParameterList([plain.norm.detach().clone(), plain.norm_2.detach().clone()])
        self.fc, self.proj = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.fc.load_state_dict(plain.up.state_dict())
        self.proj.load_state_dict(plain.down.state_dict())

    def forward(self, x: Tensor, _: str = "") -> Tensor:
        query, key, value = (
            part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (functional.rms_norm(x, (WIDTH,), self.scales[0], 1e-6) @ self.qkv.t()).chunk(3, -1)
        )
        given = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + given.transpose(1, 2).flatten(2) @ self.out
        return x + self.proj(functional.gelu(self.fc(functional.rms_norm(x, (WIDTH,), self.scales[1], 1e-6))))


class Net(nn.Module):
    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        plain = [PlainBlock() for _ in range(3)]
        self.embed, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, 50)
        self.blocks = nn.ModuleList([FusedBlock(block) for block in plain] if fused else plain)

    def forward(self, tokens: Tensor, fault: str = "") -> Tensor:
        x = self.embed(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, fault if number == 1 else "")
        return self.head(x)


def run(path: Path, *, fused: bool, fault: str = "", task: str = "tensor", backward: bool = True) -> Path:
    net = Net(fused=fused)
    tokens = torch.arange(2 * LENGTH).reshape(2, LENGTH) * 7 % 50
    with ulpscope.capture(path, model=net, level="mix", task=task):
        result = net(tokens, fault)
        if backward:
            functional.cross_entropy(result.flatten(0, 1), tokens.flatten()).backward()
    return path


def named(compared: Any) -> list[set[str]]:
    """The calls of either side that are named: those of a region, or one that both make."""
    first = json.loads(compared.to_json())["first_divergence"]
    if first["region"] is None:
        return [{first["call"]}, {first["golden_call"]}]
    return [{call["name"] for call in first["region"][side]["computing"]} for side in ("target", "golden")]


@pytest.mark.parametrize("backward", [True, False], ids=["backward", "forward"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
def test_two_programs_that_compute_the_same_agree(
    fused: bool, task: str, backward: bool, tmp_path: Path
) -> None:
    target = run(tmp_path / "target", fused=fused, task=task, backward=backward)
    golden = run(tmp_path / "golden", fused=not fused, task=task, backward=backward)
    compared = ulpscope.compare(target, golden)
    assert (compared.divergences, compared.agreement, compared.ok) == ([], "agree", True)


FAULTS = {
    # What one of the sides must name. Without the sum, the golden's sum has no counterpart.
    "scale": "scaled_dot_product_attention",
    "softmax": "Tensor.softmax",
    "mask": "Tensor.__add__",
    "epsilon": "Torch.rsqrt",
    "gelu": "Functional.gelu",
    "residual": "Tensor.__add__",
}


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_of_two_programs_is_in_a_small_region(fault: str, task: str, tmp_path: Path) -> None:
    target = run(tmp_path / "target", fused=False, fault=fault, task=task)
    compared = ulpscope.compare(target, run(tmp_path / "golden", fused=True, task=task))
    assert compared.agreement == "differ"
    assert len(compared.divergences) == 1
    sides = named(compared)
    assert any(FAULTS[fault] in call for calls in sides for call in calls), sides
    assert max(map(len, sides)) <= 12
    assert compared.divergences[0].module is not None
    assert "blocks.1" in compared.divergences[0].module or fault == "residual"


def test_where_programs_part_is_named_from_both_sides(tmp_path: Path) -> None:
    target, golden = (
        run(tmp_path / "target", fused=False, fault="scale"),
        run(tmp_path / "golden", fused=True),
    )
    region = json.loads(ulpscope.compare(target, golden).to_json())["first_divergence"]["region"]
    assert region["after"], "queries, keys and values agree"
    assert all(len(pair) == 2 for pair in region["after"])
    # The first use of a parameter behind the fault.
    assert region["before"][0]["name"].startswith("Functional.linear")
    assert region["before"][1]["name"].startswith("Tensor.__matmul__")
    lines = [call["code"] for call in region["target"]["computing"]]
    assert any("test_verdict_ports.py" in line for line in lines if line)


def test_a_weight_that_was_not_loaded_is_found(tmp_path: Path) -> None:
    def other(path: Path) -> Path:
        net = Net(fused=True)
        with torch.no_grad():
            net.blocks[1].fc.weight.mul_(1.05)  # type: ignore[union-attr, operator]
        with ulpscope.capture(path, model=net, level="mix", task="tensor"):
            net(torch.arange(2 * LENGTH).reshape(2, LENGTH) * 7 % 50)
        return path

    golden = run(tmp_path / "golden", fused=False, backward=False)
    compared = ulpscope.compare(other(tmp_path / "target"), golden)
    assert compared.agreement == "differ"
    assert compared.divergences[0].call.startswith("Functional.linear")


def test_two_programs_with_different_gradients_do_not_agree(tmp_path: Path) -> None:
    """The forward passes agree, and one gradient is scaled."""

    def scaled(path: Path) -> Path:
        net = Net(fused=True)
        net.blocks[1].fc.register_full_backward_hook(lambda _, given, __: (given[0] * 1.5,))  # type: ignore[union-attr]
        tokens = torch.arange(2 * LENGTH).reshape(2, LENGTH) * 7 % 50
        with ulpscope.capture(path, model=net, level="mix", task="tensor"):
            functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()
        return path

    compared = ulpscope.compare(scaled(tmp_path / "target"), run(tmp_path / "golden", fused=False))
    assert compared.agreement != "agree"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_gradients_that_agree_do_not_speak_for_an_optimizer(task: str, tmp_path: Path) -> None:
    """One of two steps of Adam, written by hand, leaves out the correction of the second moment."""

    def step(path: Path, corrected: bool) -> Path:
        torch.manual_seed(0)
        net = nn.Sequential(*(nn.Linear(8, 8) for _ in range(6)))
        with ulpscope.capture(path, model=net, level="mix", task=task):
            net(torch.linspace(-1, 1, 64).reshape(8, 8)).square().mean().backward()
            with torch.no_grad():
                for weight in net.parameters():
                    assert weight.grad is not None
                    first, second = weight.grad * 0.1, weight.grad * weight.grad * 0.001
                    second = second / 0.001 if corrected else second
                    weight.sub_(0.01 * (first / 0.1) / (second.sqrt() + 1e-8))
        return path

    compared = ulpscope.compare(step(tmp_path / "target", False), step(tmp_path / "golden", True))
    assert compared.agreement == "differ"


class TwoHeads(nn.Module):
    """Two projections of one input, by calls of two kinds."""

    def __init__(self, *, by_hand: bool, fault: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)
        self.by_hand, self.fault = by_hand, fault

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        if not self.by_hand:
            return {"a": self.a(x), "b": self.b(x)}
        first, second = (x @ one.weight.t() + one.bias for one in (self.a, self.b))
        return {"a": first, "b": second + self.fault}


def test_programs_without_a_common_call_agree_by_their_results(tmp_path: Path) -> None:
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))

    def dump(name: str, net: nn.Module) -> Path:
        with ulpscope.capture(tmp_path / name, model=net, level="mix", task="tensor"), torch.no_grad():
            net(x)
        return tmp_path / name

    golden = dump("golden", TwoHeads(by_hand=False))
    compared = ulpscope.compare(dump("right", TwoHeads(by_hand=True)), golden)
    assert (compared.agreement, compared.ok) == ("agree", True)
    wrong = ulpscope.compare(dump("wrong", TwoHeads(by_hand=True, fault=1e-2)), golden)
    assert not wrong.ok
