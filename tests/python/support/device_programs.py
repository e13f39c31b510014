"""Runs programs with the device that is written in Python (``capture/standin_device.py``)."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

needs_python_devices = pytest.mark.skipif(
    not hasattr(getattr(torch._C, "_acc", None), "create_empty_tensor"),
    reason="this release of torch has no devices written in Python",
)

_DEVICE = Path(__file__).parents[1] / "capture"


def on_device(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in a process of its own; it has the device, and the folder as ``folder``."""
    head = f"import os, sys, time; sys.path.insert(0, {str(_DEVICE)!r}); folder = {str(folder)!r}\n"
    head += "import torch, ulpscope, standin_device; from standin_device import to_device, catch_up\n"
    command = [sys.executable, "-c", head + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
