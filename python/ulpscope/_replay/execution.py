"""Makes a call again: in its own precision, in raised precision, and from inputs that are moved a little.

Every run has copies of the arguments, so that calls in place change nothing that is needed again.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ulpscope._replay.arguments import Rebuilt, leaves
from ulpscope._replay.functions import NotReplayableError, ReplayFunction
from ulpscope._replay.result_sizes import check_size

# The relative movement of inputs, and a sixteenth of it, for references in float64 and in float32.
SHIFTS = {torch.float64: 2.0**-30, torch.float32: 2.0**-12}

_COMPLEX = {torch.float64: torch.complex128, torch.float32: torch.complex64}


class RandomError(NotReplayableError):
    """The call draws random numbers."""


@dataclass
class Outcome:
    """Results of a call, flat, and the gradients of its tensors, by their number."""

    results: list[Any]
    gradients: list[torch.Tensor | None] | None


@dataclass
class Way:
    """How a call is made."""

    precision: torch.dtype | None = None
    """Floating-point tensors and dtypes become this; ``None``: as recorded."""
    shift: float = 0.0
    """By how much each element is moved, relatively, up or down."""
    device: str = "cpu"
    draw: int = 0
    """Which of several ways to move up or down."""


class _WithGradients(torch.autograd.Function):
    """A number whose gradients with respect to some tensors are given.

    Given to ``torch.autograd.grad`` itself, they make it import the algebra of its compiler, which takes
    longer than most comparisons.
    """

    @staticmethod
    def forward(ctx: Any, gradients: list[torch.Tensor], *_: torch.Tensor) -> torch.Tensor:
        ctx.gradients = gradients
        return torch.zeros((), device=gradients[0].device)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        return None, *ctx.gradients


class Execution:
    """One call, to be made in several ways."""

    def __init__(
        self,
        function: ReplayFunction,
        arguments: Rebuilt,
        shapes: list[tuple[int, ...] | None],
        of_node: bool = False,
    ) -> None:
        """``shapes`` are those of the recorded results; they decide between candidates.

        ``of_node``: gradients are those that the last autograd node of the call returns, as msprobe records
        them, and not those of the arguments.
        """
        self._of_node = of_node
        self.function = function
        self._arguments = arguments
        self._shapes = shapes
        self.chosen: tuple[Callable[..., Any], type | None] | None = None

    def run(self, way: Way, gradients: list[torch.Tensor | None] | None) -> Outcome:
        """Makes the call; with gradients of its results, the backward pass too."""
        with _undisturbed(way.precision):
            state = torch.get_rng_state()
            tensors, given = self._tensors(way, gradients is not None)
            results = self._call(way, given)
            if not torch.equal(state, torch.get_rng_state()):
                raise RandomError("it draws random numbers")
            if gradients is None:
                return Outcome([_detached(result) for result in results], None)
            found = self._backward(way, tensors, results, gradients)
            return Outcome([_detached(result) for result in results], found)

    def _tensors(self, way: Way, with_grad: bool) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The tensors that gradients are computed of, and what the call gets: copies, which it may change."""
        own = [converted(given.tensor, way, number) for number, given in enumerate(self._arguments.tensors)]
        if not with_grad:
            # A conversion made a copy already.
            shared = {given.tensor.data_ptr() for given in self._arguments.tensors}
            return own, [tensor.clone() if tensor.data_ptr() in shared else tensor for tensor in own]
        for tensor, given in zip(own, self._arguments.tensors, strict=True):
            if given.needs_grad:
                tensor.requires_grad_()
        return own, [tensor.clone() for tensor in own]

    def _call(self, way: Way, given: list[torch.Tensor]) -> list[Any]:
        failures = []
        for function, index_as in [self.chosen] if self.chosen else self._candidates():
            args, kwargs = self._arguments.filled(given, lambda value: _plain(value, way), index_as)
            if not self.function.is_module:
                check_size(self.function.name, function, args, kwargs)
            try:
                result = function(*args, **kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
                failures.append(error)
                continue
            results = list(leaves(args[0] if self.function.returns_its_argument else result))
            if self.chosen is None and not self._fits(results) and not self._is_wrong_shape(results):
                failures.append(ValueError("its results have different shapes than the recorded ones"))
                continue
            self.chosen = (function, index_as)
            return results
        raise NotReplayableError(f"it cannot be called with these arguments: {_first_line(failures[0])}")

    def _candidates(self) -> Iterator[tuple[Callable[..., Any], type | None]]:
        for function in self.function.candidates:
            if self.function.indexes:
                # A tuple of numbers is one place, a list is several.
                yield function, tuple
                yield function, list
            else:
                yield function, None

    def _fits(self, results: list[Any]) -> bool:
        if self.function.returns_its_argument:
            return True
        found = [tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in results]
        return not self._shapes or (
            len(found) == len(self._shapes)
            and all(shape is None or one == shape for one, shape in zip(found, self._shapes, strict=True))
        )

    def _is_wrong_shape(self, results: list[Any]) -> bool:
        """Whether no other call than this explains what was recorded: then its shape is the wrong one.

        Further results may be workspaces, whose sizes depend on the kernel, and so may be empty ones. A
        module may have been constructed with different arguments, and a counterpart of ours may return more.
        """
        first = self._shapes[0]
        return (
            not (self._arguments.is_drawn or self.function.indexes)
            and self.function.is_of_torch
            and len(self.function.candidates) == 1
            and len(results) == len(self._shapes)
            and first is not None
            and 0 not in first
            and isinstance(results[0], torch.Tensor)
            and results[0].numel() > 0
            and results[0].shape != first
        )

    def _backward(
        self,
        way: Way,
        tensors: list[torch.Tensor],
        results: list[Any],
        gradients: list[torch.Tensor | None],
    ) -> list[torch.Tensor | None]:
        pairs = [
            (result, converted(gradient, way, -1 - number))
            for number, (result, gradient) in enumerate(zip(results, gradients, strict=False))
            if gradient is not None and isinstance(result, torch.Tensor) and result.requires_grad
        ]
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        if not pairs or not wanted:
            return [None] * len(tensors)
        for result, gradient in pairs:
            if result.shape != gradient.shape:
                raise NotReplayableError("a recorded gradient has a different shape than the result")
        if self._of_node:
            node: Any = pairs[0][0].grad_fn
            try:
                returned = node(*(gradient.to(result.dtype) for result, gradient in pairs))
            except TypeError as error:
                raise NotReplayableError("the gradients of some results are not recorded") from error
            return list(returned) if isinstance(returned, tuple) else [returned]
        results = [result for result, _ in pairs]
        with_gradients: Any = _WithGradients.apply
        scalar = with_gradients([gradient.to(result.dtype) for result, gradient in pairs], *results)
        found = torch.autograd.grad(scalar, wanted, allow_unused=True)
        by_tensor = dict(zip(map(id, wanted), found, strict=True))
        return [by_tensor.get(id(tensor)) for tensor in tensors]


def raised(execution: Execution, gradients: list[torch.Tensor | None] | None) -> tuple[Outcome, torch.dtype]:
    """The call in float64; in float32, if torch cannot compute it in float64."""
    try:
        return execution.run(Way(torch.float64), gradients), torch.float64
    except RandomError:
        raise
    except (NotReplayableError, RuntimeError, NotImplementedError) as error:
        try:
            return execution.run(Way(torch.float32), gradients), torch.float32
        except (NotReplayableError, RuntimeError, NotImplementedError):
            raise NotReplayableError(_first_line(error)) from error


def converted(tensor: torch.Tensor, way: Way, number: int) -> torch.Tensor:
    kind = tensor.dtype
    precision = way.precision
    if precision is not None and kind.is_floating_point:
        tensor = tensor.to(precision)
    elif precision is not None and kind.is_complex:
        tensor = tensor.to(_COMPLEX[precision])
    else:
        tensor = tensor.to(way.device)
    if way.shift and (kind.is_floating_point or kind.is_complex):
        up = _coins(tensor.shape, 1_000_003 * (way.draw + 1) + number).to(precision or torch.float64)
        up.mul_(2 * way.shift).add_(1 - way.shift)
        tensor = tensor * up if kind.is_complex else up.mul_(tensor)
    # A new object, whose gradient is its own.
    return tensor.detach()


def _coins(shape: torch.Size, seed: int) -> torch.Tensor:
    """Zeros and ones."""
    generator = torch.Generator().manual_seed(seed)
    count = shape.numel()
    # Eight bytes for each number that is drawn.
    words = torch.empty((count + 7) // 8, dtype=torch.int64).random_(generator=generator)
    # The highest bit of random_ is always zero, the lowest is not.
    return words.view(torch.int8)[:count].bitwise_and_(1).view(shape)


def _plain(value: Any, way: Way) -> Any:
    if isinstance(value, torch.device):
        return torch.device(way.device)
    if way.precision is not None and isinstance(value, torch.dtype):
        if value.is_floating_point:
            return way.precision
        if value.is_complex:
            return _COMPLEX[way.precision]
    return value


@contextlib.contextmanager
def _undisturbed(precision: torch.dtype | None) -> Iterator[None]:
    """Leaves torch as it was: its random numbers, its default dtype, its modes of gradients."""
    default = torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        if precision is not None:
            # Numbers made of integers have the default dtype.
            torch.set_default_dtype(precision)
        try:
            yield
        finally:
            torch.set_default_dtype(default)


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:300] if text else type(error).__name__
