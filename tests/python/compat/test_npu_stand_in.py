"""What stands in for torch_npu under ``--drop-in``, beside the sources of the real package."""

from __future__ import annotations

import ast
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_npu_sources import VERSION, Sources, installed, parameters
from ulpscope.compat.drop_in import devices

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def site() -> Path:
    return installed()


@pytest.fixture(scope="module")
def real(site: Path) -> Sources:
    return Sources(site / "torch_npu")


def own_parameters(function: Callable[..., Any]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        found.append((f"{star}{name}", default))
    return found


FUNCTIONS = sorted(name for name, value in vars(devices.Npu).items() if callable(value) and name[0] != "_")


def test_there_are_functions() -> None:
    assert {"set_device", "is_available", "synchronize", "manual_seed_all"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_torch_npu_has_the_parameters_of_the_real_one(real: Sources, name: str) -> None:
    theirs = real.function("npu", name)
    assert theirs is not None, f"torch_npu {VERSION} has no torch_npu.npu.{name}"
    assert own_parameters(getattr(devices.Npu(torch, "cpu"), name)) == parameters(theirs)


def test_moving_a_module(real: Sources) -> None:
    theirs = real.function("utils._module", "npu")
    assert theirs is not None
    assert own_parameters(devices.module_to_device) == parameters(theirs)
    assert "torch.nn.Module.npu" in assigned(real.parse("utils._module"))


def test_moving_a_tensor(real: Sources) -> None:
    """The real package has torch itself make ``Tensor.npu`` and ``Tensor.is_npu``, for the name npu."""
    calls = {
        ast.unparse(node.func): node
        for node in ast.walk(real.parse("_init.registry.backend"))
        if isinstance(node, ast.Call)
    }
    assert ast.unparse(calls["torch.utils.rename_privateuse1_backend"].args[0]) == "'npu'"
    made = calls["torch.utils.generate_methods_for_privateuse1_backend"]
    assert {word.arg: ast.unparse(word.value) for word in made.keywords}["for_tensor"] == "True"
    source = inspect.getsource(torch.utils.backend_registration)
    (theirs,) = (
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name == "wrap_tensor_to"
    )
    assert own_parameters(devices.tensor_to_device) == parameters(theirs)


def assigned(tree: ast.Module) -> set[str]:
    """The attributes that a module sets."""
    return {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
    }


@pytest.mark.parametrize("name", ["_check_overflow_npu", "_clear_overflow_npu"])
def test_the_functions_of_the_overflow_flag_exist(site: Path, name: str) -> None:
    """They are compiled: their names are in the library."""
    library = (site / "torch_npu" / "lib" / "libtorch_npu.so").read_bytes()
    assert b"\0" + name.encode() + b"\0" in library


SCRIPT = """
import torch
import torch_npu
from torch_npu.hooks import seed_all
torch.npu.set_device("npu:0")
print(torch.ones(1).npu("npu:0").item(), torch.nn.Linear(1, 1).npu(0).weight.device.type)
"""


def test_the_real_package_without_its_device_counts_as_absent(site: Path, tmp_path: Path) -> None:
    """Its import fails for lack of the libraries of the device, and so would torch's, which loads it."""
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(site)}
    plain = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if plain.returncode == 0:
        pytest.skip("torch_npu can be imported here")
    ended = subprocess.run(
        [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert (ended.returncode, ended.stdout) == (0, f"1.0 {device}\n"), ended.stderr
    lines = [line for line in ended.stderr.splitlines() if "counts as absent" in line]
    assert len(lines) == 1
    assert lines[0].startswith("ulpscope: torch_npu is installed but cannot be loaded (lib")
