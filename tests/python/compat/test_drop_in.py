"""``ulpscope run --drop-in``: scripts written for older tools, unmodified."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from captured import Captured
from places import SUPPORT

GUIDE = SUPPORT / "guides" / "msprobe_2_1.txt"
MAPPED = "ulpscope: torch_npu is not installed: torch.npu and .npu() use "


def run(
    folder: Path, script: str, *flags: str, installed: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a script under the command, with a folder of packages that count as installed."""
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", *flags, "--", "script.py"]
    environment = os.environ if installed is None else os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def config(folder: Path, **keys: object) -> None:
    (folder / "config.json").write_text(json.dumps({"task": "statistics", "dump_path": "dump"} | keys))


@pytest.mark.parametrize(("level", "task"), [("L1", "statistics"), ("L0", "tensor"), ("mix", "tensor")])
def test_the_first_script_of_the_guide_as_printed(tmp_path: Path, level: str, task: str) -> None:
    """Tabs and spaces, the config by position, `import torch_npu`, `torch.npu.set_device`."""
    text = GUIDE.read_text()
    assert "\tdebugger.start()" in text
    assert 'torch.npu.set_device("npu:0")' in text
    config(tmp_path, level=level, task=task)
    ended = run(tmp_path, text)
    assert ended.returncode == 0, ended.stderr
    assert [line.startswith(MAPPED) for line in ended.stderr.splitlines()].count(True) == 1
    calls = Captured(tmp_path / "dump").calls
    for name in ("Functional.relu.0.forward", "Functional.relu.0.backward"):
        assert (name in calls) == (level != "L0")
    assert ("Module.linear_1.Linear.forward.0" in calls) == (level != "L1")
    assert bool(list(tmp_path.rglob("dump_tensor_data/*.pt"))) == (task == "tensor")


def test_tensors_and_modules_go_to_the_device_that_is_there(tmp_path: Path) -> None:
    """Whichever of the two is imported first."""
    script = """\
        import torch_npu, torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        torch_npu.npu.set_device(0)
        assert torch.npu.is_available() and torch.npu.current_device() == 0
        assert torch.ones(2).npu().device.type == device
        assert torch.nn.Linear(2, 2).npu().weight.device.type == device
        torch.npu.synchronize()
        torch.npu.manual_seed_all(3)
        import importlib.util
        assert importlib.util.find_spec("torch_npu").name == "torch_npu"
        print("well")
    """
    ended = run(tmp_path, textwrap.dedent(script))
    assert (ended.returncode, ended.stdout) == (0, "well\n"), ended.stderr
    assert ended.stderr.count(MAPPED) == 1


def test_a_script_that_compares_needs_no_dump_path(tmp_path: Path) -> None:
    config(tmp_path)
    assert run(tmp_path, GUIDE.read_text()).returncode == 0
    dump = "dump/step0/rank/dump.json"
    given = {"npu_json_path": dump, "bench_json_path": dump, "stack_json_path": "dump/step0/rank/stack.json"}
    ended = run(tmp_path, f"from msprobe.pytorch import compare\ncompare({given}, 'out')\n")
    assert ended.returncode == 0, ended.stderr
    assert list((tmp_path / "out").glob("compare_result_*.xlsx"))
    assert MAPPED not in ended.stderr


def test_an_installed_tool_is_used_unless_forced(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "msprobe" / "pytorch").mkdir(parents=True)
    (site / "msprobe" / "__init__.py").touch()
    (site / "msprobe" / "pytorch" / "__init__.py").write_text("seed_all = 'real'\n")
    script = "from msprobe.pytorch import seed_all\nprint(seed_all == 'real')\n"
    ended = run(tmp_path, script, installed=site)
    assert ended.stdout == "True\n"
    assert "msprobe is installed: imports of it use it; --force uses Ulpscope's" in ended.stderr
    ended = run(tmp_path, script, "--force", installed=site)
    assert (ended.stdout, ended.stderr) == ("False\n", "")


@pytest.mark.parametrize("script", ["import torch, torch_npu", "import torch_npu, torch"])
def test_a_torch_npu_that_cannot_be_loaded_counts_as_absent(tmp_path: Path, script: str) -> None:
    """Also where torch imports it on its own: an entry point of torch.backends, as the real package has."""
    site = tmp_path / "site"
    (site / "torch_npu").mkdir(parents=True)
    problem = "libhccl.so: cannot open shared object file: No such file or directory"
    text = f"import torch\ndef _autoload(): pass\nraise ImportError({problem!r})\n"
    (site / "torch_npu" / "__init__.py").write_text(text)
    info = site / "torch_npu-2.11.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-npu\nVersion: 2.11.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    (site / "torch_npu" / "hooks.py").touch()
    tail = "\nimport os\nfrom torch_npu.hooks import seed_all\n"
    tail += "print(torch.ones(1).npu().item(), 'TORCH_DEVICE_BACKEND_AUTOLOAD' in os.environ)\n"
    ended = run(tmp_path, script + tail, installed=site)
    assert (ended.returncode, ended.stdout) == (0, "1.0 False\n"), ended.stderr
    expected = f"torch_npu is installed but cannot be loaded ({problem}), and counts as absent"
    assert ended.stderr.count(expected) == 1


def test_a_face_that_does_not_exist_is_a_clear_error(tmp_path: Path) -> None:
    ended = run(tmp_path, "import msprobe.pytorch.monitor\n")
    assert ended.returncode == 1
    assert "Ulpscope has no ulpscope.compat.msprobe.pytorch.monitor, which would stand for" in ended.stderr
    assert "_capture" not in ended.stderr


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--drop-in", "--level", "L0"], "--drop-in leaves the settings to the script: remove --level"),
        (["--drop-in", "--no-stacks"], "--drop-in leaves the settings to the script: remove --no-stacks"),
        (["--dump-path", "d", "--force"], "--force is for --drop-in"),
    ],
)
def test_flags_that_do_not_go_together(tmp_path: Path, flags: list[str], problem: str) -> None:
    (tmp_path / "script.py").touch()
    command = [sys.executable, "-m", "ulpscope", "run", *flags, "--", "script.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 2
    assert problem in ended.stderr
