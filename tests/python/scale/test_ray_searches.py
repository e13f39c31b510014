"""`overflow` and `check` on a real Ray cluster, whose nodes have ranks of their own."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray")

from dumps import PROGRAM, chain, write_rank
from ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.distributed]

RANKS = 4
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
CAN_HIDE = subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0


def tensor(mean: float, source: str | None = None) -> dict[str, Any]:
    numbers = {"Max": mean, "Min": mean, "Mean": mean, "Norm": mean}
    described = {
        "type": "torch.Tensor",
        "dtype": "torch.float32",
        "shape": [4],
        **numbers,
        "requires_grad": False,
    }
    return described if source is None else {**described, "source": source}


def write_overflow_rank(folder: Path, origin: bool) -> None:
    """A call makes NaN on one rank, and all receive it through a collective."""
    made = math.nan if origin else 1.0
    names = [f"{name}.forward" for name in ("Functional.linear.0", "Distributed.all_reduce.0", "Torch.mul.0")]
    results = [f"{name}.output.0" for name in names]
    sides = [
        (tensor(1.0, "outside"), tensor(made)),
        (tensor(made, results[0]), tensor(math.nan)),
        (tensor(math.nan, results[1]), tensor(math.nan)),
    ]
    data = {
        name: {"input_args": [given], "input_kwargs": {}, "output": [returned]}
        for name, (given, returned) in zip(names, sides, strict=True)
    }
    folder.mkdir(parents=True)
    header = {"task": "statistics", "level": "L1", "framework": "pytorch"}
    (folder / "dump.json").write_text(json.dumps({**header, "data": data}))
    (folder / "stack.json").write_text(
        json.dumps({"0": [[names[0]], ["File train.py, line 7, in step, \n y = f(x)"]]})
    )
    (folder / "construct.json").write_text("{}")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Short: the sockets of Ray are in it. It has two dumps."""
    made = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    for step in range(2):
        for rank in range(RANKS):
            write_overflow_rank(made / f"dumps/overflow/step{step}/rank{rank}", rank == 1)
    for rank in range(RANKS):
        fault = {1: 1.5} if rank == 3 else None
        write_rank(made / f"dumps/check/step0/rank{rank}", chain(2, seed=rank, fault=fault))
    damaged = made / "dumps/check/step0/rank2/dump.json"
    damaged.write_text(damaged.read_text()[:-200])
    yield made
    shutil.rmtree(made, ignore_errors=True)


def only(folder: Path, ranks: set[int]) -> list[str]:
    """A command whose arguments are run where there are these ranks, and no folder of the others."""
    dumps = folder / "dumps"
    places = [path.relative_to(dumps) for path in dumps.glob("*/step*/rank*") if int(path.name[4:]) in ranks]
    lines = [
        "whole=$(mktemp -d)",
        f"mount --bind {dumps} $whole",
        f"mount -t tmpfs none {dumps}",
        *(f"mkdir -p {dumps / place} && mount --bind $whole/{place} {dumps / place}" for place in places),
        'exec "$@"',
    ]
    return [*NAMESPACE, "sh", "-ec", "\n".join(lines), "sh"]


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[RayCluster]:
    """Two nodes; node b does not see the results of a check, either."""
    (folder / "check-there").mkdir()
    hide_out = ["sh", "-c", f'mount -t tmpfs none {folder}/check-there && exec "$@"', "sh"]
    wrap = {"a": only(folder, {0, 2}), "b": [*only(folder, {1, 3}), *hide_out]}
    cluster = RayCluster(folder / "c", ["a", "b"], wrap=wrap)
    yield cluster
    cluster.stop()


def run(
    folder: Path, name: str, out: Path, *options: str, blind: bool = False
) -> tuple[int, str, dict[str, str]]:
    """The exit code, what was printed and what was written, without the time and the folder."""
    wrap = only(folder, set()) if blind else []
    words = [*wrap, *PROGRAM, name, str(folder / "dumps" / name), "-o", str(out), *options]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in ran.stderr, ran.stderr

    def plain(text: str) -> str:
        return re.sub(r"(?<=_)\d{14,}", "TIME", text.replace(str(out), "DIR"))

    files = {path for path in out.rglob("*") if path.is_file() and "units" not in path.parts}
    texts = {plain(str(path)): plain(path.read_bytes().decode(errors="replace")) for path in files}
    return ran.returncode, plain(ran.stdout + ran.stderr), texts


RAY_OPTIONS = ("--engine", "ray", "--located", "auto", "--address")


@pytest.mark.skipif(not CAN_HIDE, reason="needs user namespaces, in which a node has files of its own")
@pytest.mark.parametrize(("name", "exit_code", "said"), [
    ("overflow", 1, "received by rank0: Distributed.all_reduce.0.forward"),
    ("check", 1, "repro: DIR/repro/step0_rank3_"),
])  # fmt: skip
def test_the_result_is_that_of_one_process(
    folder: Path, cluster: RayCluster, name: str, exit_code: int, said: str
) -> None:
    here = run(folder, name, folder / f"{name}-here")
    there_out = folder / f"{name}-there"
    there = run(folder, name, there_out, *RAY_OPTIONS, cluster.address, blind=True)
    assert said in here[1], here[1]
    assert there[:2] == here[:2]
    assert there[2] == here[2]
    assert here[0] == exit_code
    log = [json.loads(line) for line in (there_out / "units" / "log.jsonl").read_text().splitlines()]
    answered = {event["unit"]: event["node"] for event in log if event["event"] == "answered"}
    assert {node for unit, node in answered.items() if unit.endswith(("rank1", "rank3"))} == {"b"}
    # What was answered is not read again.
    again = run(folder, name, there_out, *RAY_OPTIONS, cluster.address, "--resume", blind=True)
    assert again[0] == exit_code
    more = (there_out / "units" / "log.jsonl").read_text().splitlines()[len(log) :]
    repeated = {json.loads(line)["unit"] for line in more}
    # A rank that cannot be read whole is tried again.
    assert repeated == ({"step0_rank2"} if name == "check" else set())


@pytest.mark.parametrize(("options", "said"), [
    (("--engine", "ray", "-j", "2"), "use --rank-cores"),
    (("--located", "auto"), "are for --engine ray"),
    (("--engine", "ray", "--collectives"), "leave --engine ray out"),
])  # fmt: skip
def test_options_that_do_not_fit_are_refused(folder: Path, options: tuple[str, ...], said: str) -> None:
    code, printed, _ = run(folder, "check", folder / "refused", *options)
    assert code == 2
    assert said in printed
