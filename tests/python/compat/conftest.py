"""The face of ptdbg_ascend, whose import removes dropout: each test gets it, and leaves torch as it was."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch


@pytest.fixture
def ptdbg(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``ulpscope.compat.ptdbg_ascend`` as after its import."""
    flags = torch.backends.cudnn
    for name in ("enabled", "deterministic", "benchmark"):
        monkeypatch.setattr(flags, name, getattr(flags, name))
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    face = importlib.import_module("ulpscope.compat.ptdbg_ascend")
    dumping = importlib.import_module("ulpscope.compat.ptdbg_ascend.dumping")
    seed = importlib.import_module("ulpscope._capture.noise.seed")
    removed = seed.remove_dropout_for_good()
    monkeypatch.setattr(dumping, "functions", dumping._Functions())
    yield face
    if dumping.functions.overflows is not None:
        dumping.functions.overflows.pause()
    dumping.functions.recording.close()
    if face.PrecisionDebugger._instance is not None:
        face.PrecisionDebugger._instance.close()
        face.PrecisionDebugger._instance = None
    removed.restore()
