"""How a fault gets into one call.

    watch(program) ──► calls, by the names they have in a dump ──► one of them ──► plant(...) ──► the run

A fault is a wrong kernel: what the call takes is right, what it gives is not, and both are recorded.
Therefore the faults sit in a function mode below the recorder's, which is entered later and so is asked
first. Results are changed in their memory, behind autograd's back: the backward pass is that of a right
kernel, which meets wrong numbers. Gradients are changed by a hook on the node that makes them, registered
inside the call and hence before the recorder's. Weights, buffers and modules are changed before the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Generator, Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge
from torch.overrides import TorchFunctionMode

from faults.models import Program

Function = Callable[..., Any]

# Functions, and the names their calls have in a dump when written as in faults.models.
KINDS: dict[Function, str] = {
    F.linear: "Functional.linear",
    torch.mm: "Torch.mm",
    Tensor.matmul: "Tensor.__matmul__",
    F.scaled_dot_product_attention: "Functional.scaled_dot_product_attention",
    F.softmax: "Functional.softmax",
    F.layer_norm: "Functional.layer_norm",
    F.group_norm: "Functional.group_norm",
    F.batch_norm: "Functional.batch_norm",
    F.conv2d: "Functional.conv2d",
    F.conv_transpose2d: "Functional.conv_transpose2d",
    F.gelu: "Functional.gelu",
    F.silu: "Functional.silu",
    F.relu: "Functional.relu",
    F.embedding: "Functional.embedding",
    F.dropout: "Functional.dropout",
    Tensor.add: "Tensor.__add__",
    Tensor.mul: "Tensor.__mul__",
    Tensor.masked_fill: "Tensor.masked_fill",
    torch.index_select: "Torch.index_select",
    torch.lstm: "VF.lstm",
    torch.gru: "VF.gru",
    torch.gru_cell: "VF.gru_cell",
}


@dataclass
class Call:
    """A call as the mode has seen it."""

    kind: str
    number: int
    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    # The path of the module it was made in, and of the parameters and buffers among its tensors.
    owner: str = ""
    held: tuple[str | None, ...] = ()

    @property
    def name(self) -> str:
        """In a dump, without its direction."""
        return f"{self.kind}.{self.number}"

    @property
    def given(self) -> Tensor:
        """What it gives, the first of several."""
        first: Tensor = self.result[0] if isinstance(self.result, tuple) else self.result
        return first

    @property
    def tensors(self) -> list[Tensor]:
        """The tensors among the arguments, in order, those in lists included."""
        found: list[Tensor] = []
        for value in (*self.args, *self.kwargs.values()):
            several = value if isinstance(value, (list, tuple)) else [value]
            found += [one for one in several if isinstance(one, Tensor)]
        return found

    def argument(self, position: int, name: str) -> Any:
        """An argument, however it was passed."""
        return self.args[position] if position < len(self.args) else self.kwargs.get(name)

    def again(self, position: int, name: str, value: Any) -> Tensor:
        """What the function gives when one of its arguments is another."""
        args, kwargs = list(self.args), dict(self.kwargs)
        if position < len(args):
            args[position] = value
        else:
            kwargs[name] = value
        given: Tensor = self.function(*args, **kwargs)
        return given


class Watch(TorchFunctionMode):
    """Counts calls as the recorder does. ``on_call`` may give another result than the function's."""

    def __init__(self, on_call: Callable[[Call], Any]) -> None:
        super().__init__()
        self._on_call = on_call
        self._counts: dict[str, int] = {}

    def __torch_function__(
        self, function: Function, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        kind = KINDS.get(function)
        result = function(*args, **kwargs)
        if kind is None:
            return result
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        return self._on_call(Call(kind, number, function, args, kwargs, result))


def watch(program: Program) -> list[Call]:
    """Runs a step, and returns its calls in order, each with the module it was made in."""
    calls: list[Call] = []
    owners: list[nn.Module] = []
    model = program.model
    paths = {module: path for path, module in model.named_modules()}
    held = {id(one): name for name, one in (*model.named_parameters(), *model.named_buffers())}

    def on_call(call: Call) -> Any:
        call.owner = paths[owners[-1]] if owners else ""
        call.held = tuple(held.get(id(tensor)) for tensor in call.tensors)
        calls.append(call)
        return call.result

    def on_return(module: nn.Module, args: Any, result: Any) -> None:
        owners.pop()

    hooks = (
        nn.modules.module.register_module_forward_pre_hook(lambda module, _: owners.append(module)),
        nn.modules.module.register_module_forward_hook(on_return),
    )
    try:
        with Watch(on_call):
            program.step()
    finally:
        for hook in hooks:
            hook.remove()
    return calls


@dataclass(frozen=True)
class Planted:
    """Where a fault is: the call to be named, other names that are as exact, the entry that is wrong."""

    call: str
    entry: str
    accepted: tuple[str, ...] = ()
    # Where the same values are in a run without the fault, if the entry has another name there.
    golden_entry: str | None = None
    # Whether what the call takes is the same in a run without the fault.
    takes_the_same: bool = True
    # The folder of the process it is in.
    rank: str = "rank"


class Plant(Protocol):
    """A way for a fault to get into a call."""

    def into(
        self, program: Program, site: Call, generator: Generator
    ) -> tuple[Planted, Callable[[Call], Any] | None]:
        """Changes the program; returns where the fault is, and what is to be done with each call."""


def _same(one: Call, other: Call) -> bool:
    return (one.kind, one.number) == (other.kind, other.number)


@dataclass(frozen=True)
class InResult:
    """A kernel that gives something else."""

    change: Callable[[Call, Generator], Tensor]

    def into(
        self, program: Program, site: Call, generator: Generator
    ) -> tuple[Planted, Callable[[Call], Any] | None]:
        """See Plant."""

        def on_call(call: Call) -> Any:
            if _same(call, site):
                with torch.no_grad():
                    call.given.data.copy_(self.change(call, generator))
            return call.result

        return Planted(f"{site.name}.forward", f"{site.name}.forward.output.0"), on_call


@dataclass(frozen=True)
class InGradient:
    """A backward kernel that gives something else for one of the arguments.

    ``change`` is also given what a later call of the same kind and shape has given for the same argument.
    ``of_weight``: whether the argument is a parameter, or the first of them all.
    """

    change: Callable[[Tensor, Tensor | None, Generator], Tensor]
    of_weight: bool = False

    def into(
        self, program: Program, site: Call, generator: Generator
    ) -> tuple[Planted, Callable[[Call], Any] | None]:
        """See Plant."""
        place = weights(site)[0] if self.of_weight else differentiable(site)[0]
        shape = site.tensors[place].shape
        seen: list[Tensor] = []

        def on_call(call: Call) -> Any:
            is_twin = call.kind == site.kind and call.number >= site.number and place in differentiable(call)
            if is_twin and call.tensors[place].shape == shape:
                is_site = _same(call, site)

                def change(gradient: Tensor) -> Tensor:
                    if is_site:
                        return self.change(gradient, seen[-1] if seen else None, generator)
                    seen.append(gradient.clone())
                    return gradient

                _on_gradient(call, place, change)
            return call.result

        call = f"{site.name}.backward"
        return Planted(call, f"{call}.output.{place}"), on_call


def differentiable(call: Call) -> list[int]:
    """Which of the tensors a call takes get a gradient."""
    return [place for place, tensor in enumerate(call.tensors) if tensor.requires_grad]


def weights(call: Call) -> list[int]:
    """Which of the tensors a call takes are parameters."""
    return [place for place in differentiable(call) if call.held[place] is not None]


def _on_gradient(call: Call, place: int, change: Callable[[Tensor], Tensor]) -> None:
    """Has the gradient that a call gives for an argument changed where it is made."""
    edges = [get_gradient_edge(tensor) for tensor in call.tensors if tensor.requires_grad]
    wanted = get_gradient_edge(call.tensors[place])
    found = list(_nodes_before(call.given.grad_fn, wanted, edges))
    if len(found) != 1:
        raise RuntimeError(f"{call.name}: expected one node that makes the gradient, found {len(found)}")
    node, index = found[0]

    def hook(gradients: tuple[Tensor | None, ...], _: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        gradient = gradients[index]
        if gradient is None:
            return gradients
        # What the recorder is shown of a backward pass does not include how the fault is made.
        with torch._C.DisableTorchFunction():
            return (*gradients[:index], change(gradient), *gradients[index + 1 :])

    node.register_hook(hook)


def _nodes_before(
    start: Node | None, wanted: GradientEdge, edges: Sequence[GradientEdge]
) -> Iterator[tuple[Node, int]]:
    """The nodes of a call whose edge leads to an argument, and which of their edges it is."""
    waiting, known = [start], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in known or any(node is edge.node for edge in edges):
            continue
        known.add(node)
        for index, (following, number) in enumerate(node.next_functions):
            if following is wanted.node and number == wanted.output_nr:
                yield node, index
            waiting.append(following)


@dataclass(frozen=True)
class InWeight:
    """A weight that is not what it should be: the second of the tensors that the call takes."""

    change: Callable[[Tensor, Generator], Tensor]

    def into(
        self, program: Program, site: Call, generator: Generator
    ) -> tuple[Planted, Callable[[Call], Any] | None]:
        """See Plant."""
        name = site.held[1]
        assert name is not None
        held = {**dict(program.model.named_parameters()), **dict(program.model.named_buffers())}[name]
        with torch.no_grad():
            held.copy_(self.change(held.detach().clone(), generator))
        call, wanted = f"{site.name}.forward", site.tensors[1]
        entry = f"{call}.input.{next(place for place, one in enumerate(site.args) if one is wanted)}"
        return Planted(call, entry, (f"parameter:{name}",), takes_the_same=False), None


@dataclass(frozen=True)
class InModule:
    """A module that does something else; ``change`` says which call is wrong then."""

    change: Callable[[nn.Module, Call], Planted]

    def into(
        self, program: Program, site: Call, generator: Generator
    ) -> tuple[Planted, Callable[[Call], Any] | None]:
        """See Plant."""
        return self.change(program.model.get_submodule(site.owner), site), None


@dataclass(frozen=True)
class Fault:
    """A fault by name, and the calls it can be in."""

    name: str
    kinds: tuple[str, ...]
    plant: Plant
    fits: Callable[[Call, Sequence[Call]], bool] = field(default=lambda call, calls: True)


def sites(fault: Fault, calls: Sequence[Call]) -> list[Call]:
    """The calls of a program that a fault can be in, in order."""
    return [call for call in calls if call.kind in fault.kinds and fault.fits(call, calls)]


@contextlib.contextmanager
def plant(fault: Fault, program: Program, site: Call, seed: int) -> Iterator[Planted]:
    """Has a fault in one call of a program that runs inside the ``with``."""
    generator = Generator().manual_seed(seed)
    planted, on_call = fault.plant.into(program, site, generator)
    with Watch(on_call) if on_call is not None else contextlib.nullcontext():
        yield planted
