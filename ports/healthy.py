"""Healthy ports: two programs that compute the same in different ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ports.programs.architectures import ARCHITECTURES
from ports.runs import OLD, Case, Run, run

# Architectures whose library code has both an eager and a fused attention.
FUSED = (
    "llama", "mistral", "qwen2", "gemma", "phi", "stablelm", "starcoder2", "gpt2", "gpt_neox", "opt",
    "falcon", "bert", "roberta", "electra", "albert", "distilbert", "bart", "vit", "deit", "beit",
    "dinov2", "clip", "wav2vec2", "whisper",
)  # fmt: skip


def pair(kind: str, architecture: str, name: str, target: Run, golden: Run, tolerance: float = 1e-4) -> Case:
    """A healthy port."""
    return Case(f"healthy/{name}", "healthy", kind, architecture, target, golden, tolerance=tolerance)


def releases() -> Iterator[Case]:
    """The newest release against one of two years ago."""
    for name in ARCHITECTURES:
        yield pair("other release", name, f"release/{name}", run(f"hf/{name}"), run(f"hf/{name}", OLD))


def attentions() -> Iterator[Case]:
    """Fused attention against matrix products."""
    for name in FUSED:
        yield pair(
            "eager and SDPA", name, f"sdpa/{name}", run(f"hf/{name}", attention="sdpa"), run(f"hf/{name}")
        )
    for name in ("llama", "bert"):
        yield pair(
            "SDPA of another release",
            name,
            f"sdpa-release/{name}",
            run(f"hf/{name}", attention="sdpa"),
            run(f"hf/{name}", OLD),
        )


def handwritten() -> Iterator[Case]:
    """Models of one file against the library's."""
    variants: dict[str, tuple[dict[str, Any], ...]] = {
        "llama": ({}, {"kernel": "sdpa"}, {"interleaved": True}),
        "gpt2": ({}, {"split": True}),
        "bert": ({}, {"kernel": "sdpa"}),
        "vit": ({}, {"kernel": "sdpa"}),
    }
    for name, options in variants.items():
        for chosen in options:
            label = "-".join(["hand", name, *(f"{key}-{value}" for key, value in chosen.items())])
            golden = run(f"hf/{name}")
            yield pair("hand-written", name, f"{label}", run(f"hand/{name}", **chosen), golden)


def libraries() -> Iterator[Case]:
    """The same network in another library."""
    for fused in (False, True):
        label = "fused" if fused else "plain"
        yield pair("other library", "vit", f"timm-vit-{label}", run("timm/vit", fused=fused), run("hf/vit"))
        yield pair(
            "other library", "vit", f"timm-hand-vit-{label}", run("timm/vit", fused=fused), run("hand/vit")
        )
    for name in ("resnet", "resnet50"):
        for train in (False, True):
            label = f"torchvision-timm-{name}-{'train' if train else 'eval'}"
            target, golden = run(f"torchvision/{name}", train=train), run(f"timm/{name}", train=train)
            yield pair("other library", name, label, target, golden)


def precisions() -> Iterator[Case]:
    """Low precision against float32, and another attention in the same low precision."""
    low = 0.1
    for name in ("llama", "gpt2", "bert", "vit", "t5"):
        golden = run(f"hf/{name}")
        yield pair(
            "low precision", name, f"bfloat16/{name}", run(f"hf/{name}", dtype="bfloat16"), golden, low
        )
        yield pair(
            "low precision", name, f"autocast/{name}", run(f"hf/{name}", autocast="bfloat16"), golden, low
        )
    for name in ("llama", "bert", "vit"):
        yield pair(
            "low precision",
            name,
            f"bfloat16-sdpa/{name}",
            run(f"hf/{name}", dtype="bfloat16", attention="sdpa"),
            run(f"hf/{name}", dtype="bfloat16"),
            low,
        )
        yield pair(
            "low precision",
            name,
            f"bfloat16-hand/{name}",
            run(f"hand/{name}", dtype="bfloat16"),
            run(f"hf/{name}", dtype="bfloat16"),
            low,
        )
    yield pair(
        "low precision",
        "resnet",
        "bfloat16/resnet",
        run("torchvision/resnet", dtype="bfloat16"),
        run("torchvision/resnet"),
        low,
    )
    yield pair(
        "double precision", "llama", "float64/llama", run("hf/llama", dtype="float64"), run("hf/llama")
    )
    yield pair("double precision", "bert", "float64/bert", run("hf/bert", dtype="float64"), run("hf/bert"))


def arrangements() -> Iterator[Case]:
    """Inputs cut differently, weights kept differently."""
    llama = run("hf/llama")
    for side in ("right", "left"):
        yield pair(
            "inputs cut differently", "llama", f"padded-{side}", run("variant/padded", side=side), llama
        )
    yield pair(
        "inputs cut differently",
        "llama",
        "packed",
        run("variant/packed", as_one=True),
        run("variant/packed", as_one=False),
    )
    for name in ("llama", "gpt2"):
        yield pair(
            "inputs cut differently",
            name,
            f"decoded-with-cache/{name}",
            run("variant/decoded", of=name, cached=True),
            run("variant/decoded", of=name, cached=False),
        )
    for pieces in (2, 4):
        yield pair(
            "inputs cut differently",
            "gpt2",
            f"micro-batches-{pieces}",
            run("train/gpt2", pieces=pieces),
            run("train/gpt2"),
        )
    for name in ("llama", "bert"):
        target, golden = (run("variant/low-rank", of=name, merged=merged) for merged in (True, False))
        yield pair("weights kept differently", name, f"low-rank-merged/{name}", target, golden)
    for where in ("mlp", "attention", "head"):
        yield pair(
            "weights kept differently", "llama", f"split-{where}", run("variant/split", where=where), llama
        )
    for option in ("channels_last", "folded"):
        target = Run("torchvision/resnet", ((option, True),))
        yield pair(
            "weights kept differently",
            "resnet",
            f"{option.replace('_', '-')}-resnet",
            target,
            run("torchvision/resnet"),
        )
    yield pair(
        "weights kept differently",
        "llama",
        "checkpointed",
        run("variant/checkpointed"),
        run("variant/checkpointed", checkpointed=False),
    )


def kernels() -> Iterator[Case]:
    """Attention by different functions."""
    for name in ("sdpa", "flex", "blocks", "torch"):
        case = pair(
            "attention kernels",
            "attention",
            f"attention-{name}",
            run(f"attention/{name}"),
            run("attention/plain"),
        )
        # On the CPU, torch has no backward pass of flex attention.
        yield replace(case, modes=(False,)) if name == "flex" else case


def training() -> Iterator[Case]:
    """The same step with other loops over parameters, and with values that are only printed."""
    adamw = {"lr": 1e-3, "weight_decay": 0.1}

    def trained(**settings: Any) -> Run:
        return run("train/gpt2", optimizer="adamw", settings={**adamw, **settings})

    loop = trained(foreach=False)
    yield pair("optimizers", "gpt2", "adamw-foreach", trained(foreach=True), loop)
    yield pair("optimizers", "gpt2", "adamw-fused", trained(fused=True), trained(foreach=True))
    yield pair("optimizers", "gpt2", "adamw-own", run("train/gpt2", optimizer="own", settings=adamw), loop)
    sgd = {"lr": 1e-2, "momentum": 0.9}
    yield pair(
        "optimizers",
        "gpt2",
        "sgd-foreach",
        run("train/gpt2", optimizer="sgd", settings={**sgd, "foreach": True}),
        run("train/gpt2", optimizer="sgd", settings={**sgd, "foreach": False}),
    )
    yield pair(
        "optimizers",
        "gpt2",
        "clip-own",
        run("train/gpt2", optimizer="sgd", settings=sgd, clip="own"),
        run("train/gpt2", optimizer="sgd", settings=sgd, clip="library"),
    )
    for logged in ("loss", "accuracy", "norm"):
        yield pair(
            "side branch", "gpt2", f"logged-{logged}", run("train/gpt2", logged=[logged]), run("train/gpt2")
        )


def healthy() -> Iterator[Case]:
    """All of them."""
    for some in (releases, attentions, handwritten, libraries, precisions, arrangements, kernels):
        yield from some()
    for case in training():
        # Without gradients there is no step.
        yield replace(case, modes=(True,))
