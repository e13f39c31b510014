"""precision_tool's folder, its one-shot commands, and its helpers for scripts, without TensorFlow."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PROGRAM = [sys.executable, "-m", "ulpscope", "precision-tool"]
FLAGS = ("PRECISION_TOOL_DUMP", "PRECISION_TOOL_OVERFLOW", "DUMP_GE_GRAPH", "FUSION_SWITCH_FILE")

# The variables of the training process, as a script of the user sees them.
SHOW = (
    "import json, os, sys; names = "
    "['PRECISION_TOOL_DUMP', 'PRECISION_TOOL_OVERFLOW', 'DUMP_GE_GRAPH', 'DUMP_GRAPH_LEVEL', "
    "'DUMP_GRAPH_PATH', 'FUSION_SWITCH_FILE']; "
    "json.dump({n: os.environ.get(n) for n in names}, open('seen.json', 'w')); "
    "sys.exit(int(sys.argv[1]))"
)

# Stands in for the NPU's packages: it keeps what it is given, and refuses what npu_bridge refuses.
NPU_BRIDGE = """
class DumpConfig:
    def __init__(self, enable_dump=False, dump_path=None, dump_step=None, dump_mode="output",
                 enable_dump_debug=False, dump_debug_mode="all"):
        self.kept = dict(enable_dump=enable_dump, dump_path=dump_path, dump_step=dump_step,
                         dump_mode=dump_mode, enable_dump_debug=enable_dump_debug,
                         dump_debug_mode=dump_debug_mode)

class NPURunConfig:
    def __init__(self, dump_config=None):
        if dump_config is not None and not isinstance(dump_config, DumpConfig):
            raise ValueError("`dump_config` must be provided with type `DumpConfig`")
        self.dump_config = dump_config
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A training work directory with the folder precision_tool."""
    ended = tool(tmp_path, "init", ".")
    assert ended.returncode == 0, ended.stderr
    return tmp_path


def tool(folder: Path, *words: str, lines: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in FLAGS} | variables
    return subprocess.run(
        [*PROGRAM, *words],
        cwd=folder,
        input=lines,
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )


def python(folder: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in FLAGS}
    environment |= {"PYTHONPATH": str(folder), **variables}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, env=environment, timeout=120
    )


def test_init_makes_the_folder_of_the_guide_and_replaces_nothing(work: Path) -> None:
    folder = work / "precision_tool"
    names = {"__init__.py", "cli.py", "config.py", "fusion_off.cfg", "fusion_switch.cfg"}
    names |= {"tf_config.py", "tf_session.py", "tf_train.py"}
    assert {path.name for path in folder.iterdir()} == names
    config = (folder / "config.py").read_text()
    for line in (
        "TF_DUMP_STEP = '0'",
        "FUSION_SWITCH_FILE = './precision_tool/fusion_switch.cfg'",
        "CMD_ROOT_PATH = '/usr/local/'",
        "ASCEND_LOG_PATH = '/root/ascend/log/plog/'",
        'LOG_LEVEL = "NOTSET"',
        "DATA_ROOT_DIR = './precision_data'",
    ):
        assert line in config.splitlines()
    off = json.loads((folder / "fusion_off.cfg").read_text())
    assert off == {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
    switch = json.loads((folder / "fusion_switch.cfg").read_text())
    assert switch == {"Switch": {"GraphFusion": {}, "UBFusion": {}}}
    (folder / "config.py").write_text("mine")
    ended = tool(work, "init", ".")
    assert ended.returncode == 2
    assert "--force replaces them" in ended.stderr
    assert (folder / "config.py").read_text() == "mine"
    assert tool(work, "init", ".", "--force").returncode == 0
    assert (folder / "config.py").read_text() == config


def test_the_files_are_python_3_7(work: Path) -> None:
    sources = Path(__file__).parents[3] / "crates/cli/src/precision_tool"
    found = sorted(sources.glob("*.py"))
    assert len(found) == 7
    for path in found:
        ast.parse(path.read_text(), feature_version=(3, 7))


def test_cli_starts_the_shell_and_the_commands(work: Path) -> None:
    np.save(work / "a.npy", np.arange(3, dtype=np.float32))
    np.save(work / "b.npy", np.arange(3, dtype=np.float32) + 1)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = [sys.executable, "./precision_tool/cli.py"]
    environment = os.environ | {"PATH": path}
    shown = subprocess.run(run, cwd=work, input="pt a.npy\n", capture_output=True, text=True, env=environment)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "Shape: (3,)" in shown.stdout
    compared = subprocess.run(
        [*run, "compare", "a.npy b.npy -p 1"], cwd=work, capture_output=True, text=True, env=environment
    )
    assert (compared.returncode, compared.stderr) == (1, "")
    assert "AllClose: False" in compared.stdout
    unknown = subprocess.run([*run, "nothing"], cwd=work, capture_output=True, text=True, env=environment)
    assert unknown.returncode == 2
    assert "unrecognized subcommand" in unknown.stderr


@pytest.mark.parametrize(("action", "flag"), [("npu_dump", FLAGS[0]), ("npu_overflow", FLAGS[1])])
def test_the_environment_is_the_childs_alone_and_its_exit_code_is_passed_on(
    work: Path, action: str, flag: str
) -> None:
    (work / "train.py").write_text(SHOW)
    folder = "precision_data/dump/" + ("npu" if action == "npu_dump" else "overflow")
    leave = f"mkdir -p {folder} && echo > {folder}/Relu.x.1.2.1767261601039759"
    for code in (0, 7):
        ended = tool(work, action, f"{leave}; '{sys.executable}' train.py {code}; exit $?")
        assert ended.returncode == code
    seen = json.loads((work / "seen.json").read_text())
    assert seen == {
        "PRECISION_TOOL_DUMP": "True" if flag == FLAGS[0] else None,
        "PRECISION_TOOL_OVERFLOW": "True" if flag == FLAGS[1] else None,
        "DUMP_GE_GRAPH": "2",
        "DUMP_GRAPH_LEVEL": "3",
        "DUMP_GRAPH_PATH": str(work / "precision_data/graph/all"),
        "FUSION_SWITCH_FILE": str(work / "precision_tool/fusion_switch.cfg"),
    }
    assert not any(name in os.environ for name in FLAGS)
    assert tool(work, action, "kill -TERM $$").returncode == 128 + 15


def test_npu_dump_says_what_did_not_come(work: Path) -> None:
    ended = tool(work, "npu_dump", "echo trained")
    assert (ended.returncode, ended.stdout) == (2, "trained\n")
    assert "no graph appeared" in ended.stderr
    assert "must not unset DUMP_GE_GRAPH, DUMP_GRAPH_LEVEL and DUMP_GRAPH_PATH" in ended.stderr
    assert "needs session_dump_config or estimator_dump_config" in ended.stderr
    graph = "echo > $DUMP_GRAPH_PATH/ge_proto_00000001_Build.txt"
    dump = "mkdir -p precision_data/dump/npu && echo > precision_data/dump/npu/Relu.x.1.2.1767261601039759"
    ended = tool(work, "npu_dump", f"{graph} && {dump}")
    assert (ended.returncode, ended.stderr) == (0, "")
    # What an earlier training left is not this one's.
    ended = tool(work, "npu_dump", "true")
    assert ended.returncode == 2
    assert "this training wrote no NPU dump; the files below ./precision_data are older" in ended.stderr
    ended = tool(work, "npu_overflow", "echo trained")
    assert ended.returncode == 2
    assert "note: no NPU overflow data: looked in " in ended.stderr


def test_settings_count_and_a_broken_switch_file_is_found_before_the_training(work: Path) -> None:
    config = work / "precision_tool/config.py"
    config.write_text(config.read_text().replace("./precision_data", "./elsewhere"))
    tool(work, "npu_dump", "echo $DUMP_GRAPH_PATH > path")
    assert (work / "path").read_text() == f"{work}/elsewhere/graph/all\n"
    for text in ("{", "[]", None):
        path = work / "precision_tool/fusion_switch.cfg"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
            ended = tool(work, "npu_dump", "touch started")
            assert ended.returncode == 2
            assert "FUSION_SWITCH_FILE" in ended.stderr
    config.write_text(config.read_text().replace("fusion_switch.cfg", "mine.cfg"))
    assert "FUSION_SWITCH_FILE ./precision_tool/mine.cfg" in tool(work, "npu_dump", "touch started").stderr
    assert not (work / "started").exists()


def test_tf_dump_of_a_script_without_the_lines_says_which_to_add(work: Path) -> None:
    ended = tool(work, "tf_dump", f"'{sys.executable}' -c 'print(1)'")
    assert (ended.returncode, ended.stdout) == (2, "1\n")
    assert "LocalCLIDebugWrapperSession(sess" in ended.stderr
    assert "LocalCLIDebugHook()" in ended.stderr
    assert tool(work, "tf_dump", "exit 9").returncode == 9
    assert not (work / "precision_data/temp/tfdbg_unattended").exists()


def test_the_users_own_sitecustomize_still_runs_under_tf_dump(work: Path) -> None:
    (work / "theirs").mkdir()
    (work / "theirs/sitecustomize.py").write_text("open('ran', 'w')")
    tool(work, "tf_dump", f"'{sys.executable}' -c 1", PYTHONPATH=str(work / "theirs"))
    assert (work / "ran").exists()


def test_estimator_dump_config_bare_and_called(work: Path) -> None:
    package = work / "npu_bridge/estimator/npu"
    package.mkdir(parents=True)
    (package / "npu_config.py").write_text(NPU_BRIDGE)
    code = (
        "import json\n"
        "from npu_bridge.estimator.npu.npu_config import NPURunConfig\n"
        "import precision_tool.tf_config as npu_tf_config\n"
        "bare = NPURunConfig(dump_config=npu_tf_config.estimator_dump_config)\n"
        "called = NPURunConfig(dump_config=npu_tf_config.estimator_dump_config(action='overflow'))\n"
        "print(json.dumps([bare.dump_config.kept, called.dump_config.kept]))\n"
    )
    ended = python(work, code, PRECISION_TOOL_DUMP="True")
    assert ended.returncode == 0, ended.stderr
    bare, called = json.loads(ended.stdout)
    assert (bare["enable_dump"], bare["dump_mode"], bare["dump_step"]) == (True, "all", "0")
    assert bare["dump_path"] == "./precision_data/dump/npu"
    assert (called["enable_dump"], called["enable_dump_debug"]) == (False, True)
    # Without the variable nothing is switched on; npu_bridge is not needed.
    ended = python(work, code)
    assert json.loads(ended.stdout)[0]["enable_dump"] is False
    (package / "npu_config.py").unlink()
    alone = "import precision_tool.tf_config as t; c = t.estimator_dump_config('dump'); print(c.enable_dump)"
    assert python(work, alone).stdout == "True\n"


def test_custom_op_and_device_options_by_action(work: Path) -> None:
    code = (
        "import collections, types, json\n"
        "import precision_tool.tf_config as t\n"
        "class Op:\n"
        "    def __init__(self): self.parameter_map = collections.defaultdict(types.SimpleNamespace)\n"
        "for action in ('dump|fusion_off', 'overflow', 'prof', 'fusion_switch'):\n"
        "    op = t.update_custom_op(Op(), action)\n"
        "    print(action, sorted((k, *vars(v).items()) for k, v in op.parameter_map.items()))\n"
        "options = types.SimpleNamespace(\n"
        "    dump_config=types.SimpleNamespace(), profiling_config=types.SimpleNamespace())\n"
        "device = types.SimpleNamespace(global_options=lambda: options)\n"
        "assert t.npu_device_dump_config(device, 'dump') is device\n"
        "print(options.dump_config)\n"
        "for wrong in ('dumb', 'dump|overflow'):\n"
        "    try: t.update_custom_op(Op(), wrong)\n"
        "    except ValueError as error: print(error)\n"
    )
    ended = python(work, code)
    assert ended.returncode == 0, ended.stderr
    dump, overflow, prof, switch, device, unknown, both = ended.stdout.splitlines()
    for part in (
        "('enable_dump', ('b', True))",
        "('dump_step', ('s', b'0'))",
        "('op_debug_level', ('i', 4))",
    ):
        assert part in dump
    assert "fusion_off.cfg" in dump
    assert "('dump_debug_mode', ('s', b'all'))" in overflow
    assert "('enable_dump'," not in overflow
    assert "('profiling_mode', ('b', True))" in prof
    assert "fusion_switch.cfg" in switch
    assert "dump_mode='all'" in device
    assert unknown.startswith("unknown action 'dumb'; expected one of dump, overflow")
    assert "cannot be switched on together" in both


def test_the_import_seeds_every_generator(work: Path) -> None:
    code = "import precision_tool.tf_config, random, numpy; print(random.random(), numpy.random.rand())"
    first, second = python(work, code), python(work, code)
    assert first.stdout == second.stdout
    assert first.stdout != ""


def test_infer_imports_msquickcmp_and_data_opens_a_folder(tmp_path: Path) -> None:
    output = tmp_path / "msquickcmp"
    for name in ("model/m.json", "dump_data/npu/20260101/0/Relu.x.1.2.1767261601039759", "result_1.csv"):
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text("{}")
    (output / "dump_data/tf").mkdir()
    np.save(output / "dump_data/tf/x.0.1767261601039759.npy", np.ones(2, np.float32))
    ended = tool(tmp_path, "infer", "msquickcmp", lines="pt x\n")
    assert ended.returncode == 0, ended.stderr
    assert "Shape: (2,)" in ended.stdout
    data = tmp_path / "precision_data"
    assert (data / "npu/debug_0/graph/ge_proto_00000000_Build.txt.json").exists()
    assert (data / "npu/debug_0/dump/20260101/0/Relu.x.1.2.1767261601039759").exists()
    assert (data / "temp/vector_compare/0/result_1.csv").exists()
    again = tool(tmp_path, "infer", "msquickcmp")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert "an .om model is not run here" in tool(tmp_path, "infer", "net.om").stderr
    data.rename(tmp_path / "moved")
    assert "Shape: (2,)" in tool(tmp_path, "data", "moved", lines="pt x\n").stdout
    assert "no such folder" in tool(tmp_path, "data", "absent").stderr
