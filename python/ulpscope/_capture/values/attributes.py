"""Tensors in the attributes of objects, such as the key-value caches of language models.

Only tensors in an object are looked for: its other attributes are settings, and there may be hundreds. Only
``__dict__`` and ``__slots__`` are read. No property, method or operator of the program is called, neither on
values nor on keys, so nothing is computed, drawn or loaded. Names are those of the attributes, in
alphabetical order. They do not depend on addresses or on the order in which attributes were set:
``layers.0.keys``.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import inspect
import sys
import types
import weakref
from collections import UserDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from ulpscope._capture.values.without_tensors import has, holds_no_tensors

# The largest number of values visited for one object, and the largest depth.
_MAX_VALUES = 1 << 16
_MAX_DEPTH = 64

_CUT_OFF = (
    "an object with too many values, or too deep ones, was truncated: tensors further in are not recorded"
)

_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)

# Classes of the standard library that are meant to be given attributes.
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)

# Keys of exactly these classes (not subclasses) have the same text in every run.
_KEYS = (str, int, bool, float, type(None), torch.dtype, torch.device)

# Longer numbers are not readable as names, and Python refuses to print the longest.
_MAX_KEY_BITS = 128


class _Sort(enum.Enum):
    TENSOR = enum.auto()
    NOTHING = enum.auto()
    # An object of the standard library without data of the program: a logger, a lock, a path.
    STANDARD = enum.auto()
    LIST = enum.auto()
    SET = enum.auto()
    DICT = enum.auto()
    USER_DICT = enum.auto()
    OBJECT = enum.auto()


@dataclass(frozen=True)
class _Class:
    """Facts about a class, shared by all its values."""

    sort: _Sort
    # Its slots, with the names of their attributes.
    slots: list[tuple[str, Any]]
    # Reads the dictionary of an instance.
    instance_dict: Any
    # Removes the entry together with the class.
    reference: weakref.ref[type]

    @property
    def is_plain(self) -> bool:
        """Whether it is not searched."""
        return self.sort is _Sort.NOTHING or self.sort is _Sort.STANDARD


# By the addresses of the classes: their hash may be code of the program.
_classes: dict[int, _Class] = {}


class Attributes:
    """One search of an object."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._left = _MAX_VALUES
        # The objects and containers on the current path: references back to them are skipped.
        self._around: set[int] = set()

    def of(self, value: Any) -> dict[Any, Any] | list[Any] | None:
        """The parts of an object that contain tensors; None if there are none."""
        found: dict[Any, Any] | list[Any] | None = self._container(value)
        return found

    def _within(self, value: Any, look: Any) -> Any:
        if id(value) in self._around:
            return None
        if len(self._around) >= _MAX_DEPTH:
            self._note(_CUT_OFF)
            return None
        self._around.add(id(value))
        try:
            return look(value)
        finally:
            self._around.discard(id(value))

    def _object(self, value: Any) -> dict[str, Any] | None:
        kind = type(value)
        attributes = _attributes(value)
        if attributes is None:
            if _class(kind).sort is not _Sort.STANDARD:
                self.note_unknown(kind)
            return None
        found = self._values((name, attributes[name]) for name in sorted(attributes))
        if not found and _computes_items(kind) and not any(map(_is_container, attributes.values())):
            self.note_unknown(kind)
        return found

    def _values(self, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
        found = {}
        for name, value in pairs:
            tensors = self._value(value)
            if tensors is not None:
                found[name] = tensors
            if self._left < 0:
                break
        return found or None

    def _list(self, value: Any) -> list[Any] | None:
        base: Any = next(base for base in _LISTS if issubclass(type(value), base))
        items = self._affordable(base.__iter__(value))
        if self._pay_plain(items):
            return None
        found = []
        for item in items:
            found.append(self._value(item))
            if self._left < 0:
                break
        # Other items become None, so that a tensor keeps its index in the list.
        return found if any(item is not None for item in found) else None

    def _dict(self, value: Any) -> dict[str, Any] | None:
        if self._pay_plain(self._affordable(dict.values(value))):
            return None
        return self._values(_named(self._affordable(dict.items(value))))

    def _set(self, value: Any) -> None:
        """Tensors in a set have no order, hence no names."""
        base: Any = next(base for base in _SETS if issubclass(type(value), base))
        if not self._pay_plain(self._affordable(base.__iter__(value))):
            self.note_unknown(type(value))

    def _affordable(self, items: Iterable[Any]) -> list[Any]:
        """The items within the limit, and one more, which shows that there are too many.

        Copied in one step, since another thread may change the container.
        """
        return list(islice(items, max(self._left, 0) + 1))

    def _pay_plain(self, items: list[Any]) -> bool:
        """Counts items together if none can hold tensors, as in a vocabulary; returns whether it did."""
        kinds = list(map(type, items))
        distinct = dict(zip(map(id, kinds), kinds, strict=True)).values()
        if not all(_class(kind).is_plain for kind in distinct):
            return False
        self._pay(len(items))
        return True

    def _pay(self, values: int) -> bool:
        """Counts values; returns whether they are within the limit."""
        self._left -= values
        if self._left < 0:
            self._note(_CUT_OFF)
        return self._left >= 0

    def _value(self, value: Any) -> Any:
        """A tensor, or the tensors in a value; None if there are none."""
        if not self._pay(1):
            return None
        known = _class(type(value))
        if known.is_plain:
            return None
        if known.sort is _Sort.TENSOR:
            return value
        return self._container(value)

    def _container(self, value: Any) -> Any:
        match _class(type(value)).sort:
            case _Sort.LIST:
                return self._within(value, self._list)
            case _Sort.SET:
                return self._set(value)
            case _Sort.DICT:
                return self._within(value, self._dict)
            case _Sort.USER_DICT:
                data = (_attributes(value) or {}).get("data")
                return self._within(data, self._dict) if issubclass(type(data), dict) else None
            case _:
                return self._within(value, self._object)

    def note_unknown(self, kind: type) -> None:
        """Notes that an object may hold tensors that were not found."""
        self._note(
            f"{kind.__module__}.{kind.__qualname__} is not looked into: tensors in it are not recorded"
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _is_container(value: Any) -> bool:
    """Whether a value can have items, even if it is empty now, such as a new cache."""
    return issubclass(type(value), (*_LISTS, dict))


def _computes_items(kind: type) -> bool:
    """Whether its items may be computed only on access."""
    return has(kind, "__iter__") or has(kind, "__getitem__")


def _attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object; None if it cannot have any."""
    known = _class(type(value))
    if not known.slots and known.instance_dict is None:
        return None
    found: dict[str, Any] = {}
    for name, slot in known.slots:
        # A slot without a value is skipped.
        with contextlib.suppress(AttributeError):
            found[name] = slot.__get__(value)
    own = known.instance_dict.__get__(value) if known.instance_dict is not None else None
    if type(own) is dict:
        # Another thread may add to it.
        found.update((name, held) for name, held in own.copy().items() if type(name) is str)
    return found


def _class(kind: type) -> _Class:
    known = _classes.get(id(kind))
    if known is None:
        address = id(kind)
        reference = weakref.ref(kind, lambda _: _classes.pop(address, None))
        known = _classes[address] = _Class(_sort(kind), *_layout(kind), reference)
    return known


def _sort(kind: type) -> _Sort:
    if issubclass(kind, torch.Tensor):
        return _Sort.TENSOR
    if holds_no_tensors(kind):
        return _Sort.NOTHING
    if issubclass(kind, _LISTS):
        return _Sort.LIST
    if issubclass(kind, _SETS):
        return _Sort.SET
    if issubclass(kind, dict):
        return _Sort.DICT
    # As an abstract class it would hash the class.
    if any(base is UserDict for base in kind.__mro__):
        return _Sort.USER_DICT
    root = str(kind.__module__).partition(".")[0]
    is_standard = root in sys.stdlib_module_names and kind not in _NAMESPACES
    return _Sort.STANDARD if is_standard and not _computes_items(kind) else _Sort.OBJECT


def _layout(kind: type) -> tuple[list[tuple[str, Any]], Any]:
    members = [pair for base in reversed(kind.__mro__) for pair in vars(base).items()]
    slots = [
        (name, member)
        for name, member in members
        if inspect.ismemberdescriptor(member) and name != "__dict__"
    ]
    of_instance = [vars(base).get("__dict__") for base in kind.__mro__]
    # In C classes it may be a member; a property of the program would run code.
    dicts = [
        found
        for found in of_instance
        if inspect.isgetsetdescriptor(found) or inspect.ismemberdescriptor(found)
    ]
    return slots, (dicts[0] if dicts else None)


def _named(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """The items of a dictionary, each with a unique name that is the same in every run."""
    taken: set[str] = set()
    others = 0
    for key, value in pairs:
        name = _name(key)
        if name is None:
            name = f"{type(key).__name__}~{others}"
            others += 1
        # The keys 1 and "1" have the same text.
        same = 0
        distinct = name
        while distinct in taken:
            same += 1
            distinct = f"{name}~{same}"
        taken.add(distinct)
        yield distinct, value


def _name(key: Any) -> str | None:
    """The text of a key, if it is available without code of the program."""
    kind = type(key)
    if kind is str:
        return str(key)
    if kind is int and key.bit_length() > _MAX_KEY_BITS:
        return None
    if any(kind is known for known in _KEYS):
        return str(key)
    if issubclass(kind, enum.Enum):
        member = (_attributes(key) or {}).get("_name_")
        return f"{kind.__name__}.{member}" if type(member) is str else None
    return None
