"""Collectives, made again by a gloo process for each rank, from the inputs that each rank recorded.

    ranks of a step ──► parts of one collective: same name and group, in the order of each rank
                    ──► processes (`collective_process`) ──► each judges the results of its rank

A process starts for each rank of the dump; their number is limited, and so is the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulpscope._core import DumpValue, open_dump
from ulpscope._replay.arguments import leaves
from ulpscope._replay.dump_calls import RecordedCall, calls_of
from ulpscope._replay.results import CheckedCall, CheckedTensor

if TYPE_CHECKING:
    from ulpscope._core import DumpCall, DumpRank

MAX_PROCESSES = 64
# Without a result for so long, the processes are ended.
TIME_LIMIT = 120.0
_GROUP = "torch.ProcessGroup"
_MESSAGES = {"send": "dst", "isend": "dst", "recv": "src", "irecv": "src"}


@dataclass
class Part:
    """A call of one rank."""

    rank: int
    found: RecordedCall


@dataclass
class Together:
    """One collective or message: its parts, and the ranks that take part."""

    group: tuple[int, ...]
    parts: list[Part] = field(default_factory=list)


class Collectives:
    """The results of the collectives of a dump, by step, rank and call."""

    def __init__(self, dump: Path, step: Any) -> None:
        """Makes them all. Every rank takes part, whichever are to be checked."""
        self._found: dict[tuple[int | None, str, str], CheckedCall] = {}
        ranks, _ = open_dump(dump, step, None)
        by_step: dict[int | None, list[DumpRank]] = defaultdict(list)
        for rank in ranks:
            by_step[rank.step].append(rank)
        for number, members in by_step.items():
            if any(_calls(rank) for rank in members):
                self._make(dump, number, members)

    def of(self, rank: DumpRank, found: RecordedCall) -> CheckedCall:
        """What became of a call."""
        return self._found[rank.step, rank.name, found.name]

    def _make(self, dump: Path, step: int | None, ranks: list[DumpRank]) -> None:
        numbers = {rank.number: rank for rank in ranks if rank.number is not None}
        if len(numbers) < len(ranks) or len(ranks) < 2:
            self._skip(ranks, "a collective needs the dumps of all its ranks: rank0, rank1, …")
            return
        if len(ranks) > MAX_PROCESSES:
            self._skip(
                ranks, f"a collective of {len(ranks)} ranks: they are made again with at most {MAX_PROCESSES}"
            )
            return
        for rank in ranks:
            for found in _calls(rank):
                if rank.call(found.forward) is None:
                    reason = f"a collective: {rank.tool} does not record all arguments of a call"
                    self._add(rank, found, {"reason": reason})
        wanted = []
        for together in _together(numbers):
            reason = _missing(together, numbers)
            if reason:
                for part in together.parts:
                    self._add(numbers[part.rank], part.found, {"reason": reason})
            else:
                wanted.append(together)
        members = sorted(numbers)
        results = _run(dump, step, members, wanted)
        for member in members:
            calls = [part.found for one in wanted for part in one.parts if part.rank == member]
            for found, result in zip(calls, results[member], strict=True):
                self._add(numbers[member], found, result)

    def _skip(self, ranks: list[DumpRank], reason: str) -> None:
        for rank in ranks:
            for found in _calls(rank):
                self._add(rank, found, {"reason": reason})

    def _add(self, rank: DumpRank, found: RecordedCall, result: dict[str, Any]) -> None:
        tensors = tuple(
            CheckedTensor(**{**one, "measured": tuple(one["measured"])}) for one in result.get("tensors", ())
        )
        wrong = [one for one in tensors if one.status != "pass"]
        words = {one.status for one in wrong}
        status = next((word for word in ("error", "warning") if word in words), "pass")
        status = "SKIP" if "reason" in result else status
        message = result.get("reason") or (f"{wrong[0].name}: {wrong[0].message}" if wrong else "")
        self._found[rank.step, rank.name, found.name] = CheckedCall(
            found.name, rank.step, rank.name, status, "", message, tensors
        )


def _calls(rank: DumpRank) -> list[RecordedCall]:
    return [found for found in calls_of(rank) if found.is_collective]


def _together(ranks: dict[int, DumpRank]) -> list[Together]:
    """The collectives of a step, in an order in which every rank can make its own one after another."""
    known: dict[Any, Together] = {}
    everyone = tuple(sorted(ranks))
    for number in everyone:
        counts: Counter[Any] = Counter()
        for found in _calls(ranks[number]):
            call = ranks[number].call(found.forward)
            if call is None:
                continue
            kind, group = _kind(found, call, number, everyone)
            place = (kind, group, counts[kind, group])
            counts[kind, group] += 1
            known.setdefault(place, Together(group)).parts.append(Part(number, found))
    return list(known.values())


def _kind(
    found: RecordedCall, call: DumpCall, own: int, everyone: tuple[int, ...]
) -> tuple[Any, tuple[int, ...]]:
    """What the parts of one collective have in common, and who takes part."""
    if found.api in _MESSAGES:
        key = _MESSAGES[found.api]
        peer = call.keyword.get(key, call.positional[1] if len(call.positional) > 1 else None)
        number = peer.value if isinstance(peer, DumpValue) and isinstance(peer.value, int) else -1
        way = (own, number) if key == "dst" else (number, own)
        return ("message", *way), tuple(sorted(way))
    for value in leaves([call.positional, call.keyword]):
        described = value.value if isinstance(value, DumpValue) else None
        if isinstance(described, dict) and described.get("type") == _GROUP:
            ranks = described.get("group_ranks")
            if isinstance(ranks, list) and all(isinstance(one, int) for one in ranks):
                return (found.api, described.get("group_id")), tuple(sorted(ranks))
    return (found.api, None), everyone


def _missing(together: Together, ranks: dict[int, DumpRank]) -> str:
    """Why a collective cannot be made: empty if it can."""
    absent = [str(number) for number in together.group if number not in ranks]
    if absent:
        return f"a collective: rank {', '.join(absent)} of its group is not in the dump"
    present = {part.rank for part in together.parts}
    without = [ranks[number].name for number in together.group if number not in present]
    return f"a collective: {', '.join(without)} has no such call" if without else ""


def _run(
    dump: Path, step: int | None, members: list[int], wanted: list[Together]
) -> dict[int, list[dict[str, Any]]]:
    """Runs the processes; the results of each rank, one for each of its calls."""
    groups = sorted({one.group for one in wanted if set(one.group) != set(members)})
    with tempfile.TemporaryDirectory(prefix="ulpscope-collectives-") as folder:
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for index, rank in enumerate(members):
                request = {
                    "dump": str(dump),
                    "step": step,
                    "ranks": members,
                    "index": index,
                    "groups": groups,
                    "calls": [
                        (part.found.forward, part.found.name, one.group)
                        for one in wanted
                        for part in one.parts
                        if part.rank == rank
                    ],
                    "folder": folder,
                    "limit": TIME_LIMIT,
                }
                processes.append(_start(request, Path(folder) / f"rank{index}.jsonl"))
            reason = _wait(processes, Path(folder))
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                process.wait()
        return {
            rank: list(_results(Path(folder) / f"rank{index}.jsonl", rank, wanted, reason))
            for index, rank in enumerate(members)
        }


def _start(request: dict[str, Any], output: Path) -> subprocess.Popen[bytes]:
    # A file: a long request would fill a pipe, and wait until the process has imported torch.
    asked = output.with_suffix(".json")
    asked.write_text(json.dumps(request), encoding="utf-8")
    with (
        asked.open("rb") as given,
        output.open("wb") as file,
        output.with_suffix(".err").open("wb") as errors,
    ):
        return subprocess.Popen(
            [sys.executable, "-m", "ulpscope._replay.collective_process"],
            stdin=given,
            stdout=file,
            stderr=errors,
        )


def _wait(processes: list[subprocess.Popen[bytes]], folder: Path) -> str:
    """Waits while results arrive. Returns why some are missing."""
    written, since = -1, time.monotonic()
    while any(process.poll() is None for process in processes):
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        if size != written:
            written, since = size, time.monotonic()
        elif time.monotonic() - since > TIME_LIMIT:
            return f"a collective: no result within {TIME_LIMIT:.0f} s"
        if any(process.poll() not in (None, 0) for process in processes):
            # The others would wait for the one that has ended.
            break
        time.sleep(0.02)
    failed = [path for path in sorted(folder.glob("*.err")) if path.stat().st_size]
    said = failed[0].read_text(errors="replace").strip().splitlines() if failed else []
    return f"a collective: its process ended early{f': {said[-1][:300]}' if said else ''}"


def _results(path: Path, rank: int, wanted: list[Together], reason: str) -> Iterator[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    calls = [part for one in wanted for part in one.parts if part.rank == rank]
    for number, _ in enumerate(calls):
        try:
            yield json.loads(lines[number])
        except (IndexError, ValueError):
            yield {"reason": reason}
