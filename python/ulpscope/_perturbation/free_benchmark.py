"""msprobe's free benchmark: one change of the inputs, a threshold for each dtype, ``check`` or ``fix``."""

from __future__ import annotations

from typing import Any

import torch

from ulpscope._capture.calls.named_calls import NamedCall, unseen
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._perturbation import changes, fix, messages
from ulpscope._perturbation.arguments import float_outputs
from ulpscope._perturbation.backward import BackwardStage, KeptCall
from ulpscope._perturbation.findings import Findings
from ulpscope._perturbation.perturber import Perturber
from ulpscope._perturbation.preheat import Preheat
from ulpscope._perturbation.second_run import CannotRepeatError, Given, aside
from ulpscope._perturbation.thresholds import SIGN, Change, Stage, agrees_with_cpu, change_of, threshold


class FreeBenchmark(Perturber):
    """Perturbs the calls of a program as config.json says."""

    def __init__(self, settings: PerturbSettings, selection: Selection, findings: Findings) -> None:
        super().__init__(settings, selection, findings)
        self._mode = settings.pert_mode
        self._preheat = (
            Preheat(self._mode, settings.preheat_step, settings.max_sample) if settings.if_preheat else None
        )
        self._backward = BackwardStage(settings.max_sample, self._check_backward)

    def perturbed(self, call: NamedCall) -> Any:
        """Runs a call and perturbs it: now, or in its backward pass."""
        sample = self._preheat.meet(call.base) if self._preheat is not None else None
        if self._preheat is not None and not self._preheat.is_over:
            if sample is None:
                return call.original()
            messages.sampled(self.step, call.name, *sample)
        if self.settings.fuzz_stage == "backward":
            return self._backward.watched(call, self)
        given = self._given(call)
        result = call.original()
        if given is None:
            return result
        try:
            with aside():
                self._perturb(call, given, result)
        except Exception as error:
            self.hold_back(call, error)
        return result

    def next_step(self) -> None:
        """Ends a step."""
        self._backward.next_step(self.step)
        if self._preheat is not None:
            self._preheat.next_step()
        super().next_step()

    def _given(self, call: NamedCall) -> Given | None:
        try:
            with unseen():
                return Given(call)
        except CannotRepeatError as reason:
            messages.cancelled(call.name, reason)
        except Exception as error:
            self.hold_back(call, error)
        return None

    def _perturb(self, call: NamedCall, given: Given, returned: Any) -> None:
        result = given.result(returned, call.args, call.kwargs)
        try:
            given.check_unchanged()
            changed = changes.changed(self._mode, given.args, given.kwargs)
        except changes.NoInputError:
            messages.no_input(call.name)
            return
        except (changes.NotChangedError, CannotRepeatError) as reason:
            messages.cancelled(call.name, reason)
            return
        is_sampling = self._preheat is not None and not self._preheat.is_over
        second = given.run(changed.args, changed.kwargs, changed.keeps_autocast, is_last=not is_sampling)
        messages.perturbed(self._mode, call.name)
        if self.settings.handler_type == "fix":
            fix.replace(result, second)
            return
        pairs = paired(result, second)
        if is_sampling:
            self._learn(call, given, pairs)
        else:
            self._judge(call, pairs, "forward")

    def _judge(self, call: NamedCall, pairs: list[Pair], stage: Stage) -> None:
        for index, original, second in pairs:
            allowed = self._allowed(call, original.dtype)
            change = change_of(original, second, stage, allowed)
            if change.exceeds(allowed):
                self.report(call, stage, change.text, original, index)

    def _allowed(self, call: NamedCall, dtype: torch.dtype) -> float:
        if self._preheat is not None:
            return self._preheat.threshold(call.base, dtype)
        return threshold(dtype, self._mode)

    def _learn(self, call: NamedCall, given: Given, pairs: list[Pair]) -> None:
        """A sample of preheat: the same call on the CPU tells whether the output is right."""
        if given.random.are_used():
            messages.cancelled(call.name, "it draws random numbers which the CPU does not repeat")
            return
        moved = changes.changed("to_cpu", given.args, given.kwargs)
        on_cpu = given.run(moved.args, moved.kwargs, moved.keeps_autocast)
        self._add_samples(call, pairs, [tensor for _, tensor in float_outputs(on_cpu)], "forward")

    def _add_samples(
        self, call: NamedCall, pairs: list[Pair], on_cpu: list[torch.Tensor], stage: Stage
    ) -> None:
        if self._preheat is None or len(on_cpu) != len(pairs):
            return
        for (_, original, second), reference in zip(pairs, on_cpu, strict=True):
            if reference.shape == original.shape:
                moved = _size(change_of(original, second, stage))
                agrees = agrees_with_cpu(original, reference)
                self._preheat.add(call.base, original.dtype, moved, agrees)

    def _check_backward(self, call: NamedCall, kept: KeptCall, gradients: tuple[Any, ...]) -> None:
        """The gradients of a call's inputs, and those for a changed gradient of its outputs."""
        if not self.is_collecting:
            return
        name = call.name.removesuffix("forward") + "backward"
        try:
            kept.check_unchanged()
            # The incoming gradients are what is changed; the inputs only raised or moved with them.
            if self._mode in ("improve_precision", "to_cpu"):
                changed = changes.changed(self._mode, (kept.given.args, gradients), kept.given.kwargs)
                (args, changed_gradients), kwargs = changed.args, changed.kwargs
            else:
                changed = changes.changed(self._mode, gradients, {})
                args, kwargs, changed_gradients = kept.given.args, kept.given.kwargs, changed.args
        except changes.NoInputError:
            messages.no_input(name)
            return
        except (changes.NotChangedError, CannotRepeatError) as reason:
            messages.cancelled(name, reason)
            return
        plain = kept.gradients(kept.given.args, kept.given.kwargs, gradients)
        second = kept.gradients(args, kwargs, changed_gradients, changed.keeps_autocast)
        messages.perturbed(self._mode, name)
        pairs = paired(plain, second)
        if self._preheat is not None and not self._preheat.is_over:
            moved = changes.changed("to_cpu", (kept.given.args, gradients), kept.given.kwargs)
            on_cpu = kept.gradients(moved.args[0], moved.kwargs, moved.args[1], keeps_autocast=False)
            self._add_samples(call, pairs, [one for _, one in float_outputs(on_cpu)], "backward")
        else:
            self._judge(call, pairs, "backward")


Pair = tuple[int | None, torch.Tensor, torch.Tensor]


def paired(result: Any, second: Any) -> list[Pair]:
    """The floating-point outputs of both runs. Raises if they do not correspond."""
    originals, others = float_outputs(result), float_outputs(second)
    shapes = [(index, tensor.shape) for index, tensor in originals]
    if shapes != [(index, tensor.shape) for index, tensor in others]:
        raise CannotRepeatError("its results have different shapes on the changed inputs")
    return [(index, original, other) for (index, original), (_, other) in zip(originals, others, strict=True)]


def _size(change: Change) -> float:
    return SIGN if change.is_flipped else change.relative
