"""What each tool says of a pair of dumps, as a list of calls: the first is the one it blames.

| tool | its answers |
|---|---|
| `ulpscope` | the divergences of the native style, in their order |
| `ulpscope-prove` | the same with `--prove`: blamed calls are replayed |
| `msprobe` | mindstudio-probe's own `compare`: calls with a row of `Result` `error`, as its table has them |
| `msprobe-da` | its analysis of the first difference (`compare -da`): the calls it names |
| `ptdbg` | the rule of ptdbg_ascend: calls with a row that does not pass, as its table has them |

Rows are turned into calls by the names in the target's `dump.json`, and calls into modules by its
`construct.json`, the same way for every tool. With several ranks, the row that comes first in its own rank's
table goes first.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import ulpscope
from faults.outcome import KEPT, Answer, Judgement

TOOLS = ("ulpscope", "ulpscope-prove", "msprobe", "msprobe-da", "ptdbg")
# Verdicts of ptdbg_ascend that fail: of tensors, of statistics, of digests.
FAILING = {"No", "Warning", "Different"}


class Judge(Protocol):
    """A tool."""

    def __call__(self, target: Path, golden: Path) -> Judgement:
        """What it says of a pair of dumps; raises what went wrong."""


@dataclass(frozen=True)
class Rank:
    """One rank of a dump: its folder, the names of its calls, the modules they were made in."""

    folder: Path
    task: str
    calls: frozenset[str]
    modules: dict[str, str | None]

    def call_of(self, row: str) -> str:
        """The call that a row of a table is about; the row itself where no call has such a name."""
        name = row
        while name not in self.calls:
            name, dot, _ = name.rpartition(".")
            if not dot:
                return row
        return name


def ranks(dump: Path) -> list[Rank]:
    """The ranks of a dump by step and name."""
    found = []
    for document in sorted(dump.rglob("dump.json")):
        folder = document.parent
        recorded = json.loads(document.read_text())
        construct = folder / "construct.json"
        parents: dict[str, Any] = json.loads(construct.read_text()) if construct.exists() else {}
        # A parent may come with the microbatch it was made in.
        modules = {
            call: parent[0] if isinstance(parent, list) else parent for call, parent in parents.items()
        }
        found.append(Rank(folder, recorded["task"], frozenset(recorded["data"]), modules))
    if not found:
        raise FileNotFoundError(f"{dump}: expected a dump, found no dump.json in it: was anything captured?")
    return found


def judgement(named: Iterable[tuple[int, Rank, str, str]]) -> Judgement:
    """Answers from rows that fail: their place in the table, rank, name, and the tool's word for it."""
    answers: dict[str, Answer] = {}
    for _, rank, row, kind in sorted(named, key=lambda one: one[0]):
        call = rank.call_of(row)
        answers.setdefault(call, Answer(call, (call, row), rank.modules.get(call), kind))
    return Judgement(tuple(answers.values())[:KEPT], len(answers))


def ulpscope_says(target: Path, golden: Path, prove: bool = False) -> Judgement:
    """The verdict of this project."""
    compared = ulpscope.compare(target, golden, prove=prove)
    answers = tuple(map(answer_of, compared.divergences))
    refuted = tuple(map(answer_of, compared.refuted))
    return Judgement(answers[:KEPT], len(answers), refuted=refuted)


def ulpscope_proves(target: Path, golden: Path) -> Judgement:
    """The same, where replay has the last word."""
    return ulpscope_says(target, golden, prove=True)


def answer_of(one: ulpscope.Divergence) -> Answer:
    """A divergence as an answer."""
    names = tuple(str(name) for name in (one.call, one.golden_call, one.entry) if name)
    return Answer(one.call, names, one.module, one.kind, one.confidence, one.proof)


def ptdbg_says(target: Path, golden: Path) -> Judgement:
    """The rule of ptdbg_ascend: of 4.0 for tensors; statistics are compared from 6.0 on."""
    sides = ranks(target)
    named: list[tuple[int, Rank, str, str]] = []
    for rank, other in zip(sides, ranks(golden), strict=True):
        style: Literal["ptdbg", "ptdbg-6"] = "ptdbg" if rank.task == "tensor" else "ptdbg-6"
        for place, row in enumerate(ulpscope.compare(rank.folder, other.folder, style=style).rows):
            verdict = row.get("Accuracy Reached or Not", row.get("Result"))
            if verdict in FAILING:
                named.append((place, rank, str(row["NPU Name"]), str(verdict)))
    return judgement(named)


class Msprobe:
    """mindstudio-probe in a process of its own environment, which stays for many pairs."""

    def __init__(self, environment: Path) -> None:
        """`environment` is the one that `benches.peer` makes."""
        worker = Path(__file__).with_name("msprobe_worker.py")
        self._process = subprocess.Popen(
            [str(environment / "bin" / "python"), str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, arguments: list[str], out: Path) -> dict[str, Any]:
        """Runs one command of the tool."""
        out.mkdir()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"arguments": [*arguments, "-o", str(out)], "out": str(out)}
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of mindstudio-probe ended with {self._process.wait()}")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def compare(self, target: Path, golden: Path) -> Judgement:
        """Its table, rank by rank."""
        named: list[tuple[int, Rank, str, str]] = []
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            for number, (rank, other) in enumerate(zip(ranks(target), ranks(golden), strict=True)):
                sides = ["-tp", str(rank.folder / "dump.json"), "-gp", str(other.folder / "dump.json")]
                reply = self.ask(["compare", *sides], Path(folder, f"out{number}"))
                for place, (row, result, message) in enumerate(reply["rows"]):
                    if result == "error":
                        named.append((place, rank, row, message))
        return judgement(named)

    def first_difference(self, target: Path, golden: Path) -> Judgement:
        """Its analysis of the first difference, which wants ranks with numbers."""
        # Beside the dump, so that files can be linked.
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            sides = {"target": ranks(target), "golden": ranks(golden)}
            for side, members in sides.items():
                for number, rank in enumerate(members):
                    numbered = Path(folder, side, f"rank{number}")
                    shutil.copytree(rank.folder, numbered, copy_function=os.link)
            paths = ["-tp", str(Path(folder, "target")), "-gp", str(Path(folder, "golden"))]
            reply = self.ask(["compare", *paths, "-da"], Path(folder, "out"))
        # It names calls without their rank, and those of one rank after those of another.
        rank = sides["target"][0]
        return judgement((place, rank, call, "first difference") for place, call in enumerate(reply["first"]))


class Judges:
    """The tools asked for. A tool that fails on a pair says so, and the others go on."""

    def __init__(self, tools: Iterable[str], environment: Path | None) -> None:
        """`environment`: that of mindstudio-probe, for those tools that need it."""
        self._msprobe: Msprobe | None = None
        self._environment = environment
        self.tools = tuple(tools)

    def _judge(self, tool: str) -> Judge:
        if tool == "ulpscope":
            return ulpscope_says
        if tool == "ulpscope-prove":
            return ulpscope_proves
        if tool == "ptdbg":
            return ptdbg_says
        if self._msprobe is None:
            assert self._environment is not None
            self._msprobe = Msprobe(self._environment)
        return self._msprobe.compare if tool == "msprobe" else self._msprobe.first_difference

    def __call__(self, target: Path, golden: Path) -> dict[str, Judgement]:
        """What each of them says."""
        said = {}
        for tool in self.tools:
            try:
                said[tool] = self._judge(tool)(target, golden)
            except Exception as error:
                said[tool] = Judgement(error=f"{type(error).__name__}: {error}")
                if tool.startswith("msprobe"):
                    self._forget_ended()
        return said

    def _forget_ended(self) -> None:
        """Lets the next pair have a fresh process where this one is gone."""
        if self._msprobe is not None and self._msprobe.ended():
            self.close()

    def close(self) -> None:
        """Ends what was started."""
        if self._msprobe is not None:
            self._msprobe.close()
            self._msprobe = None
