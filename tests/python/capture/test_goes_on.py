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
from patches import Guarded


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
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """At the end of a step that is not wanted, everything is put in place again for the next."""
    modes = torch._C._len_torch_function_stack()
    with (
        caplog.at_level(logging.ERROR),
        Guarded(RuntimeError("no room"), replacements=1) as guarded,
        ulpscope.capture(tmp_path, step=[0, 2]) as run,
    ):
        for _ in range(4):
            torch.sin(torch.ones(2))
            run.step()
    assert guarded.trace is guarded.original
    assert any("no room" in record.getMessage() for record in caplog.records)
    assert "Torch.sin.0.forward" in Captured(tmp_path).calls
    assert torch._C._len_torch_function_stack() == modes


# No folder can be made: recording cannot start.
NO_FOLDER = """\
import sys
def refuse(event, arguments):
    if event == "os.mkdir" and str(arguments[0]).endswith("dump"):
        raise RuntimeError("it broke")
sys.addaudithook(refuse)
"""

# At the end of the step a pattern that matches nothing is logged, which fails in the handler of the program.
NO_LOG = """\
import logging
class Broken(logging.Handler):
    def emit(self, record):
        raise RuntimeError("it broke")
logging.getLogger().addHandler(Broken())
"""

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
@pytest.mark.parametrize(
    ("before", "told"),
    [(NO_FOLDER, "nothing is recorded"), (NO_LOG, "the dump may be incomplete")],
    ids=["start", "step"],
)
@pytest.mark.parametrize("is_strict", [False, True])
def test_a_script_under_ulpscope_run_goes_on(tmp_path: Path, before: str, told: str, is_strict: bool) -> None:
    (tmp_path / "train.py").write_text(before + SCRIPT)
    flags = ["--dump-path", "dump", "--call", "Torch.none", *(["--strict"] if is_strict else [])]
    command = [sys.executable, "-m", "ulpscope", "run", *flags, "--", "train.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "RuntimeError: it broke" in ran.stderr
    assert (told in ran.stderr) != is_strict
    assert (ran.returncode == 0) != is_strict
    assert ("the end" in ran.stdout) != is_strict
