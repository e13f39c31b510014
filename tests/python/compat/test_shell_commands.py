"""ac, ls, ni, vcs, dc -f and vc of precision_tool's shell, on the data of its recorded session."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import golden

SHELL = [sys.executable, "-m", "ulpscope", "shell"]
LEAF = "20260101120000/0/ge_default_20260101120001_1/1/0"
DUMP = f"precision_data/npu/debug_0/dump/{LEAF}"
GRAPH = "precision_data/npu/debug_0/graph/ge_proto_00000042_Build.txt"


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("acl", tmp_path_factory.mktemp("acl"))


@pytest.fixture
def data(acl: Path, tmp_path: Path) -> Path:
    shutil.copytree(acl / "inputs", tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def compared(acl: Path, data: Path) -> Path:
    """The data with the results that msaccucmp wrote."""
    theirs = acl / "expected/precision_tool_temp/vector_compare"
    shutil.copytree(theirs, data / "precision_data/temp/vector_compare")
    return data


def shell(folder: Path, lines: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELL, "precision_data", *words],
        cwd=folder,
        input=lines,
        capture_output=True,
        text=True,
        timeout=120,
    )


def answered(folder: Path, lines: str, *words: str) -> str:
    ended = shell(folder, lines, *words)
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def printed(acl: Path, command: str) -> list[str]:
    """What precision_tool printed for a command of its recorded session, without its log lines."""
    commands = (acl / "expected/precision_tool_session_commands.txt").read_text().splitlines()
    log = (acl / "expected/precision_tool_session.log").read_text(encoding="utf-8")
    lines = log.split("PrecisionTool > ")[1:][commands.index(command)].splitlines()
    return [line.rstrip() for line in lines if not line.startswith("2026-")]


def plain(line: str) -> str:
    """Without frames, and without the last digits of a mean: theirs are sums in the dtype itself."""
    text = re.sub(r"\[Mean: (-?\d\S{4})\S*\]", r"[Mean: \1]", line.strip("│ ").rstrip())
    # NumPy changed how it prints large float16.
    return text.replace("6.55e+04", "65500.0")


@pytest.mark.parametrize(
    "command", ["ls", "ls -t Conv2D", "ls -n conv1 -t Conv", "ls -f TbeConv", "ls -k te_relu"]
)
def test_ls_prints_what_precision_tool_printed(acl: Path, data: Path, command: str) -> None:
    ours = answered(data, command + "\n").splitlines()
    assert [line.rstrip() for line in ours] == printed(acl, command)


def test_ls_finds_parts_of_names_types_and_passes(data: Path) -> None:
    # Theirs needs the whole name of a pass that is in a list.
    assert "[['AABiasaddConvFusion']] LeNet/conv2/Conv2D" in answered(data, "ls -f ABiasadd\n")
    assert answered(data, "ls -t Mul\n").count("[MatMulV2][] LeNet/fc") == 2
    assert answered(data, "ls -n fc1 -t Mul\n").count("[MatMulV2]") == 1
    assert "LeNet" not in answered(data, "ls -n nothing_like_it\n")


def test_ls_of_a_word_names_the_program_and_the_session_goes_on(data: Path) -> None:
    ended = shell(data, "ls dump\nls -t Relu\nrun ls fusion_result.json\n", "--allow-commands")
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "[ERROR] ls: lists operators, as in: ls -n dump; the program of that name is: run ls dump"
    ]
    assert "[Relu][] LeNet/fc1/Relu" in ended.stdout
    assert ended.stdout.endswith("fusion_result.json\n")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("ni LeNet/fc1/Relu", []),
        ("ni -n LeNet/conv1/Conv2DLeNet/conv1/BiasAddLeNet/conv1/Relu -a", []),
        # An output without consumers is an output too.
        ("ni LeNet/TopKV2", ["-[1][DT_INT32][ND][2, 3] [] [] [2, 3] []"]),
    ],
)
def test_ni_prints_what_precision_tool_printed(acl: Path, data: Path, command: str, extra: list[str]) -> None:
    ours = [plain(line) for line in answered(data, command + "\n").splitlines()]
    theirs = [plain(line) for line in printed(acl, command)]
    assert len(theirs) > 15
    # Theirs lists TensorFlow's tensors in any order.
    assert sorted(ours) == sorted(theirs + extra)
    at = ours.index("TfDumpOutput:")
    assert ours[:at] == [line for line in ours[:at] if line in theirs + extra]


def test_ni_with_and_without_the_option_is_the_same(data: Path) -> None:
    assert answered(data, "ni LeNet/fc1/Relu\n") == answered(data, "ni -n LeNet/fc1/Relu\n")


def test_ni_of_a_part_of_a_name_lists_what_it_may_be(data: Path) -> None:
    shown = answered(data, "ni TopK\n")
    assert "Can not find Operator named TopK." in shown
    assert "│ [TopKD] LeNet/TopKV2 │" in shown
    assert "│ ID:    30 " in shown
    # As in the names of files.
    assert "[Relu] LeNet/fc1/Relu" in answered(data, "ni LeNet_fc1_Relu\n")
    ended = shell(data, "ni no_such_op\nni\nni LeNet/fc1/Relu -s x\nni -g other LeNet/fc1/Relu\n")
    assert ended.returncode == 2
    assert [line.split(": ")[1] for line in ended.stderr.splitlines()] == [
        "no operator has no_such_op in its name; ls lists operators",
        "say which operator, as in",
        "argument -s",
        "no operator has LeNet/fc1/Relu in its name; ls lists operators",
    ]


def test_ni_checks_outputs_against_tensorflow_and_saves_a_drawing(data: Path) -> None:
    shown = answered(data, "ni LeNet/conv2/Conv2D -c -s 2\nni LeNet/TopKV2 -c\n")
    cosines = re.findall(r"\[CosSim: (\S+)\]", shown)
    # The defect of the data, in the order of TensorFlow's axes; msaccucmp says 0.902138.
    assert float(cosines[0]) == pytest.approx(0.902138, abs=1e-6)
    assert [float(cosine) for cosine in cosines[1:]] == [1.0, 1.0]
    path = data / re.findall(r"Drawing: (\S+)", shown)[0]
    assert path == data / (
        "precision_data/temp/op_graph/debug_0.ge_default_20260101120001_1.Conv2D.LeNet_conv2_Conv2D.2.svg"
    )
    drawing = path.read_text()
    assert drawing.startswith("<svg ")
    assert "LeNet/pool2/MaxPool" in drawing
    assert "LeNet/fc1/MatMul" not in drawing


def test_ni_says_that_it_compares_tensors_of_different_lengths(data: Path) -> None:
    (array,) = (data / "precision_data/tf/dump").glob("LeNet_fc1_Relu.0.*.npy")
    np.save(array, np.load(array).reshape(-1)[:-1])
    shown = answered(data, "ni LeNet/fc1/Relu -c\n")
    assert re.search(
        r"the numbers of elements differ: \d+ and \d+; the shorter one continues with zeros", shown
    )


def fields(message: bytes) -> list[tuple[int, int, int, int]]:
    """Number, start, start of the content and end of each field of a protobuf message."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 128:
                return value, at

    found, at = [], 0
    while at < len(message):
        tag, content = varint(at)
        if tag & 7 == 2:
            length, content = varint(content)
            end = content + length
        else:
            assert tag & 7 == 0
            _, end = varint(content)
        found.append((tag >> 3, at, content, end))
        at = end
    return found


def without_original_shapes(dump: bytes) -> bytes:
    """Outputs whose original shape has the number of an unknown field."""
    length = int.from_bytes(dump[:8], "little")
    changed, header = bytearray(dump), dump[8 : 8 + length]
    for number, _, start, end in fields(header):
        for inner, at, _, _ in fields(header[start:end]) if number == 3 else []:
            if inner == 7:
                changed[8 + start + at] = 15 << 3 | 2
    assert changed != dump
    return bytes(changed)


def test_ni_says_what_is_unsure_about_a_layout(data: Path) -> None:
    """A tensor in blocks without its original shape has an unknown number of channels."""
    (tensors,) = (data / DUMP).glob("Conv2D.LeNet_conv2_Conv2D.*")
    assert "original shape" not in answered(data, "ni LeNet/conv2/Conv2D -c\n")
    tensors.write_bytes(without_original_shapes(tensors.read_bytes()))
    shown = answered(data, "ni LeNet/conv2/Conv2D -c\n")
    assert "original shape" in shown.split("Check:")[1]


def test_ni_lives_on_with_more_destinations_than_outputs(data: Path) -> None:
    """dst_index longer than output_desc ends the session of the older tool."""
    graph = data / GRAPH
    (data / f"{GRAPH}.json").unlink()
    text = graph.read_text()
    assert 'dst_name: "' in text
    longer = re.sub(r"(\n +)dst_index: (\S+)", r"\1dst_index: \2\1dst_index: 7\1dst_index: 8", text)
    assert longer != text
    graph.write_text(longer)
    shown = answered(data, "ni LeNet/fc1/Relu\nls -t Relu\n")
    assert "['trans_TransData_20']" in shown
    assert "[Relu][] LeNet/fc1/Relu" in shown


def test_ni_shows_statistics_files_and_names_of_mapping_csv(data: Path) -> None:
    folder = data / DUMP
    tensors = next(folder.glob("Relu.LeNet_fc1_Relu.*"))
    tensors.rename(folder / "16839245201148")
    (folder / "mapping.csv").write_text(f"16839245201148,{tensors.name}\n")
    statistics = folder / "TopKD.LeNet_TopKV2.99.5.1767261601099999.csv"
    next(folder.glob("TopKD.LeNet_TopKV2.*")).unlink()
    statistics.write_text(
        "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count\n"
        "Input,0,80,DT_FLOAT,ND,2x10,0.5,-1.5,0.25,20\nOutput,1,24,DT_INT32,ND,2x3,8,1,3.5,6\n"
    )
    shown = answered(data, "ni LeNet/fc1/Relu\nni LeNet/TopKV2\ndc LeNet/fc1/Relu\n")
    assert "-[0] 16839245201148.output.0.npy" in shown
    assert "[Shape: (2, 10)] [Dtype: FLOAT] [Max: 0.5] [Min: -1.5] [Mean: 0.25]" in shown
    assert " - 16839245201148.input.0.npy" in shown
    # Nothing of the user's is renamed.
    assert (folder / "16839245201148").is_file()
    assert not tensors.exists()


def test_ni_of_a_sub_graph_names_the_operators_around_it(data: Path) -> None:
    graph = data / GRAPH
    (data / f"{GRAPH}.json").unlink()
    graph.write_text(
        graph.read_text()
        + """
graph {
  name: "sub"
  op { name: "inner_arg" type: "Data" attr { key: "_parent_node_index" value { i: 1 } }
       output_desc { dtype: DT_FLOAT layout: "ND" shape { dim: 2 } } }
  op { name: "sub_Node_Output" type: "NetOutput" input: "inner_arg:0"
       input_desc { dtype: DT_FLOAT layout: "ND" } }
}
graph {
  name: "outer"
  op { name: "caller" type: "PartitionedCall" input: "a:0" input: "b:2" subgraph_name: "sub" }
}
"""
    )
    shown = answered(data, "ni inner_arg\nni caller\n")
    assert " b:2 " in shown
    assert re.search(r"Output: +│\n│ +-\[0\]\[DT_FLOAT\]\[ND\]\[\] \[\] \[\] \[\] inner_arg:0", shown)


def test_vcs_names_the_right_columns_and_judges_inputs_too(compared: Path) -> None:
    shown = answered(compared, "vcs\n")
    result = "precision_data/temp/vector_compare/20261115062130/result_20261115062131.csv"
    assert shown.splitlines()[0] == f"[INFO] Find 3 ops less then 0.98 in {result}"
    titles = re.findall(r"─ (\[\d+\] \S+) ─", shown)
    assert titles == ["[12] LeNet/conv2/Conv2D", "[13] LeNet/conv2/Relu", "[32] xent/xent"]
    first = shown.split("╭")[1]
    # Theirs shows the type on the left and the NPU's name on the right.
    assert "Left:  ['LeNet/conv2/Conv2D']" in first
    assert "Right: ['LeNet/conv2/Conv2D', 'LeNet/conv2/BiasAdd']" in first
    for metric in (
        "MaxAbsoluteError: 8.470698",
        "RootMeanSquareError: 0.882739",
        "MeanRelativeError: 0.130280",
    ):
        assert f"[{metric}]" in first
    assert "An input differs already." in shown.split("╭")[2]
    assert "An input differs already." not in first


def test_vcs_takes_a_file_a_threshold_and_a_limit(compared: Path) -> None:
    shown = answered(compared, "vcs -c 0.9 -l 1\n")
    assert "Find 1 ops less then 0.9 in" in shown
    assert shown.count("╭") == 1
    assert "[32] xent/xent" in shown
    limited = answered(compared, "vcs -l 1\n")
    assert limited.count("╭") == 1
    assert limited.splitlines()[-1] == "and 2 more: vcs -l 3"
    # A wrong scale has a cosine of 1, and so has every scalar; the oldest header has other names.
    (compared / "old.csv").write_text(
        "Index,LeftOp,RightOp,TensorIndex,CosineSimilarity,MaxAbsoluteError,RelativeEuclideanDistance\n"
        "0,a,b,a:output:0,1.000000,2.0,1.000000\n1,c,d,c:output:0,1.000000,0.0,0.000001\n"
    )
    old = answered(compared, "vcs -f old.csv\n")
    assert "Find 1 ops less then 0.98 in old.csv" in old
    assert "Left:  ['a']" in old
    (compared / "broken.csv").write_text("a,b\n1,2\n")
    ended = shell(compared, "vcs -f broken.csv\nvcs -f absent.csv\nvcs -c x\n")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 3
    assert "broken.csv: expected a column Index" in ended.stderr


def test_vcs_counts_nan_and_what_a_ground_truth_of_zeros_hides(data: Path) -> None:
    header = (
        "Index,NPUDump,GroundTruth,TensorIndex,CosineSimilarity,MaxAbsoluteError,RelativeEuclideanDistance,"
        "StandardDeviation,CompareFailReason\n"
    )
    zero, one = '"(5.000;0.000),(0.000;0.000)"', '"(1.000;0.000),(1.000;0.000)"'
    scalar = "This tensor is scalar."
    (data / "result.csv").write_text(
        header + f'0,nan,b,nan:output:0,nan,nan,nan,"(nan;nan),(1.000;0.000)",\n'
        f"1,zeros,b,zeros:output:0,NaN,5.000000,0.000000,{zero},\n"
        f"2,scalar,b,scalar:output:0,1.000000,5.000000,0.000000,{zero},{scalar}\n"
        f"3,rounded,b,rounded:output:0,1.000000,0.000001,0.000000,{one},{scalar}\n"
        f"4,absent,b,absent:output:0,NaN,NaN,NaN,NaN,There is no dump file.\n"
        f"5,equal,b,equal:output:0,1.0,0.000000,0.000000,{zero},\n"
    )
    shown = answered(data, "vcs -f result.csv\n")
    assert re.findall(r"─ \[\d+\] (\S+) ─", shown) == ["nan", "zeros", "scalar"]


def test_ac_prints_what_precision_tool_printed(acl: Path, compared: Path) -> None:
    ours = answered(compared, "ac\n", "--lang", "zh")
    theirs = printed(acl, "ac")
    flat = {plain(line) for line in ours.splitlines()}
    # Everything after the operators of the comparison, whose columns theirs confuses.
    start = next(at for at, line in enumerate(theirs) if "GraphID:0_1" in line)
    for line in theirs[start + 1 :]:
        text = plain(line)
        if text.startswith(("╭", "╰")) or not text:
            continue
        # rich takes the text in brackets for markup.
        text = text.replace("[TaskId:20]  向上溢出", "[TaskId:20] ['向上溢出']")
        assert text in flat, text
    assert ours.splitlines()[-1] == "[Cast][DT_FLOAT -> DT_INT32] ['LeNet/step_i32']"


def test_ac_shows_as_many_overflows_as_asked_for_in_english_too(compared: Path) -> None:
    for limit, operators in ((1, ["Relu"]), (2, ["Relu", "MatMulV2"]), (3, ["Relu", "MatMulV2"])):
        shown = answered(compared, f"ac -l {limit}\n")
        assert re.findall(r"│ \[(\w+)\]\[\d+\] LeNet_", shown) == operators
        assert f"Find [2] overflow debug file. Will show top {len(operators)} ops." in shown
    assert "['a floating-point computation overflowed', 'a conversion of float32" in shown
    assert "['an atomic addition overflowed']" in shown


def test_ac_alone_does_not_compare_and_names_what_is_missing(data: Path) -> None:
    ended = shell(data, "ac\n")
    assert ended.returncode == 0
    assert not (data / "precision_data/temp").exists()
    assert ended.stderr == (
        "[WARNING] no comparison result: looked in precision_data/temp/vector_compare; ac -c makes one\n"
    )
    shutil.rmtree(data / "precision_data/overflow")
    shutil.rmtree(data / "precision_data/npu")
    (data / "fusion_result.json").unlink()
    ended = shell(data, "ac\nls\nni x\nvc\nvcs\n")
    assert ended.returncode == 2
    for kind, place in (
        ("fusion result", "precision_data/fusion/fusion_result.json"),
        ("NPU overflow data", "precision_data/overflow/dump"),
        ("NPU graph", "precision_data/npu/debug_0/graph"),
    ):
        assert re.search(rf"\[WARNING\] no {kind}: looked in .*{place}", ended.stderr)
    errors = [line for line in ended.stderr.splitlines() if line.startswith("[ERROR]")]
    assert [re.sub(r": looked in .*", "", line) for line in errors] == [
        "[ERROR] ac: precision_data: no data to check",
        "[ERROR] ls: no NPU graph",
        "[ERROR] ni: no NPU graph",
        "[ERROR] vc: no NPU dump",
        "[ERROR] vcs: no comparison result",
    ]


def rows_of(sheet: Path) -> dict[tuple[str, ...], dict[str, str]]:
    """Rows by operator and tensor."""
    with sheet.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["NPUDump"], row["GroundTruth"], row["TensorIndex"]): row for row in rows}


@pytest.mark.parametrize("command", ["vc", f"vc -lt {DUMP} -rt precision_data/tf/dump -g {GRAPH}", "ac -c"])
def test_the_whole_network_is_compared_with_tensorflow(acl: Path, data: Path, command: str) -> None:
    ended = shell(data, f"{command}\n")
    assert ended.returncode == 0
    assert "of 36 operators of the graph have no dump file" in ended.stderr
    assert "Find 3 ops less then 0.98" in ended.stdout
    [sheet] = (data / "precision_data/temp/vector_compare").rglob("result_*.csv")
    [theirs] = (acl / "expected/precision_tool_temp/vector_compare/20261115062130").glob("*.csv")
    assert sheet.read_text().splitlines()[0] == theirs.read_text().splitlines()[0]
    ours, peers = rows_of(sheet), rows_of(theirs)
    assert ours.keys() == peers.keys()
    measured = [key for key, row in peers.items() if row["CosineSimilarity"] not in ("NaN", "")]
    assert len(measured) == 39
    for key in measured:
        expected = pytest.approx(float(peers[key]["CosineSimilarity"]), abs=2e-6)
        assert float(ours[key]["CosineSimilarity"]) == expected


def test_a_network_needs_its_graph(data: Path) -> None:
    ended = shell(data, f"vc -lt {DUMP} -rt precision_data/tf/dump\n")
    assert ended.returncode == 2
    assert "operators of TensorFlow are found through the graph: add -g GRAPH" in ended.stderr


@pytest.mark.parametrize("form", ["object", "list", "glued"])
def test_fusion_results_of_every_form(data: Path, form: str) -> None:
    graph = json.loads((data / "fusion_result.json").read_text())[0]
    other = graph | {"graph_fusion": {"Other[Pass]": {"effect_times": "7"}}, "session_and_graph_id": "0_2"}
    texts = {
        "object": json.dumps(graph),
        "list": json.dumps([graph, other]),
        "glued": json.dumps(graph) + json.dumps(other),
    }
    (data / "fusion_result.json").unlink()
    folder = data / "precision_data/fusion"
    folder.mkdir()
    (folder / "fusion_result.json").write_text(texts[form])
    shown = shell(data, "ac\n").stdout
    assert "│ AABiasaddConvFusion │ 2            │" in shown
    assert "NotUsedPass" not in shown
    assert ("│ Other[Pass] │ 7            │" in shown) == (form != "object")
    (folder / "fusion_result.json").write_text('{"graph_fusion": ')
    ended = shell(data, "ac\n")
    assert ended.returncode == 2
    assert "fusion_result.json: line 1, byte 16: truncated: expected a value" in ended.stderr
    assert "[Overflow] Find [2]" in ended.stdout


def test_dc_converts_layouts_as_msaccucmp_did_where_it_is_right(acl: Path, data: Path) -> None:
    ended = shell(
        data, "dc Conv2D.LeNet_conv2_Conv2D.17.5.1767261601017823 -f NHWC\ndc LeNet/fc1/Relu -f ND\n"
    )
    assert ended.returncode == 0
    folder = data / "precision_data/temp/decode/dump_convert"
    expected = sorted((acl / "expected/precision_tool_temp/decode/dump_convert").glob("*.npy"))
    assert len(expected) == 4
    for path in expected:
        assert (folder / path.name).read_bytes() == path.read_bytes()
    # The filter, which theirs does not convert.
    stored = data / f"{DUMP}/Conv2D.LeNet_conv2_Conv2D.17.5.1767261601017823"
    assert np.load(folder / f"{stored.name}.input.1.20x3x3x6.npy").shape == (20, 3, 3, 6)


@pytest.mark.parametrize(
    "case",
    [
        "NC1HWC0_c20__to__NHWC",
        "NZ_2d__to__ND",
        "FZ_hwcn__to__HWCN",
        "FZ_nchw__to__NCHW",
        "NDC1HWC0__to__NCDHW",
    ],
)
def test_dc_of_every_layout(acl: Path, data: Path, case: str) -> None:
    name, layout = case.split("__to__")
    source = next((data / "zoo/format").glob(f"Fmt.{name}.*"))
    answered(data, f"dc {source.relative_to(data)} -f {layout}\n")
    (expected,) = (acl / "expected/format" / case).glob("*.npy")
    written = data / "precision_data/temp/decode/dump_convert" / expected.name
    assert np.array_equal(np.load(written), np.load(expected))


def test_dc_of_op_debug_files_writes_their_json(acl: Path, data: Path) -> None:
    answered(data, "dc zoo/opdebug\n")
    folder = data / "precision_data/temp/decode/dump_convert"
    expected = sorted((acl / "expected/opdebug").glob("*.json"))
    assert [path.name for path in sorted(folder.iterdir())] == [path.name for path in expected]
    for path in expected:
        assert json.loads((folder / path.name).read_text()) == json.loads(path.read_text())


def test_dc_converts_the_files_beside_a_bad_mapping(data: Path) -> None:
    folder = data / DUMP
    with (folder / "mapping.csv").open("wb") as file:
        file.truncate((16 << 20) + 1)  # The largest that is read, and one byte more.
    for asked in (folder.relative_to(data), "LeNet/fc1/Relu"):
        ended = shell(data, f"dc {asked}\n")
        assert "LeNet_fc1_Relu" in ended.stdout
        assert ended.returncode == 2
        assert "mapping.csv" in ended.stderr
    missing = shell(data, "dc LeNet/absent\n")
    assert "mapping.csv" in missing.stderr


def test_dc_refuses_a_layout_before_it_writes(data: Path) -> None:
    ended = shell(data, "dc LeNet/fc1/Relu -f NOTHING\ndc LeNet/fc1/Relu -f NCHW -o absent\n")
    assert ended.returncode == 2
    assert 'argument -f: expected a layout, as NCHW, NHWC or ND, found "NOTHING"' in ended.stderr
    assert "The path absent does not exist." in ended.stderr
    assert not (data / "precision_data/temp").exists()


def second_run(data: Path, *, steps: tuple[str, ...] = ("0",)) -> None:
    """debug_1: the dump of debug_0 with other tasks and times, one element changed in its last step."""
    for step in steps:
        folder = (
            data / f"precision_data/npu/debug_1/dump/20260102120000/0/ge_default_20260102120001_1/1/{step}"
        )
        folder.mkdir(parents=True)
        for path in (data / DUMP).iterdir():
            kind, name, task, stream, moment = path.name.split(".")
            content = bytearray(path.read_bytes())
            if "fc1_Relu" in name and step == steps[-1]:
                content[-2:] = np.float16(30).tobytes()
            target = folder / f"{kind}.{name}.{int(task) + 100}.{stream}.{int(moment) + 10**6}"
            target.write_bytes(content)


def test_vc_compares_debug_0_with_debug_1_in_every_folder(data: Path) -> None:
    shutil.rmtree(data / "precision_data/tf")
    shutil.copytree(data / DUMP, (data / DUMP).with_name("5"))
    # An older run does not count.
    shutil.copytree(data / DUMP, data / "precision_data/npu/debug_0/dump/20250101120000/0/ge_default/1/9")
    second_run(data, steps=("0", "5"))
    ended = shell(data, "vc\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    written = re.findall(r'have been written to "(.*)"\.', ended.stdout)
    assert len(set(written)) == 2
    assert len({Path(path).parent for path in written}) == 1
    rows = [(data / path).read_text().count("\n") - 1 for path in written]
    assert rows == [59, 59]
    found = re.findall(r"Find (\d+) ops less then 0.98 in (.*)", ended.stdout)
    assert [(count, path) for count, path in found] == [("0", written[0]), ("1", written[1])]
    assert "LeNet/fc1/Relu" in ended.stdout


def test_vc_of_two_folders_and_the_graphs_of_two_runs(data: Path) -> None:
    second_run(data)
    other = data / "precision_data/npu/debug_1/graph"
    other.mkdir(parents=True)
    text = (data / GRAPH).read_text()
    changed = text.replace("DT_FLOAT16", "DT_BF16")
    (other / "ge_proto_00000042_Build.txt").write_text(changed)
    mine, golden_side = DUMP, "precision_data/npu/debug_1/dump"
    shown = answered(data, f"vc -lt {mine} -rt {golden_side}\n")
    assert "[INFO] The comparison result have been written to " in shown
    assert "Left:  ['LeNet/fc1/Relu']" in shown
    assert shell(data, f"vc -lt {mine}\n").stderr.startswith("[ERROR] vc: -lt and -rt go together")
    checked = shell(data, "ac\nls\n").stdout
    assert re.search(r"similarity is \[\d+ / \d+\]", checked)
    assert "dtype DT_FLOAT16 and DT_BF16" in checked
    assert "debug_1" in checked.split("similarity is")[1]


def test_vc_compares_layouts_that_differ(data: Path) -> None:
    """The same tensor, stored in blocks by one run and plainly by the other."""
    name = "Relu.LeNet_fc1_Relu.25.5.1767261601039759"
    shell(data, f"dc {DUMP}/{name} -f ND\n")
    plain_tensor = next((data / "precision_data/temp/decode/dump_convert").glob("*.output.0.2x40.npy"))
    (data / "other").mkdir()
    subprocess.run(
        [sys.executable, "-m", "ulpscope", "convert", plain_tensor, "-o", f"other/{name}", "--to", "acl"],
        cwd=data,
        check=True,
        capture_output=True,
    )
    ended = shell(data, f"vc -lt {DUMP}/{name} -rt other\n")
    assert ended.returncode == 0, ended.stderr
    result = next((data / "precision_data/temp/vector_compare").rglob("result_*.csv")).read_text()
    row = next(line for line in result.splitlines() if "output:0" in line)
    assert ",1.000000,0.000000," in row


def test_one_session_shows_every_ability(compared: Path) -> None:
    """T6: graph, operators, dumps, overflow, tensors and comparisons of one precision_data."""
    npu = "Relu.LeNet_fc1_Relu.25.5.1767261601039759.output.0.npy"
    ended = shell(
        compared,
        f"ac\nls -t Relu\nni LeNet/fc1/Relu\ndc LeNet/fc1/Relu\npt {npu}\npt LeNet_Softmax\n"
        f"cp {npu} LeNet_fc1_Relu.0.1794722157959628.npy -p 1\nvcs\n",
    )
    assert ended.returncode == 0
    shown = ended.stdout
    for text in (
        "Graph Fusion [GraphID: 0_1]",
        "[Overflow] Find [2]",
        "[Relu][] LeNet/fc1/Relu",
        "Op(Type/Name): [Relu] LeNet/fc1/Relu",
        "SrcFile: LeNet/fc1/Relu",
        "Shape: (2, 10)",
        "NumCnt:   768",
        "Find 3 ops less then 0.98",
    ):
        assert text in shown, text


def test_the_texts_of_the_guide_are_chinese_where_it_has_them(data: Path) -> None:
    shown = answered(data, "help\nhelp ni\n", "--lang", "zh")
    assert "ni    通过[算子名]查询算子节点信息" in shown
    assert "convert NPU dump files to npy" in shown
    assert "通过" not in shell(data, "help\n").stdout
    wrong = subprocess.run([*SHELL, "--lang", "xx"], input="", capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2


def test_overflow_in_chinese(data: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "overflow", "precision_data/overflow/dump"]
    english = subprocess.run(command, cwd=data, capture_output=True, text=True, timeout=60)
    chinese = subprocess.run([*command, "--lang", "zh"], cwd=data, capture_output=True, text=True, timeout=60)
    assert english.returncode == chinese.returncode == 1
    assert "a floating-point computation overflowed" in english.stdout
    assert "浮点计算有溢出" in chinese.stdout
    assert "向上溢出" in chinese.stdout


RELU = f"{DUMP}/Relu.LeNet_fc1_Relu.25.5.1767261601039759"


def result_folders(folder: Path) -> list[Path]:
    return sorted((folder / "precision_data/temp/vector_compare").iterdir())


@pytest.mark.parametrize("side", ["-lt", "-rt"])
def test_vc_says_why_a_file_cannot_be_read(data: Path, side: str) -> None:
    shutil.copytree(data / DUMP, data / "whole")
    (data / RELU).write_bytes(b"")
    other = "-rt" if side == "-lt" else "-lt"
    ended = shell(data, f"vc {side} {DUMP} {other} whole\n")
    assert ended.returncode == 2
    assert "expected 8 bytes of header length, found 0" in ended.stderr
    (folder,) = result_folders(data)
    (result,) = folder.glob("result_*.csv")
    with result.open(newline="") as lines:
        reasons = [
            row["CompareFailReason"]
            for row in csv.DictReader(lines)
            if "fc1_Relu" in row["CompareFailReason"]
        ]
    assert reasons
    assert all("expected 8 bytes of header length, found 0" in reason for reason in reasons), reasons


def test_vc_with_tensorflow_fails_if_a_file_cannot_be_read(data: Path) -> None:
    (data / RELU).write_bytes(b"")
    ended = shell(data, f"vc -lt {DUMP} -rt precision_data/tf/dump -g {GRAPH}\n")
    assert ended.returncode == 2
    assert "[ERROR] vc: " in ended.stderr
    assert "expected 8 bytes of header length, found 0" in ended.stderr


def test_each_vc_has_a_folder_of_its_own(data: Path) -> None:
    shutil.copytree(data / DUMP, data / "whole")
    shell(data, f"vc -lt {DUMP} -rt whole\n" * 3)
    folders = result_folders(data)
    assert [len(list(folder.glob("result_*.csv"))) for folder in folders] == [1, 1, 1]
    assert shell(data, "vcs\n").stdout.count("[INFO] Find ") == 1


def test_messages_name_what_is_missing(data: Path) -> None:
    unknown = shell(data, "dc zzzz\n").stderr
    assert "zzzz: no such file, and no dump file or operator of that name" in unknown
    assert "files of the dumps below precision_data were searched" in unknown
    assert "no NPU dump" not in unknown
    assert shell(data, "vc -lt nosuch -rt nosuch2\n").stderr == "[ERROR] vc: nosuch: no such folder\n"


def test_the_log_level_silences_information(data: Path) -> None:
    (data / "quiet.py").write_text('LOG_LEVEL = "WARNING"\n')
    assert "[INFO]" in shell(data, "ac\n").stdout
    quiet = shell(data, "ac\n", "--config", "quiet.py").stdout
    assert "[INFO]" not in quiet
    assert "LeNet_fc1_MatMul" in quiet


def test_long_reasons_are_wrapped(compared: Path) -> None:
    folder = compared / "precision_data/temp/vector_compare/30000101000000"
    folder.mkdir()
    header = "Index,LeftOp,RightOp,TensorIndex,CosineSimilarity,CompareFailReason\n"
    reason = "a reason of many words " * 20 + "x" * 300
    (folder / "result_30000101000000.csv").write_text(f"{header}0,a,a,a:output:0,0.5,{reason}\n")
    shown = shell(compared, "vcs\n").stdout
    lines = [line for line in shown.splitlines() if line.startswith("│")]
    assert max(map(len, lines)) <= 120
    text = "".join(line.strip("│ ") for line in lines)
    assert text.count("reason") == 20
    assert text.count("x") == 300
