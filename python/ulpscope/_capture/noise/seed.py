"""Makes two runs comparable: the same random numbers, deterministic kernels, no dropout.

Dropout is removed in ``torch._VF``, which all of its modules and functions call. ``F.dropout`` itself stays
the same object, so this also works for modules that imported it earlier, and its calls are recorded under
the same name. A probability of zero returns the input as it is, and draws no random number.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

# numpy's limit; torch takes more.
MAX_SEED = 2**32 - 1

_DROPOUTS = tuple(
    f"{name}{suffix}"
    for name in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for suffix in ("", "_")
)
# Either makes cuBLAS deterministic.
_CUBLAS_WORKSPACES = (":4096:8", ":16:8")


class _Dropout:
    """Whether dropout is removed from torch; one for the process, like torch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._removed = False
        # Captures that have started and not stopped.
        self._recording: weakref.WeakSet[Any] = weakref.WeakSet()
        self.unwanted = False
        # Whether it stays removed while nothing is recorded.
        self.stays_out = False

    def begin(self, capture: Any) -> None:
        with self._lock:
            self._recording.add(capture)
        if self.unwanted:
            self.take_out()

    def end(self, capture: Any) -> None:
        with self._lock:
            if capture not in self._recording:
                return
            self._recording.discard(capture)
            is_last = not self._recording
        if is_last and not self.stays_out:
            self.put_back()

    def take_out(self) -> None:
        import torch

        with self._lock:
            if not self._removed:
                for name in _DROPOUTS:
                    setattr(torch._VF, name, _without_effect(getattr(torch._VF, name)))
                self._removed = True

    def put_back(self) -> None:
        with self._lock:
            if self._removed:
                import torch

                # torch._VF looks up its functions on access; ours were only set in front of them.
                for name in _DROPOUTS:
                    delattr(torch._VF, name)
                self._removed = False


def _without_effect(dropout: Callable[..., Any]) -> Callable[..., Any]:
    def no_dropout(input: Any, p: float, train: bool) -> Any:
        return dropout(input, 0.0, train)

    return no_dropout


_dropout = _Dropout()


class Seeded:
    """Undoes the change of ``seed_all`` that can be undone: dropout. Also a context manager."""

    def restore(self) -> None:
        """Enables dropout again, for good. Does nothing if it is enabled."""
        _dropout.unwanted = _dropout.stays_out = False
        _dropout.put_back()

    def __enter__(self) -> Seeded:
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False) -> Seeded:
    """Seeds every source of random numbers: Python, numpy if imported, torch on all devices.

    ``mode=True`` also requests deterministic kernels: torch raises for an operator that has none, and cuDNN
    is off. Call it before the first operator on a device, and before processes are started.

    ``rm_dropout=True`` makes ``nn.Dropout*`` and ``F.*dropout*`` return their input. Dropout works again
    while capture is stopped, and for good after ``restore()`` of the returned object. Dropout inside one
    kernel (attention, LSTM and GRU) is an argument of that kernel, and stays.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed is {seed!r}; expected a number from 0 to {MAX_SEED}")
    for name, value in (("mode", mode), ("rm_dropout", rm_dropout)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}; expected True or False")
    import torch

    random.seed(seed)
    # For processes started from here; hashing is already seeded in this one.
    os.environ["PYTHONHASHSEED"] = str(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)
    torch.manual_seed(seed)
    if mode:
        _be_deterministic()
    if rm_dropout:
        _dropout.unwanted = True
        _dropout.take_out()
    return Seeded()


def _be_deterministic() -> None:
    import torch

    if os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in _CUBLAS_WORKSPACES:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = _CUBLAS_WORKSPACES[0]
    os.environ["HCCL_DETERMINISTIC"] = "True"
    torch.use_deterministic_algorithms(True)
    choose_cudnn_algorithms_deterministically()


def remove_dropout_for_good() -> Seeded:
    """Removes dropout until ``restore()`` of the returned object, whether or not anything is recorded."""
    _dropout.unwanted = _dropout.stays_out = True
    _dropout.take_out()
    return Seeded()


def choose_cudnn_algorithms_deterministically() -> None:
    """Turns cuDNN off, and its search for the fastest algorithm."""
    import torch

    torch.backends.cudnn.enabled = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def remove_dropout(capture: Any) -> None:
    """Removes dropout when a capture starts, if ``seed_all`` was asked to."""
    _dropout.begin(capture)


def restore_dropout(capture: Any) -> None:
    """Restores the script's dropout after the last capture has stopped.

    A later start removes it again.
    """
    _dropout.end(capture)
