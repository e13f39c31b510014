"""Ten healthy networks, each with a step of training: a check must name none of their calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Step = Callable[[], None]


class Block(nn.Module):
    """Attention and a feed-forward net, both with layer norm before and a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Any:
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        x = x + self.out(weights @ v)
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """A language model with two layers."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(64, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 64, bias=False)

    def forward(self, tokens: Tensor) -> Any:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def trained(model: nn.Module, loss: Callable[[], Tensor], kind: Any = torch.optim.AdamW) -> Step:
    """One step of an optimizer."""
    optimizer = kind(model.parameters(), lr=1e-3)

    def run() -> None:
        loss().backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return run


def _language(dtype: torch.dtype = torch.float32, autocast: bool = False) -> Step:
    model = GPT().to(dtype)
    tokens = torch.randint(0, 64, (2, 17))

    def loss() -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.float().reshape(-1, 64), tokens[:, 1:].reshape(-1))

    return trained(model, loss)


def gpt() -> Step:
    """A GPT in float32."""
    return _language()


def gpt_bf16() -> Step:
    """A GPT whose parameters are bf16."""
    return _language(torch.bfloat16)


def gpt_autocast() -> Step:
    """A GPT under bf16 autocast."""
    return _language(autocast=True)


def conv_net() -> Step:
    """Convolutions, batch norm, pooling, in-place activations."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )
    x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    return trained(model, lambda: F.cross_entropy(model(x), y), torch.optim.SGD)


def lstm() -> Step:
    """A bidirectional LSTM of two layers, with dropout."""
    model = nn.LSTM(16, 16, num_layers=2, batch_first=True, dropout=0.1, bidirectional=True)
    x = torch.randn(4, 12, 16)
    return trained(model, lambda: model(x)[0].square().mean())


def encoder() -> Step:
    """torch's transformer encoder, with dropout."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = torch.randn(2, 10, 32)
    return trained(model, lambda: F.mse_loss(model(x), x))


def vae() -> Step:
    """A variational autoencoder: random numbers, exponentials, a Kullback-Leibler term."""
    encode, decode = nn.Linear(20, 16), nn.Linear(8, 20)
    model = nn.ModuleList([encode, decode])
    x = torch.rand(16, 20)

    def loss() -> Any:
        mean, log_variance = encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
        return (F.binary_cross_entropy_with_logits(decode(z), x) + divergence.mean() * 0.1).mean()

    return trained(model, loss)


def unet() -> Step:
    """A small denoiser: group norm, silu, strided and transposed convolutions, a skip connection."""
    down, up = nn.Conv2d(4, 8, 3, 2, 1), nn.ConvTranspose2d(8, 4, 4, 2, 1)
    first, norm = nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 8)
    last = nn.Conv2d(8, 3, 1)
    model = nn.ModuleList([down, up, first, norm, last])
    x = torch.randn(2, 3, 16, 16)

    def loss() -> Tensor:
        noise = torch.randn_like(x)
        h = F.silu(first(0.8 * x + 0.6 * noise))
        middle = up(F.silu(norm(down(h))))
        return F.mse_loss(last(torch.cat([h, middle], 1)), noise)

    return trained(model, loss)


class RMSNorm(nn.Module):
    """A norm made of single calls, which computes in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Any:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def llama_bf16() -> Step:
    """Rotary positions, RMS norm, fused attention and a gated feed-forward net, in bf16."""
    width, heads = 32, 4
    norm, qkv, out = (
        RMSNorm(width),
        nn.Linear(width, 3 * width, bias=False),
        nn.Linear(width, width, bias=False),
    )
    norm2, gate, up = RMSNorm(width), nn.Linear(width, 64, bias=False), nn.Linear(width, 64, bias=False)
    down = nn.Linear(64, width, bias=False)
    model = nn.ModuleList([norm, qkv, out, norm2, gate, up, down]).bfloat16()
    x = torch.randn(2, 12, width).bfloat16()
    angles = torch.outer(torch.arange(12.0), 10000 ** (-torch.arange(0, 8, 2) / 8))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

    def turned(t: Tensor) -> Tensor:
        a, b = t.float().chunk(2, -1)
        return (t.float() * cos + torch.cat([-b, a], -1) * sin).to(t.dtype)

    def loss() -> Any:
        parts = qkv(norm(x)).reshape(2, 12, 3, heads, 8).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(turned(parts[0]), turned(parts[1]), parts[2], is_causal=True)
        h = x + out(mixed.transpose(1, 2).reshape(2, 12, width))
        y = norm2(h)
        h = h + down(F.silu(gate(y)) * up(y))
        return h.float().logsumexp(-1).mean()

    return trained(model, loss)


def experts_fp16() -> Step:
    """A mixture of experts in fp16: routing by top-k, scattered sums."""
    router = nn.Linear(16, 4, bias=False)
    experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
    model = nn.ModuleList([router, experts]).half()
    x = torch.randn(24, 16).half()

    def loss() -> Tensor:
        weights, chosen = torch.topk(F.softmax(router(x).float(), -1), 2)
        total = torch.zeros(24, 16)
        for number, expert in enumerate(experts):
            rows, place = torch.where(chosen == number)
            total.index_add_(0, rows, F.relu(expert(x[rows])).float() * weights[rows, place, None])
        return F.mse_loss(total, x.float())

    return trained(model, loss, torch.optim.SGD)


NETWORKS: list[Callable[[], Step]] = [
    gpt,
    gpt_bf16,
    gpt_autocast,
    conv_net,
    lstm,
    encoder,
    vae,
    unet,
    llama_bf16,
    experts_fp16,
]
