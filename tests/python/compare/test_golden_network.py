"""A whole network of an Ascend device against TensorFlow: rows, files and answers of the golden archive."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import golden

DATA = "inputs/precision_data"
NPU = f"{DATA}/npu/debug_0/dump"
GRAPH = f"{DATA}/npu/debug_0/graph"
ARRAYS = f"{DATA}/tf/dump"
DEBUG = f"{DATA}/tf/tf_debug"
META = "inputs/tf_ckpt/model.meta"

# Columns that the older tool sums in float32.
MEASURED = (
    "CosineSimilarity",
    "MaxAbsoluteError",
    "AccumulatedRelativeError",
    "RelativeEuclideanDistance",
    "KullbackLeiblerDivergence",
    "MeanAbsoluteError",
    "RootMeanSquareError",
    "MaxRelativeError",
    "MeanRelativeError",
)


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked: Path = golden.unpack("acl", tmp_path_factory.mktemp("acl"))
    return unpacked


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def network(acl: Path, *words: object, tf: str = ARRAYS, code: int = 1) -> subprocess.CompletedProcess[str]:
    done = run("compare", acl / NPU, acl / tf, "--graph", acl / GRAPH, *words)
    assert done.returncode == code, done.stderr
    return done


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as lines:
        return list(csv.reader(lines))


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def labelled(header: list[str], row: list[str]) -> dict[str, str]:
    """A row by heading; the second `DataType` is the golden's."""
    names = [f"golden {name}" if name in header[:at] else name for at, name in enumerate(header)]
    return dict(zip(names, row, strict=True))


@pytest.mark.parametrize(
    ("case", "words"), [("cmp_tf", []), ("cmp_tf_overflow_detection", ["--overflow-detection"])]
)
def test_the_rows_of_the_older_tool(acl: Path, tmp_path: Path, case: str, words: list[str]) -> None:
    network(acl, "-o", tmp_path, *words)
    mine = rows(only(tmp_path, "result_*.csv"))
    theirs = rows(only(acl / "expected" / case, "result_*.csv"))
    assert mine[0] == theirs[0]
    assert len(mine) == len(theirs)
    compared = fed = unread = 0
    for ours, expected in zip(mine[1:], theirs[1:], strict=True):
        row, peer = labelled(mine[0], ours), labelled(theirs[0], expected)
        same = ["Index", "OpType", "NPUDump", "Address", "GroundTruth", "TensorIndex"]
        assert {name: row[name] for name in same} == {name: peer[name] for name in same}
        assert row.get("OverFlow") == peer.get("OverFlow")
        if peer["CosineSimilarity"] != "NaN":
            compared += 1
            assert (row["Shape"], row["StandardDeviation"]) == (peer["Shape"], peer["StandardDeviation"])
            assert (row["DataType"], row["golden DataType"]) == (peer["DataType"], peer["golden DataType"])
            for name in MEASURED:
                # The older tool sums in float32: the last of six decimals may differ, and more of a long sum.
                assert float(row[name]) == pytest.approx(float(peer[name]), rel=2e-7, abs=1.1e-6), (row, name)
            assert peer["CompareFailReason"] in row["CompareFailReason"]
        elif "no the ground truth dump file" in peer["CompareFailReason"]:
            # The older tool does not know that _arg_x_0_0 is the placeholder x: the true rows are compared.
            fed += 1
            assert float(row["CosineSimilarity"]) == 1.0
            assert row["CompareFailReason"] == ""
        elif peer["TensorIndex"] != "NaN":
            # A handle of a variable in a pickle: the older tool says nothing.
            unread += 1
            assert row["CosineSimilarity"] == "NaN"
            assert "never unpickled" in row["CompareFailReason"]
        else:
            assert ours == expected
    assert (compared, fed, unread) == (39, 6, 14)


def test_the_pairs_of_the_older_tool(acl: Path, tmp_path: Path) -> None:
    network(acl, "-o", tmp_path, "--map")
    mine = rows(only(tmp_path, "mapping_*.csv"))
    theirs = rows(only(acl / "expected/cmp_tf_map", "mapping_*.csv"))
    assert mine[0] == theirs[0]
    differing = []
    for ours, expected in zip(mine, theirs, strict=True):
        expected = [cell.replace("INPUTS", str(acl / "inputs")) for cell in expected]
        if ours != expected:
            assert ours[:-1] == expected[:-1]
            differing.append((ours[4], Path(ours[6]).name, expected[6]))
    # What was fed, which the older tool does not find.
    assert [name.split(".")[0] for _, name, _ in differing] == ["_arg_x_0_0"] * 5 + ["_arg_y_0_1"]
    assert {missing for *_, missing in differing} == {"NaN"}


def test_one_tensor_element_by_element(acl: Path, tmp_path: Path) -> None:
    network(acl, "-o", tmp_path, "--op", "LeNet/conv2/Relu", "--op-output", 0, "--top", 5)
    expected = acl / "expected/single_op_relu"
    for path in expected.iterdir():
        mine = tmp_path / path.name
        if path.name.endswith("_summary.txt"):
            # The older tool counts elements without a relative error as 0; the smallest real one is 0.000001.
            assert mine.read_text() == path.read_text().replace(
                "MinRelativeError:0.000000", "MinRelativeError:0.000001"
            )
        else:
            assert mine.read_bytes() == path.read_bytes(), path.name
    array = np.load(tmp_path / "LeNet_conv2_Relu_output_0.npy")
    assert array.shape == (2, 20, 6, 6)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def test_the_planted_defects_are_named_and_nothing_else(acl: Path) -> None:
    found = document(network(acl, "--json"))
    (outcome,) = found["networks"]
    assert found["agreement"] == "differ"
    places = [(one["op"], one["output"], one["compared_with"]) for one in outcome["diverging"]]
    assert places == [("LeNet/conv2/Conv2D", 0, "LeNet/conv2/BiasAdd:0"), ("xent/xent", 1, "xent/xent:1")]
    assert outcome["tensors"] == {"agree": 42, "differ": 3, "unmatched": 0, "not_compared": 14}
    assert outcome["operators_not_dumped"] == 12
    assert all(one["reason"] for one in outcome["not_compared"])
    assert any("12 of 36 operators of the graph have no dump file" in note for note in outcome["notes"])


def test_the_debugger_s_folder_and_its_graph_compare_variables_too(acl: Path) -> None:
    arrays = document(network(acl, "--json", "--golden-graph", acl / META))
    debug = document(network(acl, "--json", tf=DEBUG))
    for found in (arrays, debug):
        (outcome,) = found["networks"]
        assert outcome["tensors"] == {"agree": 56, "differ": 3, "unmatched": 0, "not_compared": 0}


def test_a_graph_of_a_different_network_is_said(acl: Path, tmp_path: Path) -> None:
    text = (acl / GRAPH / "ge_proto_00000042_Build.txt").read_text()
    other = tmp_path / "ge_proto_00000001_Build.txt"
    other.write_text(
        text.replace("LeNet", "ResNet").replace("trans_", "t_").replace('"loss', '"l').replace("xent", "x")
    )
    done = run("compare", acl / NPU, acl / ARRAYS, "--graph", other)
    assert done.returncode == 2
    assert "this graph does not belong to the dump: none of its 36 operators is among the 24" in done.stderr
    partly = tmp_path / "ge_proto_00000002_Build.txt"
    partly.write_text(text.replace("LeNet/conv2", "LeNet/conv9"))
    done = run("compare", acl / NPU, acl / ARRAYS, "--graph", partly)
    assert "2 of 24 operators of the dump are not in the graph" in done.stderr


def test_two_devices_whose_tasks_differ(acl: Path, tmp_path: Path) -> None:
    """The same dump with other task ids and times, and one operator more."""
    other = tmp_path / "other"
    source = next((acl / NPU).rglob("Relu.LeNet_conv2_Relu.*")).parent
    other.mkdir()
    for path in source.iterdir():
        op_type, name, task, stream, time = path.name.split(".")
        shutil.copy(path, other / f"{op_type}.{name}.{int(task) + 100}.{stream}.{int(time) + 7}")
    done = run("compare", acl / NPU, other, "--graph", acl / GRAPH, "--json", "-o", tmp_path / "result")
    assert done.returncode == 0, done.stderr
    (outcome,) = document(done)["networks"]
    assert outcome["tensors"] == {"agree": 59, "differ": 0, "unmatched": 0, "not_compared": 0}
    header = rows(only(tmp_path / "result", "result_*.csv"))[0]
    assert header.count("Address") == 2


def steps_of(acl: Path, folder: Path, *numbers: int) -> Path:
    """The dump of the device as several steps."""
    source = next((acl / NPU).rglob("Relu.LeNet_conv2_Relu.*")).parent
    for number in numbers:
        shutil.copytree(source, folder / f"20260101120000/0/ge_default_20260101120001_1/1/{number}")
    return folder


def test_steps_without_counterpart_are_not_compared_with_a_different_one(acl: Path, tmp_path: Path) -> None:
    target = steps_of(acl, tmp_path / "target", 0, 1)
    graph = ("--graph", acl / GRAPH)
    done = run("compare", target, steps_of(acl, tmp_path / "first", 0), *graph, "--json")
    assert done.returncode == 0, done.stderr
    (outcome,) = document(done)["networks"]
    assert any(
        note.startswith("not compared (no counterpart in the golden): step 1") for note in outcome["notes"]
    )
    other = steps_of(acl, tmp_path / "other", 7)
    assert run("compare", target, other, *graph).returncode == 2
    # One step each is a pair, and tensors without a step are those of every step.
    assert run("compare", steps_of(acl, tmp_path / "one", 1), other, *graph).returncode == 0
    assert len(document(run("compare", target, acl / ARRAYS, *graph, "--json"))["networks"]) == 2


def test_an_execution_that_the_golden_does_not_have_is_unmatched(acl: Path, tmp_path: Path) -> None:
    target = steps_of(acl, tmp_path / "target", 0)
    (relu,) = target.rglob("Relu.LeNet_conv2_Relu.*")
    *parts, time = relu.name.split(".")
    shutil.copy(relu, relu.with_name(".".join([*parts, str(int(time) + 1000)])))
    for golden_dump in (steps_of(acl, tmp_path / "golden", 0), acl / ARRAYS):
        done = run("compare", target, golden_dump, "--graph", acl / GRAPH, "--json", "-o", tmp_path / "out")
        (outcome,) = document(done)["networks"]
        assert outcome["tensors"]["unmatched"] == 2, done.stderr
        result = only(tmp_path / "out", "result_*.csv")
        assert "It is of execution 2 of the operator." in result.read_text()
        shutil.rmtree(tmp_path / "out")


def test_what_is_no_dump_of_a_device_is_said(acl: Path) -> None:
    done = run("compare", acl / ARRAYS, acl / NPU, "--graph", acl / GRAPH)
    assert done.returncode == 2
    assert "expected the dump of an Ascend device" in done.stderr
    assert "found TensorFlow dump" in done.stderr


LEAF = f"{NPU}/20260101120000/0/ge_default_20260101120001_1/1/0"
RELU = "Relu.LeNet_fc1_Relu.25.5.1767261601039759"


def copied(acl: Path, folder: Path) -> Path:
    return Path(shutil.copytree(acl / LEAF, folder, copy_function=shutil.copyfile))


@pytest.mark.parametrize("side", ["target", "golden"])
def test_an_unreadable_file_is_not_a_missing_one(acl: Path, tmp_path: Path, side: str) -> None:
    damaged = copied(acl, tmp_path / "damaged")
    (damaged / RELU).write_bytes(b"")
    sides = (damaged, acl / LEAF) if side == "target" else (acl / LEAF, damaged)
    done = run("compare", *sides, "--graph", acl / GRAPH, "-o", tmp_path / "out")
    assert done.returncode == 2, done.stdout
    table = rows(only(tmp_path / "out", "result_*.csv"))
    reasons = [row[-1] for row in table if "LeNet/fc1/Relu" in row]
    assert reasons
    assert all("expected 8 bytes of header length, found 0" in reason for reason in reasons), reasons
    assert not any("There is no" in reason for reason in reasons)


def test_other_files_beside_a_dump_are_named_and_not_read(acl: Path, tmp_path: Path) -> None:
    mixed = copied(acl, tmp_path / "mixed")
    np.save(mixed / "note.npy", np.zeros(3))
    shutil.copyfile(mixed / RELU, mixed / "notes.txt")
    done = run("compare", mixed, acl / ARRAYS, "--graph", acl / GRAPH)
    plain = run("compare", acl / LEAF, acl / ARRAYS, "--graph", acl / GRAPH)
    assert done.returncode == plain.returncode == 1
    assert "not read: note.npy, notes.txt (2 files)" in done.stderr
    assert "not read" not in plain.stderr


def test_a_graph_of_tensorflow_is_no_graph_of_the_device(acl: Path) -> None:
    done = run("compare", acl / NPU, acl / ARRAYS, "--graph", acl / META)
    assert (done.returncode, done.stdout) == (2, "")
    assert "this is a graph of TensorFlow" in done.stderr
    assert "--golden-graph" in done.stderr
    missing = run("compare", acl / NPU, acl / ARRAYS, "--graph", acl / "absent.txt")
    assert missing.returncode == 2
    assert missing.stderr.count("absent.txt") == 1


def test_one_short_tensor_does_not_lose_the_others(acl: Path, tmp_path: Path) -> None:
    cut = copied(acl, tmp_path / "cut")
    whole = (cut / RELU).read_bytes()
    (cut / RELU).write_bytes(whole[:-1])
    done = run("compare", cut, acl / LEAF, "--graph", acl / GRAPH, "-o", tmp_path / "out")
    assert done.returncode == 2
    table = rows(only(tmp_path / "out", "result_*.csv"))
    found = [labelled(table[0], row) for row in table[1:] if "LeNet/fc1/Relu" in row]
    by_tensor = {row["TensorIndex"]: row for row in found}
    assert by_tensor["LeNet/fc1/Relu:input:0"]["CosineSimilarity"] == "1.000000"
    assert by_tensor["LeNet/fc1/Relu:output:0"]["CosineSimilarity"] == "NaN"
    assert "truncated" in by_tensor["LeNet/fc1/Relu:output:0"]["CompareFailReason"]


def test_without_a_graph_a_note_names_the_option(acl: Path) -> None:
    done = run("compare", acl / NPU, acl / ARRAYS)
    assert done.returncode != 0
    assert "add --graph GRAPH" in done.stderr
