"""Comparisons on a real Ray cluster of two nodes: the same bytes as in one process, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")

from dumps import PROGRAM, chain, write_rank
from ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

RANKS = 4


class Dumps:
    """Two dumps of two steps and four ranks in a folder; each node has the ranks of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target, self.golden = folder / "target", folder / "golden"
        for step in range(2):
            for rank in range(RANKS):
                fault = {2: 1.5} if (step, rank) == (1, 3) else None
                seed = RANKS * step + rank
                place = f"step{step}/rank{rank}"
                write_rank(self.target / place, chain(4, seed=seed, fault=fault))
                write_rank(self.golden / place, chain(4, seed=seed))

    def only(self, target: set[int], golden: set[int]) -> list[str]:
        """A command whose arguments are run where there are these ranks, and no folder of the others."""
        sides = ((self.target, target), (self.golden, golden))
        places = [
            f"{side.name}/step{step}/rank{rank}"
            for side, ranks in sides
            for step in range(2)
            for rank in ranks
        ]
        lines = [
            "whole=$(mktemp -d)",
            f"mount --bind {self.folder} $whole",
            f"mount -t tmpfs none {self.folder}",
            *(
                f"mkdir -p {self.folder / place} && mount --bind $whole/{place} {self.folder / place}"
                for place in places
            ),
            'exec "$@"',
        ]
        return [*NAMESPACE, "sh", "-ec", "\n".join(lines), "sh"]


NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
CAN_HIDE = subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Short: the sockets of Ray are in it."""
    made = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def dumps(folder: Path) -> Dumps:
    return Dumps(folder / "dumps")


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[RayCluster]:
    """Two nodes that see all files."""
    cluster = RayCluster(folder / "c", ["a", "b"])
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def here(dumps: Dumps, folder: Path) -> Result:
    """The comparison in one process."""
    return compare(dumps.target, dumps.golden, folder / "here")


class Result:
    """What a comparison wrote and printed, without the time."""

    def __init__(self, folder: Path, ran: subprocess.CompletedProcess[str]) -> None:
        self.exit_code, self.stderr = ran.returncode, ran.stderr
        self.document = json.loads((folder / "result.json").read_text())
        files = sorted(path for path in folder.iterdir() if path.is_file())
        texts = {path.name: path.read_text() for path in files if path.name != "result.json"}
        document = {**self.document, "seconds": 0}
        texts["result.json"] = json.dumps(document)
        # A line of the table has the time that it took; its width depends on it.
        lines = [line for line in ran.stdout.splitlines() if not line.lstrip(" │").startswith("time")]
        texts["stdout"] = re.sub(r"[─━ ]+", " ", "\n".join(lines))
        self.texts = {self._plain(name, folder): self._plain(text, folder) for name, text in texts.items()}

    @staticmethod
    def _plain(text: str, folder: Path) -> str:
        return re.sub(r"\b20\d{12}\b|(?<=_)20\d{12}", "TIME", text.replace(str(folder), "DIR"))


def command(*arguments: object) -> list[str]:
    return [*PROGRAM, *map(str, arguments)]


def compare(target: Path, golden: Path, out: Path, *options: object, wrap: list[str] | None = None) -> Result:
    words = [*(wrap or []), *command("compare", target, golden, "-o", out, *options)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert (out / "result.json").exists(), ran.stderr
    return Result(out, ran)


def events(out: Path) -> list[dict[str, str]]:
    log = out / "units" / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def wait_for(found: Callable[[], object], what: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, f"no {what} in {seconds} s"
        time.sleep(0.02)


def answered(out: Path) -> list[str]:
    return [event["unit"] for event in events(out) if event["event"] == "answered"]


def test_the_result_is_that_of_one_process(
    cluster: RayCluster, dumps: Dumps, here: Result, folder: Path
) -> None:
    there = compare(
        dumps.target, dumps.golden, folder / "there", "--engine", "ray", "--address", cluster.address
    )
    assert here.exit_code == there.exit_code == 1
    assert there.texts == here.texts
    assert len([name for name in here.texts if name.endswith(".csv")]) == 2 * RANKS
    # Both nodes took part.
    assert {event["node"] for event in events(folder / "there")} == {"a", "b"}


def test_python_has_the_same_result(cluster: RayCluster, dumps: Dumps) -> None:
    script = f"""
import ulpscope
paths = {str(dumps.target)!r}, {str(dumps.golden)!r}
here = ulpscope.compare(*paths)
import sys
assert not [name for name in sys.modules if name.split(".")[0] == "ray"], "Ray was imported"
there = ulpscope.compare(*paths, engine="ray", address={cluster.address!r})
assert here == there and here.rows == there.rows and len(here.rows) > 100
assert not sys.modules["ray"].is_initialized()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


def test_relative_paths_are_those_of_the_driver(cluster: RayCluster, dumps: Dumps, folder: Path) -> None:
    options = ("--engine", "ray", "--address", cluster.address, "--rank", "0", "--step", "0")
    words = command("compare", "target", "golden", "-o", "relative", *options)
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=dumps.folder)
    assert ran.returncode == 0, ran.stderr
    assert len(list((dumps.folder / "relative").glob("*.csv"))) == 1


def long_dumps(folder: Path) -> Path:
    """Three ranks, each of 12,000 calls without tensors: long enough to be caught at work."""
    if folder.exists():
        return folder
    first = write_rank(folder / "target" / "step0" / "rank0", chain(40), tensors=False)
    dump = json.loads((first / "dump.json").read_text())
    calls = dict(dump["data"])
    for copy in range(1, 150):
        for name, call in calls.items():
            words = name.split(".")
            words[-2] = str(int(words[-2]) + 1000 * copy)
            dump["data"][".".join(words)] = call
    (first / "dump.json").write_text(json.dumps(dump))
    for side in ("target", "golden"):
        for rank in range(3):
            if (side, rank) != ("target", 0):
                shutil.copytree(first, folder / side / "step0" / f"rank{rank}")
    return folder


class Driver:
    """A comparison of ranks that take long, on a cluster, that the test disturbs meanwhile."""

    def __init__(self, cluster: RayCluster, dumps: Path, out: Path) -> None:
        self.cluster, self.out = cluster, out
        options = ("-o", out, "--engine", "ray", "--address", cluster.address)
        self._process = subprocess.Popen(
            command("compare", dumps / "target", dumps / "golden", *options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def worker(self, unit: str = "", nodes: tuple[str, ...] = ("a", "b")) -> tuple[int, str] | None:
        """A process that compares, and what it compares."""
        for node in nodes:
            for process, title in self.cluster.processes(node):
                if title.startswith(f"ray::ulpscope {unit}"):
                    return process, title.split()[-1]
        return None

    def is_over(self) -> bool:
        return self._process.poll() is not None

    def result(self) -> Result:
        printed, complained = self._process.communicate(timeout=300)
        ran = subprocess.CompletedProcess([], self._process.returncode, printed, complained)
        assert (self.out / "result.json").exists(), complained
        return Result(self.out, ran)


@pytest.fixture(scope="module")
def long_here(folder: Path) -> Result:
    many = long_dumps(folder / "long")
    return compare(many / "target", many / "golden", folder / "long-here")


THREE = ["step0_rank0", "step0_rank1", "step0_rank2"]


def test_a_killed_worker_is_replaced(cluster: RayCluster, folder: Path, long_here: Result) -> None:
    driver = Driver(cluster, long_dumps(folder / "long"), folder / "killed-worker")
    wait_for(lambda: driver.worker() or driver.is_over(), "worker")
    worker = driver.worker()
    assert worker is not None
    os.kill(worker[0], signal.SIGKILL)
    assert driver.result().texts == long_here.texts
    assert [event["unit"] for event in events(driver.out) if event["event"] == "lost"] == [worker[1]]
    assert sorted(answered(driver.out)) == THREE


def test_a_rank_that_kills_its_workers_is_a_line(
    cluster: RayCluster, folder: Path, long_here: Result
) -> None:
    many = long_dumps(folder / "long")
    driver = Driver(cluster, many, folder / "killed-often")
    while not driver.is_over():
        worker = driver.worker("step0_rank1")
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker[0], signal.SIGKILL)
        time.sleep(0.02)
    result = driver.result()
    assert result.exit_code == 2
    assert "rank1: not compared after 3 attempts (on node " in result.stderr
    assert sorted(answered(driver.out)) == ["step0_rank0", "step0_rank2"]
    options = ("--engine", "ray", "--address", cluster.address, "--resume")
    assert compare(many / "target", many / "golden", driver.out, *options).texts == long_here.texts
    assert sorted(answered(driver.out)) == THREE


def test_a_killed_node_loses_nothing(cluster: RayCluster, folder: Path, long_here: Result) -> None:
    driver = Driver(cluster, long_dumps(folder / "long"), folder / "killed-node")
    wait_for(lambda: driver.worker(nodes=("b",)) or driver.is_over(), "worker on node b")
    cluster.kill("b")
    try:
        assert driver.result().texts == long_here.texts
        assert sorted(answered(driver.out)) == THREE
        assert {event["node"] for event in events(driver.out) if event["event"] == "lost"} == {"b"}
    finally:
        cluster.add("b")


def test_progress_names_stragglers(cluster: RayCluster, folder: Path) -> None:
    many = long_dumps(folder / "long")
    options = ("--engine", "ray", "--address", cluster.address)
    controller, terminal = pty.openpty()
    driver = subprocess.Popen(
        command("compare", many / "target", many / "golden", *options),
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    stopped: list[int] = []
    shown = ""
    try:
        with contextlib.suppress(OSError):
            while "slow: " not in shown:
                if not stopped:
                    found = [one for node in ("a", "b") for one in cluster.processes(node)]
                    stopped += [one for one, title in found if title.startswith("ray::ulpscope step")][:1]
                    for process in stopped:
                        os.kill(process, signal.SIGSTOP)
                if select.select([controller], [], [], 0.05)[0]:
                    shown += os.read(controller, 4096).decode()
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
        os.close(controller)
        driver.wait(timeout=300)
    assert re.search(r"comparing: \d of 3 ranks, \d+\.\d\d GB/s", shown)
    assert re.search(r"\d+ s left, slow: step0_rank\d \([ab], \d+ s\)", shown), shown


def test_a_driver_that_died_is_resumed(cluster: RayCluster, dumps: Dumps, here: Result, folder: Path) -> None:
    out = folder / "resumed"
    options = ("--engine", "ray", "--address", cluster.address, "-o", out)
    driver = subprocess.Popen(
        command("compare", dumps.target, dumps.golden, *options), stderr=subprocess.PIPE
    )
    wait_for(lambda: len(answered(out)) >= 2, "answer")
    driver.kill()
    driver.communicate()
    before = answered(out)
    assert not (out / "result.json").exists()
    # What changed meanwhile is compared again.
    first = dumps.target / before[0].replace("_", "/") / "dump.json"
    first.touch()
    again = compare(dumps.target, dumps.golden, out, *options[:4], "--resume")
    assert again.texts == here.texts
    expected = 2 * RANKS + 1
    assert len(answered(out)) == expected
    assert sorted(answered(out)) == sorted([*set(answered(out)), before[0]])
    # Everything is there: nothing is compared.
    again = compare(dumps.target, dumps.golden, out, *options[:4], "--resume")
    assert again.texts == here.texts
    assert len(answered(out)) == expected


@pytest.mark.skipif(not CAN_HIDE, reason="needs user namespaces, in which a node has files of its own")
def test_nodes_have_ranks_of_their_own(dumps: Dumps, here: Result, folder: Path) -> None:
    # Of rank 1, each node has one side.
    even, apart = {0, 2}, 1
    out = folder / "located"
    out.mkdir()
    # Node b does not see the results, either: its sheets return in pieces. The driver has no dump at all.
    hide_out = ["sh", "-c", f'mount -t tmpfs none {out} && exec "$@"', "sh"]
    wrap = {"a": dumps.only({*even, apart}, even), "b": [*dumps.only({3}, {apart, 3}), *hide_out]}
    cluster = RayCluster(folder / "l", ["a", "b"], wrap=wrap)
    try:
        blind = dumps.only(set(), set())
        options = ("--engine", "ray", "--address", cluster.address, "--located", "auto")
        located = compare(dumps.target, dumps.golden, out, *options, wrap=blind)
        assert located.texts == here.texts
        nodes = {event["unit"]: event["node"] for event in events(out) if event["event"] == "answered"}
        assert {nodes[f"step0_rank{rank}"] for rank in {*even, apart}} == {"a"}
        assert nodes["step1_rank3"] == "b"

        # With a limit, tensors that differ stay where they are, and are counted.
        limited_out = folder / "limited"
        faulty = dumps.golden / f"step0/rank{apart}/dump.json"
        before = faulty.read_text()
        write_rank(faulty.parent, chain(4, seed=apart, fault={2: 1.5}))
        limits = ("--rank", apart, "--step", 0, "--move-limit", "0B")
        limited = compare(dumps.target, dumps.golden, limited_out, *options, *limits, wrap=blind)
        assert limited.exit_code == 1
        assert re.search(r"\d+ tensors \(\d+ bytes\) of a different node were compared by", limited.stderr)
        write_rank(faulty.parent, chain(4, seed=apart))
        assert faulty.read_text() == before

        mapped = folder / "map.json"
        ask = command("locate", dumps.target, "--address", cluster.address, "-o", mapped)
        ran = subprocess.run([*blind, *ask], capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        found = json.loads(mapped.read_text())
        assert [(rank["step"], rank["rank"], rank["nodes"]) for rank in found["ranks"]][1:4] == [
            (0, "rank1", ["a"]),
            (0, "rank2", ["a"]),
            (0, "rank3", ["b"]),
        ]
        for rank in found["ranks"]:
            # Where the golden is.
            rank["nodes"] = ["a", "b"] if rank["rank"] == f"rank{apart}" else rank["nodes"]
        mapped.write_text(json.dumps(found))

        # A node that is gone takes its ranks with it: they are named, and compared when it is back.
        cluster.kill("b")
        lost_out = folder / "lost"
        options = ("--engine", "ray", "--address", cluster.address, "--located", mapped)
        lost = compare(dumps.target, dumps.golden, lost_out, *options, wrap=blind)
        assert lost.exit_code == 2
        assert "node b could not be asked" in lost.stderr
        assert sorted(answered(lost_out)) == sorted(
            f"step{step}_rank{rank}" for step in range(2) for rank in even
        )
        cluster.add("b")
        back = compare(dumps.target, dumps.golden, lost_out, *options, "--resume", wrap=blind)
        assert back.texts == here.texts
        assert len(answered(lost_out)) == 2 * RANKS
    finally:
        cluster.stop()
