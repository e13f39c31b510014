"""Bugs of BERT in transformers."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Where, run

MODULE = "transformers.models.bert.modeling_bert"
TARGET = run("hf/bert")
GOLDENS = {
    "other release": run("hf/bert", OLD),
    "eager and SDPA": run("hf/bert", attention="sdpa"),
    "other implementation": run("hand/bert"),
}
NORMED = "hidden_states = self.LayerNorm(hidden_states + input_tensor)"
# Where goldens compute scores and mask in their own way.
FUSED = ("*", "Functional.scaled_dot_product_attention")
SCALED = (FUSED, ("*.self", "Tensor.__truediv__"), ("blocks.*.attention", "Tensor.__truediv__"))
MASKED = (FUSED, ("blocks.*.attention", "Tensor.masked_fill"))
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "norm-before-residual": (("*.attention.output", "Tensor.__add__"), ("blocks.?", "Tensor.__add__")),
    "residual-dropped": (("bert.encoder.layer.?.output", "Tensor.__add__"), ("blocks.?", "Tensor.__add__")),
    "softmax-over-queries": (
        FUSED,
        ("*.self", "Functional.softmax"),
        ("blocks.*.attention", "Tensor.softmax"),
    ),
    "head-activation-missing": ((".", "Functional.gelu"),),
    "positions-off-by-one": (("*position*", "*"), (".", "Tensor.__add__")),
    "gelu-tanh": (("blocks.?", "Functional.gelu"),),
    "norm-eps": (("norm", "*"),),
    "key-from-query-projection": (("*.key", "*"), ("*.in_proj", "*")),
}


def bug(name: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    return Bug(
        f"bert/{name}", TARGET, (Edit(MODULE, old, new, nth),), where, elsewhere=ELSEWHERE.get(name, ())
    )


BUGS = (
    bug("norm-before-residual", NORMED, "hidden_states = self.LayerNorm(hidden_states) + input_tensor"),
    bug("residual-dropped", NORMED, "hidden_states = self.LayerNorm(hidden_states)", nth=1),
    bug(
        "segments-missing",
        "embeddings = inputs_embeds + token_type_embeddings",
        "embeddings = inputs_embeds",
        Where(
            golden=(("segments", "*"), (".", "Tensor.__add__"), ("bert.embeddings", "Tensor.__add__")),
            after=3,
        ),
    ),
    bug(
        "positions-off-by-one",
        "position_embeddings = self.position_embeddings(position_ids)",
        "position_embeddings = self.position_embeddings(position_ids + 1)",
    ),
    bug(
        "padding-not-masked",
        "attn_weights = attn_weights + attention_mask",
        "attn_weights = attn_weights",
        Where(golden=MASKED, after=2),
    ),
    bug(
        "scale-missing",
        "key.transpose(2, 3)) * scaling",
        "key.transpose(2, 3))",
        Where(golden=SCALED, after=3),
    ),
    bug(
        "softmax-over-queries",
        "softmax(attn_weights, dim=-1)",
        "softmax(attn_weights, dim=-2)",
        Where(golden=(FUSED,)),
    ),
    bug(
        "gelu-tanh",
        "self.intermediate_act_fn = ACT2FN[config.hidden_act]",
        'self.intermediate_act_fn = ACT2FN["gelu_pytorch_tanh"]',
        Where((("bert.encoder.layer.*.intermediate.intermediate_act_fn", "*"),), lines=False),
    ),
    bug(
        "norm-eps",
        "self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)",
        "self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=1e-3)",
        Where((("bert.embeddings.LayerNorm", "*"),), lines=False),
    ),
    bug("key-from-query-projection", "self.key(hidden_states).view", "self.query(hidden_states).view"),
    bug(
        "head-activation-missing",
        "hidden_states = self.transform_act_fn(hidden_states)",
        "hidden_states = hidden_states",
        Where(
            (
                ("cls.predictions.transform.LayerNorm", "*"),
                ("cls.predictions.transform.transform_act_fn", "*"),
            ),
            after=1,
        ),
    ),
    bug(
        "embedding-norm-missing",
        "embeddings = self.LayerNorm(embeddings)",
        "embeddings = embeddings",
        Where(
            (("bert.embeddings.dropout", "*"), ("bert.encoder.layer.0.attention.self.query", "*")),
            (("bert.embeddings.LayerNorm", "*"), ("norm", "*")),
            after=1,
        ),
    ),
)
