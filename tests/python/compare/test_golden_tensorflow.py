"""Files of TensorFlow in the golden archive: the debugger's folder, arrays with its names, and graphs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden

DEBUG = "inputs/precision_data/tf/tf_debug"
ARRAYS = "inputs/precision_data/tf/dump"
META = "inputs/tf_ckpt/model.meta"


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked: Path = golden.unpack("acl", tmp_path_factory.mktemp("acl"))
    return unpacked


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def document(*words: object) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(run(*words, "--json").stdout)
    return read


def listed(acl: Path) -> list[str]:
    """The tensors that TensorFlow's own debugger lists, in its order: of time."""
    lines = (acl / "inputs/tf_ckpt/lt_listing_by_tfdbg.txt").read_text().splitlines()
    names = [line.split()[-1] for line in lines if line.startswith("[")]
    assert len(names) == 41
    return names


def entries(listing: dict[str, Any]) -> set[str]:
    """`node:output` of every entry of a dump."""
    names = set()
    for call in (call for rank in listing["ranks"] for call in rank["calls"]):
        for entry in call["entries"]:
            node, _, output = entry["name"].rpartition(".0.forward.output.")
            names.add(f"{node}:{output}")
    return names


def test_the_debugger_s_folder_has_what_it_lists(acl: Path) -> None:
    expected = {name.replace("_arg_x_0_0:", "x:").replace("_arg_y_0_1:", "y:") for name in listed(acl)}
    assert entries(document("ls", acl / DEBUG)) == expected
    flat = {name.replace("/", "_") for name in expected}
    assert entries(document("ls", acl / ARRAYS)) == flat


def test_the_debugger_s_tensors_are_the_arrays_of_the_older_tool(acl: Path, tmp_path: Path) -> None:
    done = run("convert", acl / DEBUG, "-o", tmp_path, "--to", "npy")
    converted = {flat_name(path, tmp_path): path for path in tmp_path.rglob("*.npy")}
    arrays = 0
    for path in (acl / ARRAYS).glob("*.npy"):
        node, output, _, _ = path.name.split(".")
        try:
            expected = np.load(path)
        except ValueError:
            continue  # The handle of a variable, as a pickle.
        # Scopes are folders in the one, and a part of the name in the other.
        assert np.array_equal(np.load(converted[f"{node}_{output}"]), expected), path.name
        arrays += 1
    assert arrays == 33, done.stderr


def flat_name(path: Path, root: Path) -> str:
    """`LeNet_conv1_Conv2D_0` of `…/_tfdbg_device_…/LeNet/conv1/Conv2D_0_DebugIdentity_….npy`."""
    parts = path.relative_to(root).parts
    device = next(at for at, part in enumerate(parts) if part.startswith("_tfdbg_device_"))
    return "_".join(parts[device + 1 :]).rsplit("_DebugIdentity_", 1)[0]


def test_both_forms_of_a_dump_agree(acl: Path) -> None:
    done = run("compare", acl / DEBUG, acl / ARRAYS)
    assert "paired 39 exact (41 rows); only in target 0, only in golden 0" in done.stdout
    assert "33 agree, 0 differ" in done.stdout


def test_statistics_and_one_tensor(acl: Path) -> None:
    shown = run("show", acl / DEBUG, "LeNet/TopKV2")
    assert shown.returncode == 0, shown.stderr
    assert "LeNet/TopKV2.0.forward.output.1" in shown.stdout
    found = document("stats", acl / DEBUG)
    sums = [one for one in found["tensors"] if "LeNet/Softmax_0_DebugIdentity" in one["file"]]
    (path,) = (acl / ARRAYS).glob("LeNet_Softmax.0.*.npy")
    assert sums[0]["mean"] == pytest.approx(float(np.load(path).mean(dtype=np.float64)))


def test_the_operators_of_a_meta_file(acl: Path) -> None:
    with (acl / "expected/meta_ops_by_tensorflow.csv").open(newline="") as lines:
        expected = list(csv.DictReader(lines))
    (graph,) = document("graph", "ls", acl / META)["graphs"]
    assert [(op["name"], op["type"]) for op in graph["ops"]] == [
        (row["op_name"], row["op_type"]) for row in expected
    ]
    infos = {op["name"]: op for op in document("graph", "info", acl / META, "")["ops"]}
    shapes = dtypes = 0
    for row in expected:
        op = infos[row["op_name"]]
        sources = [f"{one['source']['op']}:{one['source']['index']}" for one in op["inputs"]]
        sources += [f"^{name}" for name in op["control_inputs"]]
        assert " ".join(sources) == row["inputs"]
        outputs = [one.split("|") for one in row["outputs"].split() if one]
        for (_, dtype, shape), mine in zip(outputs, op["outputs"], strict=False):
            # TensorFlow infers what the file does not say.
            if -1 not in mine["shape"] and shape != "unknown":
                assert mine["shape"] == json.loads(shape), row
                shapes += 1
            if mine["dtype"]:
                assert mine["dtype"] == dtype, row
                dtypes += 1
    assert shapes >= 60
    assert dtypes >= 60


def test_the_graph_of_a_run_and_of_an_event_file(acl: Path, tmp_path: Path) -> None:
    (graph,) = document("graph", "ls", acl / DEBUG)["graphs"]
    assert any(op["name"] == "LeNet/conv1/Conv2D" for op in graph["ops"])
    # TensorBoard's files have the length of each event before it, and checksums around it.
    (bare,) = (acl / DEBUG).rglob("_tfdbg_graph_hash*")
    event = bare.read_bytes()
    record = len(event).to_bytes(8, "little") + b"\0" * 4 + event + b"\0" * 4
    path = tmp_path / "events.out.tfevents.1794722146.host"
    path.write_bytes(record)
    (same,) = document("graph", "ls", tmp_path)["graphs"]
    assert same["ops"] == graph["ops"]
