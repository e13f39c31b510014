"""What users and their tools see: public names, types, docstrings, the version."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import ulpscope

STUB = Path(ulpscope.__file__).with_name("_core.pyi")

# Members of public objects, without those that Python or their base class gives them.
MEMBERS = {
    "CheckResult": {"counts", "exit_code", "failed", "judged_here", "skipped", "to_json", "write"},
    "CheckedCall": {"failed", "no_repro", "place", "repro", "skipped", "tensors", "unread"},
    "CheckedTensor": {"by_standard", "error", "floor", "limits", "measured", "ratio", "row", "standard"},
    "Capture": {
        "close",
        "dump_path",
        "end_forward",
        "end_training",
        "estimate",
        "overflows",
        "register_custom_api",
        "restore_custom_api",
        "save",
        "set_init_step",
        "settings",
        "start",
        "step",
        "steps_done",
        "stop",
    },
    "CallGain": set(),
    "Diffs": {"ok"},
    "EntryBits": set(),
    "Estimate": {"to_json"},
    "Finding": {"cause"},
    "Overflow": set(),
    "OverflowLimitError": set(),
    "Perturbation": {
        "close",
        "findings",
        "register_custom_api",
        "restore_custom_api",
        "start",
        "step",
        "steps_done",
        "stop",
    },
    "PrecisionDebugger": {
        "close",
        "forward_backward_dump_end",
        "register_custom_api",
        "restore_custom_api",
        "save",
        "set_init_step",
        "settings",
        "start",
        "step",
        "stop",
    },
    "SettingsError": set(),
    "SignificantBits": {"raise_precision", "safe_to_lower"},
    "FormatError": set(),
}

# Those that need torch are loaded on first use.
PUBLIC = {
    *ulpscope.__all__,
    *("CallGain", "Capture", "EntryBits", "Finding", "Perturbation", "SignificantBits"),
}


def public(kind: type) -> set[str]:
    inherited = {name for base in kind.__mro__[1:] for name in dir(base)}
    return {name for name in dir(kind) if not name.startswith("_")} - inherited


def stub_classes() -> dict[str, ast.ClassDef]:
    tree = ast.parse(STUB.read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_version_is_that_of_the_package() -> None:
    assert ulpscope.__version__ == version("ulpscope")
    command = [sys.executable, "-m", "ulpscope", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["ulpscope", ulpscope.__version__]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_objects_have_no_internals(name: str) -> None:
    found = getattr(ulpscope, name)
    if not isinstance(found, type):
        return
    if name in MEMBERS:
        expected = MEMBERS[name]
    else:
        body = stub_classes()[name].body
        functions = (node.name for node in body if isinstance(node, ast.FunctionDef))
        expected = {name for name in functions if not name.startswith("_")}
    assert public(found) == expected


def test_names_of_the_package_are_public_or_private_on_purpose() -> None:
    assert set(dir(ulpscope)) == PUBLIC
    assert all(getattr(ulpscope, name) is not None for name in dir(ulpscope))


def test_every_public_member_of_the_core_has_a_docstring() -> None:
    tree = ast.parse(STUB.read_text())
    documented: set[str] = set()
    members: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ulpscope.__all__:
            members.add(node.name)
            documented |= {node.name} if ast.get_docstring(node) else set()
        if isinstance(node, ast.ClassDef) and node.name in ulpscope.__all__:
            members.add(node.name)
            documented |= {node.name} if ast.get_docstring(node) else set()
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                    members.add(f"{node.name}.{part.name}")
                    documented |= {f"{node.name}.{part.name}"} if ast.get_docstring(part) else set()
    assert len(members) > 80
    assert members - documented == set()


@pytest.mark.parametrize("name", sorted(MEMBERS.keys() - {"FormatError"}))
def test_every_public_member_in_python_has_a_docstring(name: str) -> None:
    kind = getattr(ulpscope, name)
    assert kind.__doc__
    assert [member for member in MEMBERS[name] if not getattr(kind, member).__doc__] == []


def test_the_api_page_is_up_to_date_and_has_every_name() -> None:
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, root / "scripts" / "api_page", "--check"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    page = (root / "docs" / "api.md").read_text()
    named = PUBLIC - {"__version__"}
    assert [name for name in sorted(named) if f"## `ulpscope.{name}`" not in page] == []


WRONG = {
    'ulpscope.capture("d", levle="L1")': "levle",
    'ulpscope.capture("d", level="L3")': "L3",
    'ulpscope.capture("d", task="tensors")': "tensors",
    'ulpscope.capture("d", digest="sha")': "sha",
    'ulpscope.capture("d", data_mode=["forwards"])': "forwards",
    'ulpscope.capture("d", layers="second")': "second",
    'ulpscope.capture("d", file_format="onnx")': "onnx",
    'ulpscope.capture("d", max_calls="ten")': "max_calls",
    'ulpscope.compare("a", "b", style="excel")': "excel",
    'ulpscope.compare("a", "b", match="best")': "best",
    'ulpscope.digest(1, "sha")': "sha",
    'ulpscope.capture("d").step_aside("why")': "step_aside",
}

RIGHT = """\
import ulpscope
with ulpscope.capture(
    "d", level="mix", task="tensor", step=[0, "2-4"], rank=0, list="relu", module="layers.*.mlp",
    call=["re:add"], data_mode=["forward"], digest="xxh3", max_bytes="10G", estimate=True,
) as run:
    run.step()
calls: int = run.estimate.calls
kind: type[ulpscope.Capture] = type(run)
"""


def checked_by_mypy(tmp_path: Path, text: str) -> list[str]:
    program = tmp_path / "program.py"
    program.write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    ended = subprocess.run([*command, str(program)], cwd=tmp_path, capture_output=True, text=True)
    return [line for line in ended.stdout.splitlines() if line.startswith("program.py:")]


@pytest.mark.slow
def test_a_wrong_setting_is_an_error_of_the_type_checker(tmp_path: Path) -> None:
    lines = ["import ulpscope", *WRONG]
    found = checked_by_mypy(tmp_path, "\n".join(lines) + "\n")
    told: dict[int, str] = {}
    for line in found:
        number = int(line.split(":")[1])
        told[number] = told.get(number, "") + line
    for number, (code, word) in enumerate(WRONG.items(), start=2):
        assert word in told.get(number, ""), (code, told.get(number))


@pytest.mark.slow
def test_typed_keywords_are_the_settings(tmp_path: Path) -> None:
    (revealed,) = checked_by_mypy(tmp_path, "import ulpscope\nreveal_type(ulpscope.capture)\n")
    named_in_capture = {"dump_path", "level", "task"}
    settings = ulpscope.capture(tmp_path / "dump").settings.keys() - named_in_capture
    assert set(re.findall(r"'(\w+)'\?:", revealed)) == settings


@pytest.mark.slow
def test_typed_file_formats_are_those_of_the_core(tmp_path: Path) -> None:
    (revealed,) = checked_by_mypy(tmp_path, "import ulpscope\nreveal_type(ulpscope.capture)\n")
    (union,) = re.findall(r"'file_format'\?: (.*?), '", revealed)
    with pytest.raises(ValueError, match="file_format") as refused:
        ulpscope.capture("d", file_format="onnx")  # type: ignore[arg-type]
    names = re.findall(r"'(\w+)'", union)
    assert str(refused.value).endswith(f"expected one of {', '.join(names)}")


@pytest.mark.slow
def test_right_settings_are_none(tmp_path: Path) -> None:
    assert checked_by_mypy(tmp_path, RIGHT) == []


def test_an_unknown_setting_is_an_error_at_run_time_too(tmp_path: Path) -> None:
    wrong: dict[str, Any] = {"levle": "L1"}
    with pytest.raises(ulpscope.SettingsError, match="did you mean 'level'"):
        ulpscope.capture(tmp_path, **wrong)
