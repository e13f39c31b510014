"""What workers of a cluster do. Ray sends these functions by name: each worker imports its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ulpscope._core import answer_unit, find_dump

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


class Answer(NamedTuple):
    """What a worker returns: pieces are references to bytes in the cluster's object store."""

    answer: str
    rows: bytes
    sheets: list[tuple[str, list[Any]]]


def list_dump(path: str, folder: str) -> str | None:
    """What this node has of a dump."""
    _enter(folder)
    return find_dump(path)


def answer_job(job: str, place: Place) -> Answer:
    """Compares one pair of ranks."""
    _enter(place.folder)
    # Read once, when the first comparison of this process starts its threads.
    os.environ["RAYON_NUM_THREADS"] = str(place.threads)
    if place.results is None or place.mark is None:
        answer, rows, _ = answer_unit(job)
        return Answer(answer, rows, [])
    if Path(place.mark).exists():
        answer, rows, _ = answer_unit(job, place.results)
        return Answer(answer, rows, [])
    # This node does not see the driver's folder.
    own = tempfile.mkdtemp(prefix="ulpscope-unit-")
    try:
        answer, rows, files = answer_unit(job, own)
        return Answer(answer, rows, [(Path(file).name, list(_pieces(Path(file)))) for file in files])
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _pieces(path: Path) -> Iterator[Any]:
    import ray

    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield ray.put(piece)


def _enter(folder: str) -> None:
    """Relative paths mean what they mean on the driver, if this node has that folder."""
    if Path(folder).is_dir():
        os.chdir(folder)
