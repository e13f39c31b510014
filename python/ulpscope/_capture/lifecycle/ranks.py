"""Which process of a distributed job this is."""

from __future__ import annotations

import functools
import multiprocessing
import os
import sys
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.switch import Switch

# Set by torchrun, Slurm and MPI; the most reliable first. Each with the variable for the number of ranks.
_VARIABLES = {
    "RANK": "WORLD_SIZE",
    "SLURM_PROCID": "SLURM_NTASKS",
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK": "PMI_SIZE",
}

# Set by launchers for processes that will form a group.
_MEETING = ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")


def current_rank() -> int | None:
    """The rank from the process group, else from the environment; None for a single process."""
    dist = _distributed()
    if dist is not None and dist.is_initialized():
        return int(dist.get_rank())
    for variable in _VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdecimal():
            return int(value)
    return None


def folder_name(rank: int | None) -> str:
    """The folder of a rank: ``rank0``; ``rank`` for a single process.

    A process of several that has no rank yet is named by its process id: ``proc1234``.
    """
    if rank is not None:
        return f"rank{rank}"
    return f"proc{os.getpid()}" if _has_company() else "rank"


def may_be_one_of(wanted: Collection[int]) -> bool:
    """Whether this process has one of the ranks, or may still get it. A process on its own has rank 0."""
    known = current_rank()
    if known is None:
        return 0 in wanted or folder_name(None) != "rank"
    return known in wanted


def is_one_of_several() -> bool:
    """Whether this process is, or seems to become, one of several ranks."""
    dist = _distributed()
    if dist is not None and dist.is_initialized():
        return bool(dist.get_world_size() > 1)
    for variable, count in _VARIABLES.items():
        rank, size = os.environ.get(variable, ""), os.environ.get(count, "")
        if rank.isdecimal():
            return int(rank) > 0 or (size.isdecimal() and int(size) > 1)
    return _has_company()


def _distributed() -> Any:
    """``torch.distributed``, if torch has it; None before torch is imported."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() else None


def _has_company() -> bool:
    """Whether this process seems to be one of several that will form a group."""
    if "torch" in sys.modules and _distributed() is None:
        return False
    size = os.environ.get("WORLD_SIZE", "")
    if size.isdecimal():
        return int(size) > 1
    # Processes started by torch.multiprocessing get their rank as an argument.
    return any(os.environ.get(name) for name in _MEETING) or multiprocessing.parent_process() is not None


def add_process_group(
    patches: Patches,
    switch: Switch,
    suspended: Callable[[], AbstractContextManager[None]],
    then: Callable[[], None],
) -> None:
    """Calls ``then`` when the process joins a group: only then does it have a rank."""
    dist = _distributed()
    if dist is None:
        return
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        if not switch.is_on():
            return original(*args, **kwargs)
        # Torch's own calls while joining are not the program's, and would be recorded without a rank.
        with suspended():
            result = original(*args, **kwargs)
        then()
        return result

    patches.add_everywhere([(original, init_process_group)])
