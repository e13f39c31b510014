"""Buckets of an S3-compatible server on loopback, and what happens on the way to it."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ray_cluster import free_port

# A server on a busy machine.
_SECONDS_TO_START = 60

BUCKET = "dumps"


@dataclass
class Request:
    """One request, and the answer of the server behind."""

    method: str
    key: str
    query: dict[str, list[str]]
    range: str | None
    status: int = 0
    length: int = 0


@dataclass
class Answer:
    """What is sent back."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    # After so many bytes the connection ends.
    cut: int | None = None


# Changes an answer. It gets the request and how many with its key came before.
Change = Callable[[Request, int, Answer], Answer]


class S3Server:
    """A moto server with one bucket, in a process of its own."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        last_moment = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > last_moment:
                self.stop()
                raise RuntimeError("the S3 server did not start")
            time.sleep(0.05)
        assert self.request("PUT", f"/{BUCKET}") == 200

    def _answers(self) -> bool:
        try:
            return self.request("GET", "/") == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: bytes = b"") -> int:
        """Asks the server directly."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Host": "127.0.0.1"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def put(self, key: str, content: bytes) -> None:
        """Writes an object."""
        assert self.request("PUT", f"/{BUCKET}/{key}", content) == 200

    def upload(self, folder: Path, key: str) -> str:
        """Writes the files of a folder; returns the folder's address."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{key}/{path.relative_to(folder).as_posix()}", path.read_bytes())
        return f"s3://{BUCKET}/{key}"

    def stop(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


class Way:
    """The way to a server: it counts what is read, and may lose or change answers."""

    def __init__(self, port: int) -> None:
        self.requests: list[Request] = []
        self.change: Change | None = None
        self._lock = threading.Lock()
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                key = unquote(parts.path).removeprefix(f"/{BUCKET}").removeprefix("/")
                query = parse_qs(parts.query, keep_blank_values=True)
                request = Request(self.command, key, query, self.headers.get("Range"))
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                with contextlib.closing(connection):
                    connection.request(self.command, self.path, headers=dict(self.headers.items()))
                    real = connection.getresponse()
                    own = {"transfer-encoding", "connection", "content-length", "server", "date"}
                    headers = [(name, value) for name, value in real.getheaders() if name.lower() not in own]
                    length = real.headers.get("Content-Length", "0")
                    answer = Answer(real.status, headers, real.read())
                with way._lock:
                    before = sum(known.key == key for known in way.requests)
                    way.requests.append(request)
                if way.change is not None:
                    answer = way.change(request, before, answer)
                request.status, request.length = answer.status, len(answer.body)
                self.send_response(answer.status)
                # A client that keeps connections would leave threads here.
                self.send_header("Connection", "close")
                self.close_connection = True
                for name, value in answer.headers:
                    self.send_header(name, value)
                if self.command == "HEAD":
                    self.send_header("Content-Length", length)
                    self.end_headers()
                    return
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body[: answer.cut])

            def log_message(self, format: str, *args: Any) -> None:
                pass

        for method in ("HEAD", "PUT", "POST", "DELETE"):
            setattr(Handler, f"do_{method}", Handler.do_GET)

        class Server(ThreadingHTTPServer):
            # Connections that clients keep open do not keep the server.
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that has gone is none of the test's concern."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        """Ends the threads."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of a program that goes this way."""
        return os.environ | variables(self.endpoint) | more

    def read(self, key: str) -> int:
        """Bytes that were read of objects whose keys match."""
        return sum(request.length for request in self.requests if re.search(key, request.key))

    def count(self, key: str) -> int:
        """Requests for objects whose keys match."""
        return sum(1 for request in self.requests if re.search(key, request.key))

    @contextlib.contextmanager
    def changing(self, change: Change) -> Iterator[None]:
        """Changes answers for a while."""
        self.change = change
        try:
            yield
        finally:
            self.change = None


def variables(endpoint: str) -> Mapping[str, str]:
    """What a program needs to reach a server."""
    return {
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_MAX_ATTEMPTS": "3",
    }
