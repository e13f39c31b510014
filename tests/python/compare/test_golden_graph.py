"""The GE graph of the golden archive through the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import golden

GRAPH = "inputs/precision_data/npu/debug_0/graph/ge_proto_00000042_Build.txt"


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked: Path = golden.unpack("acl", tmp_path_factory.mktemp("acl"))
    return unpacked


def graph(*words: object, code: int = 0) -> str:
    command = [sys.executable, "-m", "ulpscope", "graph", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


def document(*words: object, code: int = 0) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(graph(*words, "--json", code=code))
    return read


def ops_of(text: str) -> list[tuple[str, str]]:
    """Name and type of every operator, from the text of the file."""
    lines = [line for line in text.splitlines() if line.startswith(("    name: ", "    type: "))]
    words = [line.split('"')[1] for line in lines]
    return list(zip(words[::2], words[1::2], strict=True))


def test_every_operator_is_listed(acl: Path) -> None:
    expected = ops_of((acl / GRAPH).read_text())
    assert len(expected) == 36
    for file in (GRAPH, f"{GRAPH}.json"):
        (found,) = document("ls", acl / file)["graphs"]
        assert [(op["name"], op["type"]) for op in found["ops"]] == expected
        assert found["graph"] == "ge_default_20260101120001_1"
    assert "      5  Cast" not in graph("ls", acl / GRAPH)  # three casts
    assert "      3  Cast" in graph("ls", acl / GRAPH)


def test_operators_are_filtered(acl: Path) -> None:
    assert "[Conv2D][AABiasaddConvFusion] LeNet/conv2/Conv2D" in graph("ls", acl, "-n", "conv2", "-t", "Conv")
    # The name of a pass in a list may be given in part.
    assert "LeNet/conv2/Conv2D" in graph("ls", acl, "-f", "AABias")
    assert "trans_Cast_1" in graph("ls", acl, "-k", "te_cast")
    graph("ls", acl, "-n", "nothing like this", code=1)


def test_the_text_and_the_json_of_a_graph_say_the_same(acl: Path) -> None:
    for op in ("LeNet/conv2/Conv2D", "xent_xent", "trans_TransData_2", "Node_Output"):
        text, other = (document("info", acl / file, op)["ops"] for file in (GRAPH, f"{GRAPH}.json"))
        assert text == other, op
        assert len(text) == 1


def test_an_operator_with_its_edges(acl: Path) -> None:
    (conv,) = document("info", acl, "LeNet/conv2/Conv2D")["ops"]
    sources = [(one["source"]["op"], one["source"]["index"]) for one in conv["inputs"]]
    assert sources == [("LeNet/pool1/MaxPool", 0), ("trans_TransData_8", 0), ("LeNet/conv2/biases", 0)]
    assert conv["original_ops"] == ["LeNet/conv2/Conv2D", "LeNet/conv2/BiasAdd"]
    (output,) = conv["outputs"]
    assert (output["layout"], output["shape"], output["origin_shape"]) == (
        "NC1HWC0",
        [2, 2, 6, 6, 16],
        [2, 6, 6, 20],
    )
    assert output["consumers"] == [{"op": "LeNet/conv2/Relu", "index": 0}]
    # The second output of an operator has its own consumers.
    (topk,) = document("info", acl, "LeNet/TopKV2")["ops"]
    assert [len(one["consumers"]) for one in topk["outputs"]] == [1, 0]
    shown = graph("info", acl, "conv1_Conv2D", "-a")
    assert "PassName: TbeConvBiasaddFusionPass" in shown
    assert " -[control] atomic_addr_clean0_5" in shown
    assert "_ge_attr_op_kernel_lib_name: AIcoreEngine" in shown
    graph("info", acl, "no such operator", code=1)


def test_casts_that_lose_something(acl: Path) -> None:
    (found,) = document("casts", acl)["graphs"]
    casts = {(one["from"], one["to"]): (one["loses"], one["ops"]) for one in found["casts"]}
    assert casts == {
        ("DT_FLOAT", "DT_FLOAT16"): (True, ["trans_Cast_1"]),
        ("DT_FLOAT", "DT_INT32"): (True, ["LeNet/step_i32"]),
        ("DT_FLOAT16", "DT_FLOAT"): (False, ["trans_Cast_25"]),
    }
    assert "[Cast][DT_FLOAT -> DT_INT32] 1  loses precision or range" in graph("casts", acl)


def test_two_graphs(acl: Path, tmp_path: Path) -> None:
    ignored = {"TransData", "Cast", "Variable", "NetOutput"}
    count = sum(kind not in ignored for _, kind in ops_of((acl / GRAPH).read_text()))
    same = graph("diff", acl / GRAPH, acl / f"{GRAPH}.json")
    assert same == f"{count} of {count} operators of both graphs are the same\n"
    changed = tmp_path / "ge_proto_00000001_Build.txt"
    changed.write_text((acl / GRAPH).read_text().replace('name: "LeNet/Softmax"', 'name: "LeNet/Other"', 1))
    found = document("diff", acl / GRAPH, changed, code=1)
    assert (found["only_left"], found["only_right"]) == (["LeNet/Softmax"], ["LeNet/Other"])


def test_an_image_of_a_neighbourhood(acl: Path, tmp_path: Path) -> None:
    image = tmp_path / "conv2.svg"
    graph("draw", acl, "LeNet/conv2/Conv2D", "-s", 1, "-o", image)
    root = ElementTree.fromstring(image.read_text())
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(filter(None, titles)) == [
        "LeNet/conv2/Conv2D",
        "LeNet/conv2/Relu",
        "LeNet/conv2/biases",
        "LeNet/pool1/MaxPool",
        "trans_TransData_8",
    ]


def test_a_missing_graph_says_how_to_get_one(acl: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "graph", "ls", str(acl / "inputs" / "zoo")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, "DUMP_GE_GRAPH=2" in done.stderr) == (2, True)
