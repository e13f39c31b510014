"""Replay: the calls of a dump, made again and judged.

    dump ──► dump_calls ──► replay: arguments, execution ──► judged in Rust ──► results, repro

`functions` has the closed table of what may be called. torch is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ulpscope._check.results import CheckResult

_Numbers = int | str | Iterable[int | str]


def check(
    dump: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    step: _Numbers | None = None,
    rank: _Numbers | None = None,
    white_list: Iterable[str] = (),
    black_list: Iterable[str] = (),
    device: str | None = None,
    standard: Literal["native", "msprobe"] = "native",
    seed: int = 1234,
    jobs: int = 1,
    resume: bool = False,
    repro: bool = True,
) -> CheckResult:
    """Makes every API call of a dump again, alone, and judges its result against the same call in float64.

    Judged are the recorded results and gradients, and with ``device`` ("cuda", "npu", "cpu") what that
    device computes from the recorded inputs. A dump without elements is replayed with inputs drawn from its
    statistics (``seed``); then the results of ``device``, by default the CPU, are judged. ``standard``:
    "native" asks whether an error is larger than rounding explains, "msprobe" applies that tool's standard
    for each API.
    ``white_list`` and ``black_list`` select by names such as "linear" or "Functional.linear".

    ``output`` is the folder for ``accuracy_checking_result_{timestamp}.csv`` and
    ``accuracy_checking_details_{timestamp}.csv``; with ``repro``, each failing call gets a script there.
    ``jobs`` is the number of processes. ``resume`` continues an interrupted check with the same folder.
    Needs torch.
    """
    from ulpscope._check import jobs as checking
    from ulpscope._check.replay import Settings

    if standard not in ("native", "msprobe"):
        raise ValueError(f'standard is {standard!r}; expected "native" or "msprobe"')
    if jobs < 1:
        raise ValueError(f"jobs is {jobs}; expected a number from 1 up")
    request = checking.Request(
        Path(dump),
        step,
        rank,
        tuple(white_list),
        tuple(black_list),
        Settings(device, standard, seed),
        None if output is None else Path(output),
        repro,
    )
    return checking.run(request, jobs, resume, lambda done, of, call: None)
