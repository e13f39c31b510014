"""Two different programs, trained for several steps by their own optimizers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope

WIDTH, LENGTH, STEPS, RATE = 32, 8, 3, 1e-3

Step = Callable[[], None]


class Split(nn.Module):
    """Attention with three projections, and an MLP of modules."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.norm = nn.Embedding(50, WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 50, bias=False)

    def forward(self, ids: Tensor, fault: str = "") -> Tensor:
        x = self.tokens(ids)
        normed = self.norm(x)
        x = x + self.o(
            F.scaled_dot_product_attention(self.q(normed), self.k(normed), self.v(normed), is_causal=True)
        )
        inner = F.gelu(self.up(x), approximate="tanh" if fault == "gelu" else "none")
        found: Tensor = self.head(x + self.down(inner))
        return found


class Fused(nn.Module):
    """The same with one projection, weights in another order and transposed, attention by hand."""

    def __init__(self) -> None:
        super().__init__()
        other = Split()
        self.unembed, self.wte = other.head, nn.Parameter(other.tokens.weight.detach().clone())
        self.w_down = nn.Parameter(other.down.weight.detach().t().clone())
        self.w_up = nn.Parameter(other.up.weight.detach().t().clone())
        self.b_up, self.b_down = other.up.bias, other.down.bias
        self.attention, self.out, self.ln = nn.Linear(WIDTH, 3 * WIDTH), other.o, other.norm
        with torch.no_grad():
            self.attention.weight.copy_(torch.cat([other.q.weight, other.k.weight, other.v.weight]))
            self.attention.bias.copy_(torch.cat([other.q.bias, other.k.bias, other.v.bias]))

    def forward(self, ids: Tensor, fault: str = "") -> Tensor:
        x = F.embedding(ids, self.wte)
        query, key, value = self.attention(self.ln(x)).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / WIDTH**0.5
        mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
        x = x + self.out((scores + mask).softmax(-1) @ value)
        inner = torch.addmm(self.b_up, x.flatten(0, 1), self.w_up)
        inner = 0.5 * inner * (1 + torch.erf(inner / 2**0.5)) if fault != "gelu" else inner.relu()
        found: Tensor = self.unembed(x + torch.addmm(self.b_down, inner, self.w_down).view(x.shape))
        return found


def by_torch(net: nn.Module, rate: float = RATE) -> Step:
    return torch.optim.AdamW(net.parameters(), rate, weight_decay=0.1).step


def by_hand(net: nn.Module, fault: str = "") -> Step:
    """AdamW as one writes it down."""
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in net.parameters()]
    counted = iter(range(1, STEPS + 1))

    @torch.no_grad()
    def step() -> None:
        number = next(counted)
        for parameter, mean, square in state:
            gradient = parameter.grad
            assert gradient is not None
            if fault != "decay":
                parameter.mul_(1 - RATE * 0.1)
            mean.mul_(0.9).add_(gradient, alpha=0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=1 - 0.999)
            corrected_square = square / (1 - 0.999**number)
            size = (corrected_square + 1e-7).sqrt() if fault == "epsilon" else corrected_square.sqrt() + 1e-8
            corrected = mean / (1 - 0.9**number) if fault != "correction" else mean
            parameter.sub_(RATE * corrected / size)

    return step


def trained(
    path: Path, net: nn.Module, optimizer: Callable[[nn.Module], Step], task: str = "tensor", fault: str = ""
) -> Path:
    generator = torch.Generator().manual_seed(1)
    step = optimizer(net)
    with ulpscope.capture(path, model=net, level="mix", task=task) as run:
        for _ in range(STEPS):
            ids = torch.randint(0, 50, (2, LENGTH), generator=generator)
            net.zero_grad()
            F.cross_entropy(net(ids, fault)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
            step()
            run.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("optimizer", [by_torch, by_hand], ids=["torch", "by hand"])
def test_two_programs_that_train_alike_agree(
    optimizer: Callable[[nn.Module], Step], task: str, tmp_path: Path
) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", Fused(), optimizer, task),
        trained(tmp_path / "golden", Split(), by_torch, task),
    )
    assert (compared.divergences, compared.agreement) == ([], "agree")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    "optimizer",
    [lambda net: by_hand(net, "correction"), lambda net: by_torch(net, 3 * RATE)],
    ids=["no correction", "rate"],
)
def test_a_wrong_optimizer_is_one_finding_in_the_first_step(
    optimizer: Callable[[nn.Module], Step], task: str, tmp_path: Path
) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", Fused(), optimizer, task),
        trained(tmp_path / "golden", Split(), by_torch, task),
    )
    assert compared.agreement == "differ"
    first = compared.explain().splitlines()[1:4]
    assert any("the update of parameters differs: after this step" in line.lower() for line in first)
    assert "their final results agree" not in "".join(first)


def test_a_fault_of_the_forward_pass_is_found_before_the_optimizer(tmp_path: Path) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", Fused(), by_hand, fault="gelu"),
        trained(tmp_path / "golden", Split(), by_torch),
    )
    assert compared.agreement == "differ"
    said = compared.explain()
    assert "no longer at" in said
    assert "Tensor.relu.0" in said


@pytest.mark.parametrize("foreach", [True, False], ids=["all at once", "one by one"])
@pytest.mark.parametrize("fault", ["correction", "decay", "epsilon"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_an_optimizer_by_hand_that_is_wrong_is_one_finding_in_each_step(
    task: str, fault: str, foreach: bool, tmp_path: Path
) -> None:
    def golden(net: nn.Module) -> Step:
        return torch.optim.AdamW(net.parameters(), RATE, weight_decay=0.1, foreach=foreach).step

    compared = ulpscope.compare(
        trained(tmp_path / "target", Split(), lambda net: by_hand(net, fault), task),
        trained(tmp_path / "golden", Split(), golden, task),
    )
    assert compared.agreement == "differ"
    assert len([one for one in compared.divergences if one.step == 0]) == 1
