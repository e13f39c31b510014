"""Errors of ours outside of the recorder: the program does not hear of them, unless it wants to."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import ulpscope
from captured import Captured


class NoHooks(torch.Tensor):
    """A tensor that takes no hooks."""

    def register_hook(self, hook: Any) -> Any:
        raise RuntimeError("no hooks here")


def test_a_saved_tensor_that_takes_no_hooks(tmp_path: Path) -> None:
    value = torch.ones(2, requires_grad=True).as_subclass(NoHooks)
    with ulpscope.capture(tmp_path, level="debug") as run:
        run.save(value, "value")
        run.save(torch.ones(2), "next")
    found = Captured(tmp_path)
    assert list(found.document("debug.json")["data"]) == ["value.0.debug", "next.0.debug"]
    assert found.ledger["notes"] == ["the gradients of value: RuntimeError: no hooks here"]
    with (
        pytest.raises(RuntimeError, match="no hooks here"),
        ulpscope.capture(tmp_path / "strict", level="debug", strict=True) as run,
    ):
        run.save(value, "value")


def test_what_cannot_be_put_in_place_again_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At the end of a step that is not wanted, everything is put in place again for the next."""
    from ulpscope._capture.lifecycle.installation import Installation

    original = Installation.install
    modes = torch._C._len_torch_function_stack()
    times: list[int] = []

    def install(self: Installation, *args: Any) -> None:
        times.append(1)
        if len(times) > 1:
            raise RuntimeError("no room")
        original(self, *args)

    monkeypatch.setattr(Installation, "install", install)
    with caplog.at_level(logging.ERROR), ulpscope.capture(tmp_path, step=[0, 2]) as run:
        for _ in range(4):
            torch.sin(torch.ones(2))
            run.step()
    assert len(times) == 2
    assert any("no room" in record.getMessage() for record in caplog.records)
    assert "Torch.sin.0.forward" in Captured(tmp_path).calls
    assert torch._C._len_torch_function_stack() == modes


SCRIPT = """\
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
print("the end")
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["start", "step"])
@pytest.mark.parametrize("is_strict", [False, True])
def test_a_script_under_ulpscope_run_goes_on(tmp_path: Path, method: str, is_strict: bool) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    # The class is known only with torch, which the script imports.
    (tmp_path / "broken.py").write_text(
        "from ulpscope._capture.launch import command as launch, recording\n"
        "import sys\n"
        "begin = recording.Recording._begin\n"
        "def changed(self):\n"
        "    from ulpscope._capture.lifecycle.run import Run\n"
        "    def broken(self, *args):\n"
        "        raise RuntimeError('it broke')\n"
        f"    Run.{method} = broken\n"
        "    begin(self)\n"
        "recording.Recording._begin = changed\n"
        "sys.exit(launch.run(sys.argv[1:]))\n"
    )
    flags = ["--strict"] if is_strict else []
    command = [sys.executable, "broken.py", "--dump-path", "dump", *flags, "--", "train.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "it broke" in ran.stderr
    assert (ran.returncode == 0) != is_strict
    assert ("the end" in ran.stdout) != is_strict
