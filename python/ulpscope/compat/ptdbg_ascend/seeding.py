"""``seed_all``, and dropout with p = 0."""

from __future__ import annotations

from ulpscope._capture.noise import seed as _seed


def seed_all(seed: int = 1234, mode: bool = False) -> None:
    """Seeds Python, numpy and torch on all devices, and turns cuDNN off.

    ``mode=True`` also requests deterministic algorithms, which may be slower.
    """
    _seed.seed_all(seed, mode=mode)
    _seed.choose_cudnn_algorithms_deterministically()


def remove_dropout() -> None:
    """Sets p of all dropout functions and modules to 0."""
    _seed.remove_dropout_for_good()
