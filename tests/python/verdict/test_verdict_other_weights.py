"""Other weights, same function: weights that one side keeps folded or merged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

import ulpscope


class Convolutions(nn.Module):
    """Two convolutions, each with a batch norm behind it or folded into it."""

    def __init__(self, *, folded: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolutions = nn.ModuleList([nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 3, bias=False)])
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(2))
        self.head = nn.Linear(8, 5)
        for norm in self.norms:
            for tensor in (norm.weight, norm.bias, norm.running_mean):
                assert isinstance(tensor, Tensor)
                nn.init.normal_(tensor)
            assert isinstance(norm.running_var, Tensor)
            nn.init.uniform_(norm.running_var, 0.5, 2.0)
        self.eval()
        if folded:
            for number, norm in enumerate(self.norms):
                self.convolutions[number] = fuse_conv_bn_eval(self.convolutions[number], norm)
                self.norms[number] = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(norm(convolution(x)))
        found: Tensor = self.head(x.mean((2, 3)))
        return found


def run(path: Path, *, folded: bool, task: str, backward: bool, fault: float = 1.0) -> Path:
    net = Convolutions(folded=folded)
    with torch.no_grad():
        weight = net.convolutions[1].weight
        assert isinstance(weight, Tensor)
        weight.mul_(fault)
    with ulpscope.capture(path, model=net, level="mix", task=task):
        found = net(torch.randn(2, 3, 10, 10, generator=torch.Generator().manual_seed(1)))
        if backward:
            F.cross_entropy(found, torch.tensor([1, 2])).backward()
    return path


@pytest.mark.parametrize("folded", [True, False], ids=["folded in target", "folded in golden"])
@pytest.mark.parametrize("backward", [True, False], ids=["backward", "forward"])
@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_folded_batch_norms_are_a_note(task: str, backward: bool, folded: bool, tmp_path: Path) -> None:
    compared = ulpscope.compare(
        run(tmp_path / "target", folded=folded, task=task, backward=backward),
        run(tmp_path / "golden", folded=not folded, task=task, backward=backward),
    )
    assert (compared.divergences, compared.agreement) == ([], "agree")
    assert "other weights, same function" in compared.explain()


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_wrong_fold_is_found_where_it_is(task: str, tmp_path: Path) -> None:
    compared = ulpscope.compare(
        run(tmp_path / "target", folded=True, task=task, backward=False, fault=1.01),
        run(tmp_path / "golden", folded=False, task=task, backward=False),
    )
    assert [one.call for one in compared.divergences] == ["Functional.conv2d.1.forward"]


def test_a_weight_that_differs_in_the_same_program_is_named(tmp_path: Path) -> None:
    compared = ulpscope.compare(
        run(tmp_path / "target", folded=False, task="tensor", backward=False, fault=1.01),
        run(tmp_path / "golden", folded=False, task="tensor", backward=False),
    )
    assert [one.kind for one in compared.divergences] == ["origin differs"]
