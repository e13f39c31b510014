"""A function that a test perturbs: it keeps what each of its runs gets, and returns what the test chose."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import ulpscope

_NO_MORE = object()


class Watched:
    """The first run is the program's; those of the check follow: on changed inputs, perhaps on the CPU."""

    def __init__(self, check: Any) -> None:
        self.check = check
        self.runs: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """The arguments of each run since the last ``call``."""
        self._results: Iterator[Any] = iter(())

    def watch(self, *args: Any, **kwargs: Any) -> Any:
        """What is perturbed."""
        self.runs.append((args, kwargs))
        result = next(self._results, _NO_MORE)
        assert result is not _NO_MORE, f"it runs more than {len(self.runs) - 1} times"
        return result

    def call(self, results: Iterable[Any], *args: Any, **kwargs: Any) -> None:
        """Calls it as a program does. Each run returns the next of the results; a list must be used up."""
        self.runs.clear()
        self._results = iter(results)
        self.watch(*args, **kwargs)
        if isinstance(results, list):
            assert len(self.runs) == len(results)


@contextlib.contextmanager
def watched(folder: Path, prefix: str | None = None, **settings: Any) -> Iterator[Watched]:
    """Perturbs the calls of ``Watched.watch`` alone. What a run raises ends the test."""
    with ulpscope.check.perturb(folder, list=["watch"], strict=True, **settings) as check:
        one = Watched(check)
        check.register_custom_api(one, "watch", prefix)
        yield one
