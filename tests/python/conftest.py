"""What must be so before any test imports torch."""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# On some virtual machines the processor announces AMX and bf16 instructions that the host then refuses:
# oneDNN's code for them dies with SIGILL. This keeps it to plain AVX-512.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

# Many tests start a process that imports torch. Where Python may not keep what it compiles, each of them
# compiles torch again, which takes longer than the rest of the test.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests check what capture notes about other threads, so there must be none that no test started.
# torch.compile compiles on a pool with a thread for each core, and keeps it. It also reports progress through
# tqdm, if that is installed, and tqdm starts a thread that never ends.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
if find_spec("tqdm") is not None:
    from tqdm import tqdm

    tqdm.monitor_interval = 0


# What torch.compile built before, perhaps on another machine or in a process that was killed, is of no use.
# Processes that a test starts share this folder; so do the processes of xdist.
COMPILED = "TORCHINDUCTOR_CACHE_DIR"
_own_folder = None
if "PYTEST_XDIST_WORKER" not in os.environ:
    _own_folder = os.environ[COMPILED] = tempfile.mkdtemp(prefix="compiled-for-tests-")


def pytest_unconfigure() -> None:
    """Remove what torch.compile built."""
    if _own_folder is not None:
        shutil.rmtree(_own_folder, ignore_errors=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In several processes slow files come first: no process is left with a long one at the end."""
    if not hasattr(config, "workerinput"):
        return
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "peer", "distributed")))}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Every test leaves its process as it was: the next one must not depend on it."""
    threads = set(threading.enumerate())
    yield
    # What was told to end has a moment to do so.
    last_moment = time.monotonic() + 5
    while (left := set(threading.enumerate()) - threads) and time.monotonic() < last_moment:
        time.sleep(0.01)
    assert not left, "the test leaves threads"


@pytest.fixture(autouse=True)
def torch_as_before() -> Iterator[None]:
    """Every test leaves torch as it was."""
    if "torch" not in sys.modules:
        yield
        return
    torch = sys.modules["torch"]
    before, deterministic = _torch_now(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    assert _torch_now() == before, "the test leaves torch changed"


def _torch_now() -> dict[str, Any]:
    """What captures and the faces of other tools change in torch for the whole process."""
    torch = sys.modules["torch"]
    return {
        "function modes": torch._C._len_torch_function_stack(),
        "calls of modules": torch.nn.Module.__call__.__module__,
        "dropout": torch._VF.dropout.__module__,
        "tracing": "_capture" in torch.jit.trace.__code__.co_filename,
    }


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A golden run, and the same with the third linear layer 1 % off: target, golden."""
    from dumps import chain, write_rank

    write_rank(tmp_path / "golden", chain(6))
    write_rank(tmp_path / "target", chain(6, fault={3: 1.01}))
    return tmp_path / "target", tmp_path / "golden"
