"""What is wrong with a suspected call: it is run in float64, where rounding is out of the way.

f       the call as the program made it             y
f_hi    the same function in float64                y_hi = f_hi(x)
noise   one rounding of the inputs, in float64      d1 = |f_hi(x + noise) - y_hi|,  d64 with 64 x noise

not repeatable      f(x) again differs from y
non-finite          y has NaN or infinities, and x has none
loses bits          |y - y_hi| is far above what the inputs' own rounding explains: d1 + one unit of y
rounds inside       d64 is not 64 x d1: something inside rounds more coarsely than the inputs
ill-conditioned     d1 exceeds half of the significand: no operator could do better on these inputs
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ulpscope._perturbation import changes
from ulpscope._perturbation.arguments import float_outputs, mapped, tensors_in
from ulpscope._perturbation.noise import Noise
from ulpscope._perturbation.second_run import LOW_PRECISION, Given

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]

# A smooth function moves 64 times as far under 64 times the noise; one that rounds inside 8 times as far.
_TIMES = 64
_NOT_SMOOTH = 24

# Noise this large is still small after multiplication by that.
_SMALL = 2.0**-16

# Runs of a call whose result is wrong, to tell a race from a formula.
_REPEATS = 4

# Own errors, as a multiple of what is explained. Kernels sum low precision in float32, so that their error is
# that of one rounding; float32 itself is summed in blocks, with an error of a few roundings.
_FAR = {True: 2.5, False: 8.0}

# An output of few elements may be close to zero by chance.
_FEW = 16

# Functions that are steps or saws by definition: an element at an edge changes by a whole step.
STEPS = frozenset(
    """
    round round_ floor floor_ ceil ceil_ trunc trunc_ fix frac frac_ sign sign_ sgn heaviside fmod fmod_
    remainder remainder_ __mod__ __imod__ floor_divide __floordiv__ fake_quantize_per_tensor_affine
    fake_quantize_per_channel_affine quantize_per_tensor one_hot histc
    """.split()
)


class Verdict(NamedTuple):
    """What is wrong with an output of a call."""

    place: int | None
    """The position of the output in a list or tuple."""
    output: torch.Tensor
    size: float
    """The relative size of the error that the cause is about."""
    cause: str
    is_conditioning: bool = False
    """Whether the inputs are the cause, and any operator would do as badly."""


def verdicts(call_name: str, given: Given, result: Any, raised: Run | None, noise: Noise) -> list[Verdict]:
    """What is wrong with each output of a call; an output without a fault has none.

    ``raised`` runs the call in higher precision. Raises what a second run raises.
    """
    outputs = float_outputs(result)
    found = _not_repeatable(outputs, given)
    # Other random numbers are drawn for another dtype.
    if found or raised is None or given.random.are_used():
        return found
    inputs = [one for one in tensors_in((given.args, given.kwargs)) if one.is_floating_point()]
    # A mask of -inf is no fault, and neither is passing a NaN on.
    if not all(bool(one.isfinite().all()) for one in inputs) or not _has_finite_scalars(given):
        return []
    eps = max((torch.finfo(one.dtype).eps for one in inputs), default=0.0)
    wide = _Wide(given, raised, noise, eps)
    is_step = call_name.rsplit(".", 2)[0].rpartition(".")[2] in STEPS
    for place, (index, output) in enumerate(outputs):
        found += _of_output(index, output, wide, place, is_step)
    if found:
        for _ in range(_REPEATS - 1):
            if racing := _not_repeatable(outputs, given):
                return racing
    return found


def _has_finite_scalars(given: Given) -> bool:
    scalars = [one for one in (*given.args, *given.kwargs.values()) if isinstance(one, float)]
    return all(map(math.isfinite, scalars))


class _Wide:
    """The runs in float64."""

    def __init__(self, given: Given, raised: Run, noise: Noise, eps: float) -> None:
        self._raised = raised
        self._given = given
        self._noise = noise
        self.eps = eps
        self.plain = self._outputs(0.0)
        self._moved: dict[float, list[torch.Tensor]] = {}

    def moved(self, share: float, place: int) -> float:
        """How far noise of one rounding moves an output."""
        if share not in self._moved:
            self._moved[share] = self._outputs(self.eps / 2 * share)
        return _norm(self._moved[share][place] - self.plain[place])

    def _outputs(self, size: float) -> list[torch.Tensor]:
        positions = itertools.count()

        def widened(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point():
                return tensor
            wide = tensor.detach().double()
            return self._noise.around(wide, next(positions), size) if size else wide

        args, kwargs = mapped((self._given.args, self._given.kwargs), widened)
        return [one.detach().double() for _, one in float_outputs(self._raised(args, kwargs))]


def _not_repeatable(outputs: list[tuple[int | None, torch.Tensor]], given: Given) -> list[Verdict]:
    again = float_outputs(given.run(given.args, given.kwargs))
    found = []
    for (index, output), (_, other) in zip(outputs, again, strict=True):
        first, second = output.detach().double().cpu(), other.detach().double().cpu()
        if difference := _difference(first, second):
            size, words = difference
            text = f"not repeatable: two runs on the same inputs {words}"
            found.append(Verdict(index, output, size, text))
    return found


def _difference(first: torch.Tensor, second: torch.Tensor) -> tuple[float, str] | None:
    """How two results differ: the size relative to the first, and in words. Two NaN are alike."""
    if first.shape != second.shape:
        return math.inf, f"have the shapes {list(first.shape)} and {list(second.shape)}"
    same = (first == second) | (first.isnan() & second.isnan())
    if bool(same.all()):
        return None
    scale = _norm(first.masked_fill(~first.isfinite(), 0.0)) or 1.0
    size = _norm((second - first).masked_fill(same, 0.0)) / scale
    if not math.isfinite(size):
        return math.inf, "differ in what is NaN or infinite"
    return size, f"differ by {size:.1e} of the output"


def _of_output(
    index: int | None, output: torch.Tensor, wide: _Wide, place: int, is_step: bool
) -> list[Verdict]:
    if place >= len(wide.plain) or wide.plain[place].shape != output.shape:
        return []
    reference = wide.plain[place]
    own = output.detach().to(reference.device).double()
    if not bool(own.isfinite().all()):
        return [_non_finite(index, output, own, reference)]
    scale = _norm(reference)
    if scale == 0 or not math.isfinite(scale):
        return []
    unit = torch.finfo(output.dtype).eps
    error, moved = _norm(own - reference) / scale, wide.moved(1.0, place) / scale
    explained = moved + unit
    if error > _FAR[output.dtype in LOW_PRECISION] * explained:
        text = (
            f"loses bits: the result differs from float64 by {error:.1e}, which is {error / explained:.0f} x "
            f"what the rounding of its inputs and output explains ({explained:.1e})"
        )
        return [Verdict(index, output, error, text)]
    # A result that moves by its own size cannot move further: that tells nothing about its smoothness.
    if 4 * unit < moved < 1 / _TIMES and not is_step and wide.eps < _SMALL:
        further = wide.moved(_TIMES, place) / scale
        if further < _NOT_SMOOTH * moved:
            text = (
                f"rounds inside: noise of one rounding moves the result by {moved:.1e}, and {_TIMES} times "
                f"the noise only {further / moved:.0f} times as far: it computes in a lower precision inside"
            )
            return [Verdict(index, output, moved, text)]
    bits = min(_significand(output.dtype), 1 - round(math.log2(wide.eps)))
    half = 2.0 ** (-bits / 2)
    if output.numel() < _FEW:
        half = max(half, 0.25)
    if moved > half and not is_step:
        text = (
            "ill-conditioned here (catastrophic cancellation): rounding of its inputs alone moves the result "
            f"by {moved:.1e}, more than half of their {bits} bits"
        )
        return [Verdict(index, output, moved, text, is_conditioning=True)]
    return []


def _non_finite(
    index: int | None, output: torch.Tensor, own: torch.Tensor, reference: torch.Tensor
) -> Verdict:
    share = 1 - float(own.isfinite().double().mean())
    kind = "NaN" if bool(own.isnan().any()) else "infinity"
    text = f"returns {kind} from finite inputs ({share:.0%} of the output); in float64 the result is "
    largest = float(reference.abs().max())
    if not math.isfinite(largest):
        text += "not finite either"
    elif largest > torch.finfo(output.dtype).max:
        text += f"finite, but up to {largest:.1e}, beyond the range of {output.dtype}"
    else:
        text += "finite: it overflows inside"
    return Verdict(index, output, math.inf, text)


def _significand(dtype: torch.dtype) -> int:
    return 1 - round(math.log2(torch.finfo(dtype).eps))


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


def raised_on_cpu(given: Given) -> Run:
    """Runs a call in higher precision: on the CPU, or where it is if it cannot run there."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        moved = changes.changed("to_cpu", args, kwargs)
        try:
            return given.run(moved.args, moved.kwargs, keeps_autocast=False)
        except Exception:
            if given.devices == {torch.device("cpu")}:
                raise
            return given.run(args, kwargs, keeps_autocast=False)

    return run
