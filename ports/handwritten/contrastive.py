"""CLIP in one file, on torch's own attention, as the first release of its authors has it."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

Weights = dict[str, Tensor]


class Block(nn.Module):
    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.c_fc, self.c_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        normed = self.ln_1(x)
        x = x + self.attn(normed, normed, normed, need_weights=False, attn_mask=mask)[0]
        hidden = self.c_fc(self.ln_2(x))
        return x + self.c_proj(hidden * torch.sigmoid(1.702 * hidden))


class Contrastive(nn.Module):
    """Texts and images as vectors of one space."""

    def __init__(
        self, vocabulary: int, width: int, inner: int, layers: int, heads: int, positions: int, patch: int,
        patches: int, space: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(positions, width))
        self.text = nn.ModuleList(Block(width, inner, heads) for _ in range(layers))
        self.ln_final, self.text_projection = nn.LayerNorm(width), nn.Parameter(torch.zeros(width, space))
        self.conv = nn.Conv2d(3, width, patch, patch, bias=False)
        self.cls, self.grid = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(patches + 1, width))
        self.ln_pre, self.ln_post = nn.LayerNorm(width), nn.LayerNorm(width)
        self.image = nn.ModuleList(Block(width, inner, heads) for _ in range(layers))
        self.image_projection = nn.Parameter(torch.zeros(width, space))
        self.scale = nn.Parameter(torch.zeros(()))

    def of_text(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        x = self.words(tokens) + self.places[:length]
        mask = torch.full((length, length), float("-inf")).triu(1)
        for block in self.text:
            x = block(x, mask)
        # The end of a text has the largest number.
        x = self.ln_final(x)[torch.arange(len(tokens)), tokens.argmax(-1)]
        return x @ self.text_projection

    def of_image(self, images: Tensor) -> Tensor:
        x = self.conv(images).flatten(2).transpose(1, 2)
        x = self.ln_pre(torch.cat([self.cls.expand(len(x), 1, -1), x], dim=1) + self.grid)
        for block in self.image:
            x = block(x, None)
        return self.ln_post(x[:, 0]) @ self.image_projection

    def forward(self, tokens: Tensor, images: Tensor) -> Tensor:
        image, text = F.normalize(self.of_image(images), dim=-1), F.normalize(self.of_text(tokens), dim=-1)
        return self.scale.exp() * image @ text.t()

    def take(self, given: Weights) -> None:
        """Loads the weights of `CLIPModel`."""
        names = {
            "words.weight": "text_model.embeddings.token_embedding.weight",
            "places": "text_model.embeddings.position_embedding.weight",
            "conv.weight": "vision_model.embeddings.patch_embedding.weight",
            "cls": "vision_model.embeddings.class_embedding",
            "grid": "vision_model.embeddings.position_embedding.weight",
            "scale": "logit_scale",
        }
        norms = {
            "ln_final": "text_model.final_layer_norm",
            "ln_pre": "vision_model.pre_layrnorm",
            "ln_post": "vision_model.post_layernorm",
        }
        mine = {
            "text_projection": given["text_projection.weight"].t(),
            "image_projection": given["visual_projection.weight"].t(),
        }
        for ours, theirs, count in (("text", "text", len(self.text)), ("image", "vision", len(self.image))):
            for number in range(count):
                own, other = f"{ours}.{number}.", f"{theirs}_model.encoder.layers.{number}."
                norms |= {
                    f"{own}ln_1": f"{other}layer_norm1",
                    f"{own}ln_2": f"{other}layer_norm2",
                    f"{own}attn.out_proj": f"{other}self_attn.out_proj",
                    f"{own}c_fc": f"{other}mlp.fc1",
                    f"{own}c_proj": f"{other}mlp.fc2",
                }
                for kind in ("weight", "bias"):
                    parts = [given[f"{other}self_attn.{name}_proj.{kind}"] for name in "qkv"]
                    mine[f"{own}attn.in_proj_{kind}"] = torch.cat(parts)
        for own, other in norms.items():
            mine |= {f"{own}.{kind}": given[f"{other}.{kind}"] for kind in ("weight", "bias")}
        mine |= {own: given[other] for own, other in names.items()}
        self.load_state_dict(mine)
