"""Checks of arguments that the functions of several older tools have in common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def check_registered(model: Any, keywords: Mapping[str, Any], known: Collection[str]) -> None:
    """Refuses what ``register_hook`` does not take as a model or a keyword."""
    if not hasattr(model, "named_modules"):
        raise TypeError(
            f"register_hook: model is a {type(model).__name__}; expected a torch.nn.Module. "
            "Please register hooks to nn.Module."
        )
    for key in keywords:
        if key not in known:
            raise TypeError(f"register_hook: {key!r} is unknown; known: {', '.join(known)}")
