"""Checks the calls of a dump one by one: in this process or in several, from the start or where it was left.

    ranks of the dump ──► calls ──► workers: replay, judge, repro ──► progress file ──► CheckResult

Each finished call is a line of the progress file, so that a check that was interrupted can go on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import multiprocessing
import re
import signal
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulpscope._core import open_dump
from ulpscope._replay.modules import ModuleName, NamedModules, names_of
from ulpscope._replay.results import CheckedCall, CheckedTensor, CheckResult

if TYPE_CHECKING:
    from ulpscope._core import DumpRank
    from ulpscope._replay.dump_calls import RecordedCall
    from ulpscope._replay.rank_replay import RankReplay
    from ulpscope._replay.replay import ReplaySettings

PROGRESS_FILE = "check_progress.jsonl"
# Characters of the name of a script, before its suffix.
MAX_NAME = 120
# Names in a message.
_NAMED = 10


@dataclass(frozen=True)
class Request:
    """What to check, and how."""

    dump: Path
    step: Any
    rank: Any
    white_list: tuple[str, ...]
    black_list: tuple[str, ...]
    settings: ReplaySettings
    output: Path | None
    save_error_data: bool
    modules: tuple[ModuleName, ...] = ()
    collectives: bool = False

    def wants(self, found: RecordedCall) -> bool:
        """Whether a call is checked, by ``linear``, ``Functional.linear`` or ``Functional.linear.0``."""
        names = {found.api, found.base, found.name}
        return not names & set(self.black_list) and (
            not self.white_list or bool(names & set(self.white_list))
        )

    def header(self) -> dict[str, Any]:
        """What a check that goes on must have in common with the one before."""
        return {
            "dump": str(self.dump.resolve()),
            "step": repr(self.step),
            "rank": repr(self.rank),
            "settings": dataclasses.asdict(self.settings),
            "modules": names_of(self.modules),
            "collectives": self.collectives,
        }


class Checker:
    """Checks calls of one dump, in one process."""

    def __init__(self, request: Request, opened: tuple[list[DumpRank], list[str]] | None = None) -> None:
        self._request = request
        self.ranks, self.problems = opened or open_dump(request.dump, request.step, request.rank)
        self._modules = NamedModules(request.modules)
        self._replays: dict[int, RankReplay] = {}

    def notes(self) -> list[str]:
        """The ranks whose capture ended early: calls are missing."""
        return [
            f"{rank.path}: the run ended before the step was over; only what it had recorded is checked"
            for rank in self.ranks
            if rank.is_cut
        ]

    def places(self) -> Iterator[tuple[int, RecordedCall]]:
        """Every wanted call, with the number of its rank."""
        from ulpscope._replay.dump_calls import calls_of, has_apis

        for number, rank in enumerate(self.ranks):
            # A module repeats its calls. Where these were recorded, they are checked instead of it.
            with_modules = not has_apis(rank)
            for found in calls_of(rank):
                is_named = not found.is_module or with_modules or self._modules.has(found.base)
                if self._request.wants(found) and is_named:
                    yield number, found

    def apis(self, most: int) -> list[str]:
        """The first names of APIs."""
        from ulpscope._replay.dump_calls import calls_of

        names = dict.fromkeys(found.api for rank in self.ranks for found in calls_of(rank))
        return list(itertools.islice(names, most))

    def check(self, place: tuple[int, RecordedCall]) -> CheckedCall:
        """Replays one call. Whatever goes wrong with it is its own result."""
        from ulpscope._replay.arguments import UnreadableError
        from ulpscope._replay.functions import NotReplayableError
        from ulpscope._replay.rank_replay import ERRORS, reason_of

        number, found = place
        try:
            return self._checked(number, found)
        except (NotReplayableError, MemoryError, *ERRORS) as error:
            rank = self.ranks[number]
            unread = isinstance(error, UnreadableError)
            return CheckedCall(found.name, rank.step, rank.name, "SKIP", "", reason_of(error), unread=unread)

    def _checked(self, number: int, found: RecordedCall) -> CheckedCall:
        from ulpscope._replay.functions import NotReplayableError
        from ulpscope._replay.rank_replay import RankReplay
        from ulpscope._replay.repro import write_repro

        rank = self.ranks[number]
        if number not in self._replays:
            self._replays[number] = RankReplay(rank, self._request.settings, self._modules)
        replay, replayed = self._replays[number].judged(found)
        checked = CheckedCall(
            found.name,
            rank.step,
            rank.name,
            replayed.status("forward"),
            replayed.status("backward"),
            replayed.message,
            tuple(replayed.tensors),
        )
        folder = self._request.output
        if folder is None or not checked.failed or not self._request.save_error_data:
            return checked
        try:
            path = write_repro(folder / "repro", _file_name(checked), replay, replayed)
        except NotReplayableError as reason:
            return dataclasses.replace(checked, no_repro=str(reason))
        return dataclasses.replace(checked, repro=str(path))


def run(
    request: Request, processes: int, resume: bool, report: Callable[[int, int, CheckedCall], None]
) -> CheckResult:
    """Checks all calls of a dump, in order. ``report`` gets how many of how many are done."""
    _check_device(request.settings.device)
    checker = Checker(request)
    places = list(checker.places())
    done = _read_progress(request) if resume else {}
    result = CheckResult(problems=list(checker.problems), notes=checker.notes())
    if not places:
        result.notes.append(why_none(request.dump, checker.apis(_NAMED + 1)))
    with _Progress(request, done) as progress:
        if request.collectives:
            for made in _collectives(checker, request, places, done):
                call = made
                if call.failed and request.output is not None and request.save_error_data:
                    why = "it needs a process for each rank: check --collectives makes it again"
                    call = dataclasses.replace(call, no_repro=why)
                progress.add(call)
                done[call.step, call.rank, call.call] = call
        pending = [place for place in places if _key(checker, place) not in done]
        checked = _checked(checker, request, pending, processes)
        for place in places:
            known = done.get(_key(checker, place))
            call = known if known is not None else next(checked)
            if known is None:
                progress.add(call)
            result.calls.append(call)
            report(len(result.calls), len(places), call)
    if request.output is not None:
        result.write(request.output)
        progress.remove()
    return result


def why_none(dump: Path, apis: list[str]) -> str:
    """Why no call is wanted, with names that could be."""
    if not apis:
        return f"{dump} has no forward calls"
    known = ", ".join([*apis[:_NAMED], *(["…"] if len(apis) > _NAMED else [])])
    return f"the white list and the black list leave no call; the dump has: {known}"


def _check_device(device: str | None) -> None:
    """Refuses a device that this torch cannot use, before every call fails on it."""
    if device is None:
        return
    import torch

    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        # Of a torch without the device, some errors are assertions.
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"--device {device} cannot be used: {reason}") from None


def _collectives(
    checker: Checker, request: Request, places: list[Any], done: dict[Any, CheckedCall]
) -> Iterator[CheckedCall]:
    """The wanted collectives that are not done."""
    from ulpscope._replay.collectives import Collectives

    wanted = [place for place in places if place[1].is_collective and _key(checker, place) not in done]
    if wanted:
        made = Collectives(request.dump, request.step)
        for number, found in wanted:
            yield made.of(checker.ranks[number], found)


def _key(checker: Checker, place: tuple[int, RecordedCall]) -> tuple[int | None, str, str]:
    rank = checker.ranks[place[0]]
    return rank.step, rank.name, place[1].name


def _checked(checker: Checker, request: Request, pending: list[Any], processes: int) -> Iterator[CheckedCall]:
    if processes <= 1 or len(pending) <= 1:
        yield from map(checker.check, pending)
        return
    # A fork of a process with threads, as torch has them, may wait for ever.
    context = multiprocessing.get_context("spawn")
    with _no_interrupts():
        started = context.Pool(processes, _start_worker, (request,))
    with started as pool:
        yield from pool.imap(_work, pending, chunksize=max(1, min(16, len(pending) // (4 * processes))))


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Processes that are started here ignore Ctrl-C: this one ends them, without a traceback of each."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_worker: Checker | None = None


def _start_worker(request: Request) -> None:
    global _worker
    import torch

    torch.set_num_threads(1)
    _worker = Checker(request)


def _work(place: tuple[int, RecordedCall]) -> CheckedCall:
    assert _worker is not None
    return _worker.check(place)


class _Progress:
    """The file of finished calls; none without a folder."""

    def __init__(self, request: Request, done: dict[Any, CheckedCall]) -> None:
        self._path = None if request.output is None else request.output / PROGRESS_FILE
        self._header, self._done = request.header(), done
        self._file: Any = None

    def __enter__(self) -> _Progress:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # Written anew: after a kill, the last line may be incomplete, and nothing may be appended to it.
            self._file = self._path.open("w", encoding="utf-8")
            self._line(self._header)
            for call in self._done.values():
                self.add(call)
        return self

    def add(self, call: CheckedCall) -> None:
        """Notes a finished call."""
        if self._file is not None:
            self._line(dataclasses.asdict(call))

    def _line(self, value: dict[str, Any]) -> None:
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def remove(self) -> None:
        """The result files have everything."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _read_progress(request: Request) -> dict[Any, CheckedCall]:
    """The calls that an earlier check finished. The last line may be incomplete."""
    path = None if request.output is None else request.output / PROGRESS_FILE
    if path is None or not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    values = list(_parsed(lines))
    if not values or values[0] != request.header():
        raise ValueError(f"{path} is of a different check: remove it, or leave out --resume")
    calls = [call_of(value) for value in values[1:]]
    return {(call.step, call.rank, call.call): call for call in calls}


def _parsed(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            return


def call_of(value: dict[str, Any]) -> CheckedCall:
    """A call from its fields."""
    tensors = [
        CheckedTensor(**{**one, "measured": tuple(one["measured"]), "limits": tuple(one["limits"])})
        for one in value.pop("tensors")
    ]
    return CheckedCall(**value, tensors=tuple(tensors))


def _file_name(call: CheckedCall) -> str:
    """A name that is good on every file system; names in dumps may be anything."""
    name = f"{call.place}_{call.call}" if call.place else call.call
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".")
    if plain == name and len(plain) <= MAX_NAME:
        return plain
    # Names that differ in what is left out stay different.
    return f"{plain[:MAX_NAME]}-{zlib.crc32(name.encode(errors='surrogatepass')):08x}"
