"""Healthy ports: two programs that compute the same in different ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ports.programs.architectures import ARCHITECTURES
from ports.runs import OLD, Case, Run, run

# Architectures whose library code has both an eager and a fused attention.
FUSED = (
    "llama", "mistral", "qwen2", "gemma", "phi", "stablelm", "starcoder2", "gpt2", "gpt_neox", "opt", "falcon",
    "bert", "roberta", "electra", "albert", "distilbert", "bart", "vit", "deit", "beit", "dinov2", "clip",
    "wav2vec2", "whisper",
)  # fmt: skip


def pair(kind: str, architecture: str, name: str, target: Run, golden: Run) -> Case:
    """A healthy port."""
    return Case(f"healthy/{name}", "healthy", kind, architecture, target, golden)


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


def healthy() -> Iterator[Case]:
    """All of them."""
    yield from releases()
    yield from attentions()
    yield from handwritten()
