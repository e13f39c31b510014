"""Our own judgement: a call is wrong if it loses more digits than its inputs explain.

    every call    a second run on inputs that rounding could have made; gain = relative change of the output
                  over that of the inputs, beyond one unit in the last place of the output
    some calls    run in float64 (``confirmation.py``): those whose gain is high and stands out from the
                  cleared calls of the same API, those that return NaN or infinity, the first of each kind

A gain alone is no fault: only what is confirmed is reported. So noise of one unit in bf16, which changes the
output of every healthy call by more than any fixed threshold, reports nothing.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import deque
from typing import Any

import torch

from ulpscope._capture.calls.named_calls import NamedCall, is_aside, unseen
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._perturbation import messages
from ulpscope._perturbation.arguments import float_outputs, mapped, tensors_in
from ulpscope._perturbation.backward import BackwardStage, KeptCall
from ulpscope._perturbation.confirmation import Run, Verdict, raised_on_cpu, verdicts
from ulpscope._perturbation.findings import Findings
from ulpscope._perturbation.module_calls import ModuleCall
from ulpscope._perturbation.noise import Noise, relative_noise
from ulpscope._perturbation.perturber import Perturber
from ulpscope._perturbation.second_run import CannotRepeatError, Given, aside

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# A healthy call has a gain of about 1. Above this it is looked at in float64.
_SUSPICIOUS = 8.0

# How far above the highest gain of its cleared siblings the gain of a suspect is.
_STANDS_OUT = 2.0

# Kinds of calls of one API of which the first is looked at: a program may make a new shape with every call.
_MAX_KINDS = 8

# Gains that are remembered of each API.
_SIBLINGS = 64


class _Api:
    """The calls of one API so far."""

    def __init__(self) -> None:
        self.gains: deque[float] = deque(maxlen=_SIBLINGS)
        self.highest_cleared = 0.0
        # Dtypes and shapes of arguments: of each kind, the first call is looked at.
        self.kinds: set[Any] = set()

    def is_suspect(self, gain: float, kind: Any) -> bool:
        if not math.isfinite(gain):
            return True
        is_first = len(self.kinds) < _MAX_KINDS and kind not in self.kinds
        if is_first:
            self.kinds.add(kind)
        return is_first or gain > max(_SUSPICIOUS, _STANDS_OUT * self.highest_cleared)


class Amplification(Perturber):
    """Judges how much each call amplifies the rounding of its inputs."""

    def __init__(self, settings: PerturbSettings, selection: Selection, findings: Findings) -> None:
        super().__init__(settings, selection, findings)
        self._noise = Noise(settings.seed)
        self._apis: dict[str, _Api] = {}
        self._backward = BackwardStage(settings.max_sample, self._check_backward)

    def next_step(self) -> None:
        """Ends a step."""
        self._backward.next_step(self.step)
        super().next_step()

    def perturbed(self, call: NamedCall) -> Any:
        """Runs a call and judges it."""
        if self.settings.fuzz_stage == "backward":
            return self._backward.watched(call, self)
        given = self.given(call)
        result = call.original()
        if given is not None:
            self.judge(call, given, result, raised_on_cpu(given))
        return result

    def enter_module(
        self, module: torch.nn.Module, args: Any, kwargs: Any
    ) -> tuple[ModuleCall, Given] | None:
        """Level L0: a module is about to run."""
        base = self._modules.get(id(module))
        if base is None or not self.is_on or is_aside():
            return None
        call = ModuleCall.of(base, self._number(base), module, args, kwargs)
        given = self.given(call) if self._is_selected(call) else None
        return None if given is None else (call, given)

    def leave_module(self, begun: tuple[ModuleCall, Given], module: torch.nn.Module, output: Any) -> None:
        """A module has returned: it is judged as a whole."""
        call, given = begun
        self.judge(call, given, output, raised_on_cpu(given))

    def given(self, call: NamedCall) -> Given | None:
        """The arguments of a call, if it can be judged; in silence otherwise: most calls compute nothing."""
        try:
            with unseen():
                if not any(one.dtype in _DTYPES for one in tensors_in((call.args, call.kwargs))):
                    return None
                return Given(call)
        except CannotRepeatError:
            return None
        except Exception as error:
            self.hold_back(call, error)
            return None

    def judge(self, call: NamedCall, given: Given, returned: Any, raised: Run) -> None:
        """Judges a call that has run."""
        try:
            with aside():
                result = given.result(returned, call.args, call.kwargs)
                outputs = [one for _, one in float_outputs(result)]
                if not outputs or (not given.has_copies and _are_views(outputs, given)):
                    return
                given.check_unchanged()
                gain = self._gain(given, outputs)
                if self._is_suspect(call.base, gain, given):
                    found = verdicts(call.name, given, result, raised, self._noise)
                    self._conclude(call, "forward", gain, found)
        except CannotRepeatError:
            return
        except Exception as error:
            self.hold_back(call, error)

    def _gain(self, given: Given, outputs: list[torch.Tensor]) -> float:
        positions = itertools.count()

        def noisy(tensor: torch.Tensor) -> torch.Tensor:
            return self._noise.below(tensor, next(positions)) if tensor.dtype in _DTYPES else tensor

        args, kwargs = mapped((given.args, given.kwargs), noisy)
        second = given.run(args, kwargs)
        dtypes = {one.dtype for one in tensors_in((given.args, given.kwargs)) if one.dtype in _DTYPES}
        return gain_of(outputs, [one for _, one in float_outputs(second)], max(map(relative_noise, dtypes)))

    def _is_suspect(self, base: str, gain: float, given: Given) -> bool:
        api = self._apis.setdefault(base, _Api())
        kind = tuple((one.dtype, one.shape) for one in tensors_in((given.args, given.kwargs)))
        is_suspect = api.is_suspect(gain, kind)
        api.gains.append(gain)
        return is_suspect

    def _conclude(self, call: NamedCall, stage: str, gain: float, found: list[Verdict]) -> None:
        api = self._apis[call.base]
        if not found:
            api.highest_cleared = max(api.highest_cleared, gain if math.isfinite(gain) else 0.0)
            return
        siblings = [one for one in list(api.gains)[:-1] if math.isfinite(one)]
        beside = f"; gain {gain:.3g}"
        if siblings:
            beside += f", other calls of {call.base}: {statistics.median(siblings):.3g}"
        for verdict in found:
            self.report(
                call, stage, f"{verdict.size:.6g}", verdict.output, verdict.place, verdict.cause + beside
            )

    def _check_backward(self, call: NamedCall, kept: KeptCall, gradients: tuple[Any, ...]) -> None:
        if not self.is_collecting:
            return
        try:
            kept.check_unchanged()
        except CannotRepeatError as reason:
            messages.cancelled(call.name.removesuffix("forward") + "backward", reason)
            return
        product = kept.as_call(gradients)
        given = Given(product)
        result = kept.gradients(kept.given.args, kept.given.kwargs, gradients)
        outputs = [one for _, one in float_outputs(result)]
        if outputs:
            gain = self._gain(given, outputs)
            if self._is_suspect(call.base, gain, given):
                found = verdicts(product.name, given, result, raised_on_cpu(given), self._noise)
                # Some gradients cancel by nature: that of a bias before a normalisation, that of keys' bias.
                if sum(one.is_conditioning for one in found) < len(outputs):
                    found = [one for one in found if not one.is_conditioning]
                self._conclude(call, "backward", gain, found)


def gain_of(outputs: list[torch.Tensor], others: list[torch.Tensor], noise: float) -> float:
    """The largest relative change of an output over the inputs' noise; infinite if one is not finite."""
    highest = 0.0
    if [one.shape for one in outputs] != [one.shape for one in others]:
        raise CannotRepeatError("its results have different shapes on the changed inputs")
    for output, other in zip(outputs, others, strict=True):
        if output.numel() == 0:
            continue
        wide = torch.float64 if output.dtype == torch.float64 else torch.float32
        norms = torch.stack(
            (
                torch.linalg.vector_norm(output.detach(), dtype=wide),
                torch.linalg.vector_norm(other.detach() - output.detach(), dtype=wide),
            )
        ).tolist()
        size, change = norms
        if not math.isfinite(size) or not math.isfinite(change):
            return math.inf
        if change > 0:
            relative = change / size if size else math.inf
            highest = max(highest, (relative - torch.finfo(output.dtype).eps) / noise)
    return highest


def _are_views(outputs: list[torch.Tensor], given: Given) -> bool:
    """Whether the outputs only show the memory of the inputs: nothing was computed."""
    memory = {one.untyped_storage().data_ptr() for one in tensors_in((given.args, given.kwargs))}
    return all(one.untyped_storage().data_ptr() in memory for one in outputs)
