"""The examples, run as their first lines say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

# What each must find, beside its own check, which is its exit code.
FOUND = {
    "demo.py": "FusedGelu",
    "own_loop.py": "Functional.layer_norm.0",
    "hf_trainer.py": "agree",
    "nan_hunt.py": "Tensor.__mul__.1",
    "port.py": "Torch.softmax.0",
    "train.py": "step 2: loss ",
}


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == FOUND.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_an_example(name: str, tmp_path: Path) -> None:
    if name == "hf_trainer.py":
        pytest.importorskip("transformers")
    command = [sys.executable, str(EXAMPLES / name)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert FOUND[name] in ran.stdout
    # It leaves no files.
    assert list(tmp_path.iterdir()) == []
