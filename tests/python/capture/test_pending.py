"""Asynchronous collectives that fail: their buffers hold nothing that was ever a result."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ulpscope._capture.collectives.pending import Pending, add_completions
from ulpscope._capture.lifecycle.patches import Patches


class Words:
    """Replaces the recorder: notes the calls it gets."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def end(self, call: Any, buffers: Any) -> None:
        self.said.append(("end", call))

    def raised(self, call: Any, kind: str) -> None:
        assert kind == "the work failed"
        self.said.append(("raised", call))

    def note(self, text: str) -> None:
        self.said.append(("note", text))


def failed() -> Any:
    future: Any = torch.futures.Future()
    future.set_exception(RuntimeError("connection lost"))
    return future


def succeeded() -> Any:
    future: Any = torch.futures.Future()
    future.set_result([torch.ones(2)])
    return future


@pytest.mark.parametrize(("future", "word"), [(failed, "raised"), (succeeded, "end")])
def test_a_future_says_how_it_ended(future: Any, word: str) -> None:
    words = Words()
    pending = Pending(words)  # type: ignore[arg-type]
    work = object()
    pending.add([work], "call", [])  # type: ignore[arg-type]
    pending.follow(work, future())
    pending.flush()
    assert words.said == [(word, "call")]


def test_waiting_for_a_future_that_fails() -> None:
    words, patches = Words(), Patches()
    pending = Pending(words)  # type: ignore[arg-type]
    add_completions(patches, pending)
    work, future = object(), failed()
    pending.add([work], "call", [])  # type: ignore[arg-type]
    # As if the callback had not been called yet: it is by another thread.
    pending._futures[id(future)] = future, work
    patches.install()
    try:
        with pytest.raises(RuntimeError, match="connection lost"):
            future.wait()
    finally:
        patches.remove()
    assert words.said == [("raised", "call")]
