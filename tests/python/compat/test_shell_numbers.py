"""The numbers of cp against NumPy: every dtype, different shapes, NaN and infinities."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

CASES: dict[str, tuple[np.ndarray, np.ndarray]] = {}


def case(name: str, left: np.ndarray, right: np.ndarray) -> None:
    CASES[name] = (left, right)


rng = np.random.default_rng(7)
values = rng.normal(size=(5, 40))
noise = values + rng.normal(scale=2e-3, size=values.shape)
for dtype in ("f2", "f4", "f8"):
    case(f"float_{dtype}", values.astype(dtype), noise.astype(dtype))
case("mixed", values.astype("f4"), noise.astype("f8").T.copy())
case("fortran", np.asfortranarray(values), noise)
case("integers", rng.integers(-5, 5, 100), rng.integers(-5, 5, 100))
case("beyond_float32", np.array([2**24 + 1, 3]), np.array([2**24, 3]))
case("booleans", rng.random(64) > 0.5, rng.random(64) > 0.5)
case("shorter", values.ravel()[:30].astype("f4"), values.ravel()[:50].astype("f4"))
case("equal", values, values)
case("one_nan", np.array([1, np.nan, 3, 4.0]), np.array([1, 2, 3, 4.0]))
case("same_nan", np.array([1, np.nan]), np.array([1, np.nan]))
case("infinite", np.array([np.inf, -np.inf, 1]), np.array([np.inf, np.inf, 1]))
case("same_infinity", np.array([np.inf, 1]), np.array([np.inf, 1]))
case("zero", np.zeros(4, "f4"), np.ones(4, "f4"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What one session says about all cases."""
    folder = tmp_path_factory.mktemp("numbers")
    for name, (left, right) in CASES.items():
        np.save(folder / f"{name}_l.npy", left)
        np.save(folder / f"{name}_r.npy", right)
    lines = "".join(f"cp {name}_l.npy {name}_r.npy -p 4\n" for name in CASES)
    ended = subprocess.run(
        [sys.executable, "-m", "ulpscope", "shell"], cwd=folder, input=lines, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    panels = ended.stdout.split("Error Item Table")[1:]
    assert len(panels) == len(CASES)
    found = [dict(re.findall(r"(NumCnt|AllClose|CosSim|ErrorPer): +(\S+)", panel)) for panel in panels]
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str, answers: dict[str, dict[str, str]]) -> None:
    left, right = (side.ravel().astype("f8") for side in CASES[name])
    count = max(left.size, right.size)
    left, right = (np.pad(side, (0, count - side.size)) for side in (left, right))
    answer = answers[name]
    assert int(answer["NumCnt"]) == count
    assert answer["AllClose"] == str(np.allclose(left, right, atol=1e-3, rtol=1e-3))
    with np.errstate(invalid="ignore", divide="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        fails = ~same & ~(np.abs(left - right) <= 1e-3 + 1e-3 * np.abs(right))
        fails |= ~same & ~(np.isfinite(left) & np.isfinite(right))
        cosine = left @ right / (np.linalg.norm(left) * np.linalg.norm(right))
    assert float(answer["ErrorPer"]) == fails.mean()
    assert float(answer["CosSim"]) == pytest.approx(cosine, rel=1e-6, nan_ok=True)
