"""A program without modules against one with modules: conversions, padding, coarse dtypes, gradients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, HEADS, LENGTH, WORDS = 32, 4, 10, 60
HEAD = WIDTH // HEADS
IDS = torch.randint(0, WORDS, (4, LENGTH), generator=torch.Generator().manual_seed(3))
# Two rows end early.
MASK = torch.ones(4, LENGTH, dtype=torch.long)
MASK[1, 7:] = MASK[3, 4:] = 0


class LowRank(nn.Module):
    """A linear layer with a low-rank term beside it."""

    def __init__(self, base: nn.Linear, scale: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.base, self.scale = base, scale
        self.down, self.up = (nn.Parameter(torch.randn(size) / 5) for size in [(4, WIDTH), (WIDTH, 4)])

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.base(x) + F.linear(F.linear(x, self.down), self.up) * self.scale
        return found


class Block(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.norm, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        normed = self.norm(x.to(self.norm.weight.dtype)).to(x.dtype)
        q, k, v = (
            layer(normed).view(*x.shape[:2], HEADS, HEAD).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = (q @ k.transpose(2, 3) * HEAD**-0.5).masked_fill(hidden, torch.finfo(x.dtype).min)
        weights = scores.softmax(-1, dtype=torch.float32).to(x.dtype)
        if self.fault == "rounded":
            weights = weights.bfloat16().to(x.dtype)
        if self.fault in ("no attention from padding", "no attention of kept positions"):
            # As implementations do that set whole rows to zero.
            rows = hidden.diagonal(dim1=-2, dim2=-1)[..., None]
            weights = weights.masked_fill(rows if "padding" in self.fault else ~rows, 0.0)
        x = x + self.o((weights @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Modules(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.embed, self.kinds, self.head = (
            nn.Embedding(WORDS, WIDTH),
            nn.Embedding(2, WIDTH),
            nn.Linear(WIDTH, WORDS),
        )
        self.blocks = nn.ModuleList(Block(fault if number == 1 else "") for number in range(3))

    def forward(self, ids: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        x = self.embed(ids)
        hidden = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)[None, None]
        if mask is not None:
            hidden = (mask == 0)[:, None, None, :] | hidden.new_zeros(1)
            hidden = hidden.expand(-1, 1, ids.shape[1], -1)
        if kinds is not None:
            x = x + self.kinds(kinds)
        for block in self.blocks:
            x = block(x, hidden)
        found: Tensor = self.head(x)
        if self.fault == "late":
            found[..., 5:] = 0
        return found


class Functional(nn.Module):
    """The same without modules, with one projection for three."""

    def __init__(self, modules: Modules) -> None:
        super().__init__()
        self.weights = nn.ParameterDict()
        for name, weight in modules.named_parameters():
            if ".q." not in name and ".k." not in name and ".v." not in name:
                self.weights[name.replace(".", "_")] = nn.Parameter(weight.detach().clone())
        for number, block in enumerate(modules.blocks):
            assert isinstance(block, Block)
            for kind in ("weight", "bias"):
                parts = [getattr(layer, kind) for layer in (block.q, block.k, block.v)]
                self.weights[f"blocks_{number}_qkv_{kind}"] = nn.Parameter(torch.cat(parts).detach())

    def linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.weights[f"{name}_weight"], self.weights[f"{name}_bias"])

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (WIDTH,), self.weights[f"{name}_weight"], self.weights[f"{name}_bias"])

    def forward(self, ids: Tensor, mask: Tensor | None = None, kinds: Tensor | None = None) -> Tensor:
        x = self.weights["embed_weight"][ids]
        attended: Any = {"is_causal": True} if mask is None else {"attn_mask": (mask != 0)[:, None, None, :]}
        if kinds is not None:
            x = x + F.embedding(kinds, self.weights["kinds_weight"])
        for number in range(3):
            at = f"blocks_{number}"
            projected = self.linear(self.norm(x, f"{at}_norm"), f"{at}_qkv")
            # Conversions to the dtype that they have.
            q, k, v = (
                part.float().view(*x.shape[:2], HEADS, HEAD).transpose(1, 2).type_as(x)
                for part in projected.chunk(3, -1)
            )
            found = F.scaled_dot_product_attention(q, k, v, **attended)
            x = x + self.linear(found.transpose(1, 2).flatten(2).type_as(x), f"{at}_o")
            x = x + self.linear(F.gelu(self.linear(self.norm(x, f"{at}_norm_2"), f"{at}_up")), f"{at}_down")
        return self.linear(x, "head")


def run(
    path: Path,
    net: nn.Module,
    *given: Tensor | None,
    task: str = "tensor",
    backward: bool = False,
    hooked: str | None = None,
) -> Path:
    if hooked is not None:
        dict(net.named_parameters())[hooked].register_hook(lambda gradient: gradient * 1.1)
    with ulpscope.capture(path, model=net, level="mix", task=task), torch.set_grad_enabled(backward):
        found = net(IDS, *given)
        if backward:
            F.cross_entropy(found.flatten(0, 1), IDS.flatten()).backward()
    return path


@pytest.mark.parametrize("backward", [True, False], ids=["backward", "forward"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("swapped", [True, False], ids=["modules", "functional"])
def test_conversions_that_return_their_argument_are_no_results(
    swapped: bool, task: str, backward: bool, tmp_path: Path
) -> None:
    nets = [Functional(Modules()), Modules()]
    target, golden = (
        run(tmp_path / name, net, task=task, backward=backward)
        for name, net in zip("tg", reversed(nets) if swapped else nets, strict=True)
    )
    compared = ulpscope.compare(target, golden)
    assert (compared.divergences, compared.agreement) == ([], "agree")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_rounded_value_beside_results_that_agree_is_named(task: str, tmp_path: Path) -> None:
    """It moves elements up and down, so statistics of the results hardly show it."""
    target = run(tmp_path / "target", Modules("rounded"), task=task)
    compared = ulpscope.compare(target, run(tmp_path / "golden", Functional(Modules()), task=task))
    assert compared.agreement == "differ"
    assert compared.divergences[0].call == "Tensor.bfloat16.0.forward"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_what_the_same_program_writes_at_last_is_named(task: str, tmp_path: Path) -> None:
    target = run(tmp_path / "target", Modules("late"), task=task)
    compared = ulpscope.compare(target, run(tmp_path / "golden", Modules(), task=task))
    assert compared.agreement == "differ"
    assert [one.call for one in compared.divergences] == ["Tensor.__setitem__.0.forward"]


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_gradient_that_differs_is_not_blamed_on_calls_of_one_side(task: str, tmp_path: Path) -> None:
    """The forward passes agree, and a hook of a parameter is no call."""
    nets = Functional(Modules()), Modules()
    target = run(
        tmp_path / "target", nets[0], task=task, backward=True, hooked="weights.blocks_1_down_weight"
    )
    compared = ulpscope.compare(target, run(tmp_path / "golden", nets[1], task=task, backward=True))
    assert (compared.divergences, compared.agreement) == ([], "inconclusive")
    assert "the gradient of" in json.loads(compared.to_json())["reason"]


def padded(path: Path, fault: str, *, functional: bool, backward: bool, task: str = "tensor") -> Path:
    net: nn.Module = Functional(Modules()) if functional else Modules(fault)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        found = net(IDS, MASK)
        if backward:
            F.cross_entropy(found.flatten(0, 1), IDS.masked_fill(MASK == 0, -100).flatten()).backward()
    return path


@pytest.mark.parametrize("backward", [True, False], ids=["backward", "forward"])
def test_results_that_differ_in_padding_alone_agree(backward: bool, tmp_path: Path) -> None:
    compared = ulpscope.compare(
        padded(tmp_path / "target", "no attention from padding", functional=False, backward=backward),
        padded(tmp_path / "golden", "", functional=True, backward=backward),
    )
    assert (compared.divergences, compared.agreement) == ([], "agree")
    assert "leaves out as padding" in compared.explain()


def test_results_that_differ_beside_padding_do_not_agree(tmp_path: Path) -> None:
    compared = ulpscope.compare(
        padded(tmp_path / "target", "no attention of kept positions", functional=False, backward=False),
        padded(tmp_path / "golden", "", functional=True, backward=False),
    )
    assert compared.agreement == "differ"


@pytest.mark.parametrize(
    ("fault", "agreement"),
    [("no attention from padding", "inconclusive"), ("no attention of kept positions", "differ")],
)
def test_by_statistics_no_call_is_named_where_no_gradient_shows_a_difference_beside_padding(
    fault: str, agreement: str, tmp_path: Path
) -> None:
    compared = ulpscope.compare(
        padded(tmp_path / "target", fault, functional=False, backward=True, task="statistics"),
        padded(tmp_path / "golden", "", functional=True, backward=True, task="statistics"),
    )
    reason = json.loads(compared.to_json())["reason"]
    assert (compared.agreement, "padding alone" in reason) == (agreement, agreement == "inconclusive")
    assert bool(compared.divergences) == (agreement == "differ")


def test_kinds_of_tokens_are_no_mask(tmp_path: Path) -> None:
    """They have the zeros and ones of a mask, but choose rows of a parameter."""

    def typed(path: Path, *, functional: bool) -> Path:
        modules = Modules()
        net: nn.Module = Functional(modules) if functional else modules
        with ulpscope.capture(path, model=net, level="mix", task="tensor"), torch.no_grad():
            found = net(IDS, None, MASK)
            # A fault where the kind is 0.
            (found * torch.where(MASK == 0, 1.5, 1.0)[..., None] if functional else found) * 1.0
        return path

    compared = ulpscope.compare(
        typed(tmp_path / "target", functional=True), typed(tmp_path / "golden", functional=False)
    )
    assert compared.agreement != "agree"


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("scale", [2.0, 2.6])
def test_errors_do_not_hide_in_what_a_coarse_dtype_accumulates_to(
    scale: float, task: str, tmp_path: Path
) -> None:
    """A low-rank term beside its layer in bfloat16, against a merged one of a scale of 2."""

    def adapted(path: Path, *, merged: bool) -> Path:
        net = Modules()
        for block in net.blocks:
            assert isinstance(block, Block)
            for name in ("q", "v"):
                layer = LowRank(getattr(block, name), 2.0 if merged else scale)
                if merged:
                    with torch.no_grad():
                        layer.base.weight.add_(layer.up @ layer.down * layer.scale)
                else:
                    setattr(block, name, layer)
        return run(path, net.bfloat16(), task=task)

    compared = ulpscope.compare(
        adapted(tmp_path / "target", merged=False), adapted(tmp_path / "golden", merged=True)
    )
    assert (compared.agreement == "agree") == (scale == 2.0)
