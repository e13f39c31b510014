"""Capture that is started, stopped and left on different threads, and what stays on them."""

from __future__ import annotations

import os
import queue
import resource
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from captured import Captured
from patches import Guarded, left_behind, modes_of_this_thread, snapshot

LEVELS = {"L1": "Torch.sin", "L2": "Aten.sin"}


class Worker:
    """A thread that runs the functions it gets, one after the other."""

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._made: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def do(self, what: Callable[[], Any]) -> Any:
        """Has something done there; what it returns."""
        self._wanted.put(what)
        made = self._made.get(timeout=60)
        if isinstance(made, BaseException):
            raise made
        return made

    def end(self) -> None:
        self._wanted.put(None)
        self._thread.join(60)

    def _work(self) -> None:
        while (what := self._wanted.get()) is not None:
            try:
                self._made.put(what())
            except BaseException as error:
                self._made.put(error)


@pytest.fixture
def worker() -> Iterator[Worker]:
    """Started before any capture."""
    made = Worker()
    yield made
    made.end()


def sine() -> None:
    torch.sin(torch.ones(2))


def sines(folder: Path, level: str) -> list[str]:
    """The calls of it that were recorded."""
    return [name for name in Captured(folder).calls if name.startswith(LEVELS[level])]


@pytest.mark.parametrize("level", LEVELS)
def test_stopped_on_another_thread_and_started_again(tmp_path: Path, level: str, worker: Worker) -> None:
    """Each call is recorded once, and the last stop removes everything."""
    before = snapshot()
    run = ulpscope.capture(tmp_path, level=level)
    for _ in range(3):
        run.start()
        sine()
        worker.do(run.stop)
        sine()
    run.start()
    sine()
    run.close()
    assert sines(tmp_path, level) == [f"{LEVELS[level]}.{number}.forward" for number in range(4)]
    assert list(left_behind(before, snapshot())) == []
    assert worker.do(modes_of_this_thread) == (0, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_started_on_another_thread(tmp_path: Path, level: str, worker: Worker) -> None:
    """And stopped there: this one never had anything."""
    here = modes_of_this_thread()
    run = ulpscope.capture(tmp_path, level=level)
    worker.do(run.start)
    worker.do(sine)
    inside = modes_of_this_thread()
    worker.do(run.close)
    assert len(sines(tmp_path, level)) == 1
    assert (inside, modes_of_this_thread()) == (here, here)
    assert worker.do(modes_of_this_thread) == (0, 0)


def test_started_here_and_there_in_turn(tmp_path: Path, worker: Worker) -> None:
    run = ulpscope.capture(tmp_path)
    run.start()
    sine()
    worker.do(run.stop)
    worker.do(run.start)
    worker.do(sine)
    worker.do(run.stop)
    run.start()
    sine()
    run.close()
    assert len(sines(tmp_path, "L1")) == 3
    assert worker.do(modes_of_this_thread) == (0, 0)


def test_a_thread_of_the_program_that_outlives_capture(tmp_path: Path) -> None:
    """Started under capture it is recorded; what it does afterwards is not. Later threads have nothing."""
    with ulpscope.capture(tmp_path):
        worker = Worker()
        worker.do(sine)
    worker.do(sine)
    later = Worker()
    # Nobody can take a mode off another thread; it does nothing there.
    assert (worker.do(modes_of_this_thread), later.do(modes_of_this_thread)) == ((1, 0), (0, 0))
    worker.end()
    later.end()
    assert len(sines(tmp_path, "L1")) == 1


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
def test_an_install_that_fails_leaves_nothing(tmp_path: Path, level: str) -> None:
    before = snapshot()
    run = ulpscope.capture(tmp_path, model=torch.nn.Linear(2, 2), level=level)
    with Guarded(TypeError("cannot")), pytest.raises(TypeError, match="cannot"):
        run.start()
    assert list(left_behind(before, snapshot())) == []
    sine()
    run.start()
    sine()
    run.close()
    assert list(left_behind(before, snapshot())) == []
    if level != "mix":
        assert len(sines(tmp_path, level)) == 1


@pytest.fixture
def process_group() -> Iterator[None]:
    """A group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_everything_is_taken_away_even_if_the_last_words_cannot_be_recorded(
    tmp_path: Path, process_group: None
) -> None:
    """The last words: a collective that nobody waited for, whose result is larger than a file may be."""
    before = snapshot()
    x = torch.ones(1 << 18)
    array = x.numpy()
    # Torch's own, which tells capture nothing.
    is_completed = torch.distributed.Work.is_completed
    run = ulpscope.capture(tmp_path, strict=True, task="tensor")
    run.start()
    sine()
    work = torch.distributed.all_reduce(x, async_op=True)
    while not is_completed(work):
        time.sleep(0.01)
    # Behind torch, as what another rank sends: a result that is not the input again.
    array[:] = 2
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            run.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    work.wait()
    assert list(left_behind(before, snapshot())) == []
    assert "Torch.sin.0.forward" in Captured(tmp_path, rank="rank0").calls
    assert not list(tmp_path.glob("**/journal.jsonl"))


def test_threads_that_ran_before_are_noted(tmp_path: Path, worker: Worker) -> None:
    with ulpscope.capture(tmp_path):
        worker.do(sine)
        started = threading.Thread(target=sine)
        started.start()
        started.join()
    captured = Captured(tmp_path)
    assert [name for name in captured.calls if ".sin." in name] == ["Torch.sin.0.forward"]
    assert captured.ledger["notes"] == ["threads that ran before recording began are not seen (1 of them)"]


def test_forked_processes_are_noted(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path):
        sine()
        child = os.fork()
        if child == 0:
            sine()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    captured = Captured(tmp_path)
    assert captured.ledger["notes"] == ["a process was forked: what it calls is not recorded"]
    assert [name for name in captured.calls if ".sin." in name] == ["Torch.sin.0.forward"]
