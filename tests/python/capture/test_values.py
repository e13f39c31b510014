"""Arguments of the program's own making: what is read of them, what is cut off, and what the ledger says."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import ulpscope
from captured import Captured, capture_of

CUT_OFF = "a cyclic or oversized value was truncated; the rest is null"


class Taking(torch.nn.Module):
    """Takes anything."""

    def forward(self, x: torch.Tensor, anything: Any) -> torch.Tensor:
        return x * 2


def given(folder: Path, value: Any) -> tuple[Any, list[str]]:
    """How an argument of a module is recorded, and the notes of the ledger."""
    model = torch.nn.ModuleList([Taking()])
    with ulpscope.capture(folder, model=model, level="L0", strict=True):
        model[0](torch.ones(2), value)
    found = Captured(folder)
    return found.calls["Module.0.Taking.forward.0"]["input_args"][1], found.ledger["notes"]


@dataclass
class Node:
    value: torch.Tensor
    left: Any = None
    right: Any = None
    parent: Any = None


def test_a_tree_whose_nodes_know_each_other(tmp_path: Path) -> None:
    root = Node(torch.zeros(1))
    nodes = [root]
    for number in range(1, 64):
        above = nodes[(number - 1) // 2]
        node = Node(torch.full((1,), float(number)), parent=above)
        setattr(above, "left" if number % 2 else "right", node)
        nodes.append(node)
    found, notes = given(tmp_path, root)
    maxima = []

    def collect(item: Any) -> None:
        if item is not None:
            maxima.append(item["value"]["Max"])
            collect(item["left"])
            collect(item["right"])

    collect(found)
    assert sorted(maxima) == list(range(64))
    assert found["left"]["parent"] is None
    assert notes == [CUT_OFF]


def test_containers_that_hold_the_next_one_twice(tmp_path: Path) -> None:
    value: Any = torch.ones(1)
    for _ in range(60):
        value = [value, value]
    found, notes = given(tmp_path, value)
    for _ in range(60):
        found = found[0]
    assert found["Max"] == 1.0
    assert notes == [CUT_OFF]


def test_saved_containers_that_hold_the_next_one_twice(tmp_path: Path) -> None:
    x = torch.ones(1, requires_grad=True)
    value: Any = x * 2
    for _ in range(60):
        value = {"a": value, "b": value}
    with ulpscope.capture(tmp_path, level="debug", strict=True) as run:
        run.save(value, "value")
        inner = value
        for _ in range(60):
            inner = inner["a"]
        (inner * 3).sum().backward()
    document = Captured(tmp_path).document("debug.json")["data"]
    found = document["value_grad.0.debug"]
    for _ in range(60):
        found = found["a"]
    assert found["Max"] == 3.0


def test_what_is_met_twice_is_there_twice(tmp_path: Path) -> None:
    pair = (torch.ones(1), 5)
    found, notes = given(tmp_path, [pair] * 1000)
    assert [item[1]["value"] for item in found] == [5] * 1000
    assert notes == []


def test_many_small_objects_are_all_there(tmp_path: Path) -> None:
    found, notes = given(tmp_path, [Node(torch.full((1,), float(number))) for number in range(20_000)])
    assert [item["value"]["Max"] for item in found] == list(range(20_000))
    assert notes == []


class Lazy(Mapping[str, torch.Tensor]):
    """Draws its values when they are asked for."""

    def __getitem__(self, key: str) -> torch.Tensor:
        return torch.rand(2)

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


class Output(OrderedDict[str, Any]):
    """As those of transformers: a dictionary that can be asked by number, too."""

    def __getitem__(self, key: Any) -> Any:
        torch.rand(1)
        return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)


@dataclass
class Computing:
    """One of its fields is computed."""

    given: torch.Tensor
    computed: Any = field(init=False)


Computing.computed = property(lambda self: torch.rand(2))  # type: ignore[assignment]


@dataclass
class Slotted:
    __slots__ = ("missing", "x")
    x: torch.Tensor
    missing: Any


class Number(float):
    """Computes itself."""

    def __float__(self) -> float:
        torch.rand(1)
        return 0.0


class State:
    """A tensor in an attribute, and code that runs for those that are not there."""

    def __init__(self) -> None:
        self.h = torch.ones(2)

    def __getattr__(self, name: str) -> Any:
        torch.rand(1)
        raise AttributeError(name)


Pair = namedtuple("Pair", "first second")


def unset() -> Slotted:
    value = Slotted(torch.ones(2), None)
    del value.missing
    return value


READ: dict[str, tuple[Any, list[str]]] = {
    "an ordered dictionary": (lambda: OrderedDict(b=torch.ones(2), a=1), ["b", "a"]),
    "an output": (lambda: Output(logits=torch.ones(2), loss=1.0), ["logits", "loss"]),
    "a user dictionary": (lambda: UserDict(x=torch.ones(2)), ["x"]),
    "a tuple with names": (lambda: Pair(torch.ones(2), 2), ["first", "second"]),
    "a computed field": (lambda: Computing(torch.ones(2)), ["given"]),
    "slots": (unset, ["x"]),
    "an object": (State, ["h"]),
}


@pytest.mark.parametrize("kind", READ)
def test_what_lies_in_a_value_is_read_and_nothing_is_computed(tmp_path: Path, kind: str) -> None:
    make, names = READ[kind]
    value = make()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    found, notes = given(tmp_path, value)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(found) == names
    assert next(item for item in found.values() if item["type"] == "torch.Tensor")["Max"] == 1.0
    assert notes == []


def test_an_ordered_dictionary_that_was_put_in_another_order(tmp_path: Path) -> None:
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert list(given(tmp_path, value)[0]) == ["b", "a"]


@pytest.mark.parametrize("make", [Lazy, lambda: {torch.ones(2)}])
def test_what_is_not_looked_into_is_noted(tmp_path: Path, make: Any) -> None:
    value = make()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    found, notes = given(tmp_path, value)
    assert torch.equal(torch.get_rng_state(), before)
    assert found is None
    kind = type(value)
    note = f"{kind.__module__}.{kind.__qualname__} is not looked into: tensors in it are not recorded"
    assert notes == [note]


def test_a_number_of_a_class_of_its_own(tmp_path: Path) -> None:
    assert given(tmp_path, Number(2.5)) == ({"type": "float", "value": 2.5}, [])


@pytest.mark.parametrize("value", [print, torch.nn.ReLU(), torch.Generator(), b"x", 1j, range(3), int])
def test_what_holds_no_tensors_is_not_noted(tmp_path: Path, value: Any) -> None:
    assert given(tmp_path, value) == (None, [])


UNSHOWN: dict[str, Any] = {
    "from_numpy": lambda: torch.from_numpy(numpy.ones(2, dtype=numpy.float32)),
    "frombuffer": lambda: torch.frombuffer(bytearray(8), dtype=torch.float32),
    "from_dlpack": lambda: torch.from_dlpack(numpy.ones(2, dtype=numpy.float32)),
    "Tensor": lambda: torch.Tensor([1.0, 2.0]),
    "FloatTensor": lambda: torch.FloatTensor([1.0, 2.0]),
    "Parameter": lambda: torch.nn.Parameter(GIVEN),
}

GIVEN = torch.ones(2)


@pytest.mark.parametrize("name", UNSHOWN)
def test_constructors_of_tensors_that_no_mode_sees(tmp_path: Path, name: str) -> None:
    """As docs/capture.md says: if torch shows one, that page has to change."""
    captured = capture_of(tmp_path, lambda: torch.sin(UNSHOWN[name]()))
    assert list(captured.calls) == ["Torch.sin.0.forward"]
    source = captured.calls["Torch.sin.0.forward"]["input_args"][0]["source"]
    assert source == ("parameter" if name == "Parameter" else "outside")
