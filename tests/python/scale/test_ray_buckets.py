"""Dumps in object storage, compared on Ray: the workers read them, and the driver only lists them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ray")

from buckets import S3Server, Way, variables
from dumps import chain, run, write_rank
from ray_cluster import RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.distributed]


@pytest.fixture
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.stop()


@pytest.fixture
def ways(server: S3Server) -> Iterator[tuple[Way, Way]]:
    """That of the driver, and that of the workers."""
    ways = Way(server.port), Way(server.port)
    yield ways
    for way in ways:
        way.stop()


@pytest.fixture
def cluster(ways: tuple[Way, Way], monkeypatch: pytest.MonkeyPatch) -> Iterator[RayCluster]:
    """A node with the variables of the bucket. Its folder is short: the sockets of Ray are in it."""
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    for name, value in variables(ways[1].endpoint).items():
        monkeypatch.setenv(name, value)
    cluster = RayCluster(folder / "c", ["a"])
    yield cluster
    cluster.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_workers_read_the_bucket(
    server: S3Server, ways: tuple[Way, Way], cluster: RayCluster, tmp_path: Path
) -> None:
    places = {}
    for name, fault in (("golden", None), ("target", {1: 1.5})):
        for rank in range(2):
            write_rank(
                tmp_path / name / f"step0/rank{rank}", chain(2, seed=rank, fault=fault if rank else None)
            )
        places[name] = server.upload(tmp_path / name, f"ray/{name}")
    driver, workers = ways
    out = tmp_path / "out"
    options = ["--engine", "ray", "--address", cluster.address, "-o", out]
    ran = run("compare", places["target"], places["golden"], *options, env=driver.environment())
    assert ran.returncode == 1, ran.stderr
    here = run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "here")
    assert here.returncode == 1, here.stderr

    def sheets(folder: Path) -> dict[str, str]:
        # Sheets are named after ranks and the time.
        found = sorted(folder.glob("compare_result_*.csv"))
        return {path.name.rpartition("_")[0]: path.read_text() for path in found}

    assert sheets(out) == sheets(tmp_path / "here")
    verdicts = [
        json.loads((folder / "result.json").read_text())["agreement"] for folder in (out, tmp_path / "here")
    ]
    assert verdicts[0] == verdicts[1]
    assert workers.count(r"\.pt$") > 0
    assert driver.read(r"\.(pt|json)$") == 0
