"""Which units wait, where they may run, and where they failed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

# Units in a task.
MAX_UNITS = 256

# A unit that was lost so often is given up: it may be what kills its workers.
MAX_ATTEMPTS = 3


class Attempts:
    """The units that are not answered yet. Units that failed somewhere are tried elsewhere first."""

    def __init__(self, nodes: dict[int, list[str] | None]) -> None:
        # The nodes that can answer each unit; None: every node.
        self._nodes = dict(nodes)
        self._waiting = list(nodes)
        self._failures: dict[int, list[tuple[str, str]]] = {}
        self._gone: set[str] = set()

    @property
    def waiting(self) -> bool:
        """Whether a unit waits."""
        return bool(self._waiting)

    def next(
        self, room: dict[str, int], size: Callable[[int], int], limit: float
    ) -> tuple[list[int], str] | None:
        """The first unit that a node with room can answer, and the node with most room of these.

        ``room`` has every node, even if it has none. A unit that failed somewhere waits for the other nodes:
        where it failed, the node itself may be dying. Further units are added as long as all of them have no
        more than ``limit`` bytes. One that failed before is alone: it may be what kills its workers, and
        others would be lost with it.
        """
        for at, number in enumerate(self._waiting):
            nodes = self._nodes[number]
            failed = [node for node, _ in self._failures.get(number, ())]
            known = [name for name in room if nodes is None or name in nodes]
            fewest = min(map(failed.count, known), default=0)
            possible = [name for name in known if room[name] > 0 and failed.count(name) == fewest]
            if possible:
                # By name last, so that equal clusters get equal tasks.
                node = min(possible, key=lambda name: (-room[name], name))
                del self._waiting[at]
                more = [] if failed else self._more(node, at, size, limit - size(number))
                return [number, *more], node
        return None

    def _more(self, node: str, start: int, size: Callable[[int], int], room: float) -> list[int]:
        """Takes the next units that a node can answer, until one has no room."""
        more: list[int] = []
        for number in islice(self._waiting, start, start + MAX_UNITS - 1):
            nodes = self._nodes[number]
            if number in self._failures or not (nodes is None or node in nodes):
                continue
            room -= size(number)
            if room < 0:
                break
            more.append(number)
        taken = set(more)
        if taken:
            self._waiting = [number for number in self._waiting if number not in taken]
        return more

    def failed(self, number: int, node: str, why: str) -> bool:
        """Notes a failure; returns whether the unit is tried again."""
        failures = self._failures.setdefault(number, [])
        failures.append((node, why))
        if len(failures) >= MAX_ATTEMPTS or not self._is_possible(number):
            return False
        self._waiting.append(number)
        return True

    def done(self, number: int) -> None:
        """A unit was answered."""
        self._failures.pop(number, None)

    def forget(self, node: str) -> None:
        """A node is gone."""
        self._gone.add(node)

    def drain(self) -> list[int]:
        """The units that no node is left for."""
        left, self._waiting = self._waiting, []
        return left

    def reason(self, number: int) -> str:
        """Why a unit is given up."""
        failures = self._failures.get(number, [])
        said = "; ".join(f"on node {node}: {why}" for node, why in failures)
        nodes = self._nodes[number]
        if not self._is_possible(number):
            where = "every node" if nodes is None else f"node {', '.join(nodes)}"
            said = f"{where}, which has it, is gone" + (f" ({said})" if said else "")
            return f"not compared: {said}; start it again with --resume"
        return f"not compared after {len(failures)} attempts ({said})"

    def _is_possible(self, number: int) -> bool:
        nodes = self._nodes[number]
        return nodes is None or any(node not in self._gone for node in nodes)
