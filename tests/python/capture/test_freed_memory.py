"""Tensors whose storage was freed (``untyped_storage().resize_(0)``, as FSDP does) are named, and not read.

Torch gives a view of such a storage its offset as an address: whoever reads there ends the process. So each
program runs in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch")


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", "import sys, torch, ulpscope\n" + textwrap.dedent(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout


@pytest.mark.parametrize("where", ["auto", "host", "torch"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_freed_tensor_is_recorded_without_numbers(tmp_path: Path, where: str, task: str) -> None:
    run(
        """
        whole, base, living = torch.ones(64), torch.ones(200_000), torch.ones(64)
        part = base[100_000:]
        for freed in (whole, base):
            freed.untyped_storage().resize_(0)
        with ulpscope.capture(sys.argv[1], device_statistics=sys.argv[2], task=sys.argv[3]):
            torch.atleast_1d(whole)
            torch.atleast_1d(part)
            torch.atleast_1d(living)
        """,
        str(tmp_path),
        where,
        task,
    )
    rank = tmp_path / "step0" / "rank"
    calls = json.loads((rank / "dump.json").read_text())["data"]
    items = [call[part][0] for call in calls.values() for part in ("input_args", "output")]
    assert [item["shape"] for item in items] == [[64]] * 2 + [[100_000]] * 2 + [[64]] * 2
    assert [item.get("Max") for item in items] == [None] * 4 + [1.0] * 2
    assert json.loads((rank / "ledger.json").read_text())["unread"] == {"its memory was freed": 4}


def test_a_freed_tensor_is_refused_as_an_argument() -> None:
    said = run(
        """
        base = torch.ones(200_000)
        part = base[100_000:]
        base.untyped_storage().resize_(0)
        try:
            ulpscope.stats(part)
        except ValueError as error:
            print(error)
        """
    )
    assert "has a shape but no memory" in said


@pytest.mark.parametrize("where", ["host", "torch"])
def test_parts_of_a_freed_tensor_are_freed_and_empty_tensors_are_not(tmp_path: Path, where: str) -> None:
    run(
        """
        x = torch.ones(64, 4)
        parts = [x[:16], x[:, 3], torch.empty(0, 3)[:, 1:], torch.empty(0, dtype=torch.complex64).conj()]
        x.untyped_storage().resize_(0)
        with ulpscope.capture(sys.argv[1], device_statistics=sys.argv[2]):
            for part in parts:
                torch.atleast_1d(part)
        """,
        str(tmp_path),
        where,
    )
    ledger = json.loads((tmp_path / "step0" / "rank" / "ledger.json").read_text())
    assert ledger["unread"] == {"its memory was freed": 4}
