"""Tensors of other classes: none holds up the run, none vanishes in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from capture_classes import KINDS, SETTINGS
from captured import Captured
from places import SUPPORT

pytestmark = pytest.mark.slow

# The wait for a lock that is never given back ends here.
TIMEOUT = 300

NO_MEMORY = {
    "wrapper": "Wrapper has no memory of its own",
    "wrapper with sizes": "Wrapper has no memory of its own",
    "masked": "MaskedTensor has no memory of its own",
    "nested": "nested tensor",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Where the dumps of all classes are, and what was found out about each."""
    folder = tmp_path_factory.mktemp("classes")
    program = [sys.executable, SUPPORT / "capture_classes.py", folder]
    try:
        ended = subprocess.run(program, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs after {error.stdout!r}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = dict(json.loads(line) for line in ended.stdout.splitlines())
    return folder, found


@pytest.mark.parametrize("kind", KINDS)
def test_classes_of_tensors(ran: tuple[Path, dict[str, Any]], kind: str) -> None:
    folder, found = ran
    assert found[kind] == {
        f"{level}-{task}": {"same numbers": True, "asked the same": True} for level, task in SETTINGS
    }
    for level, task in SETTINGS:
        captured = Captured(folder / kind / f"{level}-{task}")
        ledger = captured.ledger
        calls = names_in_stacks(captured) if task == "structure" else captured.calls
        prefix = "Aten" if level == "L2" else "Tensor"
        assert f"{prefix}.sin.0.forward" in calls
        if level != "L2":
            assert "Tensor.sin.0.backward" in calls
        assert (ledger["failed"], ledger["notes"], ledger["ended"]) == ({}, [], None)
        assert ledger["seen"] == ledger["recorded"] + sum(ledger["skipped"].values())
        assert not [name for name in calls if "sym_size" in name or "layout" in name]
        if task != "structure":
            assert list(ledger["unread"]) == ([NO_MEMORY[kind]] if kind in NO_MEMORY else [])
            assert_described(calls[f"{prefix}.sin.0.forward"], kind)


def names_in_stacks(captured: Captured) -> dict[str, Any]:
    """The calls of a dump that has no more than names."""
    stacks = captured.document("stack.json").values()
    return {name: {} for names, _ in stacks for name in names}


def assert_described(call: dict[str, Any], kind: str) -> None:
    """Its dtype is there, its shape where it has one, and its numbers where it has memory."""
    (entry,) = call["output"]
    assert entry["dtype"] == "torch.float32"
    assert entry["shape"] == ([] if kind == "nested" else [3, 4])
    assert (entry["Norm"] is None) == (kind in NO_MEMORY)
