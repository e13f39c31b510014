"""Makes blamed calls of a comparison again, for ``ulpscope compare --prove``.

comparison ──► rank, number of a call ──► replay in raised precision ──► its own error, or why not
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ulpscope._core import DumpCall, DumpRank
    from ulpscope._replay.dump_calls import RecordedCall
    from ulpscope._replay.rank_replay import RankReplay
    from ulpscope._replay.replay import Replay
    from ulpscope._replay.results import CheckedTensor

OwnError = tuple[str, float, float, float, str]
"""Status, error, what rounding explains, how many times that, and a remark."""

# Of the tensors of a call that one thread computes.
_FEW_ELEMENTS = 1 << 22

# From best to worst.
_ORDER = ("pass", "warning", "error")


class CallProver:
    """Measures the own errors of recorded calls. The extension module calls it."""

    def __init__(self) -> None:
        # Here, and not on first use: torch must not be imported first by a thread that Python did not start.
        try:
            import torch  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"replay needs torch, which cannot be imported: {error}; install it, or leave out --prove"
            ) from error
        self._ranks: list[_RankCalls] = []
        # The last call: on the other side it often has the same inputs.
        self._last: list[Replay] = []

    def replay(self, rank: DumpRank, number: int) -> OwnError:
        """The own error of a call, forward or backward, at its worst result.

        Raises a `NotReplayableError` that says why, if the call cannot be made again.
        """
        from ulpscope._replay.functions import NotReplayableError
        from ulpscope._replay.rank_replay import ERRORS, reason_of

        try:
            return self._calls_of(rank).own_error(number, self._last)
        except (MemoryError, *ERRORS) as error:
            raise NotReplayableError(reason_of(error)) from error

    def _calls_of(self, rank: DumpRank) -> _RankCalls:
        known = next((calls for calls in self._ranks if calls.rank is rank), None)
        if known is None:
            known = _RankCalls(rank)
            # Only two ranks are compared at a time.
            self._ranks = [*self._ranks[-1:], known]
        return known


class _RankCalls:
    """The calls of a rank, by the numbers of both directions."""

    def __init__(self, rank: DumpRank) -> None:
        from ulpscope._replay.dump_calls import calls_of
        from ulpscope._replay.rank_replay import RankReplay
        from ulpscope._replay.replay import ReplaySettings

        self.rank = rank
        self._replay: RankReplay = RankReplay(rank, ReplaySettings(with_standards=False))
        self._calls: dict[int, tuple[RecordedCall, str]] = {}
        for found in calls_of(rank):
            # The backward pass is made again only where it is asked for.
            self._calls[found.forward] = dataclasses.replace(found, backward=None), "forward"
            if found.backward is not None:
                self._calls[found.backward] = found, "backward"

    def own_error(self, number: int, last: list[Replay]) -> OwnError:
        """``last`` is the replay before this one, and is replaced by this one."""
        from ulpscope._replay.functions import NotReplayableError

        if number not in self._calls:
            raise NotReplayableError("its forward call was not recorded")
        found, direction = self._calls[number]
        known = last.pop() if last else None
        with _few_threads(self.rank.call(found.forward)):
            replay, replayed = self._replay.judged(found, known)
        last.append(replay)
        if replay.arguments.is_drawn:
            raise NotReplayableError(
                "the elements of its inputs are not in the dump (record with task: tensor)"
            )
        if direction == "backward" and replayed.backward_reason:
            raise NotReplayableError(replayed.backward_reason)
        if direction == "forward" and replayed.remark:
            return "error", 0.0, 0.0, float("inf"), replayed.remark
        recorded = [
            one for one in replayed.tensors if one.judged == "recorded" and f".{direction}.output" in one.name
        ]
        if not recorded:
            raise NotReplayableError("none of its results has elements in the dump that can be judged")
        worst = max(recorded, key=_badness)
        if replay.of_node and direction == "backward" and worst.status != "pass":
            raise NotReplayableError(f"{self.rank.tool} does not record gradients of arguments")
        return worst.status, worst.error, worst.floor, worst.ratio, worst.message


@contextlib.contextmanager
def _few_threads(call: DumpCall | None) -> Iterator[None]:
    """One thread for a small call: to start and join the others takes longer than its arithmetic."""
    import torch

    from ulpscope._core import DumpTensor
    from ulpscope._replay.arguments import leaves

    given = [] if call is None else leaves([call.positional, list(call.keyword.values()), call.results])
    elements = sum(math.prod(one.shape or ()) for one in given if isinstance(one, DumpTensor))
    threads = torch.get_num_threads()
    if elements < _FEW_ELEMENTS and threads > 1:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)


def _badness(tensor: CheckedTensor) -> tuple[int, float]:
    return _ORDER.index(tensor.status), tensor.ratio
