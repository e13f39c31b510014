"""The log lines of the free benchmark, letter by letter as its guide has them."""

from __future__ import annotations

import logging

_log = logging.getLogger("ulpscope.check")


def perturbed(mode: str, name: str) -> None:
    """A call was run again on changed inputs."""
    _log.info("[msprobe] Free Benchmark: Perturbation is %s of %s.", mode, name)


def cancelled(name: str, reason: object) -> None:
    """A call is in the range, but its inputs cannot be changed."""
    _log.info("[msprobe] Free Benchmark: For %s,%s. Cancel perturbation.", name, reason)


def no_input(name: str) -> None:
    """A call is in the range, but has no input to change."""
    _log.warning("[msprobe] Free benchmark: 无标杆工具不支持当前算子的输入类型 %s.", name)


def sampled(step: int, name: str, number: int, total: int) -> None:
    """A call is a sample of preheat."""
    _log.info(
        "[msprobe] Free benchmark: preheat sample in step %d api_name %s curr_called_seq: %d/%d",
        step,
        name,
        number,
        total,
    )


def failed(name: str, error: BaseException) -> None:
    """The second run raised, or we did: the program is not affected."""
    text = " ".join(str(error).split())[:300]
    _log.warning(
        "[msprobe] Free benchmark: For %s,the second run raised %s: %s. Cancel perturbation.",
        name,
        type(error).__name__,
        text,
    )


def kept(step: int, size: int, calls: int) -> None:
    """The memory that the backward stage has used in a step."""
    _log.info(
        "[msprobe] Free benchmark: step %d kept the inputs of up to %d calls for the backward stage: %.1f MB",
        step,
        calls,
        size / 1e6,
    )
