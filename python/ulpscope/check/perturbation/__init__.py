"""Perturbation: finds fragile and wrong operators of a program without a reference.

    perturb(...) ────────────────┐
    PrecisionDebugger, ──────────┼──► PerturbSettings ──► PerturbRun ──► around every selected call:
    task free_benchmark ─────────┘    the call, the same call on changed inputs, a judgement

settings.py         the keys of config.json and of ``perturb``, and the rules between them
run.py              start, stop and step; what is installed meanwhile
perturber.py        which calls are perturbed
second_run.py       runs a call again without side effects
free_benchmark.py   msprobe's free benchmark: one change, a threshold per dtype, ``check`` or ``fix``
changes.py          its changes of the inputs, one function for each
thresholds.py       its comparison and thresholds; ``preheat.py`` learns others
backward.py         the backward stage
amplification.py    our own judgement: how much a call amplifies the rounding of its inputs
confirmation.py     what is wrong with a suspect, in float64
significance.py     how many bits of every result can be trusted
findings.py         the results in memory and in files
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ulpscope.check.perturbation.run import PerturbRun
    from ulpscope.check.perturbation.settings import FuzzStage, HandlerType, PertMode
    from ulpscope.check.perturbation.significance import SignificantBits


def perturb(
    dump_path: str | os.PathLike[str],
    model: Any = None,
    pert_mode: PertMode = "amplification",
    handler_type: HandlerType = "check",
    fuzz_stage: FuzzStage = "forward",
    **settings: Any,
) -> PerturbRun:
    """Runs every selected call a second time on inputs that differ very little, and judges the results.

    >>> with ulpscope.check.perturb("findings") as check:
    ...     for batch in loader:
    ...         model(batch).loss.backward()
    ...         check.step()
    >>> for finding in check.findings:
    ...     print(finding)

    The default ``pert_mode="amplification"`` names calls that lose more digits than their inputs explain,
    with the reason. The modes of msprobe's free benchmark (``improve_precision``, ``bit_noise``,
    ``add_noise``, ``change_value``, ``no_change``, ``to_cpu``) compare with a threshold for each dtype.
    ``handler_type="fix"`` continues with the result of the second run (``improve_precision``, ``to_cpu``).
    docs/free-benchmark.md lists the other settings: ``step``, ``rank``, ``list``, ``scope``, ``call``, …
    """
    from ulpscope.check.perturbation.settings import PerturbSettings

    if pert_mode == "to_cpu":
        settings.setdefault("fuzz_device", "cpu")
    checked = PerturbSettings.from_keywords(
        dump_path, pert_mode=pert_mode, handler_type=handler_type, fuzz_stage=fuzz_stage, **settings
    )
    from ulpscope.check.perturbation.run import PerturbRun

    return PerturbRun(checked, model)


def significant_bits(program: Callable[[], Any], samples: int = 4, seed: int = 0) -> SignificantBits:
    """Runs ``program`` several times with rounding noise, and counts the trustworthy bits of every result.

    >>> def program():
    ...     model.zero_grad()
    ...     model(batch).loss.backward()
    >>> report = ulpscope.check.significant_bits(program)
    >>> print(report)

    The program must compute the same each time; random numbers are repeated. With a backward pass in it, the
    report also ranks calls: where more precision helps the result most, and where less is safe.
    """
    from ulpscope.check.perturbation.significance import measure

    return measure(program, samples, seed)
