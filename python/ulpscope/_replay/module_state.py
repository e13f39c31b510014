"""The parameters and buffers of a rank's modules, and their gradients, by their names in the model.

Each is recorded with the calls that use it: as a parameter of a module's call, or as an argument that names
where it came from (``buffer:norm.running_mean``).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from torch import nn

from ulpscope._core import DumpTensor
from ulpscope._replay.arguments import leaves
from ulpscope._replay.dump_calls import calls_of
from ulpscope._replay.functions import NotReplayableError
from ulpscope._replay.modules import ModulePath

if TYPE_CHECKING:
    from ulpscope._core import DumpCall, DumpRank

_SOURCES = ("parameter:", "buffer:")
_GRADIENTS = ".parameters_grad."


class ModuleState:
    """What a rank recorded of the state of its modules."""

    def __init__(self, rank: DumpRank) -> None:
        self._recorded: dict[str, list[tuple[int, DumpTensor]]] = defaultdict(list)
        self._gradients: dict[str, DumpTensor] = {}
        modules = {found.forward: found for found in calls_of(rank) if found.is_module}
        uses = Counter(found.base for found in modules.values())
        for number, name in enumerate(rank.calls()):
            call = rank.call(number)
            if call is None:
                continue
            if number in modules:
                self._add(number, ModulePath.of(modules[number].base).path, call)
            elif _GRADIENTS in name:
                base, _, which = name.partition(_GRADIENTS)
                # The sum over several calls says nothing about one of them.
                if uses[base] == 1 and which == "0":
                    self._add_gradients(ModulePath.of(base).path, call)
            for value in leaves([call.positional, call.keyword]):
                source = value.source if isinstance(value, DumpTensor) else None
                if source is not None and source.startswith(_SOURCES):
                    self._recorded[source.partition(":")[2]].append((number, value))

    def _add(self, number: int, path: str, call: DumpCall) -> None:
        for name, value in call.parameters.items():
            if isinstance(value, DumpTensor):
                self._recorded[_joined(path, name)].append((number, value))

    def _add_gradients(self, path: str, call: DumpCall) -> None:
        for name, value in call.parameters.items():
            found = [one for one in leaves(value) if isinstance(one, DumpTensor)]
            if len(found) == 1:
                self._gradients[_joined(path, name)] = found[0]

    def of(self, base: str, call: int, module: nn.Module) -> dict[str, DumpTensor]:
        """The state of a module when it was called. Buffers that are not recorded are left as constructed."""
        path = ModulePath.of(base).path
        state = {}
        for name, parameter in module.named_parameters():
            recorded = self._at(_joined(path, name), call)
            if recorded is None:
                raise NotReplayableError(f"its parameter {name} is not recorded")
            if recorded.shape is not None and tuple(recorded.shape) != tuple(parameter.shape):
                shapes = f"{list(recorded.shape)}, and not {list(parameter.shape)}"
                raise NotReplayableError(f"its recorded parameter {name} has the shape {shapes}")
            state[name] = recorded
        for name, _ in module.named_buffers():
            recorded = self._at(_joined(path, name), call)
            if recorded is not None:
                state[name] = recorded
        return state

    def gradients(self, base: str, names: list[str]) -> dict[str, DumpTensor]:
        """The gradients of a module's parameters, where they are those of a single call."""
        path = ModulePath.of(base).path
        found = {name: self._gradients.get(_joined(path, name)) for name in names}
        return {name: one for name, one in found.items() if one is not None}

    def _at(self, name: str, call: int) -> DumpTensor | None:
        """As it was last recorded before a call; as it was first recorded, if that is later."""
        recorded = self._recorded.get(name)
        if not recorded:
            return None
        before = bisect_right(recorded, call, key=lambda one: one[0])
        return recorded[max(before - 1, 0)][1]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
