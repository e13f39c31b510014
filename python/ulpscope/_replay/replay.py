"""Replays one call and judges what was recorded of it, or what a device computes now.

DumpCall ──► arguments ──► reference in raised precision ──┬──► judged ──► rows of details
                     └──► recorded results, or a device's ─┘
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from ulpscope._core import DumpTensor, judge_result
from ulpscope._replay.arguments import (
    DTYPES,
    MAX_ELEMENTS,
    Rebuilder,
    Rebuilt,
    Slot,
    leaves,
    loaded,
    same_elements,
)
from ulpscope._replay.drawing import seeded
from ulpscope._replay.dump_calls import Autocast
from ulpscope._replay.execution import SHIFTS, Execution, Outcome, RandomError, Way, raised
from ulpscope._replay.function_names import AUTOCAST
from ulpscope._replay.functions import NotReplayableError, ReplayFunction
from ulpscope._replay.modules import STATE
from ulpscope._replay.random_calls import dropout_reference
from ulpscope._replay.results import CheckedTensor

if TYPE_CHECKING:
    from ulpscope._core import DumpCall, Judgement

Standard = Literal["native", "msprobe"]
# Below this many elements, inputs are moved up to so often.
_FEW_ELEMENTS = 64
_DRAWS = 6
# From best to worst.
_ORDER = ("", "pass", "warning", "error")


@dataclass
class Replayed:
    """What became of a call."""

    remark: str
    """What is wrong beside the numbers; empty if nothing is."""
    backward_reason: str
    """Why the backward pass could not be replayed; empty if it was, or there is none."""
    tensors: list[CheckedTensor] = field(default_factory=list)

    def status(self, direction: str) -> str:
        """The worst status of a direction; empty if it has none."""
        found = [tensor.status for tensor in self.tensors if f".{direction}." in tensor.name]
        if self.remark and direction == "forward":
            found.append("error")
        if self.backward_reason and direction == "backward":
            return "SKIP"
        return max(found, key=_ORDER.index, default="")

    @property
    def has_failed(self) -> bool:
        """Whether a result or a gradient is wrong."""
        return "error" in (self.status("forward"), self.status("backward"))

    @property
    def is_doubtful(self) -> bool:
        """Whether a result or a gradient is wrong or doubtful."""
        return bool({"error", "warning"} & {self.status("forward"), self.status("backward")})

    @property
    def badness(self) -> tuple[int, float]:
        """For sorting: the worst status, and the largest error by what rounding explains."""
        worst = max(_ORDER.index(self.status(one).replace("SKIP", "")) for one in ("forward", "backward"))
        return worst, max((tensor.ratio for tensor in self.tensors), default=0.0)

    @property
    def message(self) -> str:
        """Why it is not a pass: the first tensor that is not."""
        worst = [tensor for tensor in self.tensors if tensor.status in ("error", "warning")]
        worst.sort(key=lambda tensor: -_ORDER.index(tensor.status))
        texts = [f"{one.name}: {one.message or one.by_standard or one.status}" for one in worst[:1]]
        backward = [f"backward: {self.backward_reason}"] if self.backward_reason else []
        return "; ".join(([self.remark] if self.remark else []) + texts + backward)


@dataclass(frozen=True)
class ReplaySettings:
    """How calls are replayed."""

    device: str | None = None
    """A device whose results are judged besides the recorded ones."""
    standard: Standard = "native"
    seed: int = 1234
    autocast: Autocast | None = None
    """What autocast did in this run."""
    with_standards: bool = True
    """Whether the numbers of msprobe's standards are measured too."""


@dataclass(frozen=True)
class RecordedState:
    """The parameters and buffers of a module when it was called, and the gradients of the parameters."""

    tensors: dict[str, DumpTensor]
    gradients: dict[str, DumpTensor]


class Replay:
    """One call, with everything that was computed for it."""

    def __init__(
        self,
        name: str,
        function: ReplayFunction,
        forward: DumpCall,
        backward: DumpCall | None,
        settings: ReplaySettings,
        of_node: bool = False,
        state: RecordedState | None = None,
    ) -> None:
        """``name`` is the call's without its direction.

        ``of_node``: recorded gradients are those of the call's last autograd node.
        """
        self.of_node = of_node
        self.name, self._settings = name, settings
        self.function = function
        rebuilder = Rebuilder(settings.seed)
        more = None if state is None else {STATE: state.tensors}
        self.arguments: Rebuilt = rebuilder.call(forward, f"{name}.forward", more)
        self._recorded = list(leaves(forward.results))
        shapes = [_shape(one) for one in self._recorded]
        self._execution = Execution(self.function, self.arguments, shapes, of_node)
        self.gradients = None
        self._recorded_gradients: list[Any] = []
        if backward is not None:
            self.gradients = rebuilder.gradients(backward.positional, f"{name}.backward")
            self._recorded_gradients = list(leaves(backward.results))
        elif settings.device is not None or self.arguments.is_drawn:
            # A device is judged by its gradients too, of which none was recorded.
            self.gradients = self._seeded_gradients()
        self._is_seeded = backward is None
        # The parameters of a module, by the number of their tensor.
        self._parameters: dict[int, str] = {}
        if state is not None:
            self._parameters = {slot.number: name for name, slot in self.arguments.keyword[STATE].items()}
            self._recorded_gradients = self._by_tensor(self._recorded_gradients, state)
        self._shared = self._shared_gradients()
        self._reference: tuple[Outcome, torch.dtype] | None = None
        self._moved: dict[int, tuple[Outcome, Outcome]] = {}
        self._peer: Outcome | None = None
        self._remark = ""
        self.backward_reason = ""
        self.is_narrowed = False

    def reference(self) -> tuple[Outcome, torch.dtype]:
        """The call in raised precision."""
        if self._reference is None:
            try:
                outcome, precision = self._raised()
                self._reference = self._summed(outcome), precision
            except RandomError:
                known = next((one for one in self.recorded_results() if one is not None), None)
                outcome, self._remark = dropout_reference(
                    self.function, self.arguments, known, self.gradients, self._loaded_gradients()
                )
                self._reference = outcome, torch.float64
        return self._reference

    def share(self, known: Replay) -> None:
        """Takes over what was computed for a call with the same arguments: the same call of another run."""
        given, others = self.gradients or [], known.gradients or []
        is_same = (
            known._reference is not None
            and not (known._remark or known.backward_reason)
            and (self.function, self.of_node, self._shared) == (known.function, known.of_node, known._shared)
            and (self.gradients is None) == (known.gradients is None)
            and self.arguments.equals(known.arguments)
            and len(given) == len(others)
            and all(same_elements(one, other) for one, other in zip(given, others, strict=True))
        )
        if is_same:
            self._reference, self._moved, self._peer = known._reference, known._moved, known._peer
            self._execution.chosen = known._execution.chosen

    def _raised(self) -> tuple[Outcome, torch.dtype]:
        """Without the backward pass, if only that cannot be replayed."""
        try:
            return raised(self._execution, self.gradients)
        except RandomError:
            raise
        except NotReplayableError as reason:
            if self.gradients is None:
                raise
            self.gradients, self.backward_reason = None, "" if self._is_seeded else str(reason)
            return raised(self._execution, None)

    def _seeded_gradients(self) -> list[torch.Tensor | None] | None:
        """Gradients of the results, where a backward pass is possible; the same for the same seed."""
        if not any(given.needs_grad for given in self.arguments.tensors):
            return None
        made: list[torch.Tensor | None] = []
        for number, one in enumerate(self._recorded):
            dtype = DTYPES.get(one.dtype) if isinstance(one, DumpTensor) else None
            shape = _shape(one)
            if (
                dtype is None
                or shape is None
                or not dtype.is_floating_point
                or math.prod(shape) > MAX_ELEMENTS
            ):
                made.append(None)
                continue
            place = f"{self.name}.backward.input.{number}"
            made.append(torch.randn(shape, generator=seeded(self._settings.seed, place)).to(dtype))
        return made if any(one is not None for one in made) else None

    def recorded_results(self) -> list[torch.Tensor | None]:
        """The recorded results, flat, as far as their elements are there."""
        return self._loaded(self._recorded, "forward")

    def recorded_gradients(self) -> list[torch.Tensor | None]:
        """The recorded gradients, by the tensors among the arguments."""
        reference = self.reference()[0].gradients
        return [] if reference is None else self._aligned(self._loaded_gradients(), reference)

    def _loaded_gradients(self) -> list[torch.Tensor | None]:
        return self._loaded(self._recorded_gradients, "backward")

    def _loaded(self, recorded: list[Any], direction: str) -> list[torch.Tensor | None]:
        return [
            loaded(one, f"{self.name}.{direction}.output.{number}")
            if isinstance(one, DumpTensor) and not one.is_blank
            else None
            for number, one in enumerate(recorded)
        ]

    @property
    def is_judged_by_rounding(self) -> bool:
        """Whether a result is wrong if its error is larger than rounding explains."""
        return self._settings.standard == "native"

    @property
    def shared_gradients(self) -> dict[int, int]:
        """Tensors whose gradient is added to that of another, which is the same tensor."""
        return self._shared

    def position(self, tensor: CheckedTensor) -> tuple[str, int]:
        """The direction of a judged tensor, and its number among the results or the tensors given."""
        direction = "backward" if ".backward." in tensor.name else "forward"
        last = tensor.name.rpartition(".")[2]
        return direction, int(last) if last.isdigit() else 0

    def undecided(self, direction: str, number: int) -> torch.Tensor | None:
        """The elements that no precision decides, as `judge_result` left them out; ``None`` if none was."""
        if not self._moved:
            return None
        exact = _part(self.reference()[0], direction, number)
        far, near = (_part(outcome, direction, number) for outcome in self._moved[max(self._moved)])
        if exact is None or far is None or near is None or far.shape != exact.shape:
            return None
        return _jumps(exact, far, near)

    def size_of_reference(self, direction: str, number: int) -> float:
        """The L2 norm of a result in raised precision."""
        exact = _part(self.reference()[0], direction, number)
        return 0.0 if exact is None else float(exact[exact.isfinite()].double().norm())

    def chosen(self) -> tuple[Any, type | None]:
        """The function that was called, and the kind of container of an index."""
        self.reference()
        return self._execution.chosen or (self.function.candidates[0], None)

    def judged(self) -> Replayed:
        """Judges every result and gradient."""
        reference, _ = self.reference()
        replayed = Replayed(self._remark, self.backward_reason)
        for judged, results, gradients in self._sides():
            replayed.tensors += self._tensors("forward", results, reference.results, judged)
            if reference.gradients is not None:
                replayed.tensors += self._tensors("backward", gradients, reference.gradients, judged)
        if not replayed.tensors:
            raise NotReplayableError("none of its results is recorded, and no device was given")
        return replayed

    def _sides(self) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """What is judged: the recorded results, where there are any, and those of a device."""
        recorded = self.recorded_results()
        has_inputs = not self.arguments.is_drawn
        if has_inputs and any(one is not None for one in recorded):
            yield "recorded", recorded, self.recorded_gradients()
        elif self._settings.device is None and not self._remark:
            yield from self._of_device("cpu")
        if self._settings.device is not None:
            yield from self._of_device(self._settings.device)

    def _of_device(self, device: str) -> Iterator[tuple[str, list[Any], list[Any]]]:
        outcome = self._run(Way(device=device))
        results = [one.cpu() if isinstance(one, torch.Tensor) else one for one in outcome.results]
        yield device, results, [None if one is None else one.cpu() for one in outcome.gradients or []]

    def _run(self, way: Way) -> Outcome:
        return self._summed(self._execution.run(way, self.gradients))

    def _by_tensor(self, recorded: list[Any], state: RecordedState) -> list[Any]:
        """The gradients of a module's arguments and parameters, by their tensors."""
        found: list[Any] = [
            state.gradients.get(self._parameters.get(number, "")) for number in self._numbers()
        ]
        positional = self.arguments.positional
        if len(recorded) == len(positional):
            for value, gradient in zip(positional, recorded, strict=True):
                if isinstance(value, Slot):
                    found[value.number] = gradient
        return found

    def _numbers(self) -> range:
        return range(len(self.arguments.tensors))

    def _shared_gradients(self) -> dict[int, int]:
        """Tensors whose gradient is recorded in that of another, because both are the same argument."""
        given = self.arguments.tensors
        recorded = self._recorded_gradients
        if len(recorded) != len(given) or self.of_node:
            return {}
        found = {}
        for number, one in enumerate(given):
            if not one.needs_grad or recorded[number] is not None or number in self._parameters:
                continue
            for other in range(number):
                is_same = recorded[other] is not None and given[other].recorded.source == one.recorded.source
                if is_same and torch.equal(given[other].tensor, one.tensor):
                    found[number] = other
                    break
        return found

    def _summed(self, outcome: Outcome) -> Outcome:
        """Gradients as they were recorded: of an argument that was passed twice, their sum."""
        if outcome.gradients is not None:
            for number, other in self._shared.items():
                mine, theirs = outcome.gradients[number], outcome.gradients[other]
                if mine is not None and theirs is not None:
                    outcome.gradients[other], outcome.gradients[number] = theirs + mine, None
        return outcome

    def _aligned(self, recorded: list[Any], reference: list[torch.Tensor | None]) -> list[Any]:
        """Recorded gradients by the tensors that they are of.

        A tool may record those of an inner node: these have different shapes, and are left out.
        """
        if self.of_node:
            return [
                one if one is not None and other is not None and one.shape == other.shape else None
                for one, other in itertools.zip_longest(recorded[: len(reference)], reference)
            ]
        if len(recorded) != len(reference):
            wanted = [number for number, given in enumerate(self.arguments.tensors) if given.needs_grad]
            by_number = dict(zip(wanted, recorded, strict=False)) if len(wanted) == len(recorded) else {}
            recorded = [by_number.get(number) for number in range(len(reference))]
        autocast = self._settings.autocast
        shared = frozenset() if autocast is None else autocast.shared
        return [
            one
            if one is not None
            and other is not None
            and one.shape == other.shape
            and given.recorded.source not in shared
            else None
            for one, other, given in zip(recorded, reference, self.arguments.tensors, strict=True)
        ]

    def _tensors(
        self, direction: str, found: list[Any], reference: list[Any], judged: str
    ) -> Iterator[CheckedTensor]:
        if direction == "forward" and len(found) != len(reference):
            name = f"{self.name}.{direction}.output"
            message = "the structure of the result differs"
            yield CheckedTensor(name, "error", message, judged, ratio=math.inf)
            return
        for number, (one, other) in enumerate(zip(found, reference, strict=True)):
            if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
                continue
            name = self._name_of(direction, number)
            if one.shape != other.shape:
                message = f"shape {tuple(one.shape)}, expected {tuple(other.shape)}"
                yield CheckedTensor(name, "error", message, judged, ratio=math.inf)
            elif not one.numel():
                yield CheckedTensor(name, "pass", "it has no elements", judged)
            elif (
                narrowed := self._narrowed(number) if judged == "recorded" and direction == "forward" else ""
            ):
                yield CheckedTensor(name, "error", narrowed, judged, ratio=math.inf)
            else:
                yield self._tensor(name, direction, number, one, other, judged)

    def _narrowed(self, number: int) -> str:
        """What is wrong with the dtype of a recorded result: it has fewer bits than this call returns.

        Autocast explains fewer bits of contractions, and more bits of anything. Without a tensor of floats,
        the default dtype of the program decides.
        """
        recorded = self._recorded[number]
        dtype = DTYPES.get(recorded.dtype) if isinstance(recorded, DumpTensor) else None
        given = {one.recorded.dtype for one in self.arguments.tensors}
        floats = {name for name in given if name in DTYPES and DTYPES[name].is_floating_point}
        is_explained = self.of_node or self._settings.autocast is not None or self.function.name in AUTOCAST
        is_plain = not floats or dtype is None or not dtype.is_floating_point or floats == {recorded.dtype}
        if is_explained or is_plain or not self.function.is_of_torch or self._remark:
            return ""
        try:
            if self._peer is None:
                self._peer = self._run(Way())
        except (NotReplayableError, RuntimeError, NotImplementedError):
            return ""
        peer = _part(self._peer, "forward", number)
        if dtype is None or peer is None or not peer.is_floating_point():
            return ""
        if dtype.itemsize >= peer.dtype.itemsize:
            return ""
        self.is_narrowed = True
        return f"dtype {recorded.dtype}, expected {peer.dtype}"

    def _name_of(self, direction: str, number: int) -> str:
        if direction == "backward" and number in self._parameters:
            return f"{self.name}.backward.parameters_grad.{self._parameters[number]}"
        return f"{self.name}.{direction}.output.{number}"

    def _tensor(
        self, name: str, direction: str, number: int, one: torch.Tensor, other: torch.Tensor, judged: str
    ) -> CheckedTensor:
        terms = self._terms(other)
        coarsest = self._coarsest()
        standards = self._settings.with_standards
        found = judge_result(
            self.function.name, real(one), real(other), terms=terms, coarsest=coarsest, standards=standards
        )
        needs_more = found.status != "pass" or (
            found.by_standard is None and self._settings.standard != "native"
        )
        if needs_more and not self._remark and other.dtype != torch.bool:
            found = self._judged_with_more(direction, number, one, other, terms, coarsest) or found
        status: str = (
            found.status if self._settings.standard == "native" else found.by_standard or found.cascade
        )
        message = found.message
        if self.of_node and direction == "backward" and status == "error":
            # It may be the gradient of a recomputed call, or of a wrapper: no reason to blame the kernel.
            status, message = "warning", f"{message}; the tool does not record gradients of arguments"
        if direction == "backward" and number in self._parameters and status == "error":
            status, message = "warning", f"{message}; other calls that are not recorded may use the parameter"
        if self.function.is_module and status == "warning" and found.status == "warning":
            # The roundings of its calls add up: what it has here in its own dtype is no defect.
            status = "pass"
        return CheckedTensor(
            name,
            status,
            message,
            judged,
            tuple(found.measured()),
            found.error,
            found.floor,
            found.ratio,
            found.standard,
            found.by_standard or "",
            found.limits,
        )

    def _judged_with_more(
        self,
        direction: str,
        number: int,
        one: torch.Tensor,
        other: torch.Tensor,
        terms: float,
        coarsest: str | None,
    ) -> Judgement | None:
        """Judges again, with how far the result moves with its inputs, and with the same call here."""
        _, precision = self.reference()
        found = None
        # Of a few elements, a single draw may move none by chance.
        for draw in range(_DRAWS if one.numel() < _FEW_ELEMENTS else 1):
            try:
                moved = self._moved_by(SHIFTS[precision], precision, draw)
                if self._peer is None:
                    self._peer = self._run(Way())
            except (NotReplayableError, RuntimeError, NotImplementedError):
                return found
            far, near, peer = (_part(outcome, direction, number) for outcome in (*moved, self._peer))
            shape = real(one).shape
            if far is None or near is None or {far.shape, near.shape} != {shape}:
                return found
            has_peer = peer is not None and (peer.dtype, peer.shape) == (real(one).dtype, shape)
            found = judge_result(
                self.function.name,
                real(one),
                real(other),
                moved=(far, near),
                shift=SHIFTS[precision],
                terms=terms,
                coarsest=coarsest,
                peer=peer if has_peer else None,
                standards=self._settings.with_standards,
            )
            if found.status == "pass":
                break
        return found

    def _moved_by(self, shift: float, precision: torch.dtype, draw: int) -> tuple[Outcome, Outcome]:
        if draw not in self._moved:
            far, near = (self._run(Way(precision, size, draw=draw)) for size in (shift, shift / 16))
            self._moved[draw] = far, near
        return self._moved[draw]

    def _coarsest(self) -> str | None:
        """The coarsest dtype that the call computes in: of its tensors, or that autocast gives it."""
        found = [one.recorded.dtype for one in self.arguments.tensors]
        found += [one.dtype for one in self._recorded if isinstance(one, DumpTensor)]
        autocast = self._settings.autocast
        if autocast is not None and (self.function.name in AUTOCAST or self.function.is_module):
            found.append(autocast.dtype)
        floats = [dtype for dtype in found if dtype in DTYPES and DTYPES[dtype].is_floating_point]
        return max(floats, key=lambda dtype: torch.finfo(DTYPES[dtype]).eps, default=None)

    def _terms(self, result: torch.Tensor) -> float:
        """How many terms an element is added up from: most sums go over one dimension, or all but one."""
        counts = [given.tensor.numel() for given in self.arguments.tensors]
        counts += [gradient.numel() for gradient in self.gradients or [] if gradient is not None]
        each = [max(count / max(result.numel(), 1), math.sqrt(count)) for count in counts]
        return max(each, default=1.0)


def _part(outcome: Outcome, direction: str, number: int) -> torch.Tensor | None:
    values = outcome.results if direction == "forward" else outcome.gradients or []
    value = values[number] if number < len(values) else None
    return real(value) if isinstance(value, torch.Tensor) else None


def _jumps(exact: torch.Tensor, far: torch.Tensor, near: torch.Tensor) -> torch.Tensor:
    """Where a result moves as far for a smaller move of the inputs: the rule of ``kernels/src/replay.rs``."""
    finite = exact.isfinite()
    changes = (finite != far.isfinite()) | (finite != near.isfinite())
    by_far, by_near = (far - exact).abs(), (near - exact).abs()
    return changes | ((by_far > 2.0**-26 * exact.abs()) & (by_near > by_far / 4))


def real(tensor: torch.Tensor) -> torch.Tensor:
    """The parts of a complex tensor; any other as it is."""
    tensor = tensor.detach()
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def _shape(recorded: Any) -> tuple[int, ...] | None:
    if isinstance(recorded, DumpTensor) and recorded.shape is not None:
        return tuple(recorded.shape)
    return None
