"""Bugs of further models of transformers, and of their losses."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import OLD, Edit, Run, Where, run

GOLDENS: dict[str, Run] = {}
LOSS = "transformers.loss.loss_utils"
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "labels-not-shifted": ((".", "Tensor.__getitem__"),),
    "sum-for-mean": ((".", "Functional.cross_entropy"),),
    "padding-counted": ((".", "Functional.cross_entropy"),),
    "relative-position-sign": (("*.SelfAttention", "Tensor.__sub__"),),
    "norm-about-mean": (("*layer_norm", "*"),),
    "decoder-outputs-not-scaled": ((".", "Tensor.__mul__"),),
    "rotary-sign": (("*.attention", "Torch.cat"), ("*.attention", "Tensor.__neg__")),
    "embeddings-not-scaled": (("model", "Tensor.__mul__"),),
    "norm-without-plus-one": (("*norm", "*"),),
    "keys-tiled": (("*.self_attn", "Tensor.expand"),),
    "positions-without-offset": (("*embed_positions", "*"),),
    "window-shifted-one-way": (("*", "Torch.roll"),),
    "layer-scale-missing": (("*", "Tensor.__mul__"),),
    "step-not-softplus": (("*", "Functional.softplus"),),
    "state-matrix-sign": (("*", "Torch.exp"),),
}


def model(architecture: str, name: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    module = f"transformers.models.{architecture}.modeling_{architecture}"
    return Bug(
        f"{architecture}/{name}",
        run(f"hf/{architecture}"),
        (Edit(module, old, new, nth),),
        where,
        elsewhere=ELSEWHERE.get(name, ()),
        goldens=(("other release", run(f"hf/{architecture}", OLD)),),
    )


def loss(name: str, old: str, new: str, where: Where = EDITED) -> Bug:
    return Bug(
        f"llama/loss-{name}",
        run("hf/llama", labels=True, padded=True),
        (Edit(LOSS, old, new),),
        where,
        elsewhere=ELSEWHERE.get(name, ()),
        modes=(True,),
        goldens=(("other release", run("hf/llama", OLD, labels=True, padded=True)),),
    )


BUGS = (
    loss(
        "labels-not-shifted",
        "shift_labels = labels[..., 1:].contiguous()",
        "shift_labels = labels[..., :-1].contiguous()",
    ),
    loss(
        "sum-for-mean",
        "reduction=reduction)",
        'reduction="sum") / target.numel()',
    ),
    loss(
        "padding-counted",
        "nn.functional.cross_entropy(source, target,",
        "nn.functional.cross_entropy(source, target.clamp(min=0),",
    ),
    loss("logits-in-bfloat16", "logits = logits.float()", "logits = logits.bfloat16().float()"),
    model(
        "t5",
        "buckets-not-bidirectional",
        "bidirectional=(not self.is_decoder)",
        "bidirectional=False",
        Where(
            (
                ("*.layer.0.SelfAttention", "Tensor.__neg__"),
                ("*.layer.0.SelfAttention", "Torch.min"),
                ("*.layer.0.SelfAttention", "Torch.zeros_like"),
                ("*.layer.0.SelfAttention", "Tensor.__lt__"),
                ("*.layer.0.SelfAttention", "Torch.where"),
                ("*.layer.0.SelfAttention.relative_attention_bias", "*"),
            )
        ),
    ),
    model(
        "t5",
        "relative-position-sign",
        "memory_position - context_position",
        "context_position - memory_position",
    ),
    model(
        "t5",
        "norm-about-mean",
        "hidden_states.to(torch.float32).pow(2).mean(-1, keepdim=True)",
        "hidden_states.to(torch.float32).var(-1, keepdim=True)",
    ),
    model(
        "t5",
        "decoder-outputs-not-scaled",
        "sequence_output = sequence_output * (self.model_dim**-0.5)",
        "sequence_output = sequence_output * 1.0",
    ),
    model("gpt_neox", "rotary-sign", "torch.cat((-x2, x1), dim=-1)", "torch.cat((x2, -x1), dim=-1)"),
    model(
        "gpt_neox",
        "query-and-key-swapped",
        "query_states, key_states, value_states = qkv",
        "key_states, query_states, value_states = qkv",
        Where((("gpt_neox.layers.*.attention", "Tensor.__getitem__"),)),
    ),
    model(
        "gemma",
        "embeddings-not-scaled",
        "super().forward(input_ids) * self.embed_scale.to(self.weight.dtype)",
        "super().forward(input_ids) * 1.0",
    ),
    model(
        "gemma",
        "norm-without-plus-one",
        "output * (1.0 + self.weight.float())",
        "output * self.weight.float()",
    ),
    model(
        "mistral",
        "keys-tiled",
        "hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)",
        "hidden_states[:, None, :, :, :].expand(batch, n_rep, num_key_value_heads, slen, head_dim)",
        Where(after=1),
    ),
    model(
        "opt",
        "positions-without-offset",
        "super().forward(position_ids + self.offset)",
        "super().forward(position_ids + 0)",
    ),
    model(
        "bloom",
        "residual-dropped",
        "out = residual + out",
        "out = out",
        Where(
            (("transformer.h.*.post_attention_layernorm", "*"),),
            (("transformer.h.*", "Tensor.__add__"),),
            after=1,
        ),
    ),
    model(
        "swin", "window-shifted-one-way", "direction = 1 if reverse else -1", "direction = 1", Where(after=1)
    ),
    model(
        "convnext",
        "layer-scale-missing",
        "features = self.layer_scale_parameter * features",
        "features = 1.0 * features",
    ),
    model("mamba", "step-not-softplus", "        dt = F.softplus(dt)", "        dt = F.relu(dt)", nth=1),
    model(
        "mamba",
        "state-matrix-sign",
        "A = -torch.exp(self.A_log.float())",
        "A = -torch.abs(self.A_log.float())",
    ),
)
