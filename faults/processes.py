"""Runs cases in several processes, and survives what they do.

Cases of one model and seed share captures and are a group: they run one after the other in one process and in one folder, so that the
capture is made once and nobody else writes there. A process that dies or takes too long costs the case it was at; the
rest of its group goes to a fresh one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from faults.cases import Case, Truth, run
from faults.judges import Judges
from faults.outcome import Outcome

# A case takes some seconds; the first of a process also the import of mindstudio-probe.
LIMIT_SECONDS = 300.0


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
    """What captures a case; another in tests."""


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


def serve(pipe: Connection, job: Job, log: Path) -> None:
    """The life of a process: groups come in, outcomes go out, None ends a group and the process."""
    # A session of its own: what a case has started ends with it.
    os.setsid()
    with log.open("ab", buffering=0) as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    faulthandler.enable()
    judges = Judges(job.tools, job.environment)
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
    finally:
        judges.close()


@dataclass
class Worker:
    """A process and what it is at."""

    process: BaseProcess
    pipe: Connection
    log: Path
    group: str = ""
    left: tuple[Case, ...] = ()
    since: float = 0.0

    def give(self, group: str, cases: Iterable[Case]) -> None:
        """Hands it a group."""
        self.group, self.left, self.since = group, tuple(cases), time.monotonic()
        self.pipe.send((group, list(self.left)))

    def take(self, outcome: Outcome) -> None:
        """Notes that a case is done."""
        self.left = tuple(case for case in self.left if case != outcome.case)
        self.since = time.monotonic()

    def end(self) -> None:
        """Ends the process and all that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.process.pid is not None:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def last_words(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-1500:] if self.log.exists() else ""


def start(job: Job, number: int) -> Worker:
    """A fresh process."""
    # Not forked: threads of torch and of the comparison do not survive that.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    log = job.scratch / f"process-{number}.log"
    process = context.Process(target=serve, args=(theirs, job, log))
    process.start()
    theirs.close()
    return Worker(process, ours, log)


def outcomes(
    cases: Iterable[Case], job: Job, processes: int, limit: float = LIMIT_SECONDS
) -> Iterator[Outcome]:
    """One outcome per case, as they come."""
    waiting = list(groups(cases).items())
    job.scratch.mkdir(parents=True, exist_ok=True)
    numbers = iter(range(len(waiting) + sum(len(group) for _, group in waiting) + processes))
    busy: list[Worker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < processes:
                worker = start(job, next(numbers))
                worker.give(*waiting.pop(0))
                busy.append(worker)
            ready = wait([worker.pipe for worker in busy], timeout=1.0)
            for worker in list(busy):
                failed: str | None = None
                if worker.pipe in ready:
                    try:
                        outcome = worker.pipe.recv()
                        if outcome is not None:
                            worker.take(outcome)
                            yield outcome
                        elif waiting:
                            worker.give(*waiting.pop(0))
                        else:
                            worker.pipe.send(None)
                            worker.process.join(limit)
                            worker.end()
                            busy.remove(worker)
                        continue
                    except (EOFError, OSError):
                        worker.process.join(1.0)
                        failed = f"the process ended with {worker.process.exitcode}"
                elif worker.left and time.monotonic() - worker.since > limit:
                    failed = f"the case took more than {limit:.0f} seconds"
                if failed is not None:
                    worker.end()
                    busy.remove(worker)
                    if worker.left:
                        yield Outcome(worker.left[0], None, error=f"{failed}: {worker.last_words()}")
                    if worker.left[1:]:
                        waiting.insert(0, (worker.group, list(worker.left[1:])))
    finally:
        for worker in busy:
            worker.end()
