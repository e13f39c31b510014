"""Which process of a distributed job this is."""

from __future__ import annotations

import os

import torch

# Set by torchrun, Slurm and MPI, in the order of trust.
_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


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
    """The folder of a rank: ``rank0``, or ``rank`` for a process on its own."""
    return "rank" if rank is None else f"rank{rank}"
