"""The shells on the data of the older tools: what they printed and wrote for the same lines."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import golden

SHELL = [sys.executable, "-m", "ulpscope", "shell"]


def shell(folder: Path, *words: str, lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SHELL, *words], cwd=folder, input=lines, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def acl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden.unpack("acl", tmp_path_factory.mktemp("acl"))


@pytest.fixture
def data(acl: Path, tmp_path: Path) -> Path:
    shutil.copytree(acl / "inputs", tmp_path / "work")
    return tmp_path / "work"


def printed(log: str, command: str, following: str) -> list[str]:
    """What precision_tool printed for a command of its recorded session, without its log lines."""
    commands = Path(log).with_name("precision_tool_session_commands.txt").read_text().splitlines()
    at = commands.index(command)
    assert commands[at + 1].startswith(following)
    answers = Path(log).read_text(encoding="utf-8").split("PrecisionTool > ")[1:]
    # A log line may stand where the prompt was.
    lines = answers[at].splitlines()
    return [line.rstrip() for line in lines if not line.startswith("2026-")]


CP = (
    "cp LeNet_conv2_BiasAdd.0.1794722157959610.npy LeNet_conv2_Relu.0.1794722157959613.npy -p 5",
    "cp -n LeNet_conv2_BiasAdd.0.1794722157959610.npy LeNet_conv2_Relu.0.1794722157959613.npy"
    " -p 3 -s -al 0.01 -rl 0.01",
)


def test_cp_prints_what_precision_tool_printed(acl: Path, data: Path) -> None:
    log = str(acl / "expected" / "precision_tool_session.log")
    for command, following in ((CP[0], "cp -n"), (CP[1], "cp onlyone")):
        ended = shell(data, "precision_data", lines=command + "\n")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.splitlines() == printed(log, command, following)
    text = data / "precision_data/tf/dump/LeNet_conv2_Relu.0.1794722157959613.npy.txt"
    values = np.loadtxt(text).reshape(2, 6, 6, 20)
    assert np.allclose(values, np.load(text.with_suffix("")), rtol=1e-5)


def test_a_bare_name_of_an_npu_tensor_is_decoded_first(acl: Path, data: Path) -> None:
    name = "Relu.LeNet_fc1_Relu.25.5.1767261601039759.output.0.npy"
    ended = shell(data, "precision_data", lines=f"pt {name}\npt -n {name}\n")
    decoded = data / "precision_data/temp/decode/dump_decode/debug_0" / name
    theirs = acl / "expected/precision_tool_temp/decode/dump_decode/debug_0"
    assert (ended.returncode, ended.stderr) == (0, "")
    assert decoded.read_bytes() == (theirs / name).read_bytes()
    assert Path(f"{decoded}.txt").read_bytes() == (theirs / f"{name}.txt").read_bytes()
    first, second = ended.stdout.split("Array: ")[1:]
    assert first == second
    below = first.split("=============\n")[1].splitlines()
    assert below == [
        "Shape: (3, 1, 16, 16)",
        "Dtype: float16",
        "Max:  7.57",
        "Min: -0.007236",
        "Mean: 0.1442",
        f"Path: precision_data/temp/decode/dump_decode/debug_0/{name}",
        f"TxtFile:precision_data/temp/decode/dump_decode/debug_0/{name}.txt",
    ]


def test_dc_of_an_operator_and_of_a_file_name(acl: Path, data: Path) -> None:
    lines = "dc LeNet/fc1/Relu\ndc -n Conv2D.LeNet_conv2_Conv2D.17.5.1767261601017823\n"
    ended = shell(data, "precision_data", lines=lines)
    assert (ended.returncode, ended.stderr) == (0, "")
    for name in ("Relu.LeNet_fc1_Relu.25.5.1767261601039759.output.0.npy",):
        assert f"│  - {name}" in ended.stdout
    folder = data / "precision_data/temp/decode/dump_convert"
    for path in folder.iterdir():
        assert path.read_bytes() == (acl / "expected/convert_net" / path.name).read_bytes()
    assert len(list(folder.iterdir())) == 6


def test_dc_of_parse_writes_what_msaccucmp_wrote(acl: Path, data: Path) -> None:
    ended = shell(data, "--parse", lines="dc -n precision_data/npu -asc /absent/msaccucmp.py\n")
    assert ended.returncode == 0
    assert ended.stderr == "[WARNING] 2 files are no ACL dump files, and were left out\n"
    assert "SrcFile: precision_data/npu " in ended.stdout
    expected = sorted((acl / "expected/convert_net").iterdir())
    written = data / "parse_data/convert_result"
    assert [path.name for path in sorted(written.iterdir())] == [path.name for path in expected]
    for path in expected:
        ours, theirs = np.load(written / path.name), np.load(path)
        assert ours.dtype == theirs.dtype
        # Theirs turns a scalar into an array of one element.
        assert np.array_equal(ours, theirs.reshape(ours.shape)), path.name


def test_dc_of_every_dtype_gives_the_true_values(acl: Path, data: Path) -> None:
    ended = shell(data, "--parse", lines="dc -n zoo/dtype\n")
    written = data / "parse_data/convert_result"
    for path in (acl / "expected/convert_dtype").glob("*.npy"):
        ours, theirs = np.load(written / path.name), np.load(path)
        if "hifloat8" in path.name:
            # Theirs has 49 of 256 values wrong.
            theirs = np.load(acl / "reference/hifloat8_256.npy").reshape(ours.shape)
        elif "float8" in path.name:
            finite = np.isfinite(theirs) & np.isfinite(ours)
            assert finite.sum() >= 240
            ours, theirs = ours[finite], theirs[finite]
        assert np.array_equal(ours, theirs.reshape(ours.shape), equal_nan=ours.dtype.kind in "fc"), path.name
    # What cannot be read is named, and costs no other file.
    assert len(list(written.iterdir())) >= 23
    assert ended.returncode in (0, 2)


def test_bad_files_end_in_one_line_each_and_the_shell_lives_on(data: Path) -> None:
    ended = shell(data, "--parse", lines="dc -n zoo/bad\npt -n zoo/bad\nhelp\n")
    assert ended.returncode == 2
    errors = [line for line in ended.stderr.splitlines() if line.startswith("[ERROR] dc: ")]
    assert len(errors) == 5
    assert "Bad.trailing_bytes.1.0.1767261601226215.output.0.npy" in ended.stdout
    assert "is a folder" in ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("Any other line")


def test_vc_compares_two_runs_across_task_ids(data: Path) -> None:
    mine = next((data / "precision_data/npu/debug_0/dump").rglob("Relu.LeNet_fc1*")).parent
    other = data / "other"
    other.mkdir()
    for path in mine.iterdir():
        kind, name, task, stream, time = path.name.split(".")
        changed = other / f"{kind}.{name}.{int(task) + 100}.{stream}.{int(time) + 10**6}"
        content = bytearray(path.read_bytes())
        if "fc1_Relu" in name:
            content[-2:] = np.float16(3).tobytes()
        changed.write_bytes(content)
    ended = shell(data, "--parse", lines=f"vc -m {mine} -g other\n")
    assert (ended.returncode, ended.stderr) == (0, "")
    written, took, finished = ended.stdout.splitlines()
    path = data / written.removeprefix('[INFO] The comparison result have been written to "').removesuffix(
        '".'
    )
    assert path.parent == data / "parse_data/compare_result"
    assert len(path.stem.removeprefix("result_")) == 14
    assert took.startswith("[INFO] The command was completed and took ")
    assert finished == "[INFO] Compare finished!!"
    with path.open(newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header[:10] == [
        *("Index", "OpType", "NPUDump", "DataType", "Address", "GroundTruth", "DataType", "Address"),
        *("TensorIndex", "Shape"),
    ]
    assert len(rows) == 59
    differing = [row for row in rows if float(row[11]) > 0]
    assert [row[8] for row in differing] == ["LeNet/fc1/Relu:output:0"]
    assert differing[0][11] == "3.000000"
    assert all(row[20] == "" for row in rows if row[9] not in ("[]", "[1]", "[1,1]") and row not in differing)


def test_vc_agrees_with_msaccucmp_on_the_numbers(acl: Path, data: Path) -> None:
    """The formulas, on two tensors whose results msaccucmp wrote."""
    left = np.load(data / "precision_data/tf/dump/LeNet_conv2_BiasAdd.0.1794722157959610.npy")
    right = np.load(data / "precision_data/tf/dump/LeNet_conv2_Relu.0.1794722157959613.npy")
    for name, values in (("mine", left), ("golden", right)):
        (data / name).mkdir()
        np.save(data / "x.npy", values)
        target = f"{name}/Relu.x.1.2.1767261601039759"
        subprocess.run(
            [sys.executable, "-m", "ulpscope", "convert", "x.npy", "-o", target, "--to", "acl"],
            cwd=data,
            check=True,
            capture_output=True,
        )
    ended = shell(data, "--parse", lines="vc -m mine -g golden\n")
    assert ended.returncode == 0
    with next((data / "parse_data/compare_result").glob("*.csv")).open(newline="") as file:
        (row,) = list(csv.DictReader(file))
    theirs = next((acl / "expected/file_compare").glob("*.txt")).read_text().splitlines()
    for line in theirs:
        name, value = line.split(": ")
        assert row[name] == value, name
    assert "have no relative error" in row["CompareFailReason"]
    spread = [(values.mean(dtype="f8"), values.std(dtype="f8")) for values in (left, right)]
    assert row["StandardDeviation"] == ",".join(f"({mean:.3f};{std:.3f})" for mean, std in spread)


def test_parse_prints_what_ptdbg_printed(tmp_path: Path) -> None:
    release = golden.unpack("ptdbg", tmp_path) / "v4.0.T2"
    typed = (release / "parse_shell/input.txt").read_text().replace("g4/", "dumps/").splitlines()
    (release / "parse_data").mkdir()
    lines = "\n".join(typed[:4]) + "\n"
    ended = shell(release, "--parse", lines=lines)
    assert ended.returncode == 2
    assert "the following arguments are required: -g/--golden_dump_path" in ended.stderr
    theirs = (release / "parse_shell/out.txt").read_text(encoding="utf-8").replace("Parse >>> ", "")
    known = {line.rstrip() for line in theirs.replace("../all", "dumps/all").splitlines()}

    # A panel is as wide as its longest path, and theirs differ in length: edges and padding do not count.
    # Their means are sums in float32, and differ in the last digit.
    def plain(line: str) -> str:
        return re.sub(r"\[Mean: (\S{8})\S*\]", r"[Mean: \1]", line.strip("│ ").rstrip())

    flat = {plain(line) for line in known}
    ours = [line for line in ended.stdout.splitlines() if not line.startswith(("╭", "╰")) and line.strip()]
    assert len(ours) > 40
    missing = [line for line in ours if plain(line) not in flat]
    assert missing == []
    for name in ("Tensor___mul___0_forward_output.npy.txt",):
        written = next((release / "dumps/all_scale").rglob(name))
        assert written.read_bytes() == (release / "parse_shell/side_files" / name).read_bytes()
