"""Training scripts of three steps: what libraries do after a backward pass, and what people write instead."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made
from ports.programs.program import Program, Results

RATE, DECAY, WARM, STEPS, AVERAGE = 1e-2, 0.1, 2, 3, 0.8


class OwnAdamW:
    """AdamW without decay of biases and scales of norms."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.lr, self.count = parameters, RATE, 0
        self.means = [torch.zeros_like(one) for one in parameters]
        self.squares = [torch.zeros_like(one) for one in parameters]

    @torch.no_grad()
    def step(self) -> None:
        self.count += 1
        for parameter, mean, square in zip(self.parameters, self.means, self.squares, strict=True):
            gradient = parameter.grad
            assert gradient is not None
            if parameter.dim() > 1:
                parameter.sub_(self.lr * DECAY * parameter)
            mean.copy_(0.9 * mean + 0.1 * gradient)
            square.copy_(0.99 * square + 0.01 * gradient.square())
            step = self.lr * math.sqrt(1 - 0.99**self.count) / (1 - 0.9**self.count)
            parameter.sub_(step * mean / (square.sqrt() + 1e-8 * math.sqrt(1 - 0.99**self.count)))


class OwnNesterov:
    """Momentum that looks one step ahead."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters, self.lr = parameters, RATE
        self.speeds = [torch.zeros_like(one) for one in parameters]

    @torch.no_grad()
    def step(self) -> None:
        for parameter, speed in zip(self.parameters, self.speeds, strict=True):
            gradient = parameter.grad
            assert gradient is not None
            speed.copy_(0.9 * speed + gradient)
            parameter.sub_(self.lr * (gradient + 0.9 * speed))


def optimizer_of(name: str, parameters: list[nn.Parameter]) -> Any:
    """An optimizer of torch, or the script's own."""
    if name == "own-adamw":
        return OwnAdamW(parameters)
    if name == "own-nesterov":
        return OwnNesterov(parameters)
    if name == "adamw":
        groups = [
            {"params": [one for one in parameters if one.dim() > 1], "weight_decay": DECAY},
            {"params": [one for one in parameters if one.dim() <= 1], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.99))
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9, nesterov=name == "nesterov")


def warmed(optimizer: Any, step: int) -> None:
    """A rate that rises to its value and then falls as a cosine."""
    rise = min(1.0, (step + 1) / WARM)
    fall = 0.5 * (1 + math.cos(math.pi * max(0, step - WARM) / 10))
    for group in optimizer.param_groups:
        group["lr"] = RATE * rise * fall


def schedule_of(optimizer: Any) -> Any:
    """The same with the schedulers of torch."""
    return torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / WARM, total_iters=WARM - 1),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10),
        ],
        milestones=[WARM],
    )


def clipped(parameters: list[nn.Parameter], limit: float) -> None:
    """Makes the norm of all gradients together at most the limit."""
    squares = [one.grad.pow(2).sum() for one in parameters if one.grad is not None]
    norm = torch.stack(squares).sum().sqrt()
    factor = (limit / (norm + 1e-6)).clamp(max=1.0)
    for one in parameters:
        assert one.grad is not None
        one.grad.copy_(one.grad * factor)


def build(
    family: str,
    name: str,
    optimizer: str = "adamw",
    pieces: int = 1,
    clip: str | None = None,
    schedule: str | None = None,
    average: str | None = None,
    scale: float = 1.0,
) -> Program:
    """`loop/{architecture}`: three steps.

    `pieces`: micro-batches, with other numbers of tokens in each. `average`: of the weights of all steps.
    `scale`: of the loss, which is taken out of the gradients again.
    """
    model, _ = made(name)
    parameters = list(model.parameters())
    chosen = optimizer_of(optimizer, parameters)
    scheduler = schedule_of(chosen) if schedule == "library" else None
    shadow: Any = None
    if average == "library":
        multi = torch.optim.swa_utils.get_ema_multi_avg_fn(AVERAGE)  # type: ignore[no-untyped-call]
        shadow = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=multi)
    elif average == "own":
        shadow = [one.detach().clone() for one in parameters]
    ids = batches.tokens(97, 10, batch=4)
    labels = batches.tokens(97, 10, batch=4, seed=7)
    for row, missing in enumerate((0, 2, 5, 7)):
        labels[row, 10 - missing :] = -100

    def gradients(backward: bool) -> tuple[Tensor, Tensor]:
        """The logits and the loss of the batch; leaves gradients."""
        outputs, total = [], torch.zeros(())
        count = (labels != -100).sum()
        for given, wanted in zip(ids.chunk(pieces), labels.chunk(pieces), strict=True):
            logits = model(input_ids=given).logits
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum") / count
            if backward:
                (loss * scale).backward()  # type: ignore[no-untyped-call]
            outputs.append(logits.detach())
            total = total + loss.detach()
        return torch.cat(outputs), total

    def update(number: int) -> None:
        """What a step does with the gradients."""
        if scale != 1.0:
            for one in parameters:
                assert one.grad is not None
                one.grad.mul_(1 / scale)
        if clip == "library":
            torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        elif clip == "own":
            clipped(parameters, 0.5)
        if schedule == "own":
            warmed(chosen, number)
        chosen.step()
        if scheduler is not None:
            scheduler.step()
        if average == "library":
            shadow.update_parameters(model)
        elif average == "own":
            averaged(shadow, parameters, number)

    def step(backward: bool) -> Results:
        if not backward:
            with torch.no_grad():
                logits, loss = gradients(backward=False)
            return {"output": logits, "loss": loss}
        for number in range(STEPS):
            for one in parameters:
                one.grad = None
            logits, loss = gradients(backward=True)
            update(number)
        kept = list(shadow.module.parameters()) if average == "library" else shadow or parameters
        with torch._C.DisableTorchFunction():
            left = torch.cat([one.detach().reshape(-1) for one in kept])
            return {"output": logits, "loss": loss, "left": left}

    return Program(model, step)


@torch.no_grad()
def averaged(shadow: list[Tensor], parameters: list[nn.Parameter], number: int) -> None:
    """The running average of the weights; the first step sets it."""
    for kept, parameter in zip(shadow, parameters, strict=True):
        if number == 0:
            kept.copy_(parameter)
        else:
            kept.mul_(AVERAGE).add_(parameter, alpha=1 - AVERAGE)
