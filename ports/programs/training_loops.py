"""Training steps of one small language model: batches in pieces, optimizers, things that are logged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made
from ports.programs.program import Program, Results

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "sgd": torch.optim.SGD,
}


class OwnAdamW:
    """AdamW as people write it in a training script."""

    def __init__(
        self,
        parameters: Any,
        lr: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        corrected: bool = True,
    ) -> None:
        self.parameters, self.lr, self.decay, self.corrected = list(parameters), lr, weight_decay, corrected
        self.betas, self.count = betas, 0
        self.means = [torch.zeros_like(one) for one in self.parameters]
        self.squares = [torch.zeros_like(one) for one in self.parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.count += 1
        first, second = self.betas
        scale = 1 - first**self.count if self.corrected else 1.0
        spread = 1 - second**self.count if self.corrected else 1.0
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            if parameter.grad is None:
                continue
            parameter.mul_(1 - self.lr * self.decay)
            mean.mul_(first).add_(parameter.grad, alpha=1 - first)
            square.mul_(second).add_(parameter.grad * parameter.grad, alpha=1 - second)
            parameter.sub_(self.lr * (mean / scale) / ((square / spread).sqrt() + 1e-8))


def build(
    family: str,
    name: str,
    pieces: int = 1,
    optimizer: str | None = None,
    settings: dict[str, Any] | None = None,
    logged: tuple[str, ...] | list[str] = (),
    clip: str | None = None,
    weighted: bool = False,
) -> Program:
    """`train/{architecture}`: one step of training.

    `pieces`: micro-batches whose gradients are summed. `logged`: values that the script only prints.
    """
    model, _ = made(name)
    ids = batches.tokens(97, 12, batch=4)
    wanted = batches.tokens(97, 12, batch=4, seed=7)
    own: Any = None
    if optimizer == "own":
        own = OwnAdamW(model.parameters(), **(settings or {}))
    elif optimizer is not None:
        own = OPTIMIZERS[optimizer](model.parameters(), **(settings or {}))
    parts = list(zip(ids.chunk(pieces), wanted.chunk(pieces), strict=True))

    def step(backward: bool) -> Results:
        outputs: list[Tensor] = []
        total = torch.zeros(())
        for given, labels in parts:
            with torch.set_grad_enabled(backward):
                logits = model(input_ids=given, use_cache=False).logits
                loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)) / pieces
            if backward:
                loss.backward()  # type: ignore[no-untyped-call]
            if "loss" in logged:
                print("loss", loss.item())
            if "accuracy" in logged:
                print("accuracy", (logits.argmax(-1) == labels).float().mean().item())
            outputs.append(logits.detach())
            total = total + loss.detach()
        if backward:
            finish(model, own, clip, logged)
        with torch._C.DisableTorchFunction():
            return {"output": torch.cat(outputs), "loss": total, **left(model, backward, own is not None)}

    return Program(model, step)


def finish(model: nn.Module, optimizer: Any, clip: str | None, logged: Any) -> None:
    """What follows the gradients."""
    parameters = [one for one in model.parameters() if one.grad is not None]
    if "norm" in logged:
        print(
            "norm", torch.stack([one.grad.norm() for one in parameters if one.grad is not None]).norm().item()
        )
    if clip == "library":
        torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    elif clip == "own":
        norm = sum((one.grad.float() ** 2).sum() for one in parameters if one.grad is not None) ** 0.5
        for one in parameters:
            assert one.grad is not None
            one.grad.mul_(torch.clamp(0.1 / (norm + 1e-6), max=1.0))
    if optimizer is not None:
        optimizer.step()


def left(model: nn.Module, backward: bool, stepped: bool) -> Results:
    """What the step leaves in the parameters."""
    if not backward:
        return {}
    values = [one if stepped else one.grad for one in model.parameters() if one.grad is not None]
    return {"left": torch.cat([one.detach().reshape(-1) for one in values if one is not None])}
