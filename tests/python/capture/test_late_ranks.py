"""Real gloo processes whose rank is known late, or whose peer is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_distributed import ENVIRONMENT

from captured import Captured

pytestmark = pytest.mark.distributed

JOINS_LATE = """\
import sys, torch, torch.distributed as dist, ulpscope
rank, size, folder, level = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
run = ulpscope.capture(f"{folder}/dump", rank=[0], level=level, task="tensor")
run.start()
run.save(torch.sin(torch.full((2,), 1.0)), "before")
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size)
run.save(torch.cos(torch.ones(2)), "after")
run.step()
run.save(torch.tan(torch.ones(2)), "later")
run.close()
dist.destroy_process_group()
"""

FAILS = """\
import os, sys, time, torch, torch.distributed as dist, ulpscope
from datetime import timedelta
rank, size, folder, way = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
dist.init_process_group(
    "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=size, timeout=timedelta(seconds=20)
)
dist.barrier()
if rank == 1:
    os._exit(0)
run = ulpscope.capture(f"{folder}/dump", list=["Distributed"])
run.start()
work = dist.all_reduce(torch.ones(2), async_op=True)
if way == "asked":
    while not work.is_completed():
        time.sleep(0.05)
else:
    # By a way that tells nothing to capture.
    while work.is_success():
        time.sleep(0.05)
run.close()
os._exit(0)
"""


def processes(folder: Path, script: str, size: int, word: str) -> None:
    """Runs a script on so many ranks, which have no rank in their environment."""
    environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    if size > 1:
        environment["WORLD_SIZE"] = str(size)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(rank), str(size), str(folder), word],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(size)
    ]
    printed = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * size, "\n".join(printed)


@pytest.mark.parametrize("level", ["L1", "debug"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_wanted_rank_is_whole_and_another_leaves_nothing(tmp_path: Path, size: int, level: str) -> None:
    """What is done before the rank is known is recorded, as it may be wanted."""
    processes(tmp_path, JOINS_LATE, size, level)
    found = sorted(str(path.relative_to(tmp_path / "dump")) for path in (tmp_path / "dump").glob("*/*"))
    assert found == ["step0/rank0", "step1/rank0"]
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"]
    steps = [Captured(tmp_path / "dump", step, "rank0") for step in range(2)]
    if level == "L1":
        assert [
            [
                name.split(".")[1]
                for name in step.calls
                if name.startswith(("Torch.sin", "Torch.cos", "Torch.tan"))
            ]
            for step in steps
        ] == [["sin", "cos"], ["tan"]]
        assert steps[0].tensor(steps[0].calls["Torch.sin.0.forward"]["input_args"][0]).tolist() == [1, 1]
    else:
        saved = [step.document("debug.json")["data"] for step in steps]
        assert [list(names) for names in saved] == [["before.0.debug", "after.0.debug"], ["later.0.debug"]]


@pytest.mark.parametrize("way", ["asked", "never_asked"])
def test_a_failed_collective_has_no_result(tmp_path: Path, way: str) -> None:
    """Complete it is all the same, with whatever is in its buffer."""
    processes(tmp_path, FAILS, 2, way)
    calls = Captured(tmp_path / "dump", 0, "rank0").calls
    assert list(calls) == ["Distributed.all_reduce.0.forward"]
    assert "output" not in calls["Distributed.all_reduce.0.forward"]
