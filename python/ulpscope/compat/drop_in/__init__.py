"""``ulpscope run --drop-in``: a script written for an older tool runs unmodified, with our faces.

    import msprobe, ptdbg_ascend, torch_npu.hooks ──► faces.py ──► ulpscope.compat.…
    import torch_npu, torch.npu, .npu() ──► devices.py ──► the device that is there

Everything is installed for one run, and removed after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ulpscope.compat.drop_in.devices import NpuInPlace
from ulpscope.compat.drop_in.faces import FaceFinder


@contextmanager
def drop_in(force: bool) -> Iterator[None]:
    """Imports of the older tools resolve to our faces. ``force``: even if the real packages are installed."""
    faces = FaceFinder(force)
    npu = NpuInPlace(force, lambda: faces.use("torch_npu.hooks"))
    faces.install()
    npu.install()
    try:
        yield
    finally:
        npu.remove()
        faces.remove()
