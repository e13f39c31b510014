"""The face of ptdbg_ascend, whose import removes dropout: each test gets it, and leaves torch as it was."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

# The first import removes dropout from the whole process, which these tests share with others.
importlib.import_module("ulpscope.compat.ptdbg_ascend.seeding").remove_dropout().restore()


@pytest.fixture
def ptdbg(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """``ulpscope.compat.ptdbg_ascend`` as after its import."""
    flags = torch.backends.cudnn
    for name in ("enabled", "deterministic", "benchmark"):
        monkeypatch.setattr(flags, name, getattr(flags, name))
    monkeypatch.delenv("ASCEND_WORK_PATH", raising=False)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for name in ("CUBLAS_WORKSPACE_CONFIG", "HCCL_DETERMINISTIC"):
        # Set by seed_all(mode=True): the fixture puts back what was there.
        monkeypatch.setenv(name, os.environ.get(name, ""))
        if not os.environ[name]:
            monkeypatch.delenv(name)
    face = importlib.import_module("ulpscope.compat.ptdbg_ascend")
    dumping = importlib.import_module("ulpscope.compat.ptdbg_ascend.dumping")
    seeding = importlib.import_module("ulpscope.compat.ptdbg_ascend.seeding")
    removed = seeding.remove_dropout()
    monkeypatch.setattr(dumping, "functions", dumping.Functions())
    yield face
    if dumping.functions.overflows is not None:
        dumping.functions.overflows.close()
    dumping.functions.recording.close()
    if face.PrecisionDebugger._instance is not None:
        face.PrecisionDebugger._instance.close()
        face.PrecisionDebugger._instance = None
    if dumping.functions.acl is not None:
        dumping.functions.acl.end()
    removed.restore()
