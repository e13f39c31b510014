"""Mixtral in one file: every expert computes every token, and weights of zero remove what is not routed."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ports.handwritten.llama import Attention, RMSNorm

Weights = dict[str, Tensor]


class Mixture(nn.Module):
    """Experts in three tensors, and the router."""

    def __init__(self, width: int, inner: int, experts: int, chosen: int) -> None:
        super().__init__()
        self.router, self.chosen = nn.Linear(width, experts, bias=False), chosen
        self.gates = nn.Parameter(torch.empty(experts, inner, width))
        self.ups = nn.Parameter(torch.empty(experts, inner, width))
        self.downs = nn.Parameter(torch.empty(experts, width, inner))

    def forward(self, x: Tensor) -> Tensor:
        # The softmax of the best scores is the softmax of all of them, brought to a sum of one.
        best, places = self.router(x).topk(self.chosen, dim=-1)
        routed = torch.zeros(*x.shape[:-1], len(self.gates), dtype=x.dtype)
        routed = routed.scatter(-1, places, best.softmax(dim=-1))
        hidden = F.silu(torch.einsum("btd,eid->beti", x, self.gates))
        hidden = hidden * torch.einsum("btd,eid->beti", x, self.ups)
        return torch.einsum("beti,edi,bte->btd", hidden, self.downs, routed)


class Block(nn.Module):
    def __init__(
        self, width: int, heads: int, groups: int, inner: int, experts: int, chosen: int, eps: float
    ) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = RMSNorm(width, eps), RMSNorm(width, eps)
        self.attention = Attention(width, heads, groups, interleaved=False, kernel="plain")
        self.mixture = Mixture(width, inner, experts, chosen)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mixture(self.ffn_norm(x))


class Mixtral(nn.Module):
    """A decoder with a mixture of experts in every layer."""

    def __init__(
        self,
        vocabulary: int,
        width: int,
        inner: int,
        layers: int,
        heads: int,
        groups: int,
        experts: int,
        chosen: int,
        eps: float,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            Block(width, heads, groups, inner, experts, chosen, eps) for _ in range(layers)
        )
        self.norm, self.output = RMSNorm(width, eps), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))

    def take(self, given: Weights) -> None:
        """Loads the weights of `MixtralForCausalLM`."""
        mine = {
            "words.weight": given["model.embed_tokens.weight"],
            "norm.scale": given["model.norm.weight"],
            "output.weight": given["lm_head.weight"],
        }
        for number in range(len(self.layers)):
            theirs, ours = f"model.layers.{number}.", f"layers.{number}."
            parts = [given[f"{theirs}self_attn.{name}_proj.weight"] for name in "qkv"]
            mine[f"{ours}attention.wqkv.weight"] = torch.cat(parts)
            mine[f"{ours}attention.wo.weight"] = given[f"{theirs}self_attn.o_proj.weight"]
            mine[f"{ours}attention_norm.scale"] = given[f"{theirs}input_layernorm.weight"]
            mine[f"{ours}ffn_norm.scale"] = given[f"{theirs}post_attention_layernorm.weight"]
            mine[f"{ours}mixture.router.weight"] = given[f"{theirs}mlp.gate.weight"]
            gates, ups = given[f"{theirs}mlp.experts.gate_up_proj"].chunk(2, dim=1)
            mine[f"{ours}mixture.gates"], mine[f"{ours}mixture.ups"] = gates, ups
            mine[f"{ours}mixture.downs"] = given[f"{theirs}mlp.experts.down_proj"]
        self.load_state_dict(mine)
