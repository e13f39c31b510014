"""Which process of a distributed job this is."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch

from ulpscope._capture.patches import Patches

# Set by torchrun, Slurm and MPI, in the order of trust.
_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

# Set for processes that are to meet, by whoever starts them.
_MEETING = ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")


def current_rank() -> int | None:
    """The rank by the process group, else by the environment; nothing for a process on its own."""
    dist = torch.distributed
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    for variable in _VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdecimal():
            return int(value)
    return None


def folder_name(rank: int | None) -> str:
    """The folder of a rank: ``rank0``; ``rank`` for a process on its own.

    One of several that has no rank yet is told from the others by its process id: ``proc1234``.
    """
    if rank is not None:
        return f"rank{rank}"
    return f"proc{os.getpid()}" if _has_company() else "rank"


def _has_company() -> bool:
    """Whether there are signs that this process is one of several that will form a group."""
    if not torch.distributed.is_available():
        return False
    size = os.environ.get("WORLD_SIZE", "")
    if size.isdecimal():
        return int(size) > 1
    # Processes started by torch.multiprocessing learn their rank as an argument.
    return any(os.environ.get(name) for name in _MEETING) or multiprocessing.parent_process() is not None


def add_process_group(
    patches: Patches, suspended: Callable[[], AbstractContextManager[None]], then: Callable[[], None]
) -> None:
    """Has ``then`` called when the process joins a group: only now has it a rank."""
    dist = torch.distributed
    if not dist.is_available():
        return
    original = dist.init_process_group

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        # What torch does to join is nothing of the program's, and would be recorded under no rank.
        with suspended():
            result = original(*args, **kwargs)
        then()
        return result

    patches.add_everywhere([(original, init_process_group)])
