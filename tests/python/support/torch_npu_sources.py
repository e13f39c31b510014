"""torch_npu as it is published: its Python sources, which are parsed and never imported."""

from __future__ import annotations

import ast
import fcntl
import os
import subprocess
from pathlib import Path

import pytest
import uv

from places import TEST_ALL

VERSION = "2.11.0"
FOLDER = Path(__file__).resolve().parents[3] / "target" / f"torch-npu-{VERSION}"


def installed() -> Path:
    """A folder with the package.

    Without a package index the test is skipped, unless ULPSCOPE_TEST_ALL is set.
    """
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with FOLDER.with_name(f"{FOLDER.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (FOLDER / f"torch_npu-{VERSION}.dist-info").exists():
            package = f"torch-npu=={VERSION}"
            command = [
                uv.find_uv_bin(),
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--target",
                str(FOLDER),
                package,
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                reason = f"torch-npu cannot be installed: {done.stderr}"
                (pytest.fail if os.environ.get(TEST_ALL) else pytest.skip)(reason)
    return FOLDER


class Sources:
    """A package as text."""

    def __init__(self, package: Path) -> None:
        self._package = package

    def parse(self, module: str) -> ast.Module:
        """A module of the package, by its path below it: ``npu.utils``."""
        path = self._package.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        return ast.parse(file.read_text(encoding="utf-8"))

    def function(self, module: str, name: str) -> ast.FunctionDef | None:
        """The function of this name in a module, wherever the module has it from."""
        tree = self.parse(module)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return node
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                for alias in node.names:
                    if name in (alias.asname, alias.name) or alias.name == "*":
                        found = self.function(
                            f"{module}.{node.module}", alias.name if alias.name != "*" else name
                        )
                        if found is not None:
                            return found
        return None


def parameters(function: ast.FunctionDef) -> list[tuple[str, object]]:
    """The parameters of a function: names, and their defaults as text."""
    arguments = function.args
    names = [argument.arg for argument in arguments.args]
    defaults = [ast.unparse(default) for default in arguments.defaults]
    found: list[tuple[str, object]] = list(
        zip(names, [None] * (len(names) - len(defaults)) + defaults, strict=True)
    )
    stars = [("*", arguments.vararg), ("**", arguments.kwarg)]
    return found + [(f"{star}{argument.arg}", None) for star, argument in stars if argument is not None]
