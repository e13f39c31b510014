"""Replays calls of one rank: finds their two directions, what may have made them, and what autocast did."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ulpscope._replay.dump_calls import autocast_of
from ulpscope._replay.functions import NotReplayableError, function_of
from ulpscope._replay.module_state import ModuleState
from ulpscope._replay.modules import NamedModules, module_function
from ulpscope._replay.replay import RecordedState, Replay

if TYPE_CHECKING:
    from ulpscope._core import DumpCall, DumpRank
    from ulpscope._replay.dump_calls import Autocast, RecordedCall
    from ulpscope._replay.functions import ReplayFunction
    from ulpscope._replay.replay import Replayed, ReplaySettings

OWN_TOOL = "Ulpscope"
# Tools that record all arguments, except with task structure.
_WITH_ARGUMENTS = (OWN_TOOL, "msprobe")
# What torch and the reader raise on arguments that do not fit.
ERRORS = (RuntimeError, ValueError, TypeError, ArithmeticError, LookupError, OSError)


class RankReplay:
    """The calls of a rank, made again one by one."""

    def __init__(self, rank: DumpRank, settings: ReplaySettings, modules: NamedModules | None = None) -> None:
        self.rank = rank
        self._settings = settings
        self._modules = modules or NamedModules(())
        self._states: list[ModuleState] = []
        self._autocast: list[Autocast | None] = []

    def judged(self, found: RecordedCall, known: Replay | None = None) -> tuple[Replay, Replayed]:
        """Makes a call again as each of what it may be, until it is right as one of them.

        It is wrong if it is wrong as all of them; then the one that differs least counts. A module that
        cannot be made again may have been the right one; a function that refuses the arguments was not.
        ``known`` is a replay whose results are used again if it had the same arguments.
        """
        forward = self.rank.call(found.forward)
        if forward is None:
            raise NotReplayableError(
                "the dump has no arguments, as with task structure: record with task tensor or statistics"
                if self.rank.tool in _WITH_ARGUMENTS
                else f"{self.rank.tool} does not record all arguments of a call"
            )
        backward = None if found.backward is None else self.rank.call(found.backward)
        # Other tools record what one autograd node returns; of a module they record gradients of arguments.
        of_node = self.rank.tool != OWN_TOOL and not found.is_module
        others: list[tuple[Replay, Replayed]] = []
        reason: NotReplayableError | None = None
        for function, state in self._functions(found, forward):
            try:
                replay = Replay(found.name, function, forward, backward, self._settings, of_node, state)
                if known is not None:
                    replay.share(known)
                replayed = replay.judged()
                if replayed.has_failed and (autocast := self._known_autocast()) is not None:
                    settings = dataclasses.replace(self._settings, autocast=autocast)
                    replay = Replay(found.name, function, forward, backward, settings, of_node, state)
                    replayed = replay.judged()
            except NotReplayableError as error:
                reason = reason or error
                continue
            if not replayed.is_doubtful:
                return replay, replayed
            others.append((replay, replayed))
        best = min(others, key=lambda one: one[1].badness, default=None)
        if best is None or (reason is not None and found.is_module and best[1].has_failed):
            raise reason or NotReplayableError("nothing makes it again")
        return best

    def _functions(
        self, found: RecordedCall, forward: DumpCall
    ) -> Iterator[tuple[ReplayFunction, RecordedState | None]]:
        """What may have made a call.

        A dump does not tell ``torch.svd`` from ``torch.linalg.svd``, whose results may have the same shapes.
        It does not say whether a module was training either.
        """
        if not found.is_module or not found.base.startswith("Module."):
            function = function_of(found.base)
            for candidate in function.candidates:
                yield function._replace(candidates=(candidate,)), None
            return
        shapes = {name: tuple(one.shape or ()) for name, one in forward.parameters.items() if one is not None}
        made = self._modules.module(found.base, shapes)
        states = self._module_state()
        tensors = states.of(found.base, found.forward, made.module)
        state = RecordedState(tensors, states.gradients(found.base, list(tensors)))
        yield module_function(found.base, made, made.module.training), state
        yield module_function(found.base, made, not made.module.training), state

    def _module_state(self) -> ModuleState:
        if not self._states:
            self._states.append(ModuleState(self.rank))
        return self._states[0]

    def _known_autocast(self) -> Autocast | None:
        if not self._autocast:
            self._autocast.append(autocast_of(self.rank))
        return self._autocast[0]


def reason_of(error: Exception) -> str:
    """Why a call could not be made again, in one line."""
    if isinstance(error, NotReplayableError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300] if str(error) else ''}"
