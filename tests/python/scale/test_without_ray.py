"""Ray is asked for by name, and is not needed otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dumps import chain, run, write_rank

WITHOUT_RAY = "import sys; sys.modules['ray'] = None; "


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    return write_rank(tmp_path / "target", chain(2)), write_rank(tmp_path / "golden", chain(2))


def python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)


def test_ray_is_not_imported_unless_asked_for(two: tuple[Path, Path]) -> None:
    arguments = ["ulpscope", "compare", *map(str, two)]
    script = f"""
import runpy, sys
sys.argv = {arguments!r}
try:
    runpy.run_module("ulpscope", run_name="__main__")
except SystemExit as end:
    assert end.code == 0
assert "ulpscope" in sys.modules
assert not [name for name in sys.modules if name.split(".")[0] == "ray"]
"""
    ran = python(script)
    assert ran.returncode == 0, ran.stderr


def test_the_command_says_what_to_install(two: tuple[Path, Path]) -> None:
    arguments = ["ulpscope", "compare", *map(str, two), "--engine", "ray"]
    run_it = "import runpy; runpy.run_module('ulpscope', run_name='__main__')"
    ran = python(f"{WITHOUT_RAY}sys.argv = {arguments!r}; {run_it}")
    assert ran.returncode == 2
    assert "pip install ulpscope[ray]" in ran.stderr


def test_python_says_what_to_install(two: tuple[Path, Path]) -> None:
    paths = [str(path) for path in two]
    ran = python(f"{WITHOUT_RAY}import ulpscope; ulpscope.compare(*{paths!r}, engine='ray')")
    assert "ImportError: engine ray needs Ray: pip install ulpscope[ray]" in ran.stderr


def test_options_that_do_not_fit_are_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    ran = run("compare", *two, "--resume")
    assert ran.returncode == 2
    assert "--engine" in ran.stderr
    ran = run("compare", *two, "--engine", "ray", "--prove")
    assert "cannot be used with" in ran.stderr
    wrong = tmp_path / "map.json"
    wrong.write_text("{}")
    paths = [str(path) for path in two]
    ran = python(f"import ulpscope; ulpscope.compare(*{paths!r}, engine='ray', located={str(wrong)!r})")
    assert "expected a map that `ulpscope locate` writes" in ran.stderr
