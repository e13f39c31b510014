"""Backward passes and optimizers of ports: what these compute is no final result; their errors are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import ulpscope

WIDTH, CLASSES, BATCH = 16, 6, 9

TASKS = pytest.mark.parametrize("task", ["tensor", "statistics"])


class QuickGelu(torch.autograd.Function):
    """With a gradient by hand."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.share = share
        return x * torch.sigmoid(1.702 * x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        sigmoid = torch.sigmoid(1.702 * x)
        slope = sigmoid + 1.702 * x * sigmoid * (1 - sigmoid) * ctx.share
        return gradients[0] * slope, None


class CrossEntropy(torch.autograd.Function):
    """With a gradient by hand, that is written in place."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, labels: Tensor) -> Tensor:
        probabilities = scores.softmax(-1)
        ctx.save_for_backward(probabilities, labels)
        return -probabilities[torch.arange(len(labels)), labels].log().mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        probabilities, labels = ctx.saved_tensors
        found = probabilities.clone()
        found[torch.arange(len(labels)), labels] -= 1
        return found * gradients[0] / len(labels), None


class Classifier(nn.Module):
    def __init__(self, functions: str, share: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.functions, self.share = functions, share
        self.up, self.mix, self.out = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.mix(self.up(x))
        is_own = "gelu" in self.functions
        x = QuickGelu.apply(x, self.share) if is_own else x * torch.sigmoid(1.702 * x)
        found: Tensor = self.out(x)
        return found


def classified(path: Path, task: str, functions: str = "", share: float = 1.0) -> Path:
    net = Classifier(functions, share)
    inputs, labels = torch.randn(BATCH, 8), torch.randint(0, CLASSES, (BATCH,))
    with ulpscope.capture(path, model=net, level="mix", task=task):
        scores = net(inputs)
        is_own = "loss" in functions
        loss = CrossEntropy.apply(scores, labels) if is_own else functional.cross_entropy(scores, labels)
        loss.backward()
    return path


@TASKS
@pytest.mark.parametrize("functions", ["gelu", "loss", "gelu loss"])
def test_a_users_own_autograd_function(functions: str, task: str, tmp_path: Path) -> None:
    golden = classified(tmp_path / "golden", task)
    target = classified(tmp_path / "target", task, functions)
    for pair in ((target, golden), (golden, target)):
        compared = ulpscope.compare(*pair)
        assert compared.first_divergence is None, compared.explain()
        assert compared.agreement == "agree", compared.reason


@TASKS
def test_a_wrong_gradient_of_a_users_own_function(task: str, tmp_path: Path) -> None:
    golden = classified(tmp_path / "golden", task)
    compared = ulpscope.compare(classified(tmp_path / "target", task, "gelu", share=0.9), golden)
    assert compared.agreement != "agree"
    # The backward pass gets there first.
    assert "mix." in compared.reason or compared.first_divergence is not None, compared.reason


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.cell, self.out = (
            nn.Embedding(20, 8),
            nn.LSTM(8, WIDTH, batch_first=True),
            nn.Linear(WIDTH, 20),
        )

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.out(self.cell(self.words(words))[0])
        return found


class Unrolled(Recurrent):
    """The same by hand."""

    def forward(self, words: Tensor) -> Tensor:
        cell, steps = self.cell, []
        state = memory = torch.zeros(len(words), WIDTH)
        for word in self.words(words).unbind(1):
            gates = (
                word @ cell.weight_ih_l0.T + cell.bias_ih_l0 + state @ cell.weight_hh_l0.T + cell.bias_hh_l0
            )
            enter, forget, value, leave = gates.chunk(4, 1)
            memory = forget.sigmoid() * memory + enter.sigmoid() * value.tanh()
            state = leave.sigmoid() * memory.tanh()
            steps.append(state)
        found: Tensor = self.out(torch.stack(steps, 1))
        return found


@TASKS
def test_what_an_optimizer_counts_is_no_result(task: str, tmp_path: Path) -> None:
    """A step counter is a single number, as a loss is."""
    words = torch.randint(0, 20, (3, 8), generator=torch.Generator().manual_seed(1))

    def golden() -> None:
        net = Recurrent()
        optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
        with ulpscope.capture(tmp_path / "golden", model=net, level="mix", task=task):
            scores = net(words)
            functional.cross_entropy(scores[:, :-1].reshape(-1, 20), words[:, 1:].reshape(-1)).backward()
            optimizer.step()

    def target(share: float, name: str) -> Path:
        net = Unrolled()
        with ulpscope.capture(tmp_path / name, model=net, level="mix", task=task):
            scores = net(words)[:, :-1]
            loss = (scores.logsumexp(-1) - scores.gather(-1, words[:, 1:, None])[..., 0]).mean()
            loss.backward()
            with torch.no_grad():
                for weight in net.parameters():
                    assert weight.grad is not None
                    square = weight.grad.square() * share
                    weight.addcdiv_(weight.grad, square.sqrt() + 1e-8, value=-0.01)
        return tmp_path / name

    golden()
    right = ulpscope.compare(target(0.01, "right"), tmp_path / "golden")
    assert right.first_divergence is None, right.explain()
    assert right.agreement == "agree", right.reason
    wrong = ulpscope.compare(target(0.02, "wrong"), tmp_path / "golden")
    assert wrong.agreement != "agree", wrong.reason


class Block(nn.Module):
    """A feed-forward block, in two ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "golden":
            found: Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
            return found
        centred = x - x.mean(-1, keepdim=True)
        scale = centred.square().mean(-1, keepdim=True).add(self.norm.eps).rsqrt()
        hidden = centred * scale * self.norm.weight + self.norm.bias
        hidden = hidden @ self.up.weight.T + self.up.bias
        hidden = hidden * 0.5 * (1 + torch.erf(hidden * 0.5**0.5))
        if self.way == "detached":
            hidden = hidden.detach()
        # Subtracting and adding a detached number changes no gradient.
        largest = hidden.amax(-1, keepdim=True).detach()
        hidden = (hidden - largest) + largest
        return x + (hidden @ self.down.weight.T + self.down.bias)


class Blocks(nn.Module):
    def __init__(self, ways: list[str]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.blocks = nn.Linear(8, WIDTH), nn.ModuleList(Block(way) for way in ways)
        self.out = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.inner(x)
        for block in self.blocks:
            x = block(x)
        found: Tensor = self.out(x)
        return found


@TASKS
def test_a_port_that_detaches(task: str, tmp_path: Path) -> None:
    def record(name: str, ways: list[str]) -> Path:
        net = Blocks(ways)
        x = torch.randn(BATCH, 8)
        with ulpscope.capture(tmp_path / name, model=net, level="mix", task=task):
            net(x).square().mean().backward()
        return tmp_path / name

    golden = record("golden", ["golden"] * 3)
    right = ulpscope.compare(record("right", ["port"] * 3), golden)
    assert right.ok, right.reason
    wrong = ulpscope.compare(record("wrong", ["port", "detached", "port"]), golden)
    assert wrong.agreement == "differ", wrong.reason
    found = wrong.first_divergence
    assert found is not None
    # The first block detaches its largest element, so does this one, before and after it is cut off.
    assert found.call == "Tensor.detach.1.forward", wrong.explain()
    assert "gradient" in wrong.explain()


@TASKS
@pytest.mark.parametrize("way", ["same", "shifted"])
def test_a_program_without_modules(way: str, task: str, tmp_path: Path) -> None:
    """The loss hardly sees that all scores are off; the golden's model returns them."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, WIDTH), nn.GELU(), nn.Linear(WIDTH, CLASSES))
    inputs, labels = torch.randn(BATCH, 8), torch.randint(0, CLASSES, (BATCH,))
    with ulpscope.capture(tmp_path / "golden", model=net, level="mix", task=task):
        functional.cross_entropy(net(inputs), labels)
    first, last = net[0], net[2]
    with ulpscope.capture(tmp_path / "target", level="mix", task=task):
        for part in range(1, 5):
            inputs = torch.cat([inputs[:part], inputs[part:]])
        hidden = inputs @ first.weight.T + first.bias
        hidden = hidden * 0.5 * (1 + torch.erf(hidden * 0.5**0.5))
        # The same number for all classes: a softmax does not see it.
        scores = hidden @ last.weight.T + (last.bias if way == "same" else last.bias + 0.3)
        (scores.logsumexp(-1) - scores[range(BATCH), labels]).mean()
    compared = ulpscope.compare(tmp_path / "target", tmp_path / "golden")
    if way == "same":
        assert compared.ok, compared.reason
    else:
        assert compared.agreement != "agree", compared.explain()
