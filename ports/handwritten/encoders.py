"""BERT and the vision transformer in one file, on torch's own parts."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


class Heads(nn.Module):
    """Attention over heads, from one projection."""

    def __init__(self, width: int, heads: int, kernel: str) -> None:
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.in_proj, self.out_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, allowed: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        packed = self.in_proj(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        if self.kernel == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        else:
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / (width // self.heads) ** 0.5
            if allowed is not None:
                scores = scores.masked_fill(~allowed, -1e9)
            mixed = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)
        return self.out_proj(mixed.transpose(1, 2).reshape(batch, length, width))


def packed(given: Weights, names: tuple[str, str, str], kind: str) -> Tensor:
    """Three projections in one."""
    return torch.cat([given[f"{name}.{kind}"] for name in names])


class BertBlock(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, kernel: str) -> None:
        super().__init__()
        self.attention = Heads(width, heads, kernel)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)
        self.linear1, self.linear2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, allowed: Tensor | None) -> Tensor:
        x = self.norm1(x + self.attention(x, allowed))
        return self.norm2(x + self.linear2(F.gelu(self.linear1(x))))


class Bert(nn.Module):
    """A masked language model."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        inner: int,
        layers: int,
        heads: int,
        positions: int,
        kernel: str = "plain",
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.blocks = nn.ModuleList(BertBlock(width, inner, heads, kernel) for _ in range(layers))
        self.dense, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.positions(places) + self.segments(torch.zeros_like(tokens))
        x = self.norm(x)
        allowed = mask[:, None, None, :].bool()
        for block in self.blocks:
            x = block(x, allowed)
        return F.linear(self.head_norm(F.gelu(self.dense(x))), self.words.weight, self.bias)

    def take(self, given: Weights) -> None:
        """Loads the weights of `BertForMaskedLM`."""
        start, head = "bert.embeddings.", "cls.predictions."
        names = {
            "words": f"{start}word_embeddings",
            "positions": f"{start}position_embeddings",
            "segments": f"{start}token_type_embeddings",
            "norm": f"{start}LayerNorm",
            "dense": f"{head}transform.dense",
            "head_norm": f"{head}transform.LayerNorm",
        }
        mine = {"bias": given[f"{head}bias"]}
        for number in range(len(self.blocks)):
            theirs, ours = f"bert.encoder.layer.{number}.", f"blocks.{number}."
            names |= {
                f"{ours}attention.out_proj": f"{theirs}attention.output.dense",
                f"{ours}norm1": f"{theirs}attention.output.LayerNorm",
                f"{ours}linear1": f"{theirs}intermediate.dense",
                f"{ours}linear2": f"{theirs}output.dense",
                f"{ours}norm2": f"{theirs}output.LayerNorm",
            }
            parts = tuple(f"{theirs}attention.self.{name}" for name in ("query", "key", "value"))
            for kind in ("weight", "bias"):
                mine[f"{ours}attention.in_proj.{kind}"] = packed(given, parts, kind)  # type: ignore[arg-type]
        for own, name in names.items():
            mine |= {
                f"{own}.{kind}": given[f"{name}.{kind}"]
                for kind in ("weight", "bias")
                if f"{name}.{kind}" in given
            }
        self.load_state_dict(mine)


class VitBlock(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, kernel: str) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width, eps=1e-12), Heads(width, heads, kernel)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """A classifier of images: patches by unfolding and a product."""

    def __init__(
        self,
        width: int,
        inner: int,
        layers: int,
        heads: int,
        size: int,
        patch: int,
        classes: int,
        kernel: str = "plain",
    ) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, width)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, (size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(VitBlock(width, inner, heads, kernel) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-12), nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = F.unfold(images, self.patch, stride=self.patch).transpose(1, 2)
        x = torch.cat([self.cls.expand(images.shape[0], -1, -1), self.embed(patches)], dim=1) + self.places
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])

    def take(self, given: Weights) -> None:
        """Loads the weights of `ViTForImageClassification`."""
        start = "vit.embeddings."
        weight = given[f"{start}patch_embeddings.projection.weight"]
        mine = {
            "embed.weight": weight.flatten(1),
            "embed.bias": given[f"{start}patch_embeddings.projection.bias"],
            "cls": given[f"{start}cls_token"],
            "places": given[f"{start}position_embeddings"],
        }
        names = {"norm": "vit.layernorm", "head": "classifier"}
        for number in range(len(self.blocks)):
            theirs, ours = f"vit.layers.{number}.", f"blocks.{number}."
            names |= {
                f"{ours}attention.out_proj": f"{theirs}attention.o_proj",
                f"{ours}norm1": f"{theirs}layernorm_before",
                f"{ours}norm2": f"{theirs}layernorm_after",
                f"{ours}mlp.0": f"{theirs}mlp.fc1",
                f"{ours}mlp.2": f"{theirs}mlp.fc2",
            }
            parts = tuple(f"{theirs}attention.{name}_proj" for name in "qkv")
            for kind in ("weight", "bias"):
                mine[f"{ours}attention.in_proj.{kind}"] = packed(given, parts, kind)  # type: ignore[arg-type]
        for own, name in names.items():
            mine |= {f"{own}.{kind}": given[f"{name}.{kind}"] for kind in ("weight", "bias")}
        self.load_state_dict(mine)
