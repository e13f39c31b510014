"""Checks of a running program that need no second run to compare with.

perturbation/  changes the inputs of calls by very little, and judges how their results respond
"""

from __future__ import annotations

from ulpscope.check.perturbation import perturb, significant_bits

__all__ = ["perturb", "significant_bits"]
