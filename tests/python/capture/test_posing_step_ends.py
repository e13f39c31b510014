"""Steps that a thread ends while the next one runs: a full disk, and Ctrl-C.

There is no GPU: tensors of the CPU pose as those of one (``posing_gpu.py``), which may be paused.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import posing_gpu
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("needs torch 2.10, whose tensors give their address and stream", allow_module_level=True)
if not posing_gpu.is_possible():
    pytest.skip("needs g++", allow_module_level=True)

HERE = Path(__file__).parent

HEAD = f"""
import os, signal, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import torch, ulpscope, posing_gpu
folder = sys.argv[1]
gpu = posing_gpu.Gpu()
x = torch.ones(5)

def interrupt_soon(then):
    "Ctrl-C while the program waits; what the device does goes on later."
    def work():
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.5)
        then()
    threading.Thread(target=work, daemon=True).start()
"""


def run(folder: Path, dump: Path, program: str) -> str:
    command = [sys.executable, "-c", HEAD + textwrap.dedent(program), str(dump)]
    environment = posing_gpu.environment(folder)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def document(dump: Path, step: int, name: str) -> Any:
    return json.loads((dump / f"step{step}" / "rank" / name).read_text())


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("size", ["300k", "420k", "700k"])
def test_a_full_disk_ends_the_recording_and_not_the_program(tmp_path: Path, size: str) -> None:
    program = """
        with ulpscope.capture(folder) as run:
            for _ in range(12):
                for _ in range(100):
                    y = torch.sin(x)
                run.step()
        assert torch.equal(y, torch.sin(x))
        """
    disk = tmp_path / "disk"
    with small_disk(disk, size):
        said = run(tmp_path, disk, program)
        ranks = [disk / f"step{step}" / "rank" for step in range(12)]
        ranks = [rank for rank in ranks if rank.exists()]
        reasons = [how_it_ended(rank) for rank in ranks]
        whole = [number for number, reason in enumerate(reasons) if reason is None]
        failed = [number for number, reason in enumerate(reasons) if reason is not None]
        for rank in (ranks[number] for number in whole):
            assert not (rank / "journal.jsonl").exists()
            calls = json.loads((rank / "dump.json").read_text())["data"]
            assert len(calls) == 100
            assert all(call["output"][0]["Max"] is not None for call in calls.values())
    # A step that was recorded while the one before had no room for its dump may have found some.
    assert failed[0] > 0
    assert set(whole) <= {*range(failed[0]), failed[0] + 1}
    assert all("No space left on device" in str(reasons[number]) for number in failed)
    assert "No space left on device" in said


def how_it_ended(rank: Path) -> str | None:
    """What the ledger says of the end, which is in the journal where there is one."""
    journal = rank / "journal.jsonl"
    if not journal.exists():
        return json.loads((rank / "ledger.json").read_text())["ended"]
    last = journal.read_bytes().rstrip(b"\0").splitlines()[-1]
    return json.loads(last)["ledger"]["ended"]


def test_ctrl_c_while_a_step_waits_for_the_end_of_the_one_before(tmp_path: Path) -> None:
    program = """
        run = ulpscope.capture(folder)
        run.start()
        torch.sin(x)
        gpu.pause(True)
        torch.sin(x)
        run.step()
        torch.cos(x)
        interrupt_soon(lambda: gpu.pause(False))
        try:
            run.step()
        except KeyboardInterrupt:
            print("interrupted")
        gpu.wait()
        torch.tan(x)
        run.close()
        """
    dump = tmp_path / "dump"
    assert "interrupted" in run(tmp_path, dump, program)
    names = ["Torch.sin.0.forward", "Torch.sin.1.forward"], ["Torch.cos.0.forward"], ["Torch.tan.0.forward"]
    for step, expected in enumerate(names):
        calls = document(dump, step, "dump.json")["data"]
        assert list(calls) == expected
        assert all(call["output"][0]["Max"] is not None for call in calls.values())
        assert document(dump, step, "ledger.json")["ended"] is None
        assert not (dump / f"step{step}" / "rank" / "journal.jsonl").exists()


def test_ctrl_c_while_the_end_of_the_recording_waits(tmp_path: Path) -> None:
    """The program goes on; the step that a thread ends has its dump when its numbers are there."""
    program = """
        run = ulpscope.capture(folder)
        run.start()
        torch.sin(x)
        gpu.pause(True)
        torch.sin(x)
        run.step()
        torch.cos(x)
        interrupt_soon(lambda: gpu.pause(False))
        try:
            run.close()
        except KeyboardInterrupt:
            print("interrupted")
        last = time.monotonic() + 60
        while os.path.exists(folder + "/step0/rank/journal.jsonl"):
            assert time.monotonic() < last
            time.sleep(0.01)
        """
    dump = tmp_path / "dump"
    assert "interrupted" in run(tmp_path, dump, program)
    for step, count in ((0, 2), (1, 1)):
        calls = document(dump, step, "dump.json")["data"]
        assert len(calls) == count
        assert all(call["output"][0]["Max"] is not None for call in calls.values())
