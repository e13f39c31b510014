"""The models whose training steps are measured, in plain torch."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Size(NamedTuple):
    """A decoder of text."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    batch: int
    length: int


# The vocabulary of GPT-2, filled up to a multiple of 64, as in training.
GPT = Size(24, 1024, 16, 16, 4096, 50304, 8, 1024)
LLAMA = Size(16, 2048, 32, 8, 8192, 32000, 8, 1024)
TINY = Size(2, 64, 4, 2, 128, 257, 2, 32)


class JoinedAttention(nn.Module):
    """Causal attention with one projection for query, key and value, as in GPT-2."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.joined = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.joined(x).split(width, dim=2)
        query, key, value = (part.view(batch, length, -1, self.head).transpose(1, 2) for part in parts)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Attention(nn.Module):
    """Causal attention; several heads may share a key and a value."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.query = nn.Linear(size.width, size.width, bias=False)
        self.key = nn.Linear(size.width, size.kv_heads * self.head, bias=False)
        self.value = nn.Linear(size.width, size.kv_heads * self.head, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.groups = size.heads // size.kv_heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = (part(x).view(batch, length, -1, self.head) for part in (self.query, self.key, self.value))
        query, key, value = (part.transpose(1, 2) for part in parts)
        if self.groups > 1:
            key, value = (part.repeat_interleave(self.groups, dim=1) for part in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    """As in GPT-2."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attention = JoinedAttention(size)
        self.up, self.down = nn.Linear(size.width, size.hidden), nn.Linear(size.hidden, size.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    """As in Llama, without rotation of positions."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.first, self.second = nn.RMSNorm(size.width), nn.RMSNorm(size.width)
        self.attention = Attention(size)
        self.gate = nn.Linear(size.width, size.hidden, bias=False)
        self.up = nn.Linear(size.width, size.hidden, bias=False)
        self.down = nn.Linear(size.hidden, size.width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        y = self.second(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Tokens to a loss."""

    def __init__(self, size: Size, block: type[nn.Module]) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class Bottleneck(nn.Module):
    """A block of ResNet-50."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layers(x) + self.skip(x), inplace=True)


class ResNet50(nn.Module):
    """Images to a loss."""

    def __init__(self, base: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, base, 7, 2, 3, bias=False),
            nn.BatchNorm2d(base),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        ]
        inputs = base
        for stage, count in enumerate((3, 4, 6, 3)):
            for number in range(count):
                width = base << stage
                layers.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
                inputs = 4 * width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.body(images).mean((2, 3)))
        return functional.cross_entropy(logits.float(), torch.arange(len(images), device=images.device))


NAMES = ("GPT-2 medium", "Llama 1 B", "ResNet-50")


def made(name: str, device: str, is_tiny: bool) -> tuple[nn.Module, torch.Tensor]:
    """A model in bfloat16 and its batch, the same each time."""
    torch.manual_seed(0)
    size = TINY if is_tiny else {"GPT-2 medium": GPT, "Llama 1 B": LLAMA}.get(name, TINY)
    # On the device: on a CPU, this takes longer than to measure the largest model.
    with torch.device(device):
        model: nn.Module
        if name == "ResNet-50":
            model = ResNet50(8 if is_tiny else 64)
        else:
            model = Decoder(size, LlamaBlock if name == "Llama 1 B" else GptBlock)
    if name == "ResNet-50":
        batch = torch.randn((2, 3, 64, 64) if is_tiny else (64, 3, 224, 224)).to(torch.bfloat16)
    else:
        batch = torch.randint(size.vocabulary, (size.batch, size.length))
    return model.to(torch.bfloat16).to(device), batch.to(device)
