"""Capture: recording what each call of a PyTorch program takes and gives, without changing it.

    capture() ───────────┐
    PrecisionDebugger ───┼──► Settings ──► Run ──► dump
    ulpscope run ────────┘

This package decides what is recorded and when. Nothing of torch is imported before something is captured.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ulpscope._capture.debugger import PrecisionDebugger
from ulpscope._capture.seed import seed_all
from ulpscope._capture.settings import Settings, SettingsError

if TYPE_CHECKING:
    from ulpscope._capture.run import Run

__all__ = ["PrecisionDebugger", "SettingsError", "capture", "seed_all"]


def capture(
    dump_path: str | os.PathLike[str],
    model: Any = None,
    level: str = "L1",
    task: str = "statistics",
    **settings: Any,
) -> Run:
    """Records what runs inside the ``with`` statement, or between ``start()`` and ``close()`` of the result.

    >>> with ulpscope.capture("dumps/cpu", model=model, level="mix", task="tensor") as run:
    ...     for batch in loader:
    ...         loss = model(batch).loss
    ...         loss.backward()
    ...         optimizer.step()
    ...         run.step()

    ``level``: L0 modules, L1 API calls, mix both, L2 every aten operator, debug what ``run.save`` is given.
    ``task``: statistics, tensor (statistics and the tensors themselves), structure (names only).
    Further settings (step, rank, scope, list, data_mode, digest, max_bytes, …) are in docs/capture.md.
    """
    checked = Settings.from_keywords(dump_path, level=level, task=task, **settings)
    from ulpscope._capture.run import Run

    return Run(checked, model=model)
