"""Tensors in the attributes of objects, such as the key-value caches of language models.

An object is looked into for its tensors alone: its other attributes are settings, and there may be hundreds.
What lies in ``__dict__`` and ``__slots__`` is read there. No property, method or operator of the program is
called, neither of values nor of keys, so looking computes, draws and loads nothing. Names are those of the
attributes, in alphabetical order, and say nothing of addresses or of the order in which attributes were set:
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

# Values that are looked at for the tensors of one object, and how deep they may lie within each other.
_MAX_VALUES = 1 << 16
_MAX_DEPTH = 64

_CUT_OFF = (
    "an object with too many values, or too deep ones, was truncated: tensors further in are not recorded"
)

_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)

# Classes of the standard library that are made to be given attributes.
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)

# Keys of these classes, not of classes derived from them, read the same in every run.
_KEYS = (str, int, bool, float, type(None), torch.dtype, torch.device)

# Longer numbers make no readable name, and Python refuses to print the longest.
_MAX_KEY_BITS = 128


class _Sort(enum.Enum):
    TENSOR = enum.auto()
    NOTHING = enum.auto()
    # An object of the standard library that holds nothing of the program's: a logger, a lock, a path.
    STANDARD = enum.auto()
    LIST = enum.auto()
    SET = enum.auto()
    DICT = enum.auto()
    USER_DICT = enum.auto()
    OBJECT = enum.auto()


@dataclass(frozen=True)
class _Class:
    """What is known of a class, however many values are of it."""

    sort: _Sort
    # Its slots, with the names of their attributes.
    slots: list[tuple[str, Any]]
    # By what the dictionary of an instance is read.
    instance_dict: Any
    # Ends the entry together with the class.
    reference: weakref.ref[type]

    @property
    def is_plain(self) -> bool:
        """Whether nothing is looked for in it."""
        return self.sort is _Sort.NOTHING or self.sort is _Sort.STANDARD


# By the addresses of the classes: their own hash may be code of the program.
_classes: dict[int, _Class] = {}


class Attributes:
    """One look into an object."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._left = _MAX_VALUES
        # The objects and containers that the look is in: what refers back to one of them is there already.
        self._around: set[int] = set()

    def of(self, value: Any) -> dict[Any, Any] | list[Any] | None:
        """What of an object leads to tensors; nothing where nothing does."""
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
        # Others stay at their places as nothing, so that a tensor is numbered as in the list.
        return found if any(item is not None for item in found) else None

    def _dict(self, value: Any) -> dict[str, Any] | None:
        if self._pay_plain(self._affordable(dict.values(value))):
            return None
        return self._values(_named(self._affordable(dict.items(value))))

    def _set(self, value: Any) -> None:
        """Tensors in a set have no order that would name them."""
        base: Any = next(base for base in _SETS if issubclass(type(value), base))
        if not self._pay_plain(self._affordable(base.__iter__(value))):
            self.note_unknown(type(value))

    def _affordable(self, items: Iterable[Any]) -> list[Any]:
        """The items that may still be looked at, and one more, which shows that there are too many.

        Copied in one step, since another thread may change the container meanwhile.
        """
        return list(islice(items, max(self._left, 0) + 1))

    def _pay_plain(self, items: list[Any]) -> bool:
        """Counts items together if none can hold tensors, as in a vocabulary; tells whether it did."""
        kinds = list(map(type, items))
        distinct = dict(zip(map(id, kinds), kinds, strict=True)).values()
        if not all(_class(kind).is_plain for kind in distinct):
            return False
        self._pay(len(items))
        return True

    def _pay(self, values: int) -> bool:
        """Counts values; tells whether they may still be looked at."""
        self._left -= values
        if self._left < 0:
            self._note(_CUT_OFF)
        return self._left >= 0

    def _value(self, value: Any) -> Any:
        """A tensor, or the tensors that lie in a value; nothing where there are none."""
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
        """Notes that an object may hold tensors which are not seen."""
        self._note(
            f"{kind.__module__}.{kind.__qualname__} is not looked into: tensors in it are not recorded"
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _is_container(value: Any) -> bool:
    """Whether items may lie in a value, if there are none now: those of a cache that is still empty."""
    return issubclass(type(value), (*_LISTS, dict))


def _computes_items(kind: type) -> bool:
    """Whether it has items that need not lie anywhere before they are asked for."""
    return has(kind, "__iter__") or has(kind, "__getitem__")


def _attributes(value: Any) -> dict[str, Any] | None:
    """What lies in the attributes of an object; nothing where it has no place for any."""
    known = _class(type(value))
    if not known.slots and known.instance_dict is None:
        return None
    found: dict[str, Any] = {}
    for name, slot in known.slots:
        # Without a value it is as if it were not there.
        with contextlib.suppress(AttributeError):
            found[name] = slot.__get__(value)
    own = known.instance_dict.__get__(value) if known.instance_dict is not None else None
    if type(own) is dict:
        # Another thread may add to it meanwhile.
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
    # As an abstract class it would ask for the hash of the class.
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
    # Of classes in C it may be a member; a property of the program's would run code.
    dicts = [
        found
        for found in of_instance
        if inspect.isgetsetdescriptor(found) or inspect.ismemberdescriptor(found)
    ]
    return slots, (dicts[0] if dicts else None)


def _named(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """The items of a dictionary, each with a name of its own that is the same in every run."""
    taken: set[str] = set()
    others = 0
    for key, value in pairs:
        name = _name(key)
        if name is None:
            name = f"{type(key).__name__}~{others}"
            others += 1
        # The keys 1 and "1" read the same.
        same = 0
        distinct = name
        while distinct in taken:
            same += 1
            distinct = f"{name}~{same}"
        taken.add(distinct)
        yield distinct, value


def _name(key: Any) -> str | None:
    """How a key reads, if that can be told without code of the program."""
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
