"""Steps that are driven by data loaders: each batch of a ``torch.utils.data.DataLoader`` is a step.

    next batch asked for ──► the step is over ──► last wanted step? ──► the program ends
    batch handed out ──► the next step begins

Older tools call this ``enable_dataloader``.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("ulpscope.capture")


class LastStepOver(SystemExit):
    """Ends the program after the last wanted step, with exit code 0. Its dump is complete."""

    def __init__(self) -> None:
        super().__init__(0)


class LoaderSteps:
    """Calls ``begin`` and ``end`` around what a program does with each batch, until ``is_done``.

    Then what ``over`` returns is raised: it ends the program.
    """

    def __init__(
        self,
        begin: Callable[[], None],
        end: Callable[[], None],
        is_done: Callable[[], bool],
        over: Callable[[], BaseException] = LastStepOver,
    ) -> None:
        self._begin = begin
        self._end = end
        self._is_done = is_done
        self._over = over
        self._is_in_step = False
        self._original: Any = None
        self._wrapper: Any = None

    def install(self) -> None:
        """Follows every data loader from now on."""
        from torch.utils.data import dataloader

        original = dataloader._BaseDataLoaderIter.__next__

        @functools.wraps(original)
        def next_batch(iterator: Any) -> Any:
            self._leave_step()
            batch = original(iterator)
            self._enter_step()
            return batch

        self._original, self._wrapper = original, next_batch
        dataloader._BaseDataLoaderIter.__next__ = self._wrapper  # type: ignore[method-assign]

    def remove(self) -> None:
        """Restores the data loaders, unless the program has replaced their method since."""
        from torch.utils.data import dataloader

        self._is_in_step = False
        if dataloader._BaseDataLoaderIter.__next__ is self._wrapper:
            dataloader._BaseDataLoaderIter.__next__ = self._original  # type: ignore[method-assign]

    def _enter_step(self) -> None:
        self._begin()
        self._is_in_step = True

    def _leave_step(self) -> None:
        if not self._is_in_step:
            return
        self._is_in_step = False
        self._end()
        if self._is_done():
            _log.warning("the last wanted step is over: the program ends, because enable_dataloader is true")
            raise self._over()
