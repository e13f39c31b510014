"""Runs cases in several processes, and survives what they do.

Cases of one model and seed share captures and are a group: they run one after the other in one process and in
one folder, so that each capture is made once and nobody else writes there. A process that dies or takes too
long costs the case it was at; the rest of its group goes to a fresh one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

from faults.cases import Case, Truth, run
from faults.judges import Judges
from faults.outcome import Outcome

# A case takes some seconds; the first of a process also the import of mindstudio-probe.
LIMIT_SECONDS = 300.0
# What a process says once it has imported everything: from then on its time counts.
READY = "ready"


@dataclass(frozen=True)
class Job:
    """What every process is told."""

    tools: tuple[str, ...]
    environment: Path | None
    """That of mindstudio-probe, where a tool needs it."""
    scratch: Path
    keep: bool
    """Whether dumps stay after they were judged."""
    run: Callable[[Case, Path], tuple[Path, Path, Truth]] = run
    """What captures a case."""


def groups(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Cases by model and seed, which share captures; those with the same target come one after the other."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(f"{case.model}/seed{case.seed}", []).append(case)
    for group in found.values():
        group.sort(key=lambda case: (case.fault or "", case.depth, case.task, case.benign or ""))
    return found


def run_case(case: Case, folder: Path, judges: Judges, job: Job) -> Outcome:
    """Captures and judges one case."""
    start = time.perf_counter()
    try:
        target, golden, truth = job.run(case, folder)
        said = judges(target, golden)
        return Outcome(case, truth, said, seconds=time.perf_counter() - start)
    except Exception:
        return Outcome(case, None, error=traceback.format_exc(), seconds=time.perf_counter() - start)


def serve(descriptor: int) -> None:
    """The life of a process: a job, then groups come in; outcomes go out, None after those of a group."""
    faulthandler.enable()
    pipe: Connection[Any, Any] = Connection(descriptor)
    job: Job = pipe.recv()
    judges = Judges(job.tools, job.environment)
    pipe.send(READY)
    try:
        while (received := pipe.recv()) is not None:
            name, cases = received
            folder = job.scratch / name
            folder.mkdir(parents=True, exist_ok=True)
            planted: tuple[str | None, str] | None = None
            for case in cases:
                if not job.keep and planted != (case.fault, case.depth):
                    # Goldens serve the whole group, targets only this fault.
                    shutil.rmtree(folder / "targets", ignore_errors=True)
                planted = (case.fault, case.depth)
                pipe.send(run_case(case, folder, judges, job))
            if not job.keep:
                shutil.rmtree(folder, ignore_errors=True)
            pipe.send(None)
    except EOFError:
        # Whoever gave the cases is gone.
        pass
    finally:
        judges.close()


@dataclass
class Worker:
    """A process and what it is at."""

    process: subprocess.Popen[bytes]
    pipe: Connection[Any, Any]
    log: Path
    group: str = ""
    left: tuple[Case, ...] = ()
    since: float = 0.0
    is_ready: bool = False

    def give(self, group: str, cases: Iterable[Case]) -> None:
        """Hands it a group."""
        self.group, self.left = group, tuple(cases)
        self.begin()
        self.pipe.send((group, list(self.left)))

    def begin(self) -> None:
        """Notes when it began with a case."""
        self.since = time.monotonic()

    def take(self, outcome: Outcome) -> None:
        """Notes that a case is done."""
        self.left = tuple(case for case in self.left if case != outcome.case)
        self.begin()

    def overdue(self, limit: float) -> bool:
        """Whether the case it is at, or its start, takes too long."""
        return time.monotonic() - self.since > (limit if self.is_ready else LIMIT_SECONDS)

    def end(self) -> None:
        """Ends the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.pipe.close()

    def last_words(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""


def start(job: Job, number: int) -> Worker:
    """A fresh process, in a session of its own: what a case starts ends with it.

    Neither forked, as threads would be lost, nor made by multiprocessing: capture takes a process made by
    that for one of several ranks.
    """
    ours, theirs = Pipe()
    log = job.scratch / f"process-{number}.log"
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = f"from faults.processes import serve; serve({theirs.fileno()})"
    with log.open("wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path},
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    theirs.close()
    ours.send(job)
    return Worker(process, ours, log)


def outcomes(
    cases: Iterable[Case], job: Job, processes: int, limit: float = LIMIT_SECONDS
) -> Iterator[Outcome]:
    """One outcome per case, as they come."""
    waiting = list(groups(cases).items())
    job.scratch.mkdir(parents=True, exist_ok=True)
    numbers = count()
    busy: list[Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < processes:
                worker = start(job, next(numbers))
                busy.append(worker)
                worker.give(*waiting.pop(0))
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in list(busy):
                failed: str | None = None
                if worker.pipe in ready:
                    try:
                        outcome = worker.pipe.recv()
                    except (EOFError, OSError):
                        failed = f"the process ended with {worker.process.wait()}"
                    else:
                        if outcome == READY:
                            worker.is_ready = True
                            worker.begin()
                        elif outcome is not None:
                            worker.take(outcome)
                            yield outcome
                        elif waiting:
                            worker.give(*waiting.pop(0))
                        else:
                            worker.end()
                            busy.remove(worker)
                elif worker.overdue(limit):
                    failed = f"the case took more than {limit:.0f} seconds"
                if failed is not None:
                    worker.end()
                    busy.remove(worker)
                    if worker.left:
                        yield Outcome(worker.left[0], None, error=f"{worker.last_words()}\n{failed}")
                    if worker.left[1:]:
                        waiting.insert(0, (worker.group, list(worker.left[1:])))
    finally:
        for worker in busy:
            worker.end()
