"""Tensors in the attributes of objects: caches of keys and values, and what else a model may be handed."""

from __future__ import annotations

import argparse
import enum
import logging
import threading
import tracemalloc
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ulpscope
from captured import Captured

TRUNCATED = (
    "an object with too many values, or too deep ones, was truncated: tensors further in are not recorded"
)


class Layer:
    """As a layer of a DynamicCache."""

    def __init__(self) -> None:
        self.values: Tensor | None = None
        self.keys: Tensor | None = None
        self.is_initialized = False

    def update(self, keys: Tensor, values: Tensor) -> None:
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], dim=-2)
        self.values = values if self.values is None else torch.cat([self.values, values], dim=-2)
        self.is_initialized = True


class Cache:
    """As a DynamicCache: layers come as they are used; it is iterable, and computes what it is asked for."""

    def __init__(self) -> None:
        self.layers: list[Layer] = []
        self.offloading = False

    def __iter__(self) -> Iterator[Any]:
        torch.rand(1)
        return iter([(layer.keys, layer.values) for layer in self.layers])

    def __len__(self) -> int:
        return len(self.layers)

    @property
    def longest(self) -> Tensor:
        return torch.rand(1)


class Pair:
    """As an EncoderDecoderCache."""

    def __init__(self) -> None:
        self.self_attention_cache, self.cross_attention_cache = Cache(), Cache()
        self.is_updated: dict[int, bool] = {}


class Block(nn.Module):
    """Adds its input to the cache, and returns both."""

    def forward(self, x: Tensor, past_key_values: Any = None, scale: Tensor | None = None) -> Any:
        y = x * 2 if scale is None else x * scale
        if past_key_values is not None:
            past_key_values.layers.append(Layer())
            past_key_values.layers[-1].update(x.detach() + 1, x.detach() + 2)
        return {"logits": y, "past_key_values": past_key_values}


def call_of(folder: Path, level: str, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], Captured]:
    model = nn.ModuleList([Block()])
    with ulpscope.capture(folder, model=model, level=level, task="tensor", strict=True):
        model[0](*args, **kwargs)
    captured = Captured(folder)
    return captured.calls["Module.0.Block.forward.0"], captured


def maxima(value: Any) -> Any:
    """The largest element of each tensor, in the place of what describes it."""
    if isinstance(value, dict):
        return value["Max"] if "Max" in value else {key: maxima(held) for key, held in value.items()}
    return [maxima(held) for held in value] if isinstance(value, list) else value


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_cache_is_recorded_as_it_is_before_and_after(tmp_path: Path, level: str) -> None:
    cache = Cache()
    cache.layers.append(Layer())
    cache.layers[0].update(torch.zeros(1, 2), torch.full((1, 2), 5.0))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    call, captured = call_of(tmp_path, level, torch.ones(1, 2), past_key_values=cache)
    assert torch.equal(torch.get_rng_state(), before)
    given = {"layers": [{"keys": 0.0, "values": 5.0}]}
    assert maxima(call["input_kwargs"]) == {"past_key_values": given}
    added = {"layers": [{"keys": 0.0, "values": 5.0}, {"keys": 2.0, "values": 3.0}]}
    assert maxima(call["output"]) == [{"logits": 2.0, "past_key_values": added}]
    # In alphabetical order, whichever was set first.
    assert list(call["output"][0]["past_key_values"]["layers"][1]) == ["keys", "values"]
    keys = call["output"][0]["past_key_values"]["layers"][1]["keys"]
    name = "Module.0.Block.forward.0.output.0.past_key_values.layers.1.keys"
    # The elements may have the name of an equal tensor.
    assert keys.get("data_key", name) in captured.saved_names()
    assert captured.ledger["notes"] == []
    assert torch.equal(captured.tensor(keys), torch.full((1, 2), 2.0))


def test_a_cache_that_is_still_empty_is_nothing_to_speak_of(tmp_path: Path) -> None:
    call, captured = call_of(tmp_path, "L0", torch.ones(1, 2), past_key_values=Cache())
    assert call["input_kwargs"] == {"past_key_values": None}
    assert captured.ledger["notes"] == []


class Taking(nn.Module):
    def forward(self, x: Tensor, anything: Any, y: Tensor | None = None) -> Tensor:
        return x * 2 if y is None else x * y


def given(folder: Path, value: Any) -> tuple[Any, list[str]]:
    model = nn.ModuleList([Taking()])
    with ulpscope.capture(folder, model=model, level="L0", strict=True):
        model[0](torch.ones(2), value)
    captured = Captured(folder)
    found = captured.calls["Module.0.Taking.forward.0"]["input_args"][1]
    return maxima(found), captured.ledger["notes"]


class Slots:
    __slots__ = ("__weakref__", "_hidden", "unset", "x")

    def __init__(self) -> None:
        self.x, self._hidden = torch.ones(1), [1, torch.full((1,), 2.0)]


class MoreSlots(Slots):
    __slots__ = ("y",)

    def __init__(self) -> None:
        super().__init__()
        self.y = {"b": torch.full((1,), 3.0)}


class Rude:
    """Everything that can be asked of it runs code."""

    def __init__(self) -> None:
        object.__setattr__(self, "x", torch.ones(1))

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __bool__(self) -> bool:
        raise RuntimeError


class Color(enum.Enum):
    RED = 1


def keyed() -> types.SimpleNamespace:
    keys: list[Any] = [1, "1", Color.RED, (1, 2), object(), 10**5000]
    return types.SimpleNamespace(x={key: torch.ones(1) for key in keys})


def config() -> types.SimpleNamespace:
    """Settings, and what an object needs to work, but no tensor."""
    return types.SimpleNamespace(
        size=3,
        names={"a", "b"},
        log=logging.getLogger("x"),
        lock=threading.Lock(),
        path=Path("x"),
        act=torch.relu,
        layer=nn.Linear(2, 2),
        kind=Color.RED,
        dtype=torch.float32,
        generator=torch.Generator(),
        rate=np.float32(0.5),
        array=np.ones(3),
        random=np.random.default_rng(0),
        functions={torch.relu, Path("x")},
        format=torch.channels_last,
        operation=torch.distributed.ReduceOp.SUM,
        store=torch.distributed.HashStore(),
    )


@dataclass
class Holder:
    cache: Any


def filled() -> Cache:
    cache = Cache()
    cache.layers = [Layer(), Layer()]
    cache.layers[1].update(torch.ones(1, 1), torch.ones(1, 1))
    return cache


def pair() -> Pair:
    value = Pair()
    value.self_attention_cache, value.is_updated = filled(), {0: True}
    return value


ONE = {"layers": [None, {"keys": 1.0, "values": 1.0}]}

OBJECTS: dict[str, tuple[Any, Any]] = {
    "layers without tensors": (filled, ONE),
    "two caches": (pair, {"self_attention_cache": ONE}),
    "a cache in a dataclass": (lambda: Holder(filled()), {"cache": ONE}),
    "slots": (MoreSlots, {"_hidden": [None, 2.0], "x": 1.0, "y": {"b": 3.0}}),
    "an object that runs code": (Rude, {"x": 1.0}),
    "a namespace": (lambda: argparse.Namespace(b=torch.ones(1), a=2), {"b": 1.0}),
    "a queue": (lambda: deque([3, torch.ones(1)]), [None, 1.0]),
    "keys of all kinds": (
        keyed,
        {"x": {"1": 1.0, "1~1": 1.0, "Color.RED": 1.0, "tuple~0": 1.0, "object~1": 1.0, "int~2": 1.0}},
    ),
    "no tensors": (config, None),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_attributes_that_lead_to_tensors(tmp_path: Path, kind: str) -> None:
    make, expected = OBJECTS[kind]
    assert given(tmp_path, make()) == (expected, [])


def test_objects_that_refer_to_each_other(tmp_path: Path) -> None:
    first, second = types.SimpleNamespace(x=torch.ones(1)), types.SimpleNamespace(x=torch.zeros(1))
    first.other, second.other = second, first
    assert given(tmp_path, first) == ({"other": {"x": 0.0}, "x": 1.0}, [])


def test_objects_without_end_are_cut_off_and_that_is_noted(tmp_path: Path) -> None:
    chain = types.SimpleNamespace(x=torch.ones(1))
    for _ in range(1000):
        chain = types.SimpleNamespace(inner=chain, x=torch.ones(1))
    found, notes = given(tmp_path / "deep", chain)
    depth = 0
    while "inner" in found:
        found, depth = found["inner"], depth + 1
    assert (depth, notes) == (63, [TRUNCATED])
    wide: Any = types.SimpleNamespace(x=torch.ones(1))
    for _ in range(40):
        wide = types.SimpleNamespace(a=wide, b=wide)
    found, notes = given(tmp_path / "wide", wide)
    assert notes == [TRUNCATED]


class RudeText(str):
    """A text that runs code, except while it is put into a dictionary."""

    __slots__ = ()

    is_rude = False

    def __hash__(self) -> int:
        if RudeText.is_rude:
            raise RuntimeError
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __str__(self) -> str:
        raise RuntimeError


class RudeColor(RudeText, enum.Enum):
    BLUE = "blue"


class RudeKind(type):
    def __hash__(cls) -> int:
        raise RuntimeError

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError


class OfRudeKind(metaclass=RudeKind):
    def __init__(self) -> None:
        self.x = torch.ones(1)


def test_no_code_of_keys_and_classes_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = {RudeText("red"): torch.ones(1), RudeColor.BLUE: torch.ones(1), "inner": OfRudeKind()}
    monkeypatch.setattr(RudeText, "is_rude", True)
    expected = {"held": {"RudeText~0": 1.0, "RudeColor.BLUE": 1.0, "inner": {"x": 1.0}}}
    assert given(tmp_path, types.SimpleNamespace(held=held)) == (expected, [])


@pytest.mark.parametrize("value", [threading.Lock(), np.random.default_rng(0), Path("x")], ids=type)
def test_an_argument_without_tensors_is_not_noted(tmp_path: Path, value: Any) -> None:
    assert given(tmp_path, value) == (None, [])


MANY: dict[str, Any] = {
    "a list": lambda: list(range(200_000)),
    "a queue": lambda: deque(range(200_000)),
    "a set": lambda: set(range(200_000)),
    "a dictionary": lambda: {str(number): number for number in range(200_000)},
    "lists": lambda: [list(range(1000)) for _ in range(200)],
}


@pytest.mark.parametrize("kind", MANY)
def test_many_plain_values_are_cut_off_and_that_is_noted(tmp_path: Path, kind: str) -> None:
    value = types.SimpleNamespace(a=torch.ones(1), many=MANY[kind](), x=torch.ones(1))
    assert given(tmp_path, value) == ({"a": 1.0}, [TRUNCATED])


def test_a_large_list_is_not_copied(tmp_path: Path) -> None:
    many = types.SimpleNamespace(many=[0] * 20_000_000)
    tracemalloc.start()
    try:
        assert given(tmp_path, many) == (None, [TRUNCATED])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A copy takes 160 MB.
    assert peak < 16 << 20


def test_what_cannot_be_looked_into_is_noted(tmp_path: Path) -> None:
    value = types.SimpleNamespace(x=torch.ones(1), found={torch.ones(1)})
    note = "builtins.set is not looked into: tensors in it are not recorded"
    assert given(tmp_path, value) == ({"x": 1.0}, [note])


def test_gradients_keep_their_numbers(tmp_path: Path) -> None:
    """They are identified by the order of the tensors, among which the older tool has none of an object's."""
    x, y = (torch.full((2,), value, requires_grad=True) for value in (3.0, 5.0))
    cache = types.SimpleNamespace(keys=torch.ones(2, requires_grad=True) * 7)
    model = nn.ModuleList([Taking()])
    with ulpscope.capture(tmp_path, model=model, level="L0", strict=True):
        model[0](x, cache, y).sum().backward()
    backward = Captured(tmp_path).calls["Module.0.Taking.backward.0"]
    assert [item["Max"] for item in backward["output"]] == [5.0, 3.0]


def test_two_runs_have_the_same_names(tmp_path: Path) -> None:
    def dump(folder: Path) -> list[str]:
        value = pair()
        value.extra = keyed()  # type: ignore[attr-defined]
        model = nn.ModuleList([Taking()])
        with ulpscope.capture(folder, model=model, level="mix", task="tensor"):
            model[0](torch.ones(2), value)
        return sorted(Captured(folder).saved_names())

    assert dump(tmp_path / "a") == dump(tmp_path / "b")
    assert ulpscope.compare(tmp_path / "a", tmp_path / "b").ok
