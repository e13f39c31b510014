"""Unseen healthy ports: two programs that compute the same in different ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ports.healthy import pair
from ports.runs import OLD, Case, run

# Architectures that both releases of transformers have, and those with an eager and a fused attention.
RELEASED = (
    "mixtral", "qwen2_moe", "persimmon", "biogpt", "gpt_bigcode", "xglm", "rwkv", "recurrent_gemma",
    "roformer", "esm", "fnet", "xlnet", "t5_gated", "marian", "mbart", "convnextv2", "swinv2", "mobilenet_v2",
    "regnet", "pvt_v2", "yolos", "siglip", "videomae", "ast", "hubert", "wavlm", "detr",
)  # fmt: skip
FUSED = (
    "mixtral", "phi3", "qwen3", "olmo2", "granite", "persimmon", "biogpt", "gpt_bigcode", "modernbert",
    "marian", "mbart", "siglip", "yolos", "hubert",
)  # fmt: skip
LOW = 0.1


def releases() -> Iterator[Case]:
    """The newest release against one of two years ago."""
    for name in RELEASED:
        yield pair("other release", name, f"release/{name}", run(f"hf/{name}"), run(f"hf/{name}", OLD))


def attentions() -> Iterator[Case]:
    """Fused attention against matrix products, experts one by one against grouped ones."""
    for name in FUSED:
        fused = run(f"hf/{name}", attention="sdpa")
        yield pair("eager and SDPA", name, f"sdpa/{name}", fused, run(f"hf/{name}"))
    for name in ("mixtral", "qwen2_moe"):
        looped = run(f"hf/{name}", experts="eager")
        yield pair("experts grouped and looped", name, f"experts-looped/{name}", looped, run(f"hf/{name}"))
    for name in ("biogpt", "siglip"):
        fused = run(f"hf/{name}", attention="sdpa")
        yield pair("SDPA of another release", name, f"sdpa-release/{name}", fused, run(f"hf/{name}", OLD))


def handwritten() -> Iterator[Case]:
    """Models of one file against the library's."""
    for name in ("mixtral", "mamba", "t5_gated", "clip"):
        yield pair("hand-written", name, f"hand-{name}", run(f"hand/{name}"), run(f"hf/{name}"))
    for name in ("lstm", "gru"):
        own, library = run(f"recurrent/{name}", by="hand"), run(f"recurrent/{name}")
        yield pair("hand-written", name, f"hand-{name}", own, library)
    for size in (16, 32):
        own, library = run(f"denoiser/{size}", plain_operations=True), run(f"denoiser/{size}")
        yield pair("hand-written", "denoiser", f"hand-denoiser-{size}", own, library)


def libraries() -> Iterator[Case]:
    """The same network in another library."""

    def network(kind: str, name: str, label: str, target: dict[str, Any], golden: dict[str, Any]) -> Case:
        return pair(kind, name, label, run(f"images/{name}", **target), run(f"images/{name}", **golden))

    for name in ("convnext", "densenet", "mobilenet_v2", "efficientnet", "swin", "vit"):
        yield network("other library", name, f"timm-torchvision-{name}", {"library": "timm"}, {})
    for name in ("densenet", "efficientnet"):
        label = f"timm-torchvision-{name}-train"
        yield network("other library", name, label, {"library": "timm", "train": True}, {"train": True})
    for name in ("swin", "vit"):
        label = f"timm-torchvision-{name}-fused"
        yield network("other library", name, label, {"library": "timm", "fused": True}, {})
    for name in ("timm", "torchvision"):
        golden = {"library": "transformers"}
        yield network("other library", "convnext", f"{name}-transformers-convnext", {"library": name}, golden)


def precisions() -> Iterator[Case]:
    """Low precision against float32, and another attention in the same low precision."""
    for name in ("phi3", "biogpt", "olmo2", "siglip", "convnextv2", "hubert"):
        low = run(f"hf/{name}", dtype="bfloat16")
        yield pair("low precision", name, f"bfloat16/{name}", low, run(f"hf/{name}"), LOW)
    for name in ("qwen3", "roformer", "t5_gated", "swinv2"):
        low = run(f"hf/{name}", autocast="bfloat16")
        yield pair("low precision", name, f"autocast/{name}", low, run(f"hf/{name}"), LOW)
    low, golden = run("denoiser/16", dtype="bfloat16"), run("denoiser/16")
    yield pair("low precision", "denoiser", "autocast/denoiser", low, golden, LOW)
    for name in ("qwen3", "granite"):
        low = run(f"hf/{name}", attention="sdpa", dtype="bfloat16")
        golden = run(f"hf/{name}", dtype="bfloat16")
        yield pair("low precision", name, f"bfloat16-sdpa/{name}", low, golden, LOW)
    double = run("hf/gemma2", dtype="float64")
    yield pair("double precision", "gemma2", "float64/gemma2", double, run("hf/gemma2"))


def arrangements() -> Iterator[Case]:
    """Inputs cut differently, weights kept differently."""
    cut = "inputs cut differently"
    for name, chunk in (("qwen3", 4), ("gemma2", 4), ("phi3", 1), ("gpt_bigcode", 2)):
        target = run("arranged/in-chunks", of=name, chunk=chunk)
        golden = run("arranged/in-chunks", of=name, cached=False)
        yield pair(cut, name, f"in-chunks-of-{chunk}/{name}", target, golden)
    for name in ("mixtral", "biogpt", "gpt_bigcode"):
        target = run("arranged/left-padded", of=name)
        yield pair(
            cut, name, f"left-padded/{name}", target, run("arranged/left-padded", of=name, padded=False)
        )
    # The library writes into its state, through which no gradient can flow.
    carried = run("arranged/state-carried")
    case = pair(cut, "rwkv", "state-carried", carried, run("arranged/state-carried", carried=False))
    yield replace(case, modes=(False,))
    for name in ("roformer", "esm"):
        target = run("arranged/sentence-vectors", of=name)
        golden = run("arranged/sentence-vectors", of=name, by_row=True)
        yield pair(cut, name, f"sentence-vectors/{name}", target, golden)
    for name in ("lstm", "gru"):
        target = run(f"recurrent/{name}", packed=True)
        yield pair(cut, name, f"packed-{name}", target, run(f"recurrent/{name}"))
    kept = "weights kept differently"
    unmerged = run("arranged/adapted", merged=False)
    yield pair(kept, "phi3", "adapters-merged", run("arranged/adapted"), unmerged)
    whole = run("arranged/over-devices", where="nowhere")
    for where in ("rows", "words"):
        yield pair(kept, "biogpt", f"over-devices-{where}", run("arranged/over-devices", where=where), whole)
    unfolded = run("arranged/norms-folded", folded=False)
    yield pair(kept, "qwen3", "norms-folded", run("arranged/norms-folded"), unfolded)
    resized = run("arranged/larger-images", resized=True)
    yield pair(kept, "dinov2", "positions-resized", resized, run("arranged/larger-images"))
    for program in ("images/efficientnet", "images/densenet", "denoiser/16"):
        name = program.partition("/")[2] if program.startswith("images") else "denoiser"
        yield pair(kept, name, f"channels-last-{name}", run(program, channels_last=True), run(program))


def training() -> Iterator[Case]:
    """Three steps with other loops over parameters."""

    def script(name: str, label: str, target: dict[str, Any], golden: dict[str, Any]) -> Case:
        case = pair("optimizers", name, label, run(f"loop/{name}", **target), run(f"loop/{name}", **golden))
        return replace(case, modes=(True,))

    yield script("qwen3", "steps-own-adamw", {"optimizer": "own-adamw"}, {})
    yield script("mamba", "steps-own-nesterov", {"optimizer": "own-nesterov"}, {"optimizer": "nesterov"})
    sgd = {"optimizer": "sgd"}
    for name, setting in (("phi3", "clip"), ("gpt_bigcode", "schedule"), ("xglm", "average")):
        label = f"steps-own-{setting}"
        yield script(name, label, {**sgd, setting: "own"}, {**sgd, setting: "library"})
    yield script("olmo2", "steps-scaled-loss", {**sgd, "scale": 1024.0}, sgd)
    yield replace(
        script("mamba", "steps-in-pieces", {**sgd, "pieces": 2}, sgd), kind="inputs cut differently"
    )


def healthy() -> Iterator[Case]:
    """All of them."""
    parts = (releases, attentions, handwritten, libraries, precisions, arrangements, training)
    for part in parts:
        yield from part()
