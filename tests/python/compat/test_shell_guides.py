"""The guides of precision_tool and ptdbg_ascend.parse, line by line: folders, commands, whole sessions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import golden
from precision_tool_commands import run_as_printed

ULPSCOPE = [sys.executable, "-m", "ulpscope"]
RUN = "20260101120000/0/ge_default_20260101120001_1/1/0"
NPU = f"precision_data/npu/debug_0/dump/{RUN}"
OVERFLOW = "precision_data/overflow/dump"
GRAPH = "precision_data/npu/debug_0/graph/ge_proto_00000042_Build.txt"
PAGE = Path(__file__).parents[3] / "docs/migrate/precision_tool.md"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("acl", tmp_path_factory.mktemp("acl")) / "inputs"


def shell(folder: Path, lines: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ULPSCOPE, "shell", *words], cwd=folder, input=lines, capture_output=True, text=True, timeout=120
    )


def tool(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*ULPSCOPE, "precision-tool", *words],
        cwd=folder,
        input="",
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=120,
    )


def put(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)


@pytest.mark.parametrize("name", ["ge_proto_00000042_Build.txt", "ge_proto_00000179_PreRunAfterBuild.txt"])
def test_graphs_in_the_folder_of_the_guide(inputs: Path, tmp_path: Path, name: str) -> None:
    """T8 and T9; the second name is the guide's own, which the older tool does not read."""
    put(inputs / GRAPH, tmp_path / "precision_data/graph/all" / name)
    ended = shell(tmp_path, "ls -t Mul\nni LeNet/fc1/Relu\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.count("[MatMulV2][] ") == 2
    assert "Op(Type/Name): [Relu] LeNet/fc1/Relu" in ended.stdout


def test_of_several_stages_without_build_the_last_counts(inputs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "precision_data/graph/all"
    put(inputs / GRAPH, folder / "ge_proto_00000003_PreRunAfterBuild.txt")
    (folder / "ge_proto_00000001_PreRunBegin.txt").write_text(
        'graph { name: "early" op { name: "a" type: "B" } }'
    )
    ended = shell(tmp_path, "ls -t Relu\n")
    assert ended.returncode == 0
    assert "LeNet/fc1/Relu" in ended.stdout
    assert "2 graphs, none of the stage Build: the last, " in ended.stderr


@pytest.mark.parametrize("below", ["", RUN, "5"])
def test_npu_dumps_copied_by_hand(inputs: Path, tmp_path: Path, below: str) -> None:
    """T13, T67: with the folders of a run, with a step alone, or without any."""
    put(inputs / GRAPH, tmp_path / "precision_data/graph/all/ge_proto_00000042_Build.txt")
    put(inputs / NPU, tmp_path / "precision_data/dump/npu" / below)
    put(inputs / "precision_data/tf/dump", tmp_path / "precision_data/dump/cpu")
    ended = shell(
        tmp_path,
        "ni LeNet/fc1/Relu\npt Relu.LeNet_fc1_Relu.25.5.1767261601039759.output.0.npy\ndc LeNet/fc1/Relu\n",
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Relu.LeNet_fc1_Relu.25.5.1767261601039759.output.0.npy" in ended.stdout
    assert "[Max: 7.5694475]" in ended.stdout
    # The decoded file is in the folder of that layout.
    assert len(list((tmp_path / "precision_data/dump/decode").glob("*.npy"))) == 2


@pytest.mark.parametrize(
    "place", ["precision_data/dump/overflow", "precision_tool/dump/overflow", "precision_data/overflow/dump"]
)
def test_overflow_data_in_every_place_of_the_guide(inputs: Path, tmp_path: Path, place: str) -> None:
    """T19, T21."""
    put(inputs / OVERFLOW, tmp_path / place)
    ended = shell(tmp_path, "ac -l 1\n")
    assert ended.returncode == 0
    assert "│ [Relu][16] LeNet_conv2_Relu " in ended.stdout
    assert "LeNet_fc1_MatMul" not in ended.stdout


def test_the_newest_overflow_run_counts(inputs: Path, tmp_path: Path) -> None:
    put(inputs / OVERFLOW, tmp_path / OVERFLOW)
    older = tmp_path / OVERFLOW / "20250101130000/0/model/1/0"
    put(inputs / "zoo/opdebug", older)
    shown = shell(tmp_path, "ac -l 9\n").stdout
    assert "Find [2] overflow debug file." in shown


def test_files_of_both_layouts_in_one_session(inputs: Path, tmp_path: Path) -> None:
    """T67: the older layout as it is, beside the newer one."""
    put(inputs / "precision_data", tmp_path / "precision_data")
    np.save(tmp_path / "only_cpu.0.1794722157959628.npy", np.ones(3, np.float32))
    put(
        tmp_path / "only_cpu.0.1794722157959628.npy",
        tmp_path / "precision_data/dump/cpu/only_cpu.0.1794722157959628.npy",
    )
    (tmp_path / "only_cpu.0.1794722157959628.npy").unlink()
    shown = shell(tmp_path, "pt only_cpu\npt LeNet_Softmax\n")
    assert shown.returncode == 0, shown.stderr
    assert "precision_data/dump/cpu/only_cpu" in shown.stdout
    assert "precision_data/tf/dump/LeNet_Softmax" in shown.stdout


def test_a_tf_dump_copied_from_another_machine(inputs: Path, tmp_path: Path) -> None:
    """T27: the folder dump/cpu alone."""
    put(inputs / "precision_data/tf/dump", tmp_path / "precision_data/dump/cpu")
    left, right = "LeNet_conv2_BiasAdd.0.1794722157959610.npy", "LeNet_conv2_Relu.0.1794722157959613.npy"
    ended = shell(tmp_path, f"cp {left} {right} -p 1\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "NumCnt:   1440" in ended.stdout


# Stands in for a training on an NPU: it asks the helpers what to dump, and the "device" writes it there.
LENET_NPU = """
import os, shutil, sys, types, collections
sys.path.insert(0, ".")
import precision_tool.tf_config as npu_tf_config
class Op:
    def __init__(self): self.parameter_map = collections.defaultdict(types.SimpleNamespace)
asked = npu_tf_config.update_custom_op(Op()).parameter_map
if "dump_path" in asked:
    path = asked["dump_path"].s.decode()
    debug = "enable_dump_debug" in asked
    shutil.copytree({overflow!r} if debug else {dump!r}, os.path.join(path, "run"),
                    copy_function=shutil.copyfile, dirs_exist_ok=True)
    print("step", asked["dump_step"].s.decode() if "dump_step" in asked else "none")
if "DUMP_GRAPH_PATH" in os.environ:
    shutil.copy({graph!r}, os.environ["DUMP_GRAPH_PATH"])
"""


@pytest.fixture
def training(inputs: Path, tmp_path: Path) -> Path:
    """The work directory of a training for an NPU."""
    assert tool(tmp_path, "init", ".").returncode == 0
    places = {"overflow": str(inputs / OVERFLOW), "dump": str(inputs / NPU), "graph": str(inputs / GRAPH)}
    (tmp_path / "LeNet_npu.py").write_text(LENET_NPU.format(**places))
    return tmp_path


def test_npu_dump_as_printed(training: Path) -> None:
    """T10, T17, T30, T38: graph and data of one run, of the steps that config.py names."""
    config = training / "precision_tool/config.py"
    config.write_text(config.read_text().replace("TF_DUMP_STEP = '0'", "TF_DUMP_STEP = '0|5|10'"))
    ended = run_as_printed(training, "npu_dump", "python3 LeNet_npu.py")
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "step 0|5|10\n")
    assert (training / "precision_data/graph/all/ge_proto_00000042_Build.txt").is_file()
    shown = shell(training, "ni LeNet/fc1/Relu\n").stdout
    assert "[Shape: (3, 1, 16, 16)] [Dtype: float16]" in shown


def test_npu_overflow_as_printed(training: Path) -> None:
    """T20, T39: the same script without an edit, and the panels at the end."""
    ended = run_as_printed(training, "npu_overflow", "python3 LeNet_npu.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "step none" in ended.stdout
    assert "[Overflow] Find [2] overflow debug file. Will show top 2 ops." in ended.stdout
    assert "│ [MatMulV2][20] LeNet_fc1_MatMul" in ended.stdout
    assert "│ [MatMulV2][20] LeNet_fc1_MatMul" in shell(training, "ac\n").stdout
    chinese = tool(training, "--lang", "zh", "npu_overflow", f"'{sys.executable}' LeNet_npu.py")
    assert "向上溢出" in chinese.stdout
    older = tool(training, "npu_overflow", "true")
    assert (older.returncode, older.stdout) == (2, "")
    assert "this training wrote no NPU overflow data" in older.stderr


def test_the_loss_scale_of_the_guide(training: Path) -> None:
    """T64: the guide's lines, with a manager that stands in for npu_bridge's."""
    (training / "npu_bridge.py").write_text(
        "class ExponentialUpdateLossScaleManager:\n    def get_loss_scale(self): return 1024.0\n"
    )
    (training / "scale.py").write_text(
        "import precision_tool.tf_config as npu_tf_config\n"
        "from npu_bridge import ExponentialUpdateLossScaleManager\n"
        "class Session:\n    def run(self, fetches): return [fetch for fetch in fetches]\n"
        "sess = Session()\n"
        "loss_scale_manager = ExponentialUpdateLossScaleManager()\n"
        "scale_v = sess.run([loss_scale_manager.get_loss_scale()])\n"
        'print(">>> Current Loss Scale >>> ", scale_v)\n'
        "npu_tf_config.NpuPrintLossScaleCallBack(loss_scale_manager).on_train_batch_begin(0)\n"
    )
    ended = subprocess.run([sys.executable, "scale.py"], cwd=training, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        ">>> Current Loss Scale >>>  [1024.0]",
        ">>> Current Loss Scale >>>  1024.0",
    ]


def test_ac_c_compares_and_ac_alone_does_not(inputs: Path, tmp_path: Path) -> None:
    """T42, R1: with a second run of the NPU."""
    put(inputs / NPU, tmp_path / NPU)
    put(inputs / NPU, tmp_path / NPU.replace("debug_0", "debug_1"))
    assert "The comparison result" not in shell(tmp_path, "ac\n").stdout
    assert not (tmp_path / "precision_data/temp").exists()
    shown = shell(tmp_path, "ac -c\n").stdout
    assert "[INFO] The comparison result have been written to " in shown
    assert shown.count("Find 0 ops less then 0.98") == 2


def test_one_shot_commands(inputs: Path, tmp_path: Path) -> None:
    """R4: data, compare and vector_compare, with exit codes."""
    put(inputs / "precision_data", tmp_path / "precision_data")
    put(inputs / NPU, tmp_path / "other")
    left, right = "LeNet_conv2_BiasAdd.0.1794722157959610.npy", "LeNet_conv2_Relu.0.1794722157959613.npy"
    assert tool(tmp_path, "compare", f"{left} {right}").returncode == 1
    assert tool(tmp_path, "compare", left, left).returncode == 0
    assert tool(tmp_path, "compare", f"{left} absent.npy").returncode == 2
    same = tool(tmp_path, "vector_compare", f"-lt {NPU} -rt other")
    assert (same.returncode, same.stderr) == (0, "")
    relu = next((tmp_path / "other").glob("Relu.LeNet_fc1*"))
    relu.write_bytes(relu.read_bytes()[:-2] + np.float16(900).tobytes())
    assert tool(tmp_path, "vector_compare", f"-lt {NPU} -rt other").returncode == 1
    assert tool(tmp_path, "vector_compare", "-lt", "absent", "-rt", "other").returncode == 2
    opened = subprocess.run(
        [*ULPSCOPE, "precision-tool", "data", "precision_data"],
        cwd=tmp_path,
        input="ls -t Relu\n",
        capture_output=True,
        text=True,
    )
    assert "LeNet/fc1/Relu" in opened.stdout


def test_train_says_what_it_needs(training: Path) -> None:
    """R1: train without a checkpoint, with wrong options, and what it starts."""
    ended = shell(training, "train\ntrain -d gpu\ntrain -a nothing\nhelp train\n")
    assert ended.returncode == 2
    assert "train: no checkpoint: looked for ./precision_data/tf/checkpoints/checkpoint; " in ended.stderr
    assert 'argument -d: expected all, cpu or npu, found "gpu"' in ended.stderr
    assert ended.stdout.splitlines()[0] == "usage: train [-d all|cpu|npu] [-a dump|overflow]"
    (training / "precision_data/tf/checkpoints").mkdir(parents=True)
    (training / "precision_data/tf/checkpoints/checkpoint").touch()
    (training / "precision_tool/tf_train.py").write_text("import sys; print('trained on', sys.argv[1])")
    ran = shell(training, "train -d npu\ntrain -d cpu -a overflow\nls\n")
    assert "[INFO] python3 precision_tool/tf_train.py npu\ntrained on npu\n" in ran.stdout
    assert "overflows are detected on an NPU: -d npu" in ran.stderr
    assert "ls: no NPU graph" in ran.stderr


def test_the_docs_say_what_is_not_here_and_what_the_import_does() -> None:
    """T7, T14."""
    page = PAGE.read_text()
    assert "self check of one NPU operator" in page
    assert "analysis of fusion switches" in page
    assert "The import alone seeds the generators" in page


PARSE_FILES = ("Add.X.323.1619494134703053.output.0.npy", "X.0.1619492699305998.npy")


def test_the_line_of_the_guide_for_cn(tmp_path: Path) -> None:
    """S36: names of different form, the NPU one without a stream id."""
    for name, shift in zip(PARSE_FILES, (0, 1), strict=True):
        np.save(tmp_path / name, np.arange(60, dtype=np.float32) + shift)
    line = f"cn -m {PARSE_FILES[0]} -g {PARSE_FILES[1]} -p 10 -s -al 0.002 -rl 0.005\n"
    ended = shell(tmp_path, line, "--parse")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "(rl= 0.005, al= 0.002)" in ended.stdout
    for name in PARSE_FILES:
        assert f" ├─ TxtFile: {name}.txt" in ended.stdout
        assert (tmp_path / f"{name}.txt").is_file()


@pytest.fixture
def acl_tree(inputs: Path, tmp_path: Path) -> Path:
    """What configure_hook(mode="acl") leaves below the dump_path of dump.json: several models."""
    path = "dump/output"
    config = {"dump_list": [], "dump_path": path, "dump_mode": "all", "dump_op_switch": "on"}
    (tmp_path / "dump.json").write_text(json.dumps({"dump": config}))
    files = sorted((inputs / NPU).iterdir())
    for model, part in (("0", files[:8]), ("1701737061", files[8:16]), ("25", files[16:])):
        for file in part:
            put(file, tmp_path / path / f"20231205092559/1/{model}" / file.name)
    return tmp_path


@pytest.mark.parametrize(
    ("level", "count"),
    [("", 59), ("/20231205092559", 59), ("/20231205092559/1", 59), ("/20231205092559/1/25", None)],
)
def test_acl_dumps_are_found_at_every_level(acl_tree: Path, level: str, count: int | None) -> None:
    """S37, S38, S39."""
    dump_path = json.loads((acl_tree / "dump.json").read_text())["dump"]["dump_path"]
    ended = shell(
        acl_tree, f"dc -n {dump_path}{level}\nvc -m {dump_path}{level} -g {dump_path}{level}\n", "--parse"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    written = len(list((acl_tree / "parse_data/convert_result").rglob("*.npy")))
    assert written > 0
    assert written == (count or written)
    (result,) = (acl_tree / "parse_data/compare_result").glob("result_*.csv")
    assert len(result.read_text().splitlines()) - 1 == written


def test_one_parse_session_covers_the_four_uses(acl_tree: Path) -> None:
    """S4: compare, convert and show ACL data, look up an API, compare two tensors."""
    line = ["Torch_add_0_forward_output", 0, [], "torch.float32", [2], [1.5, -1.0, 0.25]]
    (acl_tree / "api.pkl").write_text(json.dumps(line) + "\n")
    file = next((acl_tree / "dump/output").rglob("Relu.LeNet_fc1*"))
    npy = f"parse_data/convert_result/{file.name}.output.0.npy"
    ended = shell(
        acl_tree,
        f"vc -m dump -g dump\ndc -n {file.relative_to(acl_tree)}\npt -n {npy}\n"
        f"pk -f api.pkl -n Torch_add\ncn -m {npy} -g {npy}\n",
        "--parse",
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    for text in ("Compare finished!!", "SrcFile: dump/", "TextFile:", "Statistic Info:", "AllClose: True"):
        assert text in ended.stdout, text


def test_output_folders_of_parse(acl_tree: Path) -> None:
    """S7 to S9, S11, S13, S14, S16: -out has to exist; the default is made; -asc is not needed."""
    sides = "-m dump/output -g dump/output -asc /absent/msaccucmp.py"
    file = next((acl_tree / "dump/output").rglob("Relu.LeNet_fc1*")).relative_to(acl_tree)
    missing = shell(acl_tree, f"vc {sides} -out absent\ndc -n {file} -out absent\n", "--parse")
    assert missing.returncode == 2
    assert missing.stderr.count("The path absent does not exist.") == 2
    assert not (acl_tree / "absent").exists()
    assert not (acl_tree / "parse_data").exists()
    (acl_tree / "here").mkdir()
    (acl_tree / "parse_data/comapre_result").mkdir(parents=True)
    done = shell(
        acl_tree, f"vc {sides} -out here\nvc {sides}\ndc -n {file} -f ND -out here -asc x\n", "--parse"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((acl_tree / "here").glob("result_*.csv"))) == 1
    assert len(list((acl_tree / "parse_data/comapre_result").glob("result_*.csv"))) == 1
    assert sorted(path.name.split(".", 5)[5] for path in (acl_tree / "here").glob("*.npy")) == [
        "input.0.2x40.npy",
        "output.0.2x40.npy",
    ]


def test_one_letter_means_two_things_and_the_prompt_decides(acl_tree: Path) -> None:
    """R8: -g is the golden data for parse, and a graph for precision_tool; folders are -out and -o."""
    line = "vc -m dump/output -g dump/output\n"
    assert shell(acl_tree, line, "--parse").returncode == 0
    refused = shell(acl_tree, line + "dc -n x -out here\nvc -g graph.txt\n")
    assert refused.returncode == 2
    assert "unrecognized arguments: -m" in refused.stderr
    assert "unrecognized arguments: -out" in refused.stderr
    assert "unrecognized arguments: -o" in shell(acl_tree, "dc -n x -o here\n", "--parse").stderr


HOSTILE = (
    "ls dump\nni [red]\nac\nvcs\nvc\npt absent\ndc absent\ncp a\nls -z\nls -n\nvc -lt\n"
    "ni x -s -1\ntrain -d\nhelp nothing\n"
)


def test_no_line_ends_the_session(inputs: Path, tmp_path: Path) -> None:
    """R9: errors are one line each, and the end of input ends the session."""
    for folder in (tmp_path / "empty", tmp_path / "full"):
        folder.mkdir()
    put(inputs / "precision_data", tmp_path / "full/precision_data")
    for folder in (tmp_path / "empty", tmp_path / "full"):
        ended = shell(folder, HOSTILE + "help\n")
        assert ended.returncode == 2
        assert ended.stdout.splitlines()[-1].startswith("Any other line is a program of yours.")
        assert "panicked" not in ended.stderr
        # Names in brackets are text.
        assert re.search(r"ni: .*(\[red\]|no NPU graph)", ended.stderr)
    assert shell(tmp_path / "empty", "").returncode == 0
