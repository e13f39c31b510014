"""The definitions of docs/metrics.md, written down once more in plain numpy float64.

Slow and obvious on purpose: this is what the kernels are held against.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Smallest normal magnitude of each dtype; integers, bool and e8m0 have no subnormals.
MIN_NORMAL = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float8_e4m3fn": 2.0**-6,
    "float8_e5m2": 2.0**-14,
    "float8_e4m3fnuz": 2.0**-7,
    "float8_e5m2fnuz": 2.0**-15,
    "complex64": 2.0**-126,
    "complex128": 2.0**-1022,
}


def widen(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """Flat float64 values; complex tensors stay complex, in double precision."""
    if x.is_complex():
        return x.to(torch.complex128).flatten().numpy()
    return x.to(torch.float64).flatten().numpy()


def dtype_name(x: torch.Tensor) -> str:
    return str(x.dtype).removeprefix("torch.")


def modulus(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if not np.iscomplexobj(values):
        return values
    size = np.abs(values)
    size[np.isnan(values.real) | np.isnan(values.imag)] = np.nan
    return size


def stats(x: torch.Tensor) -> dict[str, Any]:
    values = modulus(widen(x))
    finite = values[np.isfinite(values)]
    small = np.abs(finite) < MIN_NORMAL.get(dtype_name(x), 0.0)
    with np.errstate(all="ignore"):
        return {
            "shape": tuple(x.shape),
            "dtype": dtype_name(x),
            "max": values.max() if values.size else None,
            "min": values.min() if values.size else None,
            "mean": values.mean() if values.size else None,
            "norm": np.sqrt(np.sum(values * values)),
            "nan": int(np.isnan(values).sum()),
            "pos_inf": int(np.isposinf(values).sum()),
            "neg_inf": int(np.isneginf(values).sum()),
            "zeros": int((values == 0).sum()),
            "subnormals": int((small & (finite != 0)).sum()),
            "finite_max": finite.max() if finite.size else None,
            "finite_min": finite.min() if finite.size else None,
        }


@dataclass
class Pairs:
    """Two flat arrays, and which of their pairs are finite, equal or mismatched."""

    target: np.ndarray[Any, Any]
    golden: np.ndarray[Any, Any]

    def __post_init__(self) -> None:
        self.finite = np.isfinite(self.target) & np.isfinite(self.golden)
        both_nan = np.isnan(self.target) & np.isnan(self.golden)
        self.mismatched = ~self.finite & ~both_nan & ~(self.target == self.golden)


def diff(target: torch.Tensor, golden: torch.Tensor, atol: float, rtol: float) -> dict[str, Any]:
    pairs = Pairs(widen(target), widen(golden))
    count = pairs.target.size
    t, g = pairs.target[pairs.finite], pairs.golden[pairs.finite]
    error, size = np.abs(t - g), np.abs(g)
    has_rel = size > 0
    rel = np.divide(error, size, out=np.zeros_like(error), where=has_rel)
    no_rel = ~has_rel & (error > 0)
    agreeing = int((~pairs.finite & ~pairs.mismatched).sum())
    mismatched = int(pairs.mismatched.sum())
    euclid = float(np.sqrt(np.sum(error * error)))
    golden_norm = float(np.sqrt(np.sum(size * size)))
    norms = float(np.sqrt(np.sum(np.abs(t) ** 2))) * golden_norm
    if t.size == 0:
        cosine = None
    elif norms == 0:
        cosine = 1.0 if euclid == 0 else None
    else:
        cosine = float(np.sum(t * np.conj(g)).real) / norms

    def share(limit: float) -> float:
        under = (error < limit * size) | (error == 0)
        return (int(under.sum()) + agreeing) / count if count else 1.0

    defined = t.size - int(no_rel.sum())
    undefined_everywhere = t.size > 0 and defined == 0
    mean_rel = float("inf") if undefined_everywhere else (float(rel.sum()) / defined if defined else 0.0)
    mean = (lambda values: float(values.sum()) / t.size) if t.size else (lambda values: 0.0)
    worst = None
    if mismatched:
        worst = int(np.argmax(pairs.mismatched))
    elif t.size and error.max() > 0:
        worst = int(np.flatnonzero(pairs.finite)[np.argmax(error)])
    return {
        "count": count,
        "finite": int(pairs.finite.sum()),
        "cosine": cosine,
        "euclid": euclid,
        "rel_l2": 0.0 if euclid == 0 else (euclid / golden_norm if golden_norm else float("inf")),
        "rmse": float(np.sqrt(mean(error * error))),
        "max_abs": float(error.max()) if t.size else 0.0,
        "mean_abs": mean(error),
        "max_rel": float("inf") if undefined_everywhere else (float(rel.max()) if t.size else 0.0),
        "mean_rel": mean_rel,
        "mape": 100 * mean_rel,
        "accumulated_rel": float("inf") if undefined_everywhere else float(rel.sum()),
        "under_1e3": share(0.001),
        "under_5e3": share(0.005),
        "zero_golden": int(no_rel.sum()),
        "non_finite_mismatched": mismatched,
        "over_tolerance": int((error > atol + rtol * size).sum()) + mismatched,
        "worst_index": worst,
    }


def ulp_keys(x: torch.Tensor) -> list[int]:
    """The place of every element among the values of its dtype; both zeros have the same."""
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    width = 8 * x.element_size()
    raw = [value % (1 << width) for value in x.contiguous().view(bits).flatten().tolist()]
    magnitude = (1 << (width - 1)) - 1
    return [-(code & magnitude) if code >> (width - 1) else code for code in raw]
