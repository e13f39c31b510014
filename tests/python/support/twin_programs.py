"""Programs that two tools record: small networks, with what ordinary ones are made of.

Each takes a tool, in whose `with` it runs an iteration, and is given its model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Tool = Callable[[nn.Module], Any]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        query, key, value = (
            part.reshape(batch, tokens, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / (width // self.heads) ** 0.5
        later = torch.triu(torch.ones(tokens, tokens, dtype=torch.bool), diagonal=1)
        weights = F.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        x = x + self.out(torch.matmul(weights, value).transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(
        self, vocabulary: int = 32, places: int = 8, width: int = 16, heads: int = 2, layers: int = 2
    ) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(tool: Tool) -> None:
    """Two training steps of a language model."""
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        batch = torch.randint(0, 32, (2, 7))
        with tool(model):
            loss = F.cross_entropy(model(batch[:, :-1]).reshape(-1, 32), batch[:, 1:].reshape(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(4, 4), nn.Tanh()

    def forward(self, x: Tensor, scale: float = 1.0, extra: Tensor | None = None) -> dict[str, Any]:
        y = self.act(self.fc(x)) * scale
        return {"y": y, "rest": (y.sum(), extra)}


class Edges(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branch = Branch()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.relu = nn.ReLU()
        self.never_called = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        made = self.branch(x, scale=2.0)
        y = self.layers[0](self.layers[0](made["y"]))
        return checkpoint(self.layers[1], self.relu(y), use_reentrant=False), made["rest"][0]


def edges(tool: Tool) -> None:
    """Every kind of argument and result that has a way to be written."""
    model = Edges()
    x = torch.randn(3, 4, requires_grad=True)
    with tool(model):
        h, rest = model(x)
        parts = [rest, h.sum()]
        joined = torch.cat([h, h * 2, x], dim=0)
        parts.append(torch.stack((h, h), dim=1).sum())
        parts += [part.mean() for part in torch.split(joined, 3, dim=0)]
        copied = joined.clone()
        copied[0] = 1.0
        copied[1:2, :] = torch.zeros(1, 4)
        copied.mul_(torch.tensor(2.0))
        copied += 3
        parts.append(torch.sum(copied))
        parts.append(torch.clamp(joined, min=-0.5, max=None).sum())
        parts.append(torch.max(joined, dim=1)[0].sum())
        parts.append(torch.topk(joined, k=2, dim=1).values.sum())
        parts.append(torch.einsum("ij,kj->ik", h, h).sum())
        parts.append(F.pad(h, (1, 1, 0, 0), mode="constant", value=0.5).sum())
        square = h.reshape(1, 1, 3, 4)
        parts.append(F.interpolate(square, scale_factor=2.0, mode="nearest").sum())
        parts.append(F.scaled_dot_product_attention(square, square, square, is_causal=True).sum())
        parts.append(torch.where(joined > 0, joined, torch.zeros_like(joined)).sum())
        parts.append(F.dropout(joined, p=0.5, training=True).sum())
        parts.append(torch.log_softmax(joined, -1).mean() + torch.norm(joined))
        parts.append(joined.to(torch.bfloat16).float().sum() + joined.t().reshape(-1).exp().sum())
        with torch.no_grad():
            torch.exp(joined)
        torch.sum(torch.zeros(0, 4))
        torch.logical_and(torch.eq(x, x), torch.eq(x, h))
        torch.mul(torch.arange(6).reshape(2, 3), 2)
        torch.add(torch.ones(3, dtype=torch.int8), 1)
        torch.mul(torch.complex(torch.ones(2), torch.ones(2)), 2)
        torch.add(torch.div(torch.tensor([0.0, 1.0, -1.0]), torch.tensor([0.0, 0.0, 0.0])), 1.0)
        torch.matmul(torch.ones(2, 2, dtype=torch.float16), torch.ones(2, 2, dtype=torch.float16) * 300)
        torch.add(torch.ones(2, dtype=torch.float64), 1)
        torch.mul(torch.tensor(3.5), torch.tensor(2))
        sum(parts).backward()  # type: ignore[union-attr]


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        y += x
        return self.relu(y)


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.blocks = nn.Sequential(Residual(8), Residual(8))
        self.norm, self.dropout = nn.GroupNorm(2, 16), nn.Dropout(0.25)
        self.head = nn.Linear(16, 5)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        y = self.up(self.blocks(self.pool(x)))
        z = self.norm(torch.cat([x, y], dim=1))
        z = F.max_pool2d(F.leaky_relu(z, 0.1), kernel_size=2, stride=2)
        z = F.interpolate(z, size=(5, 5), mode="bilinear", align_corners=False)
        z = F.adaptive_avg_pool2d(F.avg_pool2d(z, 2), 1).flatten(1)
        return self.head(self.dropout(F.normalize(z, dim=-1)))


def conv(tool: Tool) -> None:
    """A step of an image classifier."""
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    images, labels = torch.rand(2, 3, 8, 8), torch.tensor([1, 3])
    with tool(model):
        loss = criterion(model(images), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(16, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.cell = nn.GRU(12, 6), nn.LSTMCell(6, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, words: Tensor) -> Tensor:
        states, (last, _) = self.lstm(self.words(words))
        states, _ = self.gru(states.transpose(0, 1))
        hidden = (torch.zeros(words.shape[0], 4), torch.zeros(words.shape[0], 4))
        for state in states.unbind(0):
            hidden = self.cell(state, hidden)
        return torch.log_softmax(self.head(hidden[0]), dim=-1) + last.mean()


def recurrent(tool: Tool) -> None:
    """A step of a sequence classifier."""
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    words = torch.randint(1, 16, (2, 5))
    with tool(model):
        loss = F.nll_loss(model(words), torch.tensor([0, 2]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5, norm_type=2.0)
        optimizer.step()


class Experts(nn.Module):
    def __init__(self, width: int = 8, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.experts, self.chosen = experts, chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / 4)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        tokens = x.view(-1, x.shape[-1])
        shares = F.softmax(self.router(tokens), dim=-1, dtype=torch.float32)
        weights, places = torch.topk(shares, self.chosen, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        gates = torch.zeros_like(shares).scatter(1, places, weights)
        mask = F.one_hot(places, num_classes=self.experts).permute(2, 1, 0)
        out = torch.zeros_like(tokens)
        for expert in range(self.experts):
            _, rows = torch.where(mask[expert])
            if rows.numel():
                h = torch.index_select(tokens, 0, rows) @ self.up[expert]
                h = F.silu(h) @ self.down[expert]
                out.index_add_(0, rows, h * gates[rows, expert, None])
        dense = torch.bmm(tokens.expand(self.experts, -1, -1), self.up)
        dense = torch.einsum("etf,efw,te->tw", F.silu(dense), self.down, gates)
        balance = (shares.mean(0) * mask.sum(1).float().mean(-1)).sum()
        return (out + 0.1 * dense).view_as(x), balance


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.experts = nn.RMSNorm(8), Experts()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.norm(x)
        # Three different tensors: the module asks whether they are one, and the other tool hands it copies.
        x = x + self.attention(h, x, h + x, need_weights=False)[0]
        y, balance = self.experts(F.layer_norm(x, (8,)))
        return self.head(x + y), balance


def moe(tool: Tool) -> None:
    """A step of a mixture of experts, whose layers run in bfloat16 where they may."""
    model = Mixture()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    x, y = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    with tool(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out, balance = model(x)
            loss = F.mse_loss(out.float(), y) + 0.01 * balance
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()


PROGRAMS = {"gpt": gpt, "edges": edges, "conv": conv, "recurrent": recurrent, "moe": moe}
