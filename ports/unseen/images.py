"""Unseen bugs of networks for images, of transformers, torchvision and timm."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import Edit, Run, Where, run
from ports.unseen.library_bug import bug, release


def network(
    name: str,
    what: str,
    module: str,
    old: str,
    new: str,
    where: Where = EDITED,
    elsewhere: Pairs = (),
    library: str = "timm",
) -> Bug:
    """A bug of a network of torchvision."""
    goldens = (("other library", run(f"images/{name}", library=library)),)
    edit = Edit(module, old, new)
    return Bug(f"{name}/{what}", run(f"images/{name}"), (edit,), where, (True, False), elsewhere, goldens)


RESIZED: tuple[tuple[str, Run], ...] = (
    ("weights kept differently", run("arranged/larger-images", resized=True)),
)

# Blocks of the small network that add what they were given.
RESIDUAL = (3, 5, 6, 8, 9, 10, 12, 13, 15, 16)

BUGS = (
    bug(
        "convnextv2",
        "responses-averaged-over-rows",
        ("global_features.mean(dim=-1, keepdim=True)", "global_features.mean(dim=0, keepdim=True)"),
        goldens=release("convnextv2"),
        elsewhere=(("*.grn", "Tensor.mean"), ("*.grn", "Tensor.__truediv__"), ("*.grn", "Tensor.__add__")),
    ),
    bug(
        "swinv2",
        "queries-not-normalised",
        ("nn.functional.normalize(query_layer, dim=-1) @", "query_layer @"),
        goldens=release("swinv2"),
        elsewhere=(("*.attention.self", "Functional.normalize"), ("*.attention.self", "Tensor.__matmul__")),
    ),
    bug(
        "swinv2",
        "position-bias-not-squashed",
        ("16 * torch.sigmoid(relative_position_bias)", "16 * torch.tanh(relative_position_bias)"),
        goldens=release("swinv2"),
        elsewhere=(("*.attention.self", "Torch.sigmoid"), ("*.attention.self", "Tensor.__rmul__")),
    ),
    bug(
        "detr",
        "values-with-positions",
        (
            "self.v_proj(hidden_states).view(hidden_shape)",
            "self.v_proj(query_key_input).view(hidden_shape)",
        ),
        goldens=release("detr"),
        elsewhere=(("*.self_attn.v_proj", "*"),),
    ),
    bug(
        "detr",
        "positions-not-on-circle",
        (
            "y_embed = y_embed / (y_embed[:, -1:, :] + eps) * scale",
            "y_embed = y_embed / (y_embed[:, -1:, :] + eps)",
        ),
        goldens=release("detr"),
        elsewhere=(("*position_embedding", "Tensor.__truediv__"), ("*position_embedding", "Tensor.__mul__")),
    ),
    Bug(
        "dinov2/positions-resized-bilinear",
        run("arranged/larger-images"),
        (
            Edit("transformers.models.dinov2.modeling_dinov2", 'mode="bicubic"', 'mode="bilinear"'),
            # A call has the line where it starts.
            Edit(
                "transformers.models.dinov2.modeling_dinov2",
                "patch_pos_embed = nn.functional.interpolate(",
                "patch_pos_embed = (nn.functional.interpolate)(",
            ),
        ),
        goldens=RESIZED,
        elsewhere=(("dinov2.embeddings", "Tensor.__add__"),),
    ),
    network(
        "efficientnet",
        "norm-eps-of-another-library",
        "torchvision.models.efficientnet",
        "norm_layer = nn.BatchNorm2d",
        "norm_layer = partial(nn.BatchNorm2d, eps=1e-2)",
        Where((("*", "Functional.batch_norm"), ("*", "Module.*.BatchNorm2d")), lines=False),
        (("*", "Functional.batch_norm"), ("*", "Module.*.BatchNormAct2d")),
    ),
    network(
        "efficientnet",
        "excitation-not-squashed",
        "torchvision.ops.misc",
        "return self.scale_activation(scale)",
        "return self.activation(scale)",
        EDITED,
        (("*.se.gate", "*"), ("*.se", "Tensor.sigmoid")),
    ),
    network(
        "efficientnet",
        "excitation-from-maximum",
        "torchvision.ops.misc",
        "scale = self.avgpool(input)",
        "scale = input.amax((2, 3), keepdim=True)",
        EDITED,
        (("*.se", "Tensor.mean"),),
    ),
    network(
        "densenet",
        "newest-features-first",
        "torchvision.models.densenet",
        "concated_features = torch.cat(inputs, 1)",
        "concated_features = torch.cat(inputs[::-1], 1)",
        EDITED,
        (("*.denselayer*", "Torch.cat"),),
    ),
    network(
        "densenet",
        "pooling-without-relu",
        "torchvision.models.densenet",
        "out = F.relu(features, inplace=True)",
        "out = features",
        Where(after=1),
        (("features.norm5*", "*"), ("global_pool*", "*")),
    ),
    network(
        "mobilenet_v2",
        "residual-missing",
        "torchvision.models.mobilenetv2",
        "return x + self.conv(x)",
        "return self.conv(x)",
        # The last call of the block, and the first of the next, which takes the sum.
        Where(
            tuple(
                (path, "*")
                for number in RESIDUAL
                for path in (f"features.{number}.conv.3", f"features.{number + 1}.conv.0.0")
            ),
            (("features.*", "Tensor.__add__"), ("blocks.?.?", "Tensor.__add__")),
            lines=False,
        ),
    ),
    network(
        "swin",
        "position-bias-transposed",
        "torchvision.models.swin_transformer",
        "attn = attn + relative_position_bias",
        "attn = attn + relative_position_bias.transpose(-2, -1)",
        EDITED,
        (("*.attn", "Tensor.__add__"),),
    ),
    network(
        "swin",
        "windows-not-masked",
        "torchvision.models.swin_transformer",
        "attn = attn + attn_mask.unsqueeze(1).unsqueeze(0)",
        "attn = attn + 0 * attn_mask.unsqueeze(1).unsqueeze(0)",
        EDITED,
        (("*.attn", "Tensor.__add__"),),
    ),
    network(
        "convnext",
        "activation-silu",
        "torchvision.models.convnext",
        "nn.GELU(),",
        "nn.SiLU(),",
        Where((("features.*.block.4", "*"),), lines=False),
        (("*.act", "*"),),
        "transformers",
    ),
    network(
        "convnext",
        "block-not-scaled",
        "torchvision.models.convnext",
        "result = self.layer_scale * self.block(input)",
        "result = 1.0 * self.block(input)",
        # All of the block runs at this line.
        Where((("features.?.?", "Tensor.__*mul__"),), lines=False),
        (("stages.*.blocks.?", "Tensor.mul"), ("stages.*.blocks.?", "Tensor.__mul__")),
    ),
    network(
        "vit",
        "last-norm-before-encoder",
        "torchvision.models.vision_transformer",
        "return self.ln(self.layers(self.dropout(input)))",
        "return self.layers(self.ln(self.dropout(input)))",
        Where((("encoder.ln", "*"), ("encoder.layers.encoder_layer_0.ln_1", "*")), lines=False),
        (("norm", "*"), ("fc_norm", "*")),
    ),
    network(
        "vit",
        "grid-transposed",
        "torchvision.models.vision_transformer",
        "x = x.reshape(n, self.hidden_dim, n_h * n_w)",
        "x = x.transpose(2, 3).reshape(n, self.hidden_dim, n_h * n_w)",
        EDITED,
        (("patch_embed", "Tensor.flatten"), ("patch_embed", "Tensor.transpose")),
    ),
)
