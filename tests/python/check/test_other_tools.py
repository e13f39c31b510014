"""Replay of dumps that msprobe itself wrote, and origins of NaN in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ulpscope
from dumps import run
from golden import unpack


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dumps of msprobe."""
    return unpack("msprobe", tmp_path_factory.mktemp("golden")) / "dumps"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gptS_tensor_L1_ref", "gptS_tensor_L1_bf16", "gptS_tensor_L1_wfault"])
def test_calls_of_msprobe_pass(name: str, unpacked: Path) -> None:
    """A wrong weight is a wrong input: each call computes rightly from its inputs."""
    result = ulpscope.check(unpacked / name, step=0)
    assert result.failed == []
    assert result.counts() == {"pass": 81, "warning": 0, "error": 0, "SKIP": 0}


def test_what_msprobe_does_not_describe_is_named(unpacked: Path) -> None:
    result = ulpscope.check(unpacked / "edge_tensor_L1", white_list=["to", "dropout"])
    reasons = {call.call: call.message for call in result.skipped}
    assert reasons == {
        "Tensor.to.0": "Tensor.to.0.forward.input.1 is an argument that the tool did not describe"
    }


def test_the_origin_that_msprobe_names_is_found(unpacked: Path, tmp_path: Path) -> None:
    ran = run("overflow", unpacked / "edge_tensor_L1", "-o", tmp_path)
    assert ran.returncode == 1
    [path] = tmp_path.glob("anomaly_analyze_*.json")
    found = json.loads(path.read_text())
    assert [node["op_name"] for node in found["rank_0"]] == ["Torch.div.0.forward", "Torch.mul.2.forward"]
    assert found["rank_0"][0]["stack_info"][0].startswith("File scripts/edge_cases.py, line 55")
