"""Runs that end badly: killed at any moment, out of disk, or with arguments that refuse to be recorded."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope
from capture_victim import STEPS
from dumps import run as command
from patches import left_behind, snapshot
from places import SUPPORT

pytestmark = pytest.mark.slow

KILLS = 50

# The model, one of its layers, and the function that this calls.
CALLS_INSIDE_EACH_OTHER = 3


class Server:
    """Makes victims."""

    def __init__(self) -> None:
        script = SUPPORT / "capture_victim.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def train(
        self,
        folder: Path,
        *,
        kill_when: Callable[[], bool] | None = None,
        limit: int | None = None,
        file_format: str = "pack",
    ) -> int:
        """One victim; its exit status. Killed when that is so, or left alone."""
        folder.mkdir(exist_ok=True)
        wait = kill_when is not None
        request = {"folder": str(folder), "limit": limit, "wait": wait, "format": file_format}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        victim = int(self.line())
        if kill_when is not None:
            while not kill_when():
                time.sleep(0.0005)
            os.kill(victim, signal.SIGKILL)
        return os.waitstatus_to_exitcode(int(self.line()))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One for all tests."""
    made = Server()
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    made.process.wait(timeout=30)


@dataclass
class Whole:
    """An undisturbed run."""

    folder: Path
    losses: list[str]
    seconds: float

    @property
    def length(self) -> int:
        """Of what it wrote down about itself."""
        return (self.folder / "returned").stat().st_size


@pytest.fixture(scope="module")
def whole(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """What the others are compared with."""
    folder = tmp_path_factory.mktemp("whole")
    assert server.train(folder) == 0, (folder / "said").read_text()
    result = json.loads((folder / "result").read_text())
    return Whole(folder, result["losses"], result["seconds"])


def returned_calls(folder: Path) -> Iterator[tuple[int, str, str]]:
    """Step, call and digest of everything that had returned. The last line may be torn."""
    text = (folder / "returned").read_text() if (folder / "returned").exists() else ""
    for line in text.splitlines(keepends=True):
        if line.endswith("\n"):
            step, call, digest = line.split()
            yield int(step), call, digest


def read(*words: str | Path) -> Any:
    """What a command says of a dump. That a run ended early is a note, and no error."""
    ended = command(*words, "--json")
    assert not [line for line in ended.stderr.splitlines() if line.startswith("error")], ended.stderr
    assert ended.returncode == 0 or words[0] == "compare", ended.stderr
    return json.loads(ended.stdout)


def check_compared(dump: Path, whole: Path) -> int:
    """What the run had recorded is what the whole one recorded, call by call. How many rows agree."""
    summary, listed = read("compare", dump, whole)["summary"], listed_calls(dump)
    assert bool(summary["passed"]) == bool(listed), summary
    assert (summary["failed"], summary["problems"]) == (0, 0), summary
    # A call that the run ended inside may return a number, which is not there to be compared.
    assert summary["not_compared"] <= len(calls_without_output(listed)), summary
    assert set(summary["paired"]) <= {"exact"}, summary
    assert summary["only_in_target"] == 0, summary
    return int(summary["passed"])


Listed = dict[tuple[int, str], dict[str, Any]]


def listed_calls(dump: Path) -> Listed:
    """Every call of a dump, as `ulpscope ls` tells it."""
    return {
        (rank["step"], call["name"]): call for rank in read("ls", dump)["ranks"] for call in rank["calls"]
    }


def calls_without_output(listed: Listed) -> list[str]:
    """The calls of the forward pass that were running at the end: all others have returned something."""
    without = [
        name
        for (_, name), call in listed.items()
        if ".forward" in name and not any(entry["role"] == "output" for entry in call["entries"])
    ]
    assert len(without) <= CALLS_INSIDE_EACH_OTHER, without
    return without


def check_recorded(folder: Path) -> int:
    """Every call that had returned is in the dump, with the elements it had. How many there were."""
    wanted = list(returned_calls(folder))
    if not wanted:
        return 0
    listed = listed_calls(folder / "dump")
    for step, name, digest in wanted:
        call = listed[step, name]
        assert any(entry["role"] == "output" for entry in call["entries"]), (step, name)
        if digest != "-":
            address = folder / "dump" / f"step{step}" / f"rank:{name}.output.0"
            elements = ulpscope.load(address).numpy().tobytes()
            assert f"{zlib.crc32(elements):08x}" == digest, (step, name)
    return len(wanted)


def test_the_undisturbed_run_is_complete(whole: Whole) -> None:
    """And is the measure of all others: each call that its program counted is there."""
    assert check_recorded(whole.folder) == STEPS * (3 * 8 + 3 * 5)
    assert not list(whole.folder.glob("**/journal.jsonl"))


def reaches(folder: Path, length: float, seconds: float) -> Callable[[], bool]:
    """Whether a run has written down so much, or is over; and some time later."""

    def is_reached() -> bool:
        diary = folder / "returned"
        if (diary.stat().st_size if diary.exists() else 0) < length and not (folder / "result").exists():
            return False
        time.sleep(seconds)
        return True

    return is_reached


def test_killed_at_fifty_moments(server: Server, whole: Whole, tmp_path: Path) -> None:
    """By what the run has done, which does not depend on what else the machine does, and a little later."""
    moments = random.Random(4)
    caught_in_the_act = 0
    for number in range(KILLS):
        folder = tmp_path / str(number)
        part, later = moments.uniform(0, 1.1), moments.uniform(0, 0.01)
        moment = reaches(folder, part * whole.length, later * whole.seconds)
        status = server.train(folder, kill_when=moment)
        assert status == -signal.SIGKILL
        if check_recorded(folder):
            caught_in_the_act += bool(list(folder.glob("dump/**/journal.jsonl")))
            check_compared(folder / "dump", whole.folder / "dump")
        shutil.rmtree(folder)
    assert caught_in_the_act >= KILLS // 2


def test_killed_after_every_line(server: Server, whole: Whole, tmp_path: Path) -> None:
    """The state after each line of a journal: these moments are too short to be hit by chance."""
    journal = journal_of_a_killed_run(server, whole, tmp_path)
    step = int(journal.parent.parent.name.removeprefix("step"))
    lines = journal.read_bytes().rstrip(b"\0").splitlines(keepends=True)
    assert any(b'"Tensor.item.0.forward","id"' in line for line in lines), "a call that returns a number"
    dump, golden = tmp_path / "dump", whole.folder / "dump"
    for count in range(1, len(lines) + 1):
        journal.write_bytes(b"".join(lines[:count]))
        summary = ulpscope.compare(dump, golden, step=step).summary
        assert (summary["failed"], summary["problems"]) == (0, 0), (lines[count - 1], summary)
        assert summary["only_in_target"] == 0, (lines[count - 1], summary)
        is_inside_item = lines[count - 1].startswith(b'{"call":"Tensor.item.0.forward","id"')
        assert summary["not_compared"] == is_inside_item, (lines[count - 1], summary)


def journal_of_a_killed_run(server: Server, whole: Whole, tmp_path: Path) -> Path:
    """The journal of a run that was killed late in a step; the folders of its other steps are gone."""
    # The last call of a step comes soon after what the run writes down last.
    before = len(
        "".join(
            f"{step} {call} {digest}\n" for step, call, digest in returned_calls(whole.folder) if step < 2
        )
    )
    for number in range(200):
        folder = tmp_path / str(number)
        later = random.Random(number).uniform(0, 0.2 * whole.seconds / STEPS)
        server.train(folder, kill_when=reaches(folder, before, later))
        for journal in folder.glob("dump/step*/rank/journal.jsonl"):
            if b'{"call":"Tensor.item.0.forward","id"' in journal.read_bytes():
                shutil.move(journal.parent.parent, tmp_path / "dump" / journal.parent.parent.name)
                return next((tmp_path / "dump").glob("step*/rank/journal.jsonl"))
        shutil.rmtree(folder)
    raise AssertionError("no run was killed between the last call of a step and its end")


@pytest.mark.parametrize(
    ("file_format", "limit", "has_calls"),
    # The program's own files have to fit the smallest.
    [
        ("pt", 1_000, False),
        ("pt", 3_000, True),
        ("pt", 20_000, True),
        ("pack", 1_000, False),
        ("pack", 17_500, True),
        ("pack", 20_000, True),
    ],
    ids=[
        "at_once",
        "at_the_first_larger_tensor",
        "within_the_journal",
        "a_pack_at_once",
        "a_pack_after_its_header",
        "a_pack_after_some_tensors",
    ],
)
def test_a_file_may_not_grow(
    server: Server, whole: Whole, tmp_path: Path, file_format: str, limit: int, has_calls: bool
) -> None:
    """None may have more than `limit` bytes."""
    folder = tmp_path / "run"
    assert server.train(folder, limit=limit, file_format=file_format) == 0, (folder / "said").read_text()
    assert check_ended_early(folder, whole) > 0 or not has_calls


@pytest.mark.parametrize("limit", [3_000, 20_000, 60_000])
def test_what_may_not_grow_says_that_it_was_cut(tmp_path: Path, limit: int) -> None:
    """Of statistics it is the journal that grows."""
    program = """
import resource, sys, torch, ulpscope
x = torch.ones(4)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
with ulpscope.capture(sys.argv[1]) as run:
    for step in range(3):
        for _ in range(100):
            x = x.sin()
        run.step()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(x.sum().item() > 0)
"""
    words = [sys.executable, "-c", program, str(tmp_path / "dump"), str(limit)]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "True\n"), ended.stderr
    assert "capture has ended, and the run goes on without it: cannot write" in ended.stderr
    [rank] = (tmp_path / "dump").glob("step*/rank")
    ledger = json.loads((rank / "ledger.json").read_text())
    assert "cannot write" in ledger["ended"]
    assert ledger["recorded"] > 0
    assert not (rank / "journal.jsonl").exists()
    # The last one may have found no room for its results.
    calls = len(json.loads((rank / "dump.json").read_text())["data"])
    assert ledger["recorded"] <= calls <= ledger["recorded"] + sum(ledger["failed"].values())
    listed = command("ls", tmp_path / "dump")
    assert "ended early: cannot write" in listed.stdout, listed.stdout
    compared = command("compare", tmp_path / "dump", tmp_path / "dump")
    assert compared.returncode == 2, compared.stdout
    assert "verdict  INCONCLUSIVE: what was compared agrees, but a run ended before" in compared.stdout
    assert "capture ended early, so later calls are missing: cannot write" in compared.stderr


def check_ended_early(folder: Path, whole: Whole) -> int:
    """Training went on to the same result, and what was written can be read. How many entries passed."""
    assert json.loads((folder / "result").read_text())["losses"] == whole.losses
    said = (folder / "said").read_text()
    assert said.count("capture has ended, and the run goes on without it: cannot write") == 1, said
    reasons = [json.loads(ledger.read_text())["ended"] for ledger in folder.glob("dump/**/ledger.json")]
    # Where not even the ledger could be written, the journal is left as it was.
    journals = list(folder.glob("dump/**/journal.jsonl"))
    assert any("cannot write" in reason for reason in reasons if reason) or journals
    return check_compared(folder / "dump", whole.folder / "dump")


@pytest.mark.parametrize(("file_format", "size"), [("pt", "2m"), ("pack", "1400k")])
def test_the_disk_is_full(server: Server, whole: Whole, tmp_path: Path, file_format: str, size: str) -> None:
    """A file system of its own: room for the journal, promised at once, and for some of the tensors."""
    folder = tmp_path / "run"
    disk = folder / "dump"
    disk.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        assert server.train(folder, file_format=file_format) == 0, (folder / "said").read_text()
        assert check_ended_early(folder, whole) > 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("size", ["300k", "420k", "700k"])
def test_the_disk_is_full_of_statistics(tmp_path: Path, size: str) -> None:
    """The step that could not be recorded, or not be made a dump, says so; those before are whole."""
    disk = tmp_path / "dump"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        with ulpscope.capture(disk) as run:
            for _ in range(12):
                for _ in range(100):
                    torch.ones(2).sin()
                run.step()
        folders = sorted(disk.glob("step*/rank"), key=step_of)
        reasons = [how_it_ended(folder) for folder in folders]
        journals = [(folder / "journal.jsonl").exists() for folder in folders]
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    whole = reasons.index(next(reason for reason in reasons if reason))
    assert reasons[:whole] == [None] * whole
    assert all("No space left on device" in str(reason) for reason in reasons[whole:])
    assert journals == [False] * whole + [True] * (len(journals) - whole)


def step_of(folder: Path) -> int:
    return int(folder.parent.name.removeprefix("step"))


def how_it_ended(folder: Path) -> str | None:
    """What the ledger says of the end, which is in the journal where there is one."""
    journal = folder / "journal.jsonl"
    if not journal.exists():
        return json.loads((folder / "ledger.json").read_text())["ended"]
    assert not (folder / "ledger.json").exists()
    last = journal.read_bytes().rstrip(b"\0").splitlines()[-1]
    return json.loads(last)["ledger"]["ended"]


class RefusesAttributes:
    """An argument that cannot even be asked what it is."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"{name} is nobody's business")


class RefusesLength(list[Any]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


class RefusesIteration(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys")

    def keys(self) -> Any:
        raise RuntimeError("no keys")

    def items(self) -> Any:
        raise RuntimeError("no items")


@dataclass
class RefusesItsField:
    """A dataclass, hence walked by its fields."""

    state: Tensor = field(default_factory=lambda: torch.ones(2))

    def __getattribute__(self, name: str) -> Any:
        if name == "state":
            raise RuntimeError("no state")
        return super().__getattribute__(name)


class RefusesEverything(Tensor):
    """A tensor on which every call fails."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("not with me")


AWKWARD = {
    "attributes": RefusesAttributes,
    "length": lambda: RefusesLength([torch.ones(2)]),
    "iteration": lambda: RefusesIteration(x=torch.ones(2)),
    "a field": RefusesItsField,
    "everything": lambda: torch.ones(2).as_subclass(RefusesEverything),
}

# Those that cannot be recorded, and what they say; of the others nothing is asked that they refuse.
REFUSED = {"length": "no length", "iteration": "no keys", "a field": "no state"}


class Tolerant(nn.Module):
    """Takes anything, and does not look at it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Module()
        self.inner.forward = lambda x, anything: x * 2  # type: ignore[method-assign]

    def forward(self, x: Tensor, anything: Any) -> Tensor:
        return self.inner(x, anything)


def with_awkward_arguments(folder: Path, kind: str, *, strict: bool) -> list[Tensor]:
    """Three steps in which a module is given something that will not be recorded."""
    model = Tolerant()
    made = []
    with ulpscope.capture(folder, model=model, level="mix", strict=strict) as run:
        for _ in range(3):
            for _ in range(2):
                made.append(model(torch.ones(2), AWKWARD[kind]()) + 1)
            run.step()
    return made


@pytest.mark.parametrize("kind", AWKWARD)
def test_an_argument_that_refuses_is_counted(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The run goes on; whatever could not be recorded is named, once in the log and always in the ledger."""
    with caplog.at_level(logging.WARNING):
        made = with_awkward_arguments(tmp_path, kind, strict=False)
    assert all(torch.equal(value, torch.full((2,), 3.0)) for value in made)
    for step in range(3):
        folder = tmp_path / f"step{step}" / "rank"
        ledger = json.loads((folder / "ledger.json").read_text())
        assert ledger["recorded"] == len(json.loads((folder / "dump.json").read_text())["data"])
        counted = ledger["recorded"] + sum(ledger["skipped"].values()) + sum(ledger["failed"].values())
        assert ledger["seen"] == counted
        assert "began as the step ended" not in ledger["skipped"]
        failures = {f"Module.inner.Module: RuntimeError: {REFUSED[kind]}": 2} if kind in REFUSED else {}
        assert ledger["failed"] == failures
    names = json.loads((tmp_path / "step2" / "rank" / "dump.json").read_text())["data"]
    for number in range(2):
        assert (f"Module.inner.Module.forward.{number}" in names) == (kind not in REFUSED)
        assert f"Tensor.__add__.{number}.forward" in names
    told = [record for record in caplog.records if record.name.startswith("ulpscope")]
    assert len(told) == (kind in REFUSED)


@pytest.mark.parametrize("kind", AWKWARD)
def test_an_argument_that_refuses_raises_where_that_is_wanted(kind: str, tmp_path: Path) -> None:
    """And torch is as before."""
    before = snapshot()
    with pytest.raises(RuntimeError, match=REFUSED[kind]) if kind in REFUSED else nullcontext():
        with_awkward_arguments(tmp_path, kind, strict=True)
    assert list(left_behind(before, snapshot())) == []
