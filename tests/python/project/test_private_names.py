"""Tests use Ulpscope as users do: by its public names, also in the programs that they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

# In a program within a text: a private module of the package, or a private name imported from it.
PRIVATE = re.compile(r"\bulpscope\._[a-z]|\bfrom ulpscope(\.[\w.]+)? import [^\n]*(?<!\w)_[a-z]|\._run\._")


def is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Lines that use a private name of the package, and the name."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute(value=ast.Name(id="ulpscope"), attr=attribute):
                found = [f"ulpscope.{attribute}"]
            # What a capture or a debugger keeps to itself.
            case ast.Attribute(value=ast.Name(), attr="_run" | "_session"):
                found = [f"ulpscope.{node.attr}"]
            case ast.Constant(value=str(text)):
                found = ["ulpscope._"] if PRIVATE.search(text) else []
            case _:
                continue
        names = [name for name in found if name.split(".")[0] == "ulpscope" and is_private(name)]
        yield from ((getattr(node, "lineno", 0), name) for name in names)


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: str(path.relative_to(TESTS)))
def test_no_private_name_is_used(path: Path) -> None:
    if path == Path(__file__).resolve():
        return
    assert list(private_names(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import ulpscope._core",
        "import ulpscope._core as core",
        "from ulpscope import _core",
        "from ulpscope._core import restore",
        "from ulpscope._capture.settings import Settings",
        "ulpscope._core.read_file(path)",
        "run._run._recorder.note(1)",
        "script = 'import torch\\nfrom ulpscope._capture import debugger\\n'",
        "script = 'from ulpscope import compare, _files'",
        "f'ulpscope._capture.{name}'",
    ],
)
def test_private_names_are_found(source: str) -> None:
    assert len(list(private_names(source))) == 1


@pytest.mark.parametrize(
    "source", ["import ulpscope", "ulpscope.__version__", "from ulpscope import SettingsError", "torch._C"]
)
def test_other_names_are_none(source: str) -> None:
    assert list(private_names(source)) == []
