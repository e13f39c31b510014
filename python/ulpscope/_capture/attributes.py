"""Tensors in the attributes of objects, such as the key-value caches of language models.

An object is looked into for its tensors alone: its other attributes are settings, and there may be hundreds.
What lies in ``__dict__`` and ``__slots__`` is read there. No property, method or operator of the program is
called, so looking computes, draws and loads nothing. Names are those of the attributes, in alphabetical
order, and say nothing of addresses or of the order in which attributes were set: ``layers.0.keys``.
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
from typing import Any

import torch

# Values that are looked at for the tensors of one object, and how deep they may lie within each other.
_MAX_VALUES = 1 << 16
_MAX_DEPTH = 64

_CUT_OFF = (
    "an object with too many values, or too deep ones, was truncated: tensors further in are not recorded"
)

# Values that hold nothing else.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device, torch.Size)

_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)

# Classes of the standard library that are made to be given attributes.
_NAMESPACES = (types.SimpleNamespace, argparse.Namespace)

# Keys that read the same in every run.
_KEYS = (type(None), bool, int, float, str, enum.Enum, torch.dtype, torch.device)

# The slots of classes, with the names of their attributes; and by what the dictionary of an instance is read.
_layouts: weakref.WeakKeyDictionary[type, tuple[list[tuple[str, Any]], Any]] = weakref.WeakKeyDictionary()


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
        attributes = _attributes(value)
        if attributes is None:
            self.note_unknown(type(value))
            return None
        found = self._values((name, attributes[name]) for name in sorted(attributes))
        if not found and _computes_items(type(value)) and not any(map(_is_container, attributes.values())):
            self.note_unknown(type(value))
        return found

    def _values(self, pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any] | None:
        found = {}
        for key, value in pairs:
            tensors = self._value(value)
            if tensors is not None:
                found[key] = tensors
        return found or None

    def _list(self, value: Any) -> list[Any] | None:
        base: Any = next(base for base in _LISTS if issubclass(type(value), base))
        found = [self._value(item) for item in list(base.__iter__(value))]
        # Others stay at their places as nothing, so that a tensor is numbered as in the list.
        return found if any(item is not None for item in found) else None

    def _dict(self, value: Any) -> dict[Any, Any] | None:
        return self._values(_stable_keys(dict.items(value)))

    def _set(self, value: Any) -> None:
        """Tensors in a set have no order that would name them."""
        base: Any = next(base for base in _SETS if issubclass(type(value), base))
        if any(not issubclass(type(item), _PLAIN) for item in list(base.__iter__(value))):
            self.note_unknown(type(value))

    def _value(self, value: Any) -> Any:
        """A tensor, or the tensors that lie in a value; nothing where there are none."""
        kind = type(value)
        if issubclass(kind, torch.Tensor):
            return value
        if issubclass(kind, _PLAIN) or _is_of_no_interest(kind):
            return None
        self._left -= 1
        if self._left < 0:
            self._note(_CUT_OFF)
            return None
        return self._container(value)

    def _container(self, value: Any) -> Any:
        kind = type(value)
        if issubclass(kind, _LISTS):
            return self._within(value, self._list)
        if issubclass(kind, _SETS):
            return self._set(value)
        if issubclass(kind, dict):
            return self._within(value, self._dict)
        if issubclass(kind, UserDict):
            data = (_attributes(value) or {}).get("data")
            return self._within(data, self._dict) if issubclass(type(data), dict) else None
        return self._within(value, self._object)

    def note_unknown(self, kind: type) -> None:
        """Notes that an object may hold tensors which are not seen."""
        self._note(
            f"{kind.__module__}.{kind.__qualname__} is not looked into: tensors in it are not recorded"
        )

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _is_of_no_interest(kind: type) -> bool:
    """Functions, classes, modules of Python and of models (whose tensors are recorded with these), and what
    the standard library has that holds nothing of the program's: loggers, locks, paths."""
    if _has(kind, "__call__") or issubclass(kind, types.ModuleType):
        return True
    root = str(kind.__module__).partition(".")[0]
    is_standard = root in sys.stdlib_module_names and kind not in _NAMESPACES
    return is_standard and not _computes_items(kind)


def _is_container(value: Any) -> bool:
    """Whether items may lie in a value, if there are none now: those of a cache that is still empty."""
    return issubclass(type(value), (*_LISTS, dict))


def _computes_items(kind: type) -> bool:
    """Whether it has items that need not lie anywhere before they are asked for."""
    return _has(kind, "__iter__") or _has(kind, "__getitem__")


def _has(kind: type, name: str) -> bool:
    return any(name in vars(base) for base in kind.__mro__)


def _attributes(value: Any) -> dict[str, Any] | None:
    """What lies in the attributes of an object; nothing where it has no place for any."""
    slots, instance_dict = _layout(type(value))
    if not slots and instance_dict is None:
        return None
    found: dict[str, Any] = {}
    for name, slot in slots:
        # Without a value it is as if it were not there.
        with contextlib.suppress(AttributeError):
            found[name] = slot.__get__(value)
    own = instance_dict.__get__(value) if instance_dict is not None else None
    if type(own) is dict:
        # Another thread may add to it meanwhile.
        found.update((name, held) for name, held in own.copy().items() if type(name) is str)
    return found


def _layout(kind: type) -> tuple[list[tuple[str, Any]], Any]:
    layout = _layouts.get(kind)
    if layout is None:
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
        layout = _layouts[kind] = slots, (dicts[0] if dicts else None)
    return layout


def _stable_keys(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The items of a dictionary, where keys that would be told by their addresses have a name and number."""
    others = 0
    for key, value in list(pairs):
        if issubclass(type(key), _KEYS):
            yield key, value
        else:
            yield f"{type(key).__name__}~{others}", value
            others += 1
