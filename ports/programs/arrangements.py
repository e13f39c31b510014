"""Programs that arrange a library's model in another way: caches, padding, adapters, parts, larger images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.programs import batches
from ports.programs.library_models import made, wanted_of
from ports.programs.program import Program, plain
from ports.programs.weights import drawn


def tokens_through(model: Any, architecture: Any) -> Program:
    """The model on the batch of tokens that all programs have."""
    ids = batches.tokens(97, 12)

    def forward() -> Tensor:
        found: Tensor = model(input_ids=ids).logits
        return found

    return plain(model, forward, wanted_of(architecture, {"input_ids": ids}))


def in_chunks(of: str, chunk: int = 4, cached: bool = True) -> Program:
    """A text of 8 tokens in chunks that see the cache of those before, or at once."""
    model, _ = made(of)
    ids = batches.tokens(97, 8)

    def forward() -> Tensor:
        if not cached:
            whole: Tensor = model(input_ids=ids, use_cache=False).logits
            return whole
        outputs, past = [], None
        for start in range(0, ids.shape[1], chunk):
            seen = start
            positions = torch.arange(seen, seen + chunk)[None].expand(len(ids), -1)
            found = model(
                input_ids=ids[:, start : start + chunk],
                position_ids=positions,
                past_key_values=past,
                use_cache=True,
            )
            past = found.past_key_values
            outputs.append(found.logits)
        return torch.cat(outputs, dim=1)

    return plain(model, forward, batches.tokens(97, 8, seed=7))


def state_carried(carried: bool = True) -> Program:
    """RWKV on two halves of a text with its state between them, or on all of it."""
    model, _ = made("rwkv")
    ids = batches.tokens(97, 8)

    def forward() -> Tensor:
        if not carried:
            whole: Tensor = model(input_ids=ids, use_cache=False).logits
            return whole
        outputs, state = [], None
        for part in ids.chunk(2, dim=1):
            found = model(input_ids=part, state=state, use_cache=True)
            outputs.append(found.logits)
            state = found.state
        return torch.cat(outputs, dim=1)

    return plain(model, forward, batches.tokens(97, 8, seed=7))


def left_padded(of: str = "gpt_bigcode", padded: bool = True) -> Program:
    """A batch whose texts start after padding; the output is that of the texts."""
    model, _ = made(of)
    ids, missing = batches.tokens(97, 9), 4
    mask = F.pad(torch.ones_like(ids), (missing, 0))

    def forward() -> Tensor:
        if not padded:
            whole: Tensor = model(input_ids=ids, use_cache=False).logits
            return whole
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        filled = F.pad(ids, (missing, 0))
        found = model(input_ids=filled, attention_mask=mask, position_ids=positions, use_cache=False)
        logits: Tensor = found.logits[:, missing:]
        return logits

    return plain(model, forward, batches.tokens(97, 9, seed=7))


class Adapter(nn.Module):
    """A linear layer with a product of low rank beside it, scaled by alpha over the rank."""

    def __init__(self, base: nn.Linear, name: str, rank: int = 4, alpha: float = 2.0) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.a = nn.Parameter(drawn(f"{name}.a", (rank, base.in_features)) / base.in_features**0.5)
        self.b = nn.Parameter(0.3 * drawn(f"{name}.b", (base.out_features, rank)))

    def forward(self, x: Tensor) -> Tensor:
        added = F.linear(F.linear(x, self.a), self.b)
        return self.base(x) + added * self.scale


class MergedAdapter(Adapter):
    """The same with the product added to the weight, at each call as in training with merged weights."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.base.weight + (self.b @ self.a) * self.scale
        return F.linear(x, weight, self.base.bias)


def adapted(of: str = "phi3", merged: bool = True) -> Program:
    """Adapters on fused projections."""
    model, architecture = made(of)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and path.endswith(("qkv_proj", "o_proj")):
            parent, _, own = path.rpartition(".")
            setattr(model.get_submodule(parent), own, (MergedAdapter if merged else Adapter)(module, path))
    return tokens_through(model, architecture)


class Rows(nn.Module):
    """A linear layer over two devices by rows of its inputs; the bias is added to the sum."""

    def __init__(self, linear: nn.Linear, parts: int = 2) -> None:
        super().__init__()
        self.parts = nn.ParameterList(linear.weight.detach().clone().chunk(parts, dim=1))
        self.bias = nn.Parameter(linear.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        slices = x.chunk(len(self.parts), dim=-1)
        partial = [F.linear(one, part) for one, part in zip(slices, self.parts, strict=True)]
        return torch.stack(partial).sum(0) + self.bias


class Vocabulary(nn.Module):
    """Embeddings over two devices: each has half of the words and gives zeros for the others."""

    def __init__(self, embedding: nn.Embedding, scale: float) -> None:
        super().__init__()
        self.parts, self.scale = nn.ParameterList(embedding.weight.detach().clone().chunk(2)), scale

    def forward(self, ids: Tensor) -> Tensor:
        total: Tensor | None = None
        first = 0
        for part in self.parts:
            last = first + len(part)
            inside = (ids >= first) & (ids < last)
            found = F.embedding((ids - first).clamp(0, len(part) - 1), part)
            found = found.masked_fill(~inside[..., None], 0.0)
            total, first = found if total is None else total + found, last
        assert total is not None
        return total * self.scale


def over_devices(where: str = "rows") -> Program:
    """BioGPT over two devices, by hand in one process."""
    model, architecture = made("biogpt", settings={"tie_word_embeddings": False})
    inner: Any = model
    if where == "words":
        words = inner.biogpt.embed_tokens
        inner.biogpt.embed_tokens = Vocabulary(words, words.embed_scale)
    elif where == "rows":
        for layer in inner.biogpt.layers:
            layer.fc2, layer.self_attn.out_proj = Rows(layer.fc2), Rows(layer.self_attn.out_proj)
    return tokens_through(model, architecture)


def norms_folded(of: str = "qwen3", folded: bool = True) -> Program:
    """Scales of norms multiplied into the projections that follow them."""
    model, architecture = made(of)
    inner: Any = model
    if folded:
        with torch.no_grad():
            for layer in inner.model.layers:
                attention, feed_forward = layer.self_attn, layer.mlp
                projections = [attention.q_proj, attention.k_proj, attention.v_proj]
                for norm, followers in (
                    (layer.input_layernorm, projections),
                    (layer.post_attention_layernorm, [feed_forward.gate_proj, feed_forward.up_proj]),
                ):
                    for linear in followers:
                        linear.weight *= norm.weight
                    norm.weight.fill_(1.0)
    return tokens_through(model, architecture)


def sentence_vectors(of: str = "roformer", by_row: bool = False) -> Program:
    """The mean of a text's vectors, over a padded batch or text by text."""
    model, _ = made(of)
    inner: Any = getattr(model, of)
    ids = batches.tokens(97, 12)
    mask = batches.padding(ids, missing=5)

    def forward() -> Tensor:
        if by_row:
            rows = [
                inner(input_ids=one[None, : int(kept)]).last_hidden_state
                for one, kept in zip(ids, mask.sum(1), strict=True)
            ]
            return torch.cat([row.mean(1) for row in rows])
        found = inner(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[..., None].to(found.dtype)
        return (found * weights).sum(1) / weights.sum(1)

    return plain(model, forward, drawn("vectors", (2, 32)))


def larger_images(resized: bool = False) -> Program:
    """DINOv2 on images larger than those that it has positions for, or with its positions resized before."""
    model, architecture = made("dinov2")
    inner: Any = model
    if resized:
        embeddings = inner.dinov2.embeddings
        given = embeddings.position_embeddings.detach()
        grid = given[:, 1:].unflatten(1, (4, 4)).permute(0, 3, 1, 2)
        grid = (
            F.interpolate(grid, (6, 6), mode="bicubic", align_corners=False).permute(0, 2, 3, 1).flatten(1, 2)
        )
        embeddings.position_embeddings = nn.Parameter(torch.cat([given[:, :1], grid], dim=1))
    images = batches.pixels(48)

    def forward() -> Tensor:
        found: Tensor = model(pixel_values=images).logits
        return found

    return plain(model, forward, batches.classes(architecture.classes))


MADE: dict[str, Callable[..., Program]] = {
    "in-chunks": in_chunks,
    "state-carried": state_carried,
    "left-padded": left_padded,
    "adapted": adapted,
    "over-devices": over_devices,
    "norms-folded": norms_folded,
    "sentence-vectors": sentence_vectors,
    "larger-images": larger_images,
}


def build(family: str, name: str, **options: Any) -> Program:
    """`arranged/{name}`."""
    return MADE[name](**options)
