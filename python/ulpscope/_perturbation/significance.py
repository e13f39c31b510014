"""How many bits of every result can be trusted, and where precision matters.

    reference run    samples the elements of every call's inputs, outputs and gradients; with a backward pass
                     also how strongly the result depends on each output: |gradient x output|
    noisy runs       the output of every call is changed by rounding noise, with other signs in each run

An entry has as many significant bits as it has in common between the runs. The gain of a call is the relative
noise of its outputs, before its own is added, over that of its inputs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import Any

import torch

from ulpscope._capture.calls.named_calls import NamedCall, is_aside
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._perturbation.arguments import float_outputs, is_plain, tensors_in
from ulpscope._perturbation.findings import Findings
from ulpscope._perturbation.noise import Noise
from ulpscope._perturbation.perturber import Perturber, backward_name
from ulpscope._perturbation.run import PerturbRun
from ulpscope._perturbation.second_run import RandomStates, aside

# Elements of an entry that are compared.
_SAMPLE = 1024

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# What a call in the dtype could be lowered to.
_LOWER = {torch.float64: torch.float32, torch.float32: torch.bfloat16}

# The share of the result's variance that the calls to raise explain together.
_MOST = 0.9


@dataclasses.dataclass(frozen=True)
class EntryBits:
    """An entry, and how many of its bits are the same in all runs."""

    name: str
    """``Functional.linear.0.forward.output.0``."""
    dtype: str
    """Such as ``bfloat16``."""
    bits: float
    """Those that are the same in all runs."""
    of: int
    """The bits of its dtype's significand."""


@dataclasses.dataclass(frozen=True)
class CallGain:
    """A call, and what it does with the noise of its inputs."""

    name: str
    """``Functional.linear.0.forward``."""
    dtype: str
    """That of its first output."""
    gain: float | None
    """Noise of the outputs over that of the inputs; None if the inputs have none."""
    bits: float
    """Significant bits of its worst output."""
    share: float | None
    """The share of the result's variance that comes from this call's own rounding; None without gradients."""
    lowered: float | None
    """The relative change of the result if this call rounded to the next lower dtype."""


@dataclasses.dataclass(frozen=True)
class SignificantBits:
    """What the runs have shown."""

    samples: int
    """The number of noisy runs."""
    entries: list[EntryBits]
    """Every input, output and gradient, in the order of the program."""
    calls: list[CallGain]
    """Every call, in the order of the program."""
    result: list[EntryBits]
    """The tensors that the program returned."""

    @property
    def raise_precision(self) -> list[CallGain]:
        """Calls where more precision helps the result most, the most important first.

        With gradients, those which together cause most of the result's noise; else those that lose most bits.
        """
        weighed = sorted((one for one in self.calls if one.share), key=lambda one: -(one.share or 0))
        if not weighed:
            lossy = [one for one in self.calls if one.gain is not None and one.gain > 2]
            return sorted(lossy, key=lambda one: -(one.gain or 0))
        found, total = [], 0.0
        for one in weighed:
            if total >= _MOST:
                break
            found.append(one)
            total += one.share or 0
        return found

    def safe_to_lower(self, tolerance: float = 1e-3) -> list[CallGain]:
        """Calls that could all round to the next lower dtype: together they change the result by less."""
        known = sorted(
            (one for one in self.calls if one.lowered is not None), key=lambda one: one.lowered or 0
        )
        found, variance = [], 0.0
        for one in known:
            variance += (one.lowered or 0) ** 2
            if math.sqrt(variance) > tolerance:
                break
            found.append(one)
        return found

    def __str__(self) -> str:
        lines = [f"significant bits over {self.samples} noisy runs"]
        lines += [f"  {one.name}: {one.bits:.1f} of {one.of} bits ({one.dtype})" for one in self.result]
        lines.append("raise precision here:")
        lines += [
            f"  {one.name}: {one.bits:.1f} bits"
            + ("" if one.share is None else f", {one.share:.0%} of the result's noise")
            + ("" if one.gain is None else f", gain {one.gain:.2g}")
            for one in self.raise_precision[:10]
        ]
        safe = self.safe_to_lower()
        lines.append(f"safe to lower here (together less than 0.1 % of the result): {len(safe)} calls")
        lines += [f"  {one.name}" for one in safe[:10]]
        return "\n".join(lines)


def measure(program: Callable[[], Any], samples: int, seed: int) -> SignificantBits:
    """Runs a program ``samples + 1`` times. Raises ``ValueError`` if it changes its own parameters."""
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples is {samples!r}; expected a whole number above 0")
    settings = PerturbSettings.from_keywords(".", pert_mode="amplification", seed=seed)
    observer = _Observer(settings)
    states = RandomStates(_devices())
    for number in range(samples + 1):
        observer.begin_run(None if number == 0 else Noise(seed + number))
        with states.repeated(), PerturbRun(settings, perturber=observer):
            result = program()
        with aside():
            for index, (_, tensor) in enumerate(float_outputs((result,) if result is not None else ())):
                observer.see(f"result.{index}", tensor)
        observer.check_repeats()
    return observer.conclude(samples)


class _Entry:
    """The sampled elements of the reference run, and how far those of noisy runs are from them."""

    def __init__(self, tensor: torch.Tensor, values: torch.Tensor) -> None:
        self.dtype = tensor.dtype
        self.values = values
        self.scale = _norm(values)
        self.squares = 0.0
        self.runs = 0

    def add(self, values: torch.Tensor) -> None:
        if values.shape == self.values.shape:
            self.squares += _norm(values - self.values) ** 2
            self.runs += 1

    @property
    def noise(self) -> float:
        """Relative to the entry."""
        if not self.squares or not self.runs:
            return 0.0
        return math.sqrt(self.squares / self.runs) / self.scale if self.scale else math.inf

    def as_bits(self, name: str) -> EntryBits:
        of = 1 - round(math.log2(torch.finfo(self.dtype).eps))
        bits = float(of) if self.noise == 0 else min(float(of), max(0.0, -math.log2(self.noise)))
        return EntryBits(name, str(self.dtype).removeprefix("torch."), 0.0 if math.isnan(bits) else bits, of)


@dataclasses.dataclass
class _Call:
    inputs: list[str]
    outputs: list[str]
    # The root of the sum of squares of gradient x output.
    weight: float | None = None


class _Observer(Perturber):
    """Samples the calls of a run, and adds noise to their outputs."""

    def __init__(self, settings: PerturbSettings) -> None:
        super().__init__(settings, Selection(settings), Findings(None))
        self._noise: Noise | None = None
        self._entries: dict[str, _Entry] = {}
        self._calls: dict[str, _Call] = {}
        self._count = 0
        # Noise never touches parameters: one that differs between the runs was changed by the program.
        self._parameters: dict[str, weakref.ref[torch.Tensor]] = {}
        self._stepped: str | None = None

    def begin_run(self, noise: Noise | None) -> None:
        """The next run: the reference, or one with noise."""
        self.restart()
        self._noise = noise
        self._count = 0

    def check_repeats(self) -> None:
        """Raises if a run had parameters other than those of the reference run."""
        if self._stepped is not None:
            raise ValueError(
                f"the program changes a parameter ({self._stepped}) from run to run, so its runs cannot be "
                "compared; it must compute the same each time: leave the optimizer's step out"
            )

    def perturbed(self, call: NamedCall) -> Any:
        """Runs a call."""
        if is_aside():
            return call.original()
        with aside():
            given = [one for one in tensors_in((call.args, call.kwargs)) if _is_measured(one)]
            inputs = [self.see(f"{call.name}.input.{place}", one) for place, one in enumerate(given)]
            memory = {one.untyped_storage().data_ptr() for one in given}
        result = call.original()
        with aside():
            outputs = []
            for place, (_, tensor) in enumerate(float_outputs(result)):
                outputs.append(self.see(f"{call.name}.output.{place}", tensor))
                is_made = tensor.untyped_storage().data_ptr() not in memory
                self._watch(call, place, tensor, is_made)
                if self._noise is not None and is_made and _is_measured(tensor):
                    self._count += 1
                    if torch._debug_has_internal_overlap(tensor) != 1:
                        tensor.data.copy_(self._noise.below(tensor, self._count))
            if self._noise is None:
                self._calls[call.name] = _Call(inputs, outputs)
        return result

    def see(self, name: str, tensor: torch.Tensor) -> str:
        """Samples an entry: as the reference, or to compare."""
        flat = tensor.detach().reshape(-1)
        step = max(1, flat.numel() // _SAMPLE)
        values = flat[::step][:_SAMPLE].to("cpu", torch.float64)
        if self._noise is None:
            self._entries[name] = _Entry(tensor, values)
            if isinstance(tensor, torch.nn.Parameter):
                self._parameters[name] = weakref.ref(tensor)
        elif name in self._entries:
            known = self._parameters.get(name)
            if (
                known is not None
                and known() is tensor
                and not torch.equal(values, self._entries[name].values)
            ):
                self._stepped = self._stepped or name
            self._entries[name].add(values)
        return name

    def _watch(self, call: NamedCall, place: int, tensor: torch.Tensor, is_made: bool) -> None:
        """Samples the gradient of an output when it arrives."""
        if not tensor.requires_grad:
            return
        entry = f"{backward_name(call)}.input.{place}"
        values = tensor.detach() if self._noise is None and is_made else None

        def arrived(gradient: torch.Tensor) -> None:
            with aside():
                self.see(entry, gradient)
                known = self._calls.get(call.name)
                if values is not None and known is not None:
                    weight = _norm(gradient.double() * values.double())
                    known.weight = math.hypot(known.weight or 0.0, weight)

        # A view that is changed in place has no node of its own to watch.
        with contextlib.suppress(RuntimeError):
            tensor.register_hook(arrived)  # type: ignore[no-untyped-call]

    def conclude(self, samples: int) -> SignificantBits:
        """What all runs have shown."""
        entries = {name: entry.as_bits(name) for name, entry in self._entries.items()}
        result = [bits for name, bits in entries.items() if name.startswith("result.")]
        scale = max((self._entries[one.name].scale for one in result), default=0.0)
        own = {
            name: torch.finfo(self._entries[call.outputs[0]].dtype).eps * call.weight
            for name, call in self._calls.items()
            if call.weight is not None and call.outputs
        }
        total = math.sqrt(sum(value**2 for value in own.values()))
        calls = [
            self._gain(name, call, entries, own, total, scale)
            for name, call in self._calls.items()
            if call.outputs
        ]
        return SignificantBits(samples, [one for one in entries.values() if one not in result], calls, result)

    def _gain(
        self,
        name: str,
        call: _Call,
        entries: dict[str, EntryBits],
        own: dict[str, float],
        total: float,
        scale: float,
    ) -> CallGain:
        before = max((self._entries[one].noise for one in call.inputs), default=0.0)
        after = max(self._entries[one].noise for one in call.outputs)
        dtype = self._entries[call.outputs[0]].dtype
        lower = _LOWER.get(dtype)
        lowered = None
        if name in own and lower is not None and scale:
            lowered = torch.finfo(lower).eps / 2 * (call.weight or 0.0) / scale
        return CallGain(
            name,
            str(dtype).removeprefix("torch."),
            after / before if before else None,
            min(entries[one].bits for one in call.outputs),
            (own[name] / total) ** 2 if name in own and total else None,
            lowered,
        )


def _is_measured(tensor: torch.Tensor) -> bool:
    return tensor.dtype in _DTYPES and is_plain(tensor) and tensor.numel() > 0


def _norm(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values))


def _devices() -> set[torch.device]:
    """The accelerators of this process, whose generators a program may use."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None or not accelerator.is_available():
        return set()
    kind = accelerator.current_accelerator()
    return {torch.device(kind.type, index) for index in range(accelerator.device_count())}
