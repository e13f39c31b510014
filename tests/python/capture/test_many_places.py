"""Programs with more functions and places than can be kept."""

from __future__ import annotations

import gc
import importlib.util
import sys
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function

import ulpscope
from captured import capture_of

# A line of the program is in each stack that leads through it.
LONG = "x" * 40_000
PLACES = 2_000


def module_of(folder: Path, places: int) -> Any:
    """A program that adds in so many places, ten to a function."""
    inner = [
        f"def inner{number}(x):\n" + "    x = x + 1\n" * 10 + "    return x" for number in range(places // 10)
    ]
    names = ", ".join(f"inner{number}" for number in range(places // 10))
    outer = f"def outer(x):\n    for inner in INNER:\n        x = inner(x)  # {LONG}\n    return x"
    file = folder / "many_places.py"
    file.write_text("\n\n".join([*inner, f"INNER = [{names}]", outer]))
    spec = importlib.util.spec_from_file_location("many_places", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["many_places"] = module
    spec.loader.exec_module(module)
    return module


def test_names_stay_when_there_are_too_many_stacks(tmp_path: Path) -> None:
    program = module_of(tmp_path, PLACES)
    captured = capture_of(tmp_path / "dump", lambda: program.outer(torch.ones(1)))
    added = [name for name in captured.calls if name.startswith("Tensor.")]
    assert added == [f"Tensor.__add__.{number}.forward" for number in range(PLACES)]
    assert [note for note in captured.ledger["notes"] if "makes calls from more places than are kept" in note]
    stacks = captured.document("stack.json")
    told = {name for found in stacks.values() for name in found[0]}
    assert "Tensor.__add__.0.forward" in told
    # Some 48 MiB, of more than 40 kB each.
    assert 500 < len(told & set(added)) < PLACES


def test_few_stacks_are_all_listed(tmp_path: Path) -> None:
    program = module_of(tmp_path, 100)
    captured = capture_of(tmp_path / "dump", lambda: program.outer(torch.ones(1)))
    told = {name for found in captured.document("stack.json").values() for name in found[0]}
    assert told >= {f"Tensor.__add__.{number}.forward" for number in range(100)}
    assert captured.ledger["notes"] == []


class Held:
    """Something that a closure holds."""


def test_functions_that_come_and_go_are_let_go_of(tmp_path: Path) -> None:
    held = []

    def make() -> Any:
        kept = Held()
        held.append(weakref.ref(kept))

        def scaled(x: torch.Tensor) -> torch.Tensor:
            assert kept is not None
            if has_torch_function((x,)):
                return handle_torch_function(scaled, (x,), x)
            return x * 2

        return scaled

    class Seen(torch.Tensor):
        """Has its functions shown."""

    with ulpscope.capture(tmp_path):
        for _ in range(5):
            make()(torch.ones(2).as_subclass(Seen))
        gc.collect()
        assert [one() for one in held] == [None] * 5
