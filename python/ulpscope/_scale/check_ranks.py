"""Checks the ranks of a dump as tasks of a cluster: one unit is one rank of one step.

    rank_units ──► CheckQueue ──► job ──► worker: Checker of that rank ──► CheckedRank ──► CheckResult

What a rank gave is a line of ``DIR/units/check.jsonl``, so that a check that was interrupted can go on.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ulpscope._core import open_rank, rank_units
from ulpscope._replay.jobs import Checker, Request, call_of, why_none
from ulpscope._replay.results import CheckedCall, CheckResult
from ulpscope._scale import tasks
from ulpscope._scale.ray_engine import RayEngine

if TYPE_CHECKING:
    from ulpscope._core import RankUnit

ANSWERS_FILE = "check.jsonl"
# Names of APIs that a rank without wanted calls returns, for a message.
_NAMED = 11


@dataclass(frozen=True)
class RayOptions:
    """How to reach a cluster."""

    address: str | None = None
    located: str | os.PathLike[str] | None = None
    cores: int | None = None


class RankJob(NamedTuple):
    """What a worker is told."""

    request: Request
    # As `RankUnit` has it.
    place: str
    step: int | None
    label: str


@dataclass
class CheckedRank:
    """What became of a rank."""

    calls: list[CheckedCall] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    # The first names of APIs, if no call is wanted.
    apis: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """As one line."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def parse(text: str) -> CheckedRank:
        """From a line."""
        value = json.loads(text)
        return CheckedRank(**{**value, "calls": [call_of(call) for call in value["calls"]]})


def answer_ranks(jobs: list[RankJob], place: tasks.Place) -> tasks.Answers:
    """Checks ranks, one after another."""
    import torch

    torch.set_num_threads(place.threads)
    return tasks.answered(jobs, place, _answer)


def _answer(job: RankJob, place: tasks.Place) -> tasks.Answer:
    output = job.request.output
    if output is None or place.mark is None or Path(place.mark).exists():
        return tasks.Answer(_checked(job, job.request).to_json(), b"", [])
    # This node does not see the driver's folder: scripts of failing calls return in pieces.
    own = Path(tempfile.mkdtemp(prefix="ulpscope-unit-"))
    try:
        found = _checked(job, dataclasses.replace(job.request, output=own))
        named = [dataclasses.replace(call, repro=_moved(call.repro, own, output)) for call in found.calls]
        found.calls = named
        files = sorted(path for path in own.rglob("*") if path.is_file())
        pieces = [(str(path.relative_to(own)), list(tasks.pieces(path))) for path in files]
        return tasks.Answer(found.to_json(), b"", pieces)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _moved(path: str, own: Path, output: Path) -> str:
    return str(output / Path(path).relative_to(own)) if path else path


def _checked(job: RankJob, request: Request) -> CheckedRank:
    try:
        rank, problems = open_rank(job.place, job.step)
    except (OSError, ValueError) as error:
        return CheckedRank(problems=[str(error)])
    checker = Checker(request, ([rank], problems))
    places = list(checker.places())
    apis = [] if places else checker.apis(_NAMED)
    return CheckedRank([checker.check(one) for one in places], checker.notes(), checker.problems, apis)


class CheckQueue:
    """The ranks of a check that are to be answered; the same methods as `UnitQueue`."""

    def __init__(
        self, request: Request, units: list[RankUnit], done: dict[str, CheckedRank], keep: Any
    ) -> None:
        self._request, self._units, self._keep = request, units, keep
        self.answers = done
        self.failures = {unit.label: unit.why for unit in units if unit.why is not None}

    is_stopped = False

    def open(self) -> list[int]:
        """The numbers of the units to answer."""
        known = {*self.answers, *self.failures}
        return [number for number, unit in enumerate(self._units) if unit.label not in known]

    def label(self, number: int) -> str:
        """The name of a unit."""
        return self._units[number].label

    def size(self, number: int) -> int:
        """The size of its files."""
        return self._units[number].bytes

    def nodes(self, number: int) -> list[str] | None:
        """The nodes that can answer it; None: all."""
        return self._units[number].nodes

    def job(self, number: int) -> RankJob:
        """What to send to a worker."""
        unit = self._units[number]
        return RankJob(self._request, unit.place, unit.step, unit.label)

    def deliver(self, number: int, answer: str, rows: bytes) -> bool:
        """Saves an answer."""
        unit = self._units[number]
        found = CheckedRank.parse(answer)
        self._keep(unit, answer)
        self.answers[unit.label] = found
        return True

    def fail(self, number: int, why: str) -> None:
        """Gives a unit up, and says why."""
        self.failures[self.label(number)] = why


def run(
    request: Request, options: RayOptions, resume: bool, report: Callable[[int, int, CheckedCall], None]
) -> CheckResult:
    """Checks all calls of a dump on a cluster. The result is that of `ulpscope._replay.jobs.run`."""
    if request.collectives:
        raise ValueError("collectives are made again by processes of one machine: leave engine out")
    if not all(isinstance(name, str) for name in request.modules):
        raise ValueError("modules that are objects stay in this process: name them as 'package:Class'")
    results = None if request.output is None else str(request.output)
    if request.output is not None:
        (request.output / "units").mkdir(parents=True, exist_ok=True)
    engine = RayEngine(options.address, options.cores, results)
    try:
        units, problems = rank_units(engine, request.dump, request.step, request.rank, options.located)
        with _Answers(request, units, resume) as answers:
            queue = CheckQueue(request, units, answers.done, answers.add)
            engine.dispatch(queue, answer_ranks)
    finally:
        engine.close()
    result = CheckResult(problems=problems)
    apis: dict[str, None] = {}
    for unit in units:
        found = queue.answers.get(unit.label)
        if found is None:
            result.problems.append(f"{unit.label}: {queue.failures.get(unit.label, 'it was not checked')}")
            continue
        result.problems += [problem for problem in found.problems if problem not in result.problems]
        result.notes += found.notes
        apis |= dict.fromkeys(found.apis)
        for call in found.calls:
            result.calls.append(call)
            report(len(result.calls), len(result.calls), call)
    if not result.calls:
        result.notes.append(why_none(request.dump, list(apis)))
    if request.output is not None:
        result.write(request.output)
    return result


class _Answers:
    """The file of finished ranks; none without a folder."""

    def __init__(self, request: Request, units: list[RankUnit], resume: bool) -> None:
        self._path = None if request.output is None else request.output / "units" / ANSWERS_FILE
        self._header = json.loads(json.dumps(request.header()))
        self.done = self._read(units) if resume else {}
        self._units = {unit.label: unit for unit in units}
        self._file: Any = None

    def _read(self, units: list[RankUnit]) -> dict[str, CheckedRank]:
        """The ranks that an earlier check finished, and whose files are the same.

        The last line may be incomplete.
        """
        if self._path is None or not self._path.exists():
            return {}
        inputs = {unit.label: unit.inputs for unit in units}
        lines = self._path.read_text(encoding="utf-8").splitlines()
        if not lines or json.loads(lines[0]) != self._header:
            raise ValueError(f"{self._path} is of a different check: remove it, or leave out --resume")
        done = {}
        for line in lines[1:]:
            try:
                value = json.loads(line)
                found = CheckedRank.parse(json.dumps(value["answer"]))
            except (ValueError, KeyError, TypeError):
                continue
            # What could not be read is tried again.
            if inputs.get(value["unit"]) == value["inputs"] and not found.problems:
                done[value["unit"]] = found
        return done

    def __enter__(self) -> _Answers:
        if self._path is not None:
            # Written anew: after a kill, the last line may be incomplete, and nothing may be appended to it.
            self._file = self._path.open("w", encoding="utf-8")
            self._file.write(json.dumps(self._header) + "\n")
            for label, found in self.done.items():
                self.add(self._units[label], found.to_json())
        return self

    def add(self, unit: RankUnit, answer: str) -> None:
        """Notes a finished rank."""
        if self._file is not None:
            line = {"unit": unit.label, "inputs": unit.inputs, "answer": json.loads(answer)}
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
