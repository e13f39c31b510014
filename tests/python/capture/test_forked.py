"""A forked process that goes on with what its parent has made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HEAD = """\
import multiprocessing
import os
import sys
import torch
import ulpscope

def train():
    for _ in range(2):
        debugger.start()
        torch.sin(torch.ones(2))
        debugger.stop()
        debugger.step()

def in_child(function):
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join()
    assert child.exitcode == 0
"""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run([sys.executable, "-c", HEAD + script], cwd=folder, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran


def calls(folder: Path) -> dict[str, list[str]]:
    """The calls of each rank in the first two steps."""
    found = {}
    for step in range(2):
        for file in folder.glob(f"dump/step{step}/*/dump.json"):
            kind = "proc" if file.parent.name.startswith("proc") else file.parent.name
            found[f"{step} {kind}"] = list(json.loads(file.read_text())["data"])
    return dict(sorted(found.items()))


CALLS = ["Torch.ones.0.forward", "Torch.sin.0.forward"]


def test_a_debugger_of_the_parent_records_in_the_child(tmp_path: Path) -> None:
    run(tmp_path, "debugger = ulpscope.PrecisionDebugger(dump_path='dump')\nin_child(train)\n")
    assert calls(tmp_path) == {"0 proc": CALLS, "1 proc": CALLS}


def test_parent_and_child_record_side_by_side(tmp_path: Path) -> None:
    run(
        tmp_path,
        "debugger = ulpscope.PrecisionDebugger(dump_path='dump')\n"
        "debugger.start()\nin_child(train)\ntorch.cos(torch.ones(2))\ndebugger.stop()\ndebugger.step()\n",
    )
    found = calls(tmp_path)
    assert found["0 proc"] == found["1 proc"] == CALLS
    assert found["0 rank"] == ["Torch.ones.0.forward", "Torch.cos.0.forward"]


def test_a_child_may_make_a_debugger_of_its_own(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        "debugger = ulpscope.PrecisionDebugger(dump_path='elsewhere')\n"
        "def own():\n"
        "    global debugger\n"
        "    debugger = ulpscope.PrecisionDebugger(dump_path='dump')\n"
        "    train()\n"
        "in_child(own)\n",
    )
    assert calls(tmp_path) == {"0 proc": CALLS, "1 proc": CALLS}
    assert "ignored" not in ran.stderr


@pytest.mark.parametrize("use", ["capture.start()", "capture.save(torch.ones(1), 'x')"])
def test_a_capture_of_the_parent_says_that_it_records_nothing(tmp_path: Path, use: str) -> None:
    level = "debug" if "save" in use else "L1"
    ran = run(
        tmp_path,
        f"capture = ulpscope.capture('dump', level={level!r})\n"
        f"def use():\n    {use}\n    torch.sin(torch.ones(2))\n    {use}\n"
        "in_child(use)\n",
    )
    assert ran.stderr.count("nothing is recorded here") == 1
    assert calls(tmp_path) == {}
