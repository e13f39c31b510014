"""What workers of a cluster do. Ray sends these functions by name: each worker imports its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ulpscope._core import answer_about_files, answer_unit, find_dump

# Pieces of a sheet that returns to the driver.
PIECE_BYTES = 8 << 20


class Place(NamedTuple):
    """Where a worker is to work."""

    # The driver's working folder: what relative paths are relative to.
    folder: str
    # The folder of results on the driver, and a file that only that folder has; None: no sheets are written.
    results: str | None
    mark: str | None
    # For the comparison itself. The result is the same for any number.
    threads: int
    # The name of the node, and the ids of all nodes by their names.
    node: str
    nodes: dict[str, str]


class Answer(NamedTuple):
    """What a worker returns: pieces are references to bytes in the cluster's object store."""

    answer: str
    rows: bytes
    sheets: list[tuple[str, list[Any]]]


class Lost(NamedTuple):
    """Why a unit could not be answered here: it is tried again."""

    why: str


class Answers(NamedTuple):
    """What became of the units of a task, in order, and the time that it took."""

    answers: list[Answer | Lost]
    seconds: float


def list_dump(path: str, folder: str) -> str | None:
    """What this node has of a dump."""
    _enter(folder)
    return find_dump(path)


def answer_jobs(jobs: Sequence[str], place: Place) -> Answers:
    """Compares pairs of ranks, one after another."""
    return answered(jobs, place, _answer)


def answered(jobs: Sequence[Any], place: Place, answer: Callable[[Any, Place], Answer]) -> Answers:
    """Answers jobs, one after another."""
    _enter(place.folder)
    # Read once, when the first comparison of this process starts its threads.
    os.environ["RAYON_NUM_THREADS"] = str(place.threads)
    start = time.monotonic()
    answers: list[Answer | Lost] = []
    for job in jobs:
        try:
            answers.append(answer(job, place))
        except (OSError, ValueError) as error:
            answers.append(Lost(reason(error)))
    return Answers(answers, time.monotonic() - start)


def _answer(job: str, place: Place) -> Answer:
    ask = asker(place)
    if place.results is None or place.mark is None:
        answer, rows, _ = answer_unit(job, None, place.node, ask)
        return Answer(answer, rows, [])
    if Path(place.mark).exists():
        answer, rows, _ = answer_unit(job, place.results, place.node, ask)
        return Answer(answer, rows, [])
    # This node does not see the driver's folder.
    own = tempfile.mkdtemp(prefix="ulpscope-unit-")
    try:
        answer, rows, files = answer_unit(job, own, place.node, ask)
        return Answer(answer, rows, [(Path(file).name, list(pieces(Path(file)))) for file in files])
    finally:
        shutil.rmtree(own, ignore_errors=True)


def read_files(question: str, folder: str) -> bytes:
    """What this node says about the files of a rank."""
    _enter(folder)
    return answer_about_files(question)


def asker(place: Place) -> Callable[[list[str], str], bytes]:
    """Has questions about files answered by the first of some nodes that can."""

    def ask(names: list[str], question: str) -> bytes:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        failures = []
        for name in names:
            if name not in place.nodes:
                failures.append(f"node {name} is gone")
                continue
            # It waits for no core, as all may wait for such answers. Reading again does no harm.
            task = ray.remote(read_files).options(
                name="ulpscope files",
                num_cpus=0,
                max_retries=2,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=place.nodes[name], soft=False),
            )
            try:
                answer: bytes = ray.get(task.remote(question, place.folder))
            except Exception as error:
                failures.append(f"node {name}: {reason(error)}")
            else:
                return answer
        raise ConnectionError(f"files of a different node cannot be read: {'; '.join(failures)}")

    return ask


def reason(error: BaseException) -> str:
    """An error of Ray or of a task, in a line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        error = cause
    text = str(error).strip().splitlines()
    first = text[0].strip() if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def pieces(path: Path) -> Iterator[Any]:
    """A file in the object store."""
    import ray

    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield ray.put(piece)


def _enter(folder: str) -> None:
    """Relative paths mean what they mean on the driver, if this node has that folder."""
    if Path(folder).is_dir():
        os.chdir(folder)
