"""Gradients that ranks average: by DistributedDataParallel, where no call is seen, or by the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ulpscope

pytestmark = pytest.mark.distributed

PROGRAM = """
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

import ulpscope

folder, rank = Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)

def average(net, way):
    if way == "one by one":
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= 2
    elif way == "all at once":
        flat = torch.cat([parameter.grad.flatten() for parameter in net.parameters()])
        dist.all_reduce(flat)
        flat /= 2
        sizes = [parameter.numel() for parameter in net.parameters()]
        for parameter, part in zip(net.parameters(), flat.split(sizes)):
            parameter.grad.copy_(part.view_as(parameter))
    elif way == "not divided":
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)

for task in ("tensor", "statistics"):
    for way in ("replicas", "one by one", "all at once", "not divided"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        model = nn.parallel.DistributedDataParallel(net) if way == "replicas" else net
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(10 + rank)
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        with ulpscope.capture(folder / task / way, model=model, level="mix", task=task, strict=True):
            F.cross_entropy(model(x), y).backward()
            average(net, way)
            optimizer.step()
dist.barrier()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of all ways to average, by both ranks."""
    folder = tmp_path_factory.mktemp("averages")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(rank)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"},
        )
        for rank in range(2)
    ]
    printed = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(printed)
    return folder


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("way", ["one by one", "all at once"])
def test_averages_by_hand_are_those_of_replicas(way: str, task: str, folder: Path) -> None:
    for target, golden in ((way, "replicas"), ("replicas", way)):
        compared = ulpscope.compare(folder / task / target, folder / task / golden)
        assert (compared.divergences, compared.agreement) == ([], "agree"), compared.explain()


def test_a_missing_division_is_named(folder: Path) -> None:
    compared = ulpscope.compare(folder / "tensor/not divided", folder / "tensor/replicas")
    assert compared.divergences[0].entry == "Module.0.Linear.parameters_grad.1.weight"
    said = compared.explain()
    assert "as if multiplied by 2" in said
    assert "only the target calls Distributed.all_reduce" in said


def test_a_missing_division_is_named_by_statistics(folder: Path) -> None:
    compared = ulpscope.compare(folder / "statistics/not divided", folder / "statistics/replicas")
    assert compared.divergences[0].call == "Distributed.all_reduce.0.forward"


def test_the_mean_is_recorded_beside_each_ranks_own(folder: Path) -> None:
    norms = []
    for rank in range(2):
        data = json.loads((folder / f"statistics/replicas/step0/rank{rank}/dump.json").read_text())["data"]
        own, mean = (
            data[f"Module.module.0.Linear.parameters_grad.{number}"]["weight"][0] for number in (0, 1)
        )
        assert "source" not in own
        assert mean["source"] == "gradient:module.0.weight"
        norms.append((own["Norm"], mean["Norm"]))
    (own, mean), (other, same) = norms
    assert own != other
    assert mean == same
    assert mean < (own + other) / 2
