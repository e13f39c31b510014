"""Options of comparisons on Ray that need no cluster of several nodes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("ray")

from dumps import PROGRAM, chain, write_rank
from ray_cluster import free_port

pytestmark = [pytest.mark.slow, pytest.mark.distributed]


def compare(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [*PROGRAM, "compare", *map(str, arguments)]
    known = {**os.environ, **environment}
    return subprocess.run(words, capture_output=True, text=True, timeout=120, env=known)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_no_cluster_listens_is_refused(tmp_path: Path, scheme: str) -> None:
    dump = write_rank(tmp_path / "dump", chain(2))
    address = f"{scheme}127.0.0.1:{free_port()}"
    ran = compare(dump, dump, "--engine", "ray", "--address", address)
    assert ran.returncode == 2
    assert f"no Ray cluster at {address}: ConnectionError: nothing answers at 127.0.0.1" in ran.stderr
    assert "`ray start --head` prints the address" in ran.stderr


def test_a_cluster_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    dump = write_rank(tmp_path / "dump", chain(2))
    ran = compare(dump, dump, "--engine", "ray", RAY_ADDRESS=f"127.0.0.1:{free_port()}")
    assert ran.returncode == 2
    assert "nothing answers at 127.0.0.1" in ran.stderr
    # What Ray remembers of a cluster that was killed is no wish of the user's.
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray/ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")
    ran = compare(dump, dump, "--engine", "ray", "--address", "auto", RAY_TMPDIR=str(tmp_path))
    assert ran.returncode == 2
    assert "no Ray cluster at auto: ConnectionError: nothing answers at 127.0.0.1" in ran.stderr


def test_a_host_without_a_name_is_refused(tmp_path: Path) -> None:
    dump = write_rank(tmp_path / "dump", chain(2))
    ran = compare(dump, dump, "--engine", "ray", "--address", "no-such-host.invalid:6379")
    assert ran.returncode == 2
    assert "no Ray cluster at no-such-host.invalid:6379" in ran.stderr


def test_ranks_are_merged_by_a_worker(tmp_path: Path) -> None:
    target, golden = tmp_path / "target", tmp_path / "golden"
    write_rank(golden / "step0/rank0", chain(4))
    for rank in range(2):
        write_rank(target / f"step0/rank{rank}", chain(4, fault={2: 1.5} if rank else None))
    sides = (target, golden, "--parallel", "dp=2")
    here = compare(*sides)
    # Ray leaves a token in the home folder, with which it starts all clusters from then on.
    local = ("--engine", "ray", "--address", "local")
    there = compare(*sides, *local, "-o", tmp_path / "out", HOME=str(tmp_path))
    assert here.returncode == there.returncode == 1, there.stderr
    assert "should be the same on all ranks, and that of rank 1 is not the golden's" in here.stdout
    assert (tmp_path / "out/units/step0_2_ranks.json").exists()

    def said(ran: subprocess.CompletedProcess[str]) -> list[str]:
        lines = [line for line in ran.stdout.splitlines() if not line.startswith(("time", "wrote"))]
        return [line.split(" (line ")[0] for line in lines]

    assert said(there) == said(here)
