"""What functions of torch are called, and which are none of a dump's business."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from ulpscope._capture.calls.functions import _PASS, Functions, _known


def test_what_is_passed_over_exists() -> None:
    """A name that torch does not have hides a spelling mistake, or a function that is gone."""
    names = {name for _, name, _ in _known()}
    assert (
        sorted(name for name in _PASS - names if not hasattr(torch, name) and not hasattr(torch.Tensor, name))
        == []
    )


def test_a_function_that_is_gone_leaves_its_name_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def temporary(x: Any) -> Any:
        return x

    monkeypatch.setattr(torch, "temporary", temporary, raising=False)
    functions = Functions()
    monkeypatch.undo()
    alive = weakref.ref(temporary)
    del temporary
    gc.collect()
    # As long as it is there, no other function can have its id.
    assert alive() is not None
    assert functions.describe(alive())[:3] == ("record", "Torch", "temporary")
