"""Patterns over call names and module paths: which calls are recorded.

    layers.*.mlp          a glob: * and ? stay within one part of the name, ** goes over dots
    re:Functional\\.(linear|bmm)\\.   a regular expression, found anywhere in the name
    Functional.linear     neither: the whole name

A call name may be given without its number and direction: ``Functional.linear`` is every call of it,
``Functional.linear.3`` one. Parts of a glob in brackets are sets of characters: ``layers.[0-3]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

REGULAR_EXPRESSION = "re:"

# What may follow the name of a function or module in the name of its call: ``.3.forward``, ``.forward.3``.
_ANY_CALL = r"(?:\.\d+|\.forward)*"

_TOKEN = re.compile(r"\*\*\.|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


class Patterns:
    """Patterns of one setting. A name matches if one of them does; matched patterns are remembered."""

    def __init__(self, patterns: Iterable[str], suffix: str = "") -> None:
        self._tests = [(pattern, compiled(pattern, suffix)) for pattern in patterns]
        self._matched: set[str] = set()
        self.was_asked = False

    def __bool__(self) -> bool:
        return bool(self._tests)

    @classmethod
    def of_calls(cls, patterns: Iterable[str]) -> Patterns:
        """Patterns over names of calls, whose number and direction may be left out."""
        return cls(patterns, _ANY_CALL)

    def matches(self, name: str) -> bool:
        """Whether one of the patterns matches."""
        self.was_asked = True
        found = [pattern for pattern, test in self._tests if test.search(name)]
        self._matched.update(found)
        return bool(found)

    def unmatched(self) -> list[str]:
        """The patterns that have matched nothing, if there were names to match."""
        if not self.was_asked:
            return []
        return [pattern for pattern, _ in self._tests if pattern not in self._matched]

    def forget(self) -> None:
        """Forgets what has matched."""
        self._matched.clear()
        self.was_asked = False


def compiled(pattern: str, suffix: str = "") -> re.Pattern[str]:
    """The pattern as a regular expression to search for; raises ``re.error`` if it is invalid."""
    if pattern.startswith(REGULAR_EXPRESSION):
        return re.compile(pattern.removeprefix(REGULAR_EXPRESSION))
    parts = "".join(_as_expression(token) for token in _TOKEN.findall(pattern))
    return re.compile(rf"\A{parts}{suffix}\Z")


def _as_expression(token: str) -> str:
    if token == "**.":
        # Also matches no part at all: **.mlp is every mlp, including an outermost one.
        return r"(?:.*\.)?"
    if token == "**":
        return ".*"
    if token == "*":
        return r"[^.]*"
    if token == "?":
        return r"[^.]"
    if len(token) > 2:
        inside = token[1:-1].replace("\\", r"\\")
        return f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]"
    return re.escape(token)
