"""Parameters are paired by name and content, whatever their place in the lists of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import ulpscope

SIZES = {"first": (16, 16), "second": (16, 16), "third": (16, 16), "last": (16, 4)}
FORWARDS, BACKWARDS = tuple(SIZES), tuple(reversed(SIZES))

Groups = Callable[[nn.Module], torch.optim.Optimizer]


class Net(nn.Module):
    """The same function and weights, whatever the order in which its layers are declared."""

    def __init__(self, order: tuple[str, ...]) -> None:
        super().__init__()
        for name in order:
            self.add_module(name, nn.Linear(*SIZES[name]))
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name in sorted(name for name, _ in self.named_parameters()):
                parameter = self.get_parameter(name)
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)

    def forward(self, x: Tensor) -> Tensor:
        for name in FORWARDS:
            x = self.get_submodule(name)(x).tanh()
        return x


def adamw(net: nn.Module, rate: float = 1e-2, **options: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(net.parameters(), rate, **options)


def grouped(net: nn.Module, rate: float = 1e-2) -> torch.optim.Optimizer:
    """Two groups, the first with a rate of its own."""
    first = [*net.get_submodule("second").parameters()]
    known = {id(parameter) for parameter in first}
    others = [parameter for parameter in net.parameters() if id(parameter) not in known]
    return torch.optim.AdamW([{"params": first, "lr": rate}, {"params": others}], 1e-2, foreach=True)


def trained(
    path: Path, order: tuple[str, ...], optimizer: Groups, task: str = "tensor", steps: int = 1
) -> Path:
    net, batches = Net(order), torch.randn(steps, 8, 16, generator=torch.Generator().manual_seed(1))
    made = optimizer(net)
    with ulpscope.capture(path, model=net, level="mix", task=task) as run:
        for batch in batches:
            made.zero_grad()
            net(batch).square().mean().backward()
            made.step()
            run.step()
    return path


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda net: adamw(net, foreach=True),
        lambda net: adamw(net, foreach=False),
        lambda net: torch.optim.SGD(net.parameters(), 0.1, momentum=0.9),
    ],
    ids=["all at once", "one by one", "sgd"],
)
def test_another_order_of_parameters_raises_nothing(optimizer: Groups, task: str, tmp_path: Path) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", BACKWARDS, optimizer, task, steps=2),
        trained(tmp_path / "golden", FORWARDS, optimizer, task, steps=2),
    )
    assert (compared.divergences, compared.agreement) == ([], "agree")


def test_groups_of_parameters_raise_nothing(tmp_path: Path) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", BACKWARDS, grouped),
        trained(tmp_path / "golden", FORWARDS, lambda net: adamw(net, foreach=True)),
    )
    assert (compared.divergences, compared.agreement) == ([], "agree")


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_wrong_rate_is_found_in_any_order(task: str, tmp_path: Path) -> None:
    target = trained(tmp_path / "target", BACKWARDS, lambda net: adamw(net, 3e-2), task)
    compared = ulpscope.compare(target, trained(tmp_path / "golden", FORWARDS, adamw, task))
    assert (len(compared.divergences), compared.agreement) == (1, "differ")
    assert "after this step, 8 of 8 parameters and gradients" in compared.explain()


def test_a_wrong_rate_of_a_few_parameters_is_found(tmp_path: Path) -> None:
    compared = ulpscope.compare(
        trained(tmp_path / "target", BACKWARDS, lambda net: grouped(net, 5e-2)),
        trained(tmp_path / "golden", FORWARDS, lambda net: adamw(net, foreach=True)),
    )
    assert (len(compared.divergences), compared.agreement) == (1, "differ")
    said = compared.explain()
    assert "2 of 8 parameters and gradients" in said
    assert "the parameter second." in said
