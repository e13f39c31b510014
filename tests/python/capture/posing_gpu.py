"""Tensors of the CPU that pose as those of an NVIDIA GPU, for tests without one.

The driver, NVRTC and torch's exchange table are in ``crates/gpu/tests/standin``: the recorder opens them
as it opens the real ones, by their names. The kernel runs on threads of the host, one for each stream. Import
this in a process of its own, with the environment of ``environment``, and make a ``Gpu`` before the first
capture.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CRATE = Path(__file__).resolve().parents[3] / "crates" / "gpu"
_SITE = "POSING_GPU_SITE"
_WORK = ctypes.CFUNCTYPE(None, ctypes.c_ulonglong)
_FLAGS = ["-O1", "-std=c++17", "-ffp-contract=off", "-fPIC", "-shared", "-pthread", "-Wno-unknown-pragmas"]


def is_possible() -> bool:
    """Whether the driver can be compiled here."""
    return shutil.which("g++") is not None and _CRATE.exists()


def environment(folder: Path) -> dict[str, str]:
    """Where a process finds the driver, NVRTC and a cache of its own."""
    libraries, site = folder / "libraries", folder / "site"
    # NVRTC is looked for in packages beside torch. The loader must not find it: torch needs the real one.
    compiler = site / "nvidia" / "cu13" / "lib" / "libnvrtc.so.13"
    for link in (libraries / "libcuda.so.1", compiler):
        link.parent.mkdir(parents=True)
        link.symlink_to(_library())
    path = os.pathsep.join(filter(None, [str(libraries), os.environ.get("LD_LIBRARY_PATH")]))
    cache = str(folder / "cache")
    return {**os.environ, "LD_LIBRARY_PATH": path, "XDG_CACHE_HOME": cache, _SITE: str(site)}


def _library() -> Path:
    """The compiled driver; compiled once for these sources."""
    sources = [_CRATE / "tests" / "standin" / name for name in ("driver.cpp", "exchange.cpp")]
    content = b"".join(
        path.read_bytes() for path in [*sources, _CRATE / "src/host.h", _CRATE / "src/statistics.cu"]
    )
    user = os.getuid()
    folder = Path(tempfile.gettempdir()) / f"ulpscope-posing-gpu-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    assert folder.stat().st_uid == user
    library = folder / f"libcuda-{hashlib.sha256(content).hexdigest()[:16]}.so"
    if not library.exists():
        unfinished = library.with_suffix(f".{os.getpid()}")
        command = ["g++", *_FLAGS, "-I", str(_CRATE / "src"), "-x", "c++", *map(str, sources)]
        subprocess.run([*command, "-o", str(unfinished), "-ldl"], check=True)
        unfinished.rename(library)
    return library


class Gpu:
    """The GPU of this process: from now on, every tensor of torch's own class poses as one of it."""

    def __init__(self) -> None:
        import torch

        self._driver = ctypes.CDLL("libcuda.so.1")
        self._work: list[Any] = []
        get, new = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_New
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        pose = self._driver.standin_pose
        pose.restype, pose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
        # A capsule keeps the address of its name.
        self._name = ctypes.create_string_buffer(b"dlpack_exchange_api")
        table = get(torch.Tensor.__dlpack_c_exchange_api__, self._name.value)
        torch.Tensor.__dlpack_c_exchange_api__ = new(  # type: ignore[attr-defined]
            pose(table), ctypes.cast(self._name, ctypes.c_char_p), None
        )
        torch.Tensor.is_cuda = property(lambda tensor: True)  # type: ignore[assignment, misc]
        torch.__file__ = f"{os.environ[_SITE]}/torch/__init__.py"

    def use_stream(self, stream: int) -> None:
        """Makes a stream the current one of this thread."""
        self._driver.standin_use_stream(ctypes.c_void_p(stream))

    def pause(self, is_paused: bool, stream: int | None = None) -> None:
        """Stops the device, or one stream, after the kernel that is running; or lets it go on."""
        if stream is None:
            self._driver.standin_pause(int(is_paused))
        else:
            self._driver.standin_pause_stream(ctypes.c_void_p(stream), int(is_paused))

    def limit_queue(self, launches: int) -> None:
        """A launch waits while its stream has so many before it."""
        self._driver.standin_queue(launches)

    def fail(self, name: str, after: int = 0) -> None:
        """From its nth call on, a function of the driver fails."""
        self._driver.standin_fail(name.encode(), after, 999)

    def spoil(self) -> None:
        """Makes the kernel compute wrong numbers."""
        self._driver.standin_spoil(1)

    def idle(self, is_idle: bool) -> None:
        """Lets launches be done at once, without computing, and counts no calls: for benchmarks."""
        self._driver.standin_idle(int(is_idle))

    def capture(self, is_capturing: bool) -> None:
        """Begins or ends the capture of a graph, on all streams."""
        self._driver.standin_capture(int(is_capturing))

    def begin_graph(self, stream: int) -> None:
        """Work on a stream goes into a graph from here on."""
        self._driver.standin_begin_capture(ctypes.c_void_p(stream))

    def end_graph(self, stream: int) -> int:
        """Ends that; returns the graph."""
        end = self._driver.standin_end_capture
        end.restype = ctypes.c_size_t
        return int(end(ctypes.c_void_p(stream)))

    def replay(self, graph: int, stream: int) -> None:
        """Runs what was captured, in the order of a stream."""
        self._driver.standin_replay(ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    def run(self, work: Callable[[], None], stream: int) -> None:
        """Runs work of the program in the order of a stream, or adds it to a graph that is captured there."""
        # Kept for ever: a graph may run it again.
        self._work.append(_WORK(lambda _: work()))
        self._driver.standin_run(self._work[-1], ctypes.c_ulonglong(0), ctypes.c_void_p(stream))

    def wait(self) -> None:
        """Waits until everything has run."""
        self._driver.standin_wait()

    def count(self, what: str) -> int:
        """Launches, modules, allocations."""
        return int(self._driver.standin_count(what.encode()))

    def calls(self, name: str) -> int:
        """How often a function of the driver was called."""
        return int(self._driver.standin_calls(name.encode()))

    def mode(self) -> int:
        """How strict this thread is about graphs: 0 globally, 1 by thread, 2 relaxed."""
        return int(self._driver.standin_mode())
