"""Bugs of GPT-2 in transformers."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Where, run

MODULE = "transformers.models.gpt2.modeling_gpt2"
TARGET = run("hf/gpt2")
GOLDENS = {
    "other release": run("hf/gpt2", OLD),
    "other implementation": run("hand/gpt2"),
}
SPLIT = "query_states, key_states, value_states = self.c_attn(hidden_states)"
# Where goldens compute scores and mask in their own way.
SCALED = (("*.attn", "Tensor.__truediv__"), ("blocks.*.attn", "Tensor.__mul__"))
MASKED = (("*.attn", "Torch.where"), ("blocks.*.attn", "Tensor.masked_fill"))
SPLITS = (("*.attn", "Tensor.split"), ("*.attn", "Tensor.chunk"), ("*.attn", "Tensor.view"))
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "gelu-erf": (("blocks.?", "Functional.gelu"),),
    "query-and-key-swapped": SPLITS,
    "key-and-value-swapped": SPLITS,
    "positions-off-by-one": (("*wpe", "*"), (".", "Tensor.__add__")),
    "bias-missing": (("*", "Torch.addmm"), ("*.qkv", "*")),
    "norm-eps": (("blocks.?.ln2", "*"),),
    "residual-of-normed": (("blocks.?", "Tensor.__add__"), ("transformer.h.?", "Tensor.__add__")),
    "softmax-over-queries": (("*.attn", "Functional.softmax"),),
    "weights-not-tied": ((".", "Tensor.__matmul__"), (".", "Tensor.t")),
}


def bug(name: str, old: str, new: str, where: Where = EDITED, nth: int = 0, module: str = MODULE) -> Bug:
    return Bug(
        f"gpt2/{name}", TARGET, (Edit(module, old, new, nth),), where, elsewhere=ELSEWHERE.get(name, ())
    )


BUGS = (
    bug(
        "gelu-erf",
        "self.act = ACT2FN[config.activation_function]",
        'self.act = ACT2FN["gelu"]',
        Where((("transformer.h.*.mlp.act", "*"),), lines=False),
    ),
    bug(
        "scale-missing",
        "key.transpose(-1, -2)) * scaling",
        "key.transpose(-1, -2))",
        Where(golden=SCALED, after=3),
    ),
    bug(
        "query-and-key-swapped",
        SPLIT,
        SPLIT.replace("query_states, key_states", "key_states, query_states"),
        Where(after=6),
    ),
    bug(
        "key-and-value-swapped",
        SPLIT,
        SPLIT.replace("key_states, value_states", "value_states, key_states"),
        Where(after=6),
    ),
    bug(
        "positions-off-by-one",
        "position_embeds = self.wpe(position_ids)",
        "position_embeds = self.wpe(position_ids + 1)",
    ),
    bug(
        "bias-missing",
        "torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)",
        "torch.mm(x.view(-1, x.size(-1)), self.weight)",
        module="transformers.pytorch_utils",
    ),
    bug(
        "norm-eps",
        "self.ln_2 = nn.LayerNorm(hidden_size, eps=config.layer_norm_epsilon)",
        "self.ln_2 = nn.LayerNorm(hidden_size, eps=1e-2)",
        Where((("transformer.h.*.ln_2", "*"),), lines=False),
    ),
    bug(
        "residual-of-normed",
        "hidden_states = residual + feed_forward_hidden_states",
        "hidden_states = hidden_states + feed_forward_hidden_states",
    ),
    bug(
        "mlp-norm-skipped",
        "hidden_states = self.ln_2(hidden_states)",
        "hidden_states = residual",
        Where(
            (("transformer.h.*.mlp.c_fc", "*"), ("transformer.h.*.mlp", "Module")),
            (("transformer.h.*.ln_2", "*"), ("blocks.*.ln2", "*")),
            after=1,
        ),
    ),
    bug("softmax-over-queries", "softmax(attn_weights, dim=-1)", "softmax(attn_weights, dim=-2)"),
    bug(
        "weights-not-tied",
        '_tied_weights_keys = {"lm_head.weight": "transformer.wte.weight"}',
        "_tied_weights_keys = {}",
        Where((("lm_head", "*"), ("", "*lm_head.weight*")), lines=False),
    ),
    bug(
        "scores-masked-too-weakly",
        "attn_weights + attention_mask",
        "attn_weights + attention_mask.clamp(min=-2.0)",
        Where(golden=MASKED),
    ),
    bug(
        "weights-through-half",
        "torch.matmul(attn_weights, value)",
        "torch.matmul(attn_weights.half().float(), value)",
    ),
)
