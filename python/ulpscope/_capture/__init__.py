"""Capture: records the inputs and outputs of each call of a PyTorch program, without changing them.

    capture() ───────────┐
    PrecisionDebugger ───┼──► Settings ──► Run ──► dump
    ulpscope run ────────┘

This package decides what is recorded and when. torch is imported only when a capture starts.

settings/     the settings, checked once: keywords, config.json
launch/       ulpscope run: its command line, and how the program is run
lifecycle/    start, stop, steps, ranks, folders; what is installed while recording
calls/        functions, operators, wrappers, stacks: which calls are recorded, under which name
modules/      the modules of a model, their names, the gradients of their parameters
collectives/  messages between processes
values/       how arguments, results and tensors are described
regions/      compiled code and tracers, which run without capture
noise/        seed_all removes randomness, jitter measures rounding noise
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ulpscope._capture.noise.seed import seed_all
from ulpscope._capture.settings import Settings, SettingsError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ulpscope._capture.lifecycle.capture import Capture
    from ulpscope._capture.settings.keywords import CaptureKeywords
    from ulpscope._capture.settings.settings import Level, Task

__all__ = ["SettingsError", "capture", "seed_all"]


def capture(
    dump_path: str | os.PathLike[str],
    model: Any = None,
    level: Level = "L1",
    task: Task = "statistics",
    *,
    estimate: bool = False,
    **settings: Unpack[CaptureKeywords],
) -> Capture:
    """Records what runs inside the ``with`` statement, or between ``start()`` and ``close()`` of the result.

    >>> with ulpscope.capture("dumps/cpu", model=model, level="mix", task="tensor") as run:
    ...     for batch in loader:
    ...         loss = model(batch).loss
    ...         loss.backward()
    ...         optimizer.step()
    ...         run.step()

    ``level``: L0 modules, L1 API calls, mix both, L2 every aten operator, debug only values of ``run.save``.
    ``task``: statistics, tensor (statistics and the tensors themselves), structure (names only), or
    overflow_check (only calls where NaN or infinity begins; see docs/overflow.md).
    ``estimate``: write nothing to ``dump_path``; measure one step and report its size in ``run.estimate``.
    docs/capture.md lists the other settings (step, rank, module, call, scope, list, data_mode, digest,
    max_bytes, …). An invalid setting raises ``SettingsError``.
    """
    checked = Settings.from_keywords(dump_path, level=level, task=task, **settings)
    from ulpscope._capture.lifecycle.capture import Capture

    return Capture(checked, model, estimate)
