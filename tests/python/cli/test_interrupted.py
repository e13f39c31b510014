"""Ctrl-C ends what takes long at once, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ulpscope
from dumps import chain, write_rank

# Far less than the work would take (some 30 s), and enough for a machine that has much else to do.
AT_ONCE = 5.0

# A process that a shell starts in the background ignores the signal, and so would this one.
BEGIN = """
import signal, sys, time, threading, numpy as np, ulpscope
signal.signal(signal.SIGINT, signal.default_int_handler)
def timed(call):
    print("ready", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
    else:
        print("done", flush=True)
"""


def processor_time(process: int) -> float:
    """Seconds that a process has computed; where the system does not list them, seconds that have passed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return time.monotonic()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interrupt(code: str, folder: Path) -> float:
    """Seconds from Ctrl-C, sent as soon as it has worked for a while, to the exception."""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + code], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    before = processor_time(process.pid)
    deadline = time.monotonic() + 60
    while processor_time(process.pid) < before + 0.2:
        assert process.poll() is None, "it was over before it was interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    word, *times = process.stdout.readline().split()
    assert word == "interrupted", "it was over before it was interrupted"
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    return float(times[0]) - sent


def large_array(path: Path, gigabytes: int) -> None:
    with path.open("wb") as out:
        fields = {"descr": "<f8", "fortran_order": False, "shape": (gigabytes << 27,)}
        np.lib.format.write_array_header_1_0(out, fields)
        out.truncate(out.tell() + (gigabytes << 30))


@pytest.mark.parametrize(
    "call",
    ["compare('a.npy', 'b.npy')", "diff('a.npy', 'b.npy')", "stats('a.npy')", "load('a.npy', 'numpy')"],
)
def test_reading_large_files(call: str, tmp_path: Path) -> None:
    for name in ("a.npy", "b.npy"):
        large_array(tmp_path / name, 16)
    assert interrupt(f"timed(lambda: ulpscope.{call})", tmp_path) < AT_ONCE


def test_comparing_many_calls(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    np.save(folder / "x0.npy", np.ones(1000, np.float32))
    for number in range(1, 30_000):
        os.link(folder / "x0.npy", folder / f"x{number}.npy")
    assert interrupt("timed(lambda: ulpscope.compare('a', 'a'))", tmp_path) < AT_ONCE


@pytest.mark.parametrize("call", ["stats(x)", "diff(x, x)", "digest(x, 'md5')"])
def test_measuring_large_tensors(call: str, tmp_path: Path) -> None:
    # Pages that were never written are one page of zeros.
    code = f"x = np.zeros(16 << 30, np.uint8)\ntimed(lambda: ulpscope.{call})"
    assert interrupt(code, tmp_path) < AT_ONCE


@pytest.mark.parametrize("suffix", [".npy", ".pt", ".safetensors", ".npz"])
def test_saving_leaves_no_file(suffix: str, tmp_path: Path) -> None:
    code = f"""
x = np.zeros(4 << 30, np.uint8)
timed(lambda: ulpscope.save("x{suffix}", x if "{suffix}" == ".npy" else {{"x": x}}))
"""
    assert interrupt(code, tmp_path) < AT_ONCE
    assert list(tmp_path.iterdir()) == []


def test_a_handler_of_the_program_may_raise_something_else(tmp_path: Path) -> None:
    code = """
import signal
class Enough(Exception): pass
def enough(*_): raise Enough
signal.signal(signal.SIGINT, enough)
def call():
    try:
        ulpscope.stats(np.zeros(16 << 30, np.uint8))
    except Enough:
        raise KeyboardInterrupt from None
timed(call)
"""
    assert interrupt(code, tmp_path) < AT_ONCE


def test_a_handler_that_returns_lets_the_work_go_on(tmp_path: Path) -> None:
    code = """
import os, signal
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
zeros = ulpscope.stats(np.zeros(1 << 29, np.uint8)).zeros
signal.setitimer(signal.ITIMER_REAL, 0)
print(zeros == 1 << 29, len(seen) > 0)
"""
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "True True\n"


def test_other_threads_than_the_main_one_compare_as_well(tmp_path: Path) -> None:
    write_rank(tmp_path / "a", chain(4))
    large = np.ones(20 << 20, np.float32)
    results: list[object] = []

    def work() -> None:
        results.append(ulpscope.compare(tmp_path / "a", tmp_path / "a").ok)
        results.append(ulpscope.stats(large).max)
        results.append(ulpscope.diff(large, large).ok)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [True, 1.0, True]
