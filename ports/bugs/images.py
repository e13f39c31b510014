"""Bugs of torchvision's ResNet and of timm's vision transformer."""

from __future__ import annotations

from ports.bugs.bug import EDITED, Bug, Pairs
from ports.runs import Edit, Run, Where, run

RESNET = "torchvision.models.resnet"
VIT = "timm.models.vision_transformer"
ATTENTION = "timm.layers.attention"
GOLDENS: dict[str, Run] = {}
OF_RESNET = (("other library", run("timm/resnet")),)
OF_VIT = (("other library", run("hf/vit")), ("other implementation", run("hand/vit")))
# Calls of goldens that do the same work under other names or in other modules.
ELSEWHERE: dict[str, Pairs] = {
    "heads-before-three": (("*.attention", "Tensor.permute"), ("*.attention", "Tensor.view")),
    "softmax-over-queries": (("*.attention", "*.softmax"),),
    "heads-not-transposed-back": (("*.attention", "Tensor.transpose"), ("*.attention", "Tensor.reshape")),
    "residual-dropped": (("vit.layers.?", "Tensor.__add__"), ("blocks.?", "Tensor.__add__")),
    "positions-before-class-token": (("vit.embeddings", "Tensor.__add__"), (".", "Tensor.__add__")),
    "scale-missing": (("*.attention", "Tensor.__mul__"), ("*.attention", "Tensor.__truediv__")),
    "relu-before-sum": (("layer?.?", "Tensor.__iadd__"),),
    "flatten-after-max": (("*pool", "*"), ("global_pool*", "*")),
}


def resnet(name: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    edit = Edit(RESNET, old, new, nth)
    return Bug(
        f"resnet/{name}",
        run("torchvision/resnet"),
        (edit,),
        where,
        goldens=OF_RESNET,
        elsewhere=ELSEWHERE.get(name, ()),
    )


def vit(name: str, module: str, old: str, new: str, where: Where = EDITED, nth: int = 0) -> Bug:
    return Bug(
        f"timm-vit/{name}",
        run("timm/vit"),
        (Edit(module, old, new, nth),),
        where,
        goldens=OF_VIT,
        elsewhere=ELSEWHERE.get(name, ()),
    )


BUGS = (
    resnet(
        "norm-eps",
        "self.bn2 = norm_layer(planes)",
        "self.bn2 = norm_layer(planes, eps=1e-1)",
        Where((("layer*.bn2", "*"),), lines=False),
    ),
    resnet("relu-before-sum", "        out = self.bn2(out)\n", "        out = self.bn2(out).clamp(min=0)\n"),
    resnet(
        "shortcut-not-projected-alone",
        "identity = self.downsample(x)",
        "identity = self.downsample[0](x)",
        Where(golden=(("layer*.downsample.1", "*"),)),
    ),
    resnet(
        "shortcut-dropped",
        "out += identity",
        "out = out",
        Where((("layer*.relu", "*"),), (("layer?.?", "Tensor.__iadd__"),), after=1),
    ),
    resnet(
        "first-relu-missing",
        "        x = self.bn1(x)\n        x = self.relu(x)\n",
        "        x = self.bn1(x)\n        x = x\n",
        Where((("maxpool", "*"),), (("act1", "*"), ("relu", "*")), after=1),
    ),
    resnet(
        "pooling-without-padding",
        "nn.MaxPool2d(kernel_size=3, stride=2, padding=1)",
        "nn.MaxPool2d(kernel_size=2, stride=2, padding=0)",
        Where((("maxpool", "*"),), lines=False),
    ),
    resnet("flatten-after-max", "x = self.avgpool(x)", "x = x.amax((2, 3), keepdim=True)"),
    vit("scale-missing", ATTENTION, "q = q * self.scale", "q = q * 1.0"),
    vit(
        "heads-before-three",
        ATTENTION,
        "reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)",
        "reshape(B, N, self.num_heads, 3, self.head_dim).permute(3, 0, 2, 1, 4)",
    ),
    vit("softmax-over-queries", ATTENTION, "attn.softmax(dim=-1)", "attn.softmax(dim=-2)"),
    vit(
        "heads-not-transposed-back",
        ATTENTION,
        "x = x.transpose(1, 2).reshape(B, N, self.attn_dim)",
        "x = x.reshape(B, N, self.attn_dim)",
    ),
    vit(
        "residual-dropped",
        VIT,
        "x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x), ",
        "x = self.drop_path1(self.ls1(self.attn(self.norm1(x), ",
    ),
    vit(
        "positions-before-class-token",
        VIT,
        "            x = x + pos_embed\n\n        return self.pos_drop(x)",
        "            x = x + pos_embed.flip(1)\n\n        return self.pos_drop(x)",
    ),
)
