"""Bugs of the vision transformer in transformers."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Where, run

MODULE = "transformers.models.vit.modeling_vit"
TARGET = run("hf/vit")
GOLDENS = {
    "other release": run("hf/vit", OLD),
    "other implementation": run("hand/vit"),
    "other library": run("timm/vit"),
}
# Where goldens compute scores in their own way.
SCALED = (
    ("*.attention.attention", "Tensor.__truediv__"),
    ("blocks.*.attention", "Tensor.__truediv__"),
    ("blocks.*.attn", "Tensor.__mul__"),
)
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "patches-by-column": (("*embed", "*"), (".", "Functional.unfold"), ("patch_embed*", "*")),
    "class-token-last": ((".", "Torch.cat"),),
    "positions-shifted": ((".", "Tensor.__add__"),),
    "gelu-quick": (("blocks.*.mlp.1", "*"), ("blocks.*.mlp.act", "*"), ("*.intermediate_act_fn", "*")),
    "norms-swapped": (("*.norm1", "*"), ("*.layernorm_before", "*")),
    "residual-twice": (("blocks.?", "Tensor.__add__"), ("*.layer.?", "Tensor.__add__")),
    "mean-for-class-token": ((".", "Tensor.__getitem__"),),
    "norm-eps": (("blocks.?.norm2", "*"),),
    "softmax-over-queries": (("*.attention", "*.softmax"), ("blocks.*.attn", "Tensor.softmax")),
}


def bug(name: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    return Bug(
        f"vit/{name}", TARGET, (Edit(MODULE, old, new, nth),), where, elsewhere=ELSEWHERE.get(name, ())
    )


BUGS = (
    bug(
        "patches-by-column",
        "self.projection(pixel_values).flatten(2)",
        "self.projection(pixel_values).transpose(2, 3).flatten(2)",
    ),
    bug(
        "class-token-last",
        "embeddings = torch.cat((cls_tokens, embeddings), dim=1)",
        "embeddings = torch.cat((embeddings, cls_tokens), dim=1)",
    ),
    bug(
        "positions-missing",
        "embeddings = embeddings + self.position_embeddings",
        "embeddings = embeddings",
        Where(
            (("vit.embeddings.dropout", "*"), ("vit.layers.0.layernorm_before", "*")),
            ((".", "Tensor.__add__"), ("vit.embeddings", "Tensor.__add__")),
            after=2,
        ),
    ),
    bug(
        "positions-shifted",
        "embeddings = embeddings + self.position_embeddings",
        "embeddings = embeddings + self.position_embeddings.roll(1, 1)",
    ),
    bug(
        "scale-missing",
        "key.transpose(2, 3)) * scaling",
        "key.transpose(2, 3))",
        Where(golden=SCALED, after=3),
    ),
    bug("softmax-over-queries", "softmax(attn_weights, dim=-1,", "softmax(attn_weights, dim=-2,"),
    bug(
        "gelu-quick",
        "self.activation_fn = ACT2FN[config.hidden_act]",
        'self.activation_fn = ACT2FN["quick_gelu"]',
        Where((("vit.layers.*.mlp.activation_fn", "*"),), lines=False),
    ),
    bug(
        "norms-swapped",
        "hidden_states = self.layernorm_before(hidden_states)",
        "hidden_states = self.layernorm_after(hidden_states)",
    ),
    bug(
        "residual-twice",
        "hidden_states = hidden_states + residual",
        "hidden_states = hidden_states + 2 * residual",
    ),
    bug(
        "mean-for-class-token",
        "pooled_output = sequence_output[:, 0, :]",
        "pooled_output = sequence_output.mean(1)",
    ),
    bug(
        "norm-eps",
        "self.layernorm_after = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
        "self.layernorm_after = nn.LayerNorm(config.hidden_size, eps=1e-2)",
        Where((("vit.layers.*.layernorm_after", "*"),), lines=False),
    ),
)
