"""The models of the suite: made as people make them, and captured in a fraction of a second.

Each is a network with a loss, and a batch drawn from the same seed as its weights. Operators are written as
operators (``a + b``, never ``a.add(b)``): the name of a call can then be told from the function alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from faults.models.experts import Mixture
from faults.models.images import ConvNet, UNet
from faults.models.parts import Network
from faults.models.sequences import Recurrent
from faults.models.transformers import GPT, Encoder

# Gradients of half precision would vanish without it, so that every run has it, whatever its precision.
LOSS_SCALE = 1024.0

Batch = tuple[Tensor, Tensor]


def _tokens(classes: int, length: int) -> Batch:
    drawn = torch.randint(0, classes, (4, length + 1))
    return drawn[:, :-1].contiguous(), drawn[:, 1:].contiguous()


def _images() -> Batch:
    return torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))


def _masks() -> Batch:
    return torch.randn(2, 3, 16, 16), torch.randn(2, 2, 16, 16)


def _features() -> Batch:
    return torch.randn(4, 16, 12), torch.randint(0, 5, (4,))


def _regression() -> Batch:
    return torch.randn(2, 16, 32), torch.randn(2, 16, 32)


_MADE: dict[str, tuple[Callable[[], Network], Callable[[], Batch]]] = {
    "gpt": (GPT, lambda: _tokens(40, 16)),
    "encoder": (Encoder, _features),
    "convnet": (ConvNet, _images),
    "rnn": (Recurrent, lambda: _tokens(40, 10)),
    "moe": (Mixture, _regression),
    "unet": (UNet, _masks),
}
MODELS = tuple(_MADE)


@dataclass
class Program:
    """A model and the batch it is trained on."""

    model: Network
    inputs: Tensor
    wanted: Tensor
    # Into how many parts the batch is split, whose gradients are summed.
    micro_batches: int = 1

    def to(self, dtype: torch.dtype) -> None:
        """Has all floating-point numbers in another precision."""
        self.model.to(dtype)
        self.inputs = self.inputs.to(dtype) if self.inputs.is_floating_point() else self.inputs
        self.wanted = self.wanted.to(dtype) if self.wanted.is_floating_point() else self.wanted

    def step(self) -> None:
        """Runs the model forward and backward."""
        count = self.micro_batches
        # A loader would have done it, unseen.
        with torch._C.DisableTorchFunction():
            batches = list(zip(self.inputs.chunk(count), self.wanted.chunk(count), strict=True))
        for inputs, wanted in batches:
            loss = self.model.loss(self.model(inputs), wanted)
            (loss * (LOSS_SCALE / count)).backward()  # type: ignore[no-untyped-call]


def build(name: str, seed: int) -> Program:
    """A model with its weights and batch: the same for the same seed."""
    make, draw = _MADE[name]
    torch.manual_seed(seed)
    model = make()
    _randomize(model)
    return Program(model, *draw())


def _randomize(model: nn.Module) -> None:
    """Has scales, shifts and running statistics as training leaves them: neither ones nor zeros."""
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.GroupNorm, nn.BatchNorm2d)):
            nn.init.uniform_(module.weight, 0.7, 1.3)
            nn.init.normal_(module.bias, std=0.2)
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            assert module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
        if isinstance(module, nn.Dropout) or getattr(module, "frozen", False):
            module.eval()
