"""Small training programs, each with everything about it that a user could see.

A program is a function that gets `watch`, opens it around its steps, and returns what it made: losses,
gradients, parameters, outputs. Run once with capture and once without, the two must be the same bit by bit.
Each module here is one reason why they might not be.

    @program
    def something(watch):
        with watch(model) as run:
            ...
            run.step()
        return {"losses": losses, "parameters": parameters}
"""

from __future__ import annotations

import importlib
import random

import numpy as np
import torch

from capture_programs.observed import changed, differences, fingerprint
from capture_programs.registry import PROGRAMS, Observed, Watch, unwatched

__all__ = ["PROGRAMS", "Observed", "Watch", "changed", "differences", "fingerprint", "observe", "unwatched"]

for _subject in ("networks", "storage", "graph", "optimizers", "values", "control", "compiled"):
    importlib.import_module(f"capture_programs.{_subject}")


def observe(name: str, watch: Watch = unwatched) -> dict[str, object]:
    """Runs a program from a fixed start; what it returned, and how it left the random generators."""
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    seen = fingerprint(PROGRAMS[name](watch))
    seen["torch generator"] = fingerprint(torch.get_rng_state())
    seen["numpy generator"] = fingerprint(np.random.get_state()[1])
    seen["python generator"] = hash(random.getstate())
    seen["grad mode"] = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    return seen
