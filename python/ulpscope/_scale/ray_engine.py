"""The engine that runs comparisons as tasks of a Ray cluster.

One task compares one rank of one step, or several if they are small. Ray's own retries are off: the driver
has to know which node lost which unit, to avoid that node and to name both in the result.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ulpscope._scale import tasks
from ulpscope._scale.attempts import Attempts
from ulpscope._scale.event_log import EventLog
from ulpscope._scale.progress import Progress

if TYPE_CHECKING:
    from ulpscope._core import UnitQueue
    from ulpscope._scale.check_ranks import CheckQueue

# So many times as many tasks are sent as can run: the next one waits at its node.
_AHEAD = 2

# Seconds for which the list of nodes is taken as known: asking for it takes as long as starting a task.
_NODES_ARE_KNOWN = 1.0

# Seconds that a task of several small units takes: sending one costs some milliseconds.
_TASK_SECONDS = 1.0

# Seconds between two looks at progress and signals.
_TICK = 0.5

# Seconds for the first answer of a cluster's address.
_CONNECT_SECONDS = 10.0


class RayEngine:
    """A connection to a Ray cluster. It is closed at the end, unless the program had one before."""

    def __init__(self, address: str | None, cores: int | None, results: str | None) -> None:
        ray = _import_ray()
        self._ray = ray
        self._cores = cores
        self._results = None if results is None else str(Path(results).absolute())
        self._known_nodes: tuple[float, dict[str, dict[str, Any]]] = (-_NODES_ARE_KNOWN, {})
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _connect(ray, address)

    def close(self) -> None:
        """Leaves the cluster."""
        if self._is_own and self._ray.is_initialized():
            self._ray.shutdown()

    def find(
        self, path: str | os.PathLike[str], names: list[str] | None
    ) -> list[tuple[str, str | None, str | None]]:
        """Asks nodes, by default all, for a dump: name, listing, or why it could not be asked."""
        nodes = self._nodes()
        listing = self._ray.remote(tasks.list_dump)
        asked: list[tuple[str, Any]] = []
        for name in sorted(nodes) if names is None else names:
            if name not in nodes:
                asked.append((name, None))
                continue
            # Not counted as work: it must not wait until a core is free.
            options = {
                "num_cpus": 0,
                "max_retries": 0,
                "scheduling_strategy": self.at_node(nodes[name]["NodeID"]),
            }
            asked.append((name, listing.options(**options).remote(os.fspath(path), str(Path.cwd()))))
        answers: list[tuple[str, str | None, str | None]] = []
        for name, reference in asked:
            if reference is None:
                known = ", ".join(sorted(nodes))
                answers.append((name, None, f"no such node is alive; those alive are {known}"))
                continue
            try:
                answers.append((name, self._ray.get(reference), None))
            except Exception as error:
                answers.append((name, None, tasks.reason(error)))
        return answers

    def dispatch(
        self, queue: UnitQueue | CheckQueue, answer: Callable[..., tasks.Answers] = tasks.answer_jobs
    ) -> None:
        """Has every open unit answered by ``answer``, or given up."""
        units = queue.open()
        if not units:
            return
        Dispatch(self, queue, units, answer).run()

    @property
    def ray(self) -> Any:
        """The package."""
        return self._ray

    @property
    def results(self) -> str | None:
        """The driver's folder of results."""
        return self._results

    def cores(self, units: int) -> int:
        """Cores for each unit."""
        counts = [int(node["Resources"].get("CPU", 0)) for node in self._nodes().values()]
        smallest = min((count for count in counts if count), default=1)
        return max(1, min(self._cores or sum(counts) // units, smallest))

    def slots(self, cores: int) -> dict[str, int]:
        """How many units each node compares at a time, by its name."""
        counts = {name: int(node["Resources"].get("CPU", 0)) for name, node in self._nodes().items()}
        return {name: count // cores for name, count in counts.items() if count >= cores}

    def node_id(self, name: str) -> str | None:
        """The id of a node that is alive."""
        node = self._nodes().get(name)
        return None if node is None else str(node["NodeID"])

    def node_ids(self) -> dict[str, str]:
        """The ids of the nodes that are alive, by their names."""
        return {name: str(node["NodeID"]) for name, node in self._nodes().items()}

    def at_node(self, node_id: str) -> Any:
        """On this node and no other."""
        strategies = self._ray.util.scheduling_strategies
        return strategies.NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)

    def _nodes(self) -> dict[str, dict[str, Any]]:
        """The nodes that are alive, by the names of `ray start --node-name`; by default addresses."""
        known_since, known = self._known_nodes
        if time.monotonic() - known_since < _NODES_ARE_KNOWN:
            return known
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        names: dict[str, dict[str, Any]] = {}
        for node in sorted(alive, key=lambda node: node["NodeID"]):
            name = node.get("NodeName") or node["NodeManagerAddress"]
            # Two nodes of one machine have one address.
            names[name if name not in names else f"{name}#{node['NodeID'][:8]}"] = node
        self._known_nodes = (time.monotonic(), names)
        return names


class Dispatch:
    """Sends the units of one comparison, a bounded number at a time."""

    def __init__(
        self,
        engine: RayEngine,
        queue: UnitQueue | CheckQueue,
        units: list[int],
        answer: Callable[..., tasks.Answers],
    ) -> None:
        self._engine, self._queue = engine, queue
        self._cores = engine.cores(len(units))
        self._slots = engine.slots(self._cores)
        self._attempts = Attempts({number: queue.nodes(number) for number in units})
        self._progress = Progress(len(units), sum(queue.size(number) for number in units))
        self._log = EventLog(engine.results)
        self._answer = engine.ray.remote(answer)
        # Reference: numbers of the units, and the node they were sent to.
        self._running: dict[Any, tuple[list[int], str]] = {}
        self._waiting_bytes = sum(queue.size(number) for number in units)
        # How fast workers are: bytes, and the seconds that they took.
        self._compared, self._seconds = 0, 0.0

    def run(self) -> None:
        """Returns when every unit was delivered or given up."""
        mark = _mark(self._engine.results)
        try:
            place = tasks.Place(str(Path.cwd()), self._engine.results, mark, self._cores, "", {})
            self._send(place)
            while self._running or self._attempts.waiting:
                self._collect()
                self._progress.show()
                if self._queue.is_stopped:
                    self._cancel()
                    raise RuntimeError("it was interrupted")
                self._send(place)
        finally:
            self._progress.close()
            self._log.close()
            if mark is not None:
                Path(mark).unlink(missing_ok=True)

    def _send(self, place: tasks.Place) -> None:
        while True:
            load = dict.fromkeys(self._slots, 0)
            for _, node in self._running.values():
                load[node] = load.get(node, 0) + 1
            room = {name: _AHEAD * slots - load[name] for name, slots in self._slots.items()}
            chosen = self._attempts.next(room, self._queue.size, self._task_bytes())
            if chosen is None:
                break
            self._send_some(*chosen, place)
        if not self._running:
            # Nodes that the rest needs are gone.
            for number in self._attempts.drain():
                self._give_up(number)

    def _task_bytes(self) -> float:
        """How many bytes of units a task gets: about a second's work, and so that some is left for all."""
        if not self._seconds:
            return 0
        share = self._waiting_bytes / (2 * _AHEAD * max(1, sum(self._slots.values())))
        return min(share, _TASK_SECONDS * self._compared / self._seconds)

    def _send_some(self, numbers: list[int], node: str, place: tasks.Place) -> None:
        self._waiting_bytes -= sum(map(self._queue.size, numbers))
        node_id = self._engine.node_id(node)
        if node_id is None:
            self._node_is_gone(node)
            for number in numbers:
                self._retry(number, node, "the node is gone")
            return
        labels = [self._queue.label(number) for number in numbers]
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        task = self._answer.options(
            name=f"ulpscope {labels[0]}{more}",
            num_cpus=self._cores,
            max_retries=0,
            scheduling_strategy=self._engine.at_node(node_id),
        )
        at_node = place._replace(node=node, nodes=self._engine.node_ids())
        jobs = [self._queue.job(number) for number in numbers]
        self._running[task.remote(jobs, at_node)] = (numbers, node)
        for label in labels:
            self._progress.started(label, node)
            self._log.write("started", label, node)

    def _collect(self) -> None:
        if not self._running:
            return
        ray = self._engine.ray
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=_TICK)
        for reference in ready:
            numbers, node = self._running.pop(reference)
            try:
                done: tasks.Answers = ray.get(reference)
            except Exception as error:
                if self._engine.node_id(node) is None:
                    self._node_is_gone(node)
                for number in numbers:
                    self._retry(number, node, tasks.reason(error))
                continue
            self._compared += sum(map(self._queue.size, numbers))
            self._seconds += done.seconds
            for number, answer in zip(numbers, done.answers, strict=True):
                self._deliver(number, node, answer)

    def _deliver(self, number: int, node: str, answer: tasks.Answer | tasks.Lost) -> None:
        if isinstance(answer, tasks.Lost):
            self._retry(number, node, answer.why)
            return
        label, ray = self._queue.label(number), self._engine.ray
        try:
            for name, pieces in answer.sheets:
                _write_sheet(Path(self._engine.results or "."), name, (ray.get(piece) for piece in pieces))
            compared = self._queue.deliver(number, answer.answer, answer.rows)
        except Exception as error:
            if self._engine.node_id(node) is None:
                self._node_is_gone(node)
            self._retry(number, node, tasks.reason(error))
        else:
            self._attempts.done(number)
            self._progress.finished(label, self._queue.size(number))
            self._log.write("answered" if compared else "not comparable", label, node)

    def _node_is_gone(self, node: str) -> None:
        if self._slots.pop(node, None) is not None:
            self._log.write("gone", None, node)
            self._attempts.forget(node)

    def _retry(self, number: int, node: str, why: str) -> None:
        label = self._queue.label(number)
        self._log.write("lost", label, node, why)
        self._progress.lost(label)
        if self._attempts.failed(number, node, why):
            self._waiting_bytes += self._queue.size(number)
        else:
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        label, why = self._queue.label(number), self._attempts.reason(number)
        self._queue.fail(number, why)
        self._progress.given_up(label)
        self._log.write("given up", label, None, why)

    def _cancel(self) -> None:
        for reference in self._running:
            self._engine.ray.cancel(reference, force=True)


def _import_ray() -> Any:
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        # Another package that Ray needs may be missing; the message says which.
        raise ImportError(f"engine ray needs Ray: pip install ulpscope[ray] ({error})") from error
    return ray


def _connect(ray: Any, address: str | None) -> None:
    # Nothing about a comparison leaves the cluster.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"logging_level": "error", "log_to_driver": False}
    local = {**quiet, "include_dashboard": False}
    if address == "local":
        ray.init(address="local", **local)
        return
    named = address or os.environ.get("RAY_ADDRESS")
    try:
        _expect_server(named)
        ray.init(address=address or "auto", **quiet)
    except ConnectionError as error:
        if named is not None:
            hint = "`ray start --head` prints the address of a cluster"
            raise ConnectionError(f"no Ray cluster at {named}: {tasks.reason(error)}; {hint}") from error
        ray.init(address="local", **local)


def _expect_server(named: str | None) -> None:
    """Fails where nothing listens: Ray would try the address for many minutes, without a word."""
    if named is None or named == "auto":
        # That of the cluster that was started last on this machine, and may be gone.
        last = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
        named = last.read_text().strip() if last.is_file() else ""
    host, _, port = named.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"nothing answers at {host}:{port} ({error})") from error


def _mark(results: str | None) -> str | None:
    """A file by which workers see whether they have the driver's folder of results."""
    if results is None:
        return None
    mark = Path(results) / "units" / f"driver-{uuid.uuid4().hex}"
    mark.touch()
    return str(mark)


def _write_sheet(folder: Path, name: str, pieces: Iterable[bytes]) -> None:
    """Complete or not at all, as the workers write theirs."""
    unfinished = folder / f".ulpscope-{uuid.uuid4().hex}.tmp"
    try:
        with unfinished.open("wb") as file:
            file.writelines(pieces)
        # In the folder, or in one below it.
        place = folder.joinpath(*Path(name).parts[-2:])
        place.parent.mkdir(exist_ok=True)
        unfinished.replace(place)
    finally:
        unfinished.unlink(missing_ok=True)
