"""Files that another program cuts short while they are read: an error that names the file, not a signal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from dumps import chain, write_rank

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of mappings")

PROGRAM = [str(Path(sys.executable).parent / "ulpscope")]


def large_array(path: Path, megabytes: int) -> Path:
    """An array of zeros, which a file system need not store, and which takes a while to read."""
    with path.open("wb") as out:
        fields = {"descr": "<f4", "fortran_order": False, "shape": (megabytes << 18,)}
        np.lib.format.write_array_header_1_0(out, fields)
        out.truncate(out.tell() + (megabytes << 20))
    return path


def cut_while_mapped(process: subprocess.Popen[str], path: Path, *others: Path) -> None:
    """Cuts a file to one byte as soon as a process has mapped it, and others too.

    A command that compares looks at each file alone first, to see what it is.
    """
    maps = Path(f"/proc/{process.pid}/maps")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            mapped = maps.read_text()
            if all(f"{one}\n" in mapped for one in (path, *others)):
                os.truncate(path, 1)
                return
        except OSError:
            continue
    raise AssertionError(f"{path} was never mapped: {process.communicate()}")


def run_and_cut(command: list[str], path: Path, *others: Path) -> tuple[int, str, str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    cut_while_mapped(process, path, *others)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["stats", "diff", "compare", "convert"])
def test_a_command_names_the_file_that_shrank(command: str, tmp_path: Path) -> None:
    megabytes = 512
    target = large_array(tmp_path / "target.npy", megabytes)
    arguments = {
        "stats": ["stats", "--json", str(target)],
        "diff": ["diff", "--json", str(target), str(large_array(tmp_path / "golden.npy", megabytes))],
        "compare": [
            *("compare", "--json", "-o", str(tmp_path / "out")),
            *(str(target), str(large_array(tmp_path / "golden.npy", megabytes))),
        ],
        "convert": ["convert", str(target), "-o", str(tmp_path / "out" / "x.pt")],
    }[command]
    (tmp_path / "out").mkdir()
    others = [tmp_path / "golden.npy"] if command in ("diff", "compare") else []
    code, out, err = run_and_cut([*PROGRAM, *arguments], target, *others)
    assert code == 2, (out, err)
    said = f"{target}: shrank from {(megabytes << 20) + 128} to 1 bytes while it was read"
    assert err.count(said) == 1, err
    # What was read as zeros is no result.
    if command == "stats":
        assert json.loads(out)["tensors"] == []
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.slow
def test_a_dump_that_shrinks_while_it_is_listed(tmp_path: Path) -> None:
    """The listing waits for its reader, so that the dump is cut when some of it has been shown."""
    write_rank(tmp_path / "dump", chain(2000), tensors=False)
    dump = tmp_path / "dump" / "dump.json"
    size = dump.stat().st_size
    process = subprocess.Popen(
        [*PROGRAM, "ls", str(tmp_path / "dump")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "dump.json" in first
    os.truncate(dump, 5000)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert err.count(f"{dump}: shrank from {size} to 5000 bytes while it was read") == 1, err
    shown = [line for line in out.splitlines() if "Functional" in line]
    # Whatever is shown was read before: every line is a whole one.
    assert 0 < len(shown) < 4000
    assert all("float32[" in line for line in shown)


def slow_dump(folder: Path, fault: float) -> Path:
    """A rank whose files take a while to read: spaces in its documents, and one large tensor."""
    large = torch.ones(8 << 20)
    calls = [*chain(20, fault={3: fault}), ("Functional.relu.0.forward", [large], [large])]
    stacks = {name: ["File train.py, line 1, in main, \n y = f(x)"] for name, _, _ in calls}
    write_rank(folder, calls, stacks=stacks)
    for name in ("dump.json", "stack.json"):
        text = (folder / name).read_text()
        (folder / name).write_text(text[0] + " " * (32 << 20) + text[1:])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dump.json", "stack.json", "dump_tensor_data/Functional.relu.0.forward.input.0.pt"]
)
def test_a_dump_that_shrinks_at_any_moment(name: str, tmp_path: Path) -> None:
    """A process that a signal has ended would show as a negative exit code."""
    # They differ: the stacks of agreeing dumps need not be read.
    golden, target = slow_dump(tmp_path / "golden", 1.0), slow_dump(tmp_path / "target", 1.5)
    command = [*PROGRAM, "compare", str(target), str(golden)]
    path, whole_file = target / name, tmp_path / "whole"
    shutil.copy(path, whole_file)
    start = time.monotonic()
    subprocess.run(command, capture_output=True)
    whole = time.monotonic() - start
    reported = 0
    for turn in range(8):
        shutil.copy(whole_file, path)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if turn == 0:
            cut_while_mapped(process, path)
        else:
            time.sleep(whole * (0.2 + turn / 10))
            os.truncate(path, 10)
        _, err = process.communicate(timeout=60)
        assert process.returncode in (1, 2), (turn, err)
        if "shrank" in err:
            assert process.returncode == 2
            assert f"{path}: shrank" in err, err
            reported += 1
    assert reported > 0


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120
    )


BEGIN = """
import faulthandler, os, signal, ulpscope, numpy as np
np.save("x.npy", np.ones(100_000, np.float32))
def raised(call):
    try:
        call()
    except ulpscope.FormatError as error:
        return str(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "numpy"])
def test_a_mapped_tensor_whose_file_shrinks(framework: str, tmp_path: Path) -> None:
    code = f"""
x = ulpscope.load("x.npy", {framework!r}, mmap=True)
os.truncate("x.npy", 128 + 4096)
print(float(x.sum()) < 3000)
x[-1] = 3
print(float(x[-1]))
whole = np.ones(100_000, np.float32)
for call in (
    lambda: ulpscope.stats(x),
    lambda: ulpscope.diff(x, whole),
    lambda: ulpscope.diff(whole, x),
    lambda: ulpscope.digest(x),
    lambda: ulpscope.save("y.npy", x),
):
    print(raised(call))
print(sorted(os.listdir(".")))
# Others are none the worse for it.
print(ulpscope.diff(whole, whole).equal)
"""
    done = python(BEGIN + code, tmp_path)
    message = "x.npy: shrank from 400128 to 4224 bytes while it was read"
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert lines[:2] == ["True", "3.0"]
    assert len(lines) == 9
    assert all(line.startswith(message) for line in lines[2:7])
    assert lines[7:] == ["['x.npy']", "True"]


def test_loading_a_file_that_shrinks(tmp_path: Path) -> None:
    path = large_array(tmp_path / "x.npy", 1024)
    code = f"import ulpscope; ulpscope.load({str(path)!r}, 'numpy'); print('loaded')"
    code, out, err = run_and_cut([sys.executable, "-c", code], path)
    assert (code, out) == (1, "")
    assert f"FormatError: {path}: shrank from" in err


@pytest.mark.parametrize("when", ["before", "between", "never"])
def test_handlers_of_others_still_get_the_faults_of_others(when: str, tmp_path: Path) -> None:
    early = "faulthandler.enable()" if when == "before" else ""
    late = "faulthandler.enable()" if when == "between" else ""
    code = f"""
import mmap
{early}
first = ulpscope.load("x.npy", "numpy", mmap=True)
{late}
x = ulpscope.load("x.npy", "numpy", mmap=True)
open("y", "wb").write(bytes(100_000))
with open("y", "r+b") as file:
    other = mmap.mmap(file.fileno(), 0)
os.truncate("x.npy", 0)
print(float(x.sum() + first.sum()), flush=True)
os.truncate("y", 0)
other[50_000]
"""
    done = python(BEGIN + code, tmp_path)
    assert done.stdout == "0.0\n"
    assert done.returncode == -signal.SIGBUS
    assert ("Fatal Python error: Bus error" in done.stderr) == (when != "never")


@pytest.mark.parametrize("enabled", [True, False])
def test_a_signal_that_is_sent_still_ends_the_process(enabled: bool, tmp_path: Path) -> None:
    code = f"""
if {enabled}: faulthandler.enable()
x = ulpscope.load("x.npy", "numpy", mmap=True)
os.kill(os.getpid(), signal.SIGBUS)
print("alive")
"""
    done = python(BEGIN + code, tmp_path)
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "")
    assert ("Fatal Python error: Bus error" in done.stderr) == enabled


def test_importing_installs_nothing(tmp_path: Path) -> None:
    """Bit 6 of the mask of caught signals is SIGBUS, signal 7."""
    code = """
import ulpscope
caught = lambda: int(open("/proc/self/status").read().split("SigCgt:")[1].split()[0], 16) >> 6 & 1
before = caught()
ulpscope.save("y.npy", __import__("numpy").ones(3))
ulpscope.load("y.npy", "numpy")
print(before, caught())
"""
    assert python(code, tmp_path).stdout == "0 1\n"
