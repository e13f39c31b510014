"""The backward stage: the gradients of a call, computed again for a changed gradient of its outputs.

forward   keeps the inputs of a selected call, at most ``max_sample`` calls of one API
backward  when the gradients of the call's outputs have arrived: the call and its vector-Jacobian product are
          computed again, on the kept inputs; then these are let go
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import register_multi_grad_hook

from ulpscope._capture.calls.named_calls import NamedCall, unseen
from ulpscope._perturbation import messages
from ulpscope._perturbation.arguments import mapped, tensors_in
from ulpscope._perturbation.second_run import (
    CannotRepeatError,
    Given,
    aside,
    is_autocast_on,
    without_autocast,
    without_saving_hooks,
)

if TYPE_CHECKING:
    from ulpscope._perturbation.perturber import Perturber


class KeptCall:
    """A call whose inputs are kept until its backward pass."""

    def __init__(self, call: NamedCall, given: Given) -> None:
        self.call = call
        self.given = given
        self._autocast = _autocast_now(given.devices)
        # A tensor that is given twice has one gradient, also when each place gets a changed copy of its own.
        self._identities = [id(tensor) for tensor in tensors_in((given.args, given.kwargs))]
        self.size = sum(
            tensor.untyped_storage().nbytes()
            for tensor in {id(one): one for one in tensors_in((given.args, given.kwargs))}.values()
        )

    def check_unchanged(self) -> None:
        """Raises if the program has changed an input since the forward pass."""
        try:
            self.given.check_unchanged()
        except CannotRepeatError:
            raise CannotRepeatError("an input was changed between its forward and backward pass") from None

    def gradients(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        incoming: tuple[Any, ...],
        keeps_autocast: bool = True,
    ) -> tuple[torch.Tensor | None, ...]:
        """The gradients of all inputs that need one, in order; ``incoming`` belong to its outputs that do."""
        places = zip(self._identities, self.given.needs_grad, strict=True)
        leaves: dict[int, torch.Tensor] = {}

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            identity, needs_grad = next(places)
            if not needs_grad:
                return tensor
            if identity not in leaves:
                leaves[identity] = tensor.detach().requires_grad_()
            # The call may change its argument in place, which a leaf refuses.
            return leaves[identity].clone() if self.given.has_copies else leaves[identity]

        with contextlib.ExitStack() as around:
            around.enter_context(unseen())
            around.enter_context(without_saving_hooks())
            around.enter_context(self.given.random.repeated())
            around.enter_context(torch.enable_grad())
            if keeps_autocast:
                for context in self._autocast():
                    around.enter_context(context)
            else:
                around.enter_context(without_autocast(self.given.devices))
            args, kwargs = mapped(args, leaf), mapped(kwargs, leaf)
            result = self.given.result(self.call.run(*args, **kwargs), args, kwargs)
            outputs = [one for one in tensors_in(result) if one.requires_grad]
            if len(outputs) != len(incoming):
                raise CannotRepeatError("its results need other gradients when it is run again")
            wanted = [
                (one, gradient.to(one.dtype))
                for one, gradient in zip(outputs, incoming, strict=True)
                if gradient is not None
            ]
            return torch.autograd.grad(
                [one for one, _ in wanted],
                list(leaves.values()),
                [gradient for _, gradient in wanted],
                allow_unused=True,
            )

    def as_call(self, incoming: tuple[Any, ...]) -> NamedCall:
        """The vector-Jacobian product as a function of the inputs and the incoming gradients."""

        def product(args: Any, kwargs: Any, gradients: Any) -> Any:
            return self.gradients(args, kwargs, gradients)

        function = (self.given.args, self.given.kwargs, incoming)
        return NamedCall(f"{self.call.base}.backward", self.call.number, product, function, {}, None)


class BackwardStage:
    """Keeps the inputs of calls until their backward pass; ``check`` is called then."""

    def __init__(
        self, max_sample: int, check: Callable[[NamedCall, KeptCall, tuple[Any, ...]], None]
    ) -> None:
        self._max_sample = max_sample
        self._check = check
        self._kept: dict[str, KeptCall] = {}
        self._taken: dict[str, int] = {}
        self._size = 0
        self._most = (0, 0)

    def watched(self, call: NamedCall, perturber: Perturber) -> Any:
        """Runs a call in the forward pass."""
        given = self._given(call, perturber)
        result = call.original()
        if given is not None:
            try:
                with aside():
                    self._keep(call, given, result, perturber)
            except Exception as error:
                perturber.hold_back(call, error)
        return result

    def _given(self, call: NamedCall, perturber: Perturber) -> Given | None:
        # Calls inside a backward pass recompute a forward pass, which was seen.
        if not torch.is_grad_enabled() or torch._C._current_graph_task_id() != -1:
            return None
        name = f"{call.base}.{call.number}.backward"
        if self._taken.get(call.base, 0) >= self._max_sample:
            messages.cancelled(name, f"the inputs of {self._max_sample} calls of it are kept (max_sample)")
            return None
        try:
            with unseen():
                return Given(call)
        except CannotRepeatError as reason:
            messages.cancelled(name, reason)
        except Exception as error:
            perturber.hold_back(call, error)
        return None

    def _keep(self, call: NamedCall, given: Given, returned: Any, perturber: Perturber) -> None:
        result = given.result(returned, call.args, call.kwargs)
        outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
        if not outputs:
            return
        kept = KeptCall(call, given)
        self._taken[call.base] = self._taken.get(call.base, 0) + 1
        self._kept[call.name] = kept
        self._size += kept.size
        if self._size > self._most[0]:
            self._most = self._size, len(self._kept)

        def arrived(gradients: Any) -> None:
            if self._kept.get(call.name) is not kept:
                return
            try:
                with aside():
                    self._check(call, kept, tuple(gradients))
            except CannotRepeatError as reason:
                messages.cancelled(f"{call.base}.{call.number}.backward", reason)
            except Exception as error:
                perturber.hold_back(call, error)
            finally:
                self._let_go(call.name)

        register_multi_grad_hook(outputs, arrived, mode="all")

    def _let_go(self, name: str) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None:
            self._size -= kept.size

    def next_step(self, step: int) -> None:
        """Ends a step: what had no backward pass is let go."""
        if self._most[1]:
            messages.kept(step, *self._most)
        self._kept.clear()
        self._taken.clear()
        self._size, self._most = 0, (0, 0)


def _autocast_now(devices: set[torch.device]) -> Callable[[], list[Any]]:
    """A function that makes the automatic casts that are on now."""
    kinds = sorted({"cpu", *(device.type for device in devices)})
    on = [(kind, torch.get_autocast_dtype(kind)) for kind in kinds if is_autocast_on(kind)]
    off = [kind for kind in kinds if not is_autocast_on(kind)]

    def contexts() -> list[Any]:
        casting = [torch.autocast(kind, dtype=dtype) for kind, dtype in on]
        return casting + [torch.autocast(kind, enabled=False) for kind in off if is_autocast_on(kind)]

    return contexts
