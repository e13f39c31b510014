"""A Ray cluster of two nodes on this machine, on loopback, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that was killed is found out in a second, and not in a quarter of a minute.
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "2",
    # Fewer processes that wait for work.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
}


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# A busy machine may need longer than Ray waits for a node: it is started again.
_STARTS = 4


class RayCluster:
    """A cluster of nodes with one core each; the first node is the head."""

    def __init__(
        self, folder: Path, nodes: Sequence[str], *, wrap: Mapping[str, Sequence[str]] | None = None
    ):
        self._folder = folder
        self._wrap = dict(wrap or {})
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""
        try:
            for name in nodes:
                self.add(name)
        except BaseException:
            self.stop()
            raise

    def add(self, name: str) -> None:
        """Adds a node, and waits until it is part of the cluster."""
        for _ in range(_STARTS):
            if not self.address:
                port = free_port()
                options = ["--head", f"--port={port}", "--no-monitor", "--include-dashboard=false"]
                options.append(f"--temp-dir={self._folder}")
            else:
                port, options = 0, [f"--address={self.address}"]
            if self._is_started(name, options):
                self.address = self.address or f"127.0.0.1:{port}"
                return
        raise RuntimeError(f"node {name} did not start:\n{self._log(name).read_text()}")

    def kill(self, name: str) -> None:
        """Kills a node with all its processes, as a power failure does."""
        node = self._nodes[name]
        # Killed processes start no others, but one may just have done so.
        while processes := [process for process, _ in self.processes(name) if process != node.pid]:
            for process in [node.pid, *processes]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.02)
        node.kill()
        node.wait()
        del self._nodes[name]

    def stop(self) -> None:
        """Stops every node by the ids of its processes."""
        for name in list(self._nodes)[::-1]:
            self.kill(name)

    def sessions(self) -> list[int]:
        """The session of each node: Ray gives every worker a process group of its own."""
        return [node.pid for node in self._nodes.values()]

    def processes(self, name: str) -> list[tuple[int, str]]:
        """The processes of a node that still run, with their titles."""
        session = self._nodes[name].pid
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            # A process may end meanwhile.
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    title = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(folder.name), title.strip()))
        return found

    def _log(self, name: str) -> Path:
        return self._folder.with_name(f"{self._folder.name}-{name}.log")

    def _is_started(self, name: str, options: Sequence[str]) -> bool:
        command = [
            *self._wrap.get(name, ()),
            *[sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *options],
            *[f"--node-name={name}", "--node-ip-address=127.0.0.1", "--num-cpus=1"],
            *["--object-store-memory=80000000", "--include-log-monitor=false"],
        ]
        with self._log(name).open("wb") as log:
            node = self._nodes[name] = subprocess.Popen(
                command,
                env={**os.environ, **_ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while node.poll() is None:
            if "Ray runtime started" in self._log(name).read_text():
                return True
            time.sleep(0.1)
        self.kill(name)
        return False
