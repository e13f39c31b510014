"""Patterns over call names and module paths: which calls are recorded.

    layers.*.mlp          a glob: * and ? stay within one part of the name, ** goes over dots
    *linear*              over call names, without a dot: * goes over dots too
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

    def __init__(self, patterns: Iterable[str], of_calls: bool = False) -> None:
        """``of_calls``: they are patterns over names of calls, whose number and direction may be left out."""
        self._of_calls = of_calls
        self._tests = [(pattern, compiled(pattern, of_calls)) for pattern in patterns]
        self._matched: set[str] = set()
        # A glob is found in the middle of some names: the first of them shows the user what to write.
        globs = [pattern for pattern, _ in self._tests if not pattern.startswith(REGULAR_EXPRESSION)]
        self._within = {pattern: re.compile(_expression(pattern, goes_over_dots=True)) for pattern in globs}
        self._near: dict[str, str] = {}
        self.was_asked = False

    def __bool__(self) -> bool:
        return bool(self._tests)

    def matches(self, name: str) -> bool:
        """Whether one of the patterns matches."""
        self.was_asked = True
        found = [pattern for pattern, test in self._tests if test.search(name)]
        self._matched.update(found)
        if len(self._matched) + len(self._near) < len(self._tests):
            self._look_within(name)
        return bool(found)

    def _look_within(self, name: str) -> None:
        for pattern, within in self._within.items():
            if pattern not in self._matched and pattern not in self._near and within.search(name):
                self._near[pattern] = name

    def unmatched(self) -> list[str]:
        """The patterns that have matched nothing, if there were names to match."""
        if not self.was_asked:
            return []
        return [pattern for pattern, _ in self._tests if pattern not in self._matched]

    def hint(self, pattern: str) -> str:
        """What to write instead of a pattern that matched nothing; empty if no name is near it."""
        name = self._near.get(pattern)
        if name is None:
            return ""
        any_text = "*" if _goes_over_dots(pattern, self._of_calls) else "**"
        wider = re.sub(r"\*+", any_text, f"*{pattern}*")
        reason = " * stops at dots:" if "*" in pattern else ""
        return f";{reason} {wider!r} matches {name}"

    def forget(self) -> None:
        """Forgets what has matched."""
        self._matched.clear()
        self._near.clear()
        self.was_asked = False


def compiled(pattern: str, of_calls: bool = False) -> re.Pattern[str]:
    """The pattern as a regular expression to search for; raises ``re.error`` if it is invalid."""
    if pattern.startswith(REGULAR_EXPRESSION):
        return re.compile(pattern.removeprefix(REGULAR_EXPRESSION))
    parts = _expression(pattern, _goes_over_dots(pattern, of_calls))
    return re.compile(rf"\A{parts}{_ANY_CALL if of_calls else ''}\Z")


def _goes_over_dots(pattern: str, of_calls: bool) -> bool:
    # Every name of a call has dots: a pattern without one would match none.
    return of_calls and "." not in pattern


def _expression(pattern: str, goes_over_dots: bool) -> str:
    tokens = _TOKEN.findall(pattern)
    return "".join(_as_expression("**" if goes_over_dots and token == "*" else token) for token in tokens)


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
