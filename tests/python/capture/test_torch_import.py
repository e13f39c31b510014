"""``ulpscope run`` and whoever asks where torch is before it is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from captured import Captured

pytestmark = pytest.mark.slow

ASKING = {
    "is it installed": "assert importlib.util.find_spec('torch') is not None",
    "where is it": "assert importlib.util.find_spec('torch').origin.endswith('__init__.py')",
    "what is its source": "assert 'torch' in importlib.util.find_spec('torch').loader.get_source('torch')",
    "again and again": "[importlib.util.find_spec('torch') for _ in range(3)]",
    "on another thread": "thread = threading.Thread(target=importlib.util.find_spec, args=('torch',));"
    "thread.start(); thread.join()",
}


@pytest.mark.parametrize("asking", ASKING)
def test_asking_for_torch_is_not_importing_it(tmp_path: Path, asking: str) -> None:
    script = tmp_path / "script.py"
    loads = "type(torch.__spec__.loader).__name__ == 'SourceFileLoader'"
    script.write_text(
        f"import importlib.util, sys, threading\n{ASKING[asking]}\nassert 'torch' not in sys.modules\n"
        f"import torch\nassert {loads} and torch.__loader__ is torch.__spec__.loader\n"
        "assert not any('ulpscope' in type(finder).__module__ and finder._name == 'torch'"
        " for finder in sys.meta_path)\n"
        "torch.ones(2).sin()\n"
    )
    dump = tmp_path / "dump"
    command = [sys.executable, "-m", "ulpscope", "run", "--dump-path", str(dump), "--", str(script)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "nothing was recorded" not in ran.stderr
    assert (dump / "step0/rank/dump.json").exists(), (ran.stderr, sorted(dump.rglob("*")))
    assert list(Captured(dump).calls) == ["Torch.ones.0.forward", "Tensor.sin.0.forward"]


def test_an_import_that_fails_is_waited_for_again(tmp_path: Path) -> None:
    # torch imports ctypes before anything of its own.
    (tmp_path / "script.py").write_text(
        "import sys\n"
        "import ctypes\n"
        "sys.modules['ctypes'] = None\n"
        "try:\n    import torch\nexcept ImportError:\n    print('not yet')\n"
        "sys.modules['ctypes'] = ctypes\n"
        "import torch\n"
        "torch.ones(2).sin()\n"
    )
    command = [sys.executable, "-m", "ulpscope", "run", "--dump-path", "dump", "--", "script.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (0, "not yet\n"), ran.stderr
    assert list(Captured(tmp_path / "dump").calls) == ["Torch.ones.0.forward", "Tensor.sin.0.forward"]
