"""Asynchronous collectives that fail: their buffers hold nothing that was ever a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from captured import Captured
from two_ranks import run_two_ranks

pytestmark = pytest.mark.distributed

# The second rank leaves before the collective: the work of the first one fails.
SCRIPT = """
import os, sys, time, torch, torch.distributed as dist, ulpscope
rank, folder = int(sys.argv[1]), sys.argv[2]
store = dist.FileStore(folder + "/store", 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
x = torch.ones(2)
dist.all_reduce(x)
if rank == 1:
    os._exit(0)
time.sleep(1)
with ulpscope.capture(folder + "/dump"):
    work = dist.all_reduce(x, async_op=True)
    try:
        WAIT
    except RuntimeError as error:
        print("failed:", error)
    else:
        raise SystemExit("the work did not fail")
os._exit(0)
"""

WAITS = {
    "for the work": "work.wait()",
    "for the future": "work.get_future().wait()",
    "until the future has called back": (
        "future = work.get_future()\n"
        "        while not future.done():\n"
        "            time.sleep(0.01)\n"
        "        future.value()"
    ),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_work_that_failed_has_no_result(tmp_path: Path, wait: str) -> None:
    run_two_ranks(SCRIPT.replace("WAIT", WAITS[wait]), tmp_path)
    captured = Captured(tmp_path / "dump", rank="rank0")
    (name,) = captured.calls
    assert name == "Distributed.all_reduce.0.forward"
    assert "output" not in captured.calls[name]
    assert captured.ledger["raised"] == {"Distributed.all_reduce: the work failed": 1}
