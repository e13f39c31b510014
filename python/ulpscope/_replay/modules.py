"""Modules that the user names, to make their recorded calls again.

    "package:Class(8)" ──► an instance ──► the one that made the call ──► its parameters from the dump

Only names that the user gives are imported; a dump selects among what they made, by the name of its class and
the shapes of its parameters. Arguments in a name are literals: nothing is evaluated.
"""

from __future__ import annotations

import ast
import copy
import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import nn

from ulpscope._replay.functions import NotReplayableError, ReplayFunction

# The key of parameters and buffers among the keyword arguments of a rebuilt call: no argument has that name.
STATE = "parameters and buffers"

ModuleName = str | nn.Module | Callable[[], nn.Module]
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class ModulePath:
    """Where a module is in its model, and its class: ``Module.layers.0.Linear``."""

    path: str
    class_name: str

    @classmethod
    def of(cls, base: str) -> ModulePath:
        """From the name of its calls, without number and direction."""
        path, _, class_name = base.partition(".")[2].rpartition(".")
        return cls(path, class_name)


@dataclass
class NamedModule:
    """What one name gives."""

    name: str
    make: Callable[..., Any]
    positional: list[Any] = field(default_factory=list)
    keyword: dict[str, Any] = field(default_factory=dict)
    instance: nn.Module | None = None
    """Nothing, if the shapes of parameters decide about its arguments."""
    imported: str = ""
    """The expression that imports what makes it; empty if it was given as an object."""

    @classmethod
    def of(cls, name: ModuleName) -> NamedModule:
        """Imports and constructs."""
        if isinstance(name, nn.Module):
            return cls(type(name).__name__, type(name), instance=name)
        named = _parsed(name) if isinstance(name, str) else cls(getattr(name, "__name__", str(name)), name)
        try:
            made = named._made({})
        except TypeError as error:
            if named.make in _ARGUMENTS:
                return named
            raise ValueError(
                f"{named.name} cannot be constructed: {error}. Give its arguments, as in "
                'package:Class(8, act="gelu"), or a function that returns the module'
            ) from None
        if not isinstance(made, nn.Module):
            raise ValueError(f"{named.name} is a {type(made).__name__}; expected a torch.nn.Module")
        named.instance = made
        return named

    def _made(self, more: dict[str, Any]) -> Any:
        # Parameters are drawn, and replaced by the recorded ones.
        with torch.random.fork_rng(devices=[]):
            return self.make(*self.positional, **{**more, **self.keyword})

    def candidates(self, place: ModulePath) -> list[nn.Module]:
        """Itself, or the module at that place in it, if the class is the same."""
        if self.instance is None:
            return []
        inner = dict(self.instance.named_modules()).get(place.path)
        found = (inner, self.instance)
        return [one for one in found if one is not None and type(one).__name__ == place.class_name]

    def has(self, place: ModulePath) -> bool:
        """Whether a call is one of this module, or of a module in it."""
        by_shapes = self.instance is None and getattr(self.make, "__name__", "") == place.class_name
        return by_shapes or bool(self.candidates(place))

    def fitting(self, place: ModulePath, shapes: Shapes) -> FoundModule | None:
        """The module that made the calls at a place, if it has parameters of these shapes."""
        if self.instance is not None or not self.has(place):
            found = next((one for one in self.candidates(place) if _fits(one, shapes)), None)
            path = "" if found is self.instance else place.path
            return None if found is None else FoundModule(found, self._expression({}, path))
        more = _ARGUMENTS[self.make](shapes, self.keyword) if "weight" in shapes else {}
        try:
            return FoundModule(self._made(more), self._expression(more, ""))
        except (TypeError, ValueError, RuntimeError):
            return None

    def _expression(self, more: dict[str, Any], path: str) -> str | None:
        """How a script makes it. All arguments are literals."""
        if not self.imported:
            return None
        given = [
            *map(repr, self.positional),
            *(f"{key}={value!r}" for key, value in (more | self.keyword).items()),
        ]
        made = f"{self.imported}({', '.join(given)})"
        return f"{made}.get_submodule({path!r})" if path else made


@dataclass(frozen=True)
class FoundModule:
    """The module of a call, and the expression that makes it; ``None`` if it was given as an object."""

    module: nn.Module
    expression: str | None


class NamedModules:
    """All that the user named."""

    def __init__(self, names: Iterable[ModuleName]) -> None:
        self._named = [NamedModule.of(name) for name in names]

    def has(self, base: str) -> bool:
        """Whether the user named the module of a call."""
        return any(named.has(ModulePath.of(base)) for named in self._named)

    def module(self, base: str, shapes: Shapes) -> FoundModule:
        """The module that made a call; ``shapes`` are those of its own recorded parameters."""
        place = ModulePath.of(base)
        for named in self._named:
            found = named.fitting(place, shapes)
            if found is not None:
                return found
        if not self.has(base):
            raise NotReplayableError(f"a module: --module package:{place.class_name} makes it again")
        raise NotReplayableError(
            f"no {place.class_name} of --module has parameters of the recorded shapes: "
            f"{', '.join(f'{name} {list(shape)}' for name, shape in shapes.items()) or 'none'}"
        )


class ModuleCall:
    """Calls a module with the parameters that are among the arguments."""

    def __init__(self, found: FoundModule, training: bool) -> None:
        self._module, self.training, self.expression = found.module, training, found.expression

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """On a copy: a call may change buffers, and remember what it got."""
        state: dict[str, torch.Tensor] = kwargs.pop(STATE)
        module = copy.deepcopy(self._module).train(self.training)
        tensors = [value for value in (*state.values(), *args) if isinstance(value, torch.Tensor)]
        if tensors:
            module.to(tensors[0].device)
        if torch.get_default_dtype() == torch.float64:
            # What is not recorded, such as a table of positions, is raised here.
            module.to(torch.float64)
        return torch.func.functional_call(module, state, tuple(args), kwargs)


def module_function(base: str, found: FoundModule, training: bool) -> ReplayFunction:
    """A module as a function of its arguments and its parameters."""
    return ReplayFunction("Module", ModulePath.of(base).class_name, (ModuleCall(found, training),))


def _fits(module: nn.Module, shapes: Shapes) -> bool:
    own = {name: tuple(one.shape) for name, one in module.named_parameters(recurse=False)}
    return own == shapes


def _parsed(name: str) -> NamedModule:
    package, _, rest = name.partition(":")
    try:
        tree = ast.parse(rest.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        target = ast.unparse(call.func if call else tree)
        if not package or not all(part.isidentifier() for part in target.split(".")):
            raise ValueError("no name")
        positional = [ast.literal_eval(one) for one in call.args] if call else []
        keyword = {one.arg or "**": ast.literal_eval(one.value) for one in call.keywords} if call else {}
    except (SyntaxError, ValueError):
        raise ValueError(
            f"module {name!r}: expected package:Class, package:function, or one of them with literal "
            'arguments, as in package:Class(8, act="gelu")'
        ) from None
    try:
        made = reduce(getattr, target.split("."), importlib.import_module(package))
    except (ImportError, AttributeError) as error:
        raise ValueError(f"module {name!r} cannot be imported: {error}") from error
    if not callable(made):
        raise ValueError(f"module {name!r} is a {type(made).__name__}; expected a class or a function")
    imported = f"importlib.import_module({package!r}).{target}"
    return NamedModule(name, made, positional, keyword, imported=imported)


def _sizes(*names: str) -> Callable[[Shapes, dict[str, Any]], dict[str, Any]]:
    """Arguments that are the sizes of a weight."""

    def arguments(shapes: Shapes, given: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(names, shapes["weight"], strict=False))

    return arguments


def _linear(shapes: Shapes, given: dict[str, Any]) -> dict[str, Any]:
    outs, ins = shapes["weight"]
    return {"in_features": ins, "out_features": outs, "bias": "bias" in shapes}


def _normalized(shapes: Shapes, given: dict[str, Any]) -> dict[str, Any]:
    return {"normalized_shape": list(shapes["weight"])}


def _convolution(transposed: bool) -> Callable[[Shapes, dict[str, Any]], dict[str, Any]]:
    def arguments(shapes: Shapes, given: dict[str, Any]) -> dict[str, Any]:
        first, second, *kernel = shapes["weight"]
        second *= given.get("groups", 1)
        ins, outs = (first, second) if transposed else (second, first)
        return {"in_channels": ins, "out_channels": outs, "kernel_size": kernel, "bias": "bias" in shapes}

    return arguments


# Modules of torch whose required arguments the shapes of their parameters give. Others keep their defaults,
# unless the user gives them: torch.nn:Conv2d(stride=2).
_ARGUMENTS: dict[Any, Callable[[Shapes, dict[str, Any]], dict[str, Any]]] = {
    nn.Linear: _linear,
    nn.Embedding: _sizes("num_embeddings", "embedding_dim"),
    nn.LayerNorm: _normalized,
    nn.RMSNorm: _normalized,
    nn.GroupNorm: _sizes("num_channels"),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), _sizes("num_features")),
    **dict.fromkeys((nn.Conv1d, nn.Conv2d, nn.Conv3d), _convolution(transposed=False)),
    **dict.fromkeys(
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d), _convolution(transposed=True)
    ),
}


def names_of(modules: Sequence[ModuleName]) -> list[str]:
    """The names as texts, to tell one check from another."""
    return [one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__) for one in modules]
