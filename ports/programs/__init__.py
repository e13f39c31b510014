"""The programs of the suite, by name: each is built with its weights and batch, ready to run.

Modules of programs are imported when one of their names is asked for: they need libraries that the
environment may not have.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ports.programs.program import Program

# The first part of a program's name, and the module that has it.
FAMILIES = {
    "hf": "library_models",
    "timm": "vision_libraries",
    "torchvision": "vision_libraries",
    "images": "image_networks",
    "recurrent": "recurrent_models",
    "denoiser": "denoising",
    "arranged": "arrangements",
    "loop": "training_scripts",
    "hand": "handwritten_models",
    "attention": "attention_blocks",
    "train": "training_loops",
    "variant": "variants",
}


def build(name: str, options: dict[str, Any]) -> Program:
    """The program of that name."""
    family, _, rest = name.partition("/")
    if family not in FAMILIES:
        raise ValueError(f"{name}: expected a program of {', '.join(FAMILIES)}")
    make: Callable[..., Program] = importlib.import_module(f"ports.programs.{FAMILIES[family]}").build
    return make(family, rest, **options)
