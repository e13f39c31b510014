"""Task overflow_check over several ranks: all end when one has enough; and through ``ulpscope run``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ulpscope

RANKS = """
import sys, torch, ulpscope
import torch.distributed as dist
rank, folder, action = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
done = 0
try:
    settings = {"task": "overflow_check", "overflow_nums": 2, "on_overflow": action}
    with ulpscope.capture(f"{folder}/dump", **settings) as run:
        for step in range(6):
            x = torch.full((2,), 3e38 if rank == 1 else 1.0)
            x * 2
            total = torch.ones(1)
            # Rank 1 ends in the second step, before this: rank 0 learns it then at the latest.
            if step == 0:
                dist.all_reduce(total)
            elif rank == 0:
                import time, pathlib
                file = pathlib.Path(folder, "dump", "overflow_rank1.jsonl")
                while '"ended"' not in file.read_text():
                    time.sleep(0.01)
            run.step()
            done += 1
            if step == 0:
                # Both have ended their first step before rank 1 begins its second.
                dist.barrier()
finally:
    print(done)
    dist.destroy_process_group() if action == "stop" else None
"""


def run_ranks(folder: Path, action: str) -> list[tuple[int, str, str]]:
    script = folder / "ranks.py"
    script.write_text(RANKS)
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    started = [
        subprocess.Popen(
            [sys.executable, str(script), str(rank), str(folder), action],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    ended = [(process, *process.communicate(timeout=120)) for process in started]
    return [(process.returncode, out, error) for process, out, error in ended]


@pytest.mark.distributed
def test_all_ranks_end_when_one_has_enough(tmp_path: Path) -> None:
    (code_0, done_0, error_0), (code_1, done_1, error_1) = run_ranks(tmp_path, "raise")
    assert (code_0, code_1) == (1, 1), error_0 + error_1
    assert "OverflowLimitError: [overflow 2 times]: dump file is saved in " in error_1
    assert "OverflowLimitError: [overflow 2 times]: dump file is saved in " in error_0
    assert "(rank 1)" in error_0
    # Rank 1 ended in its second step, rank 0 at the end of its second.
    assert (done_0.split(), done_1.split()) == (["1"], ["1"])
    found = [
        json.loads(line) for line in (tmp_path / "dump" / "overflow_rank1.jsonl").read_text().splitlines()
    ]
    assert [(one["step"], one["rank"], one["call"]) for one in found] == [
        (0, 1, "Tensor.__mul__.0.forward"),
        (1, 1, "Tensor.__mul__.0.forward"),
    ]
    assert not (tmp_path / "dump" / "overflow_rank0.jsonl").exists()
    merged = "over all ranks, the first overflow is in step 0: Tensor.__mul__.0.forward (rank 1)"
    assert merged in error_1
    assert merged in error_0
    # The first over all ranks and steps, from the dump.
    command = [sys.executable, "-m", "ulpscope", "overflow", str(tmp_path / "dump"), "--json"]
    shown = subprocess.run(command, capture_output=True, text=True)
    assert shown.returncode == 1, shown.stderr
    assert next(iter(json.loads(shown.stdout))).endswith("rank_1")


@pytest.mark.distributed
def test_all_ranks_go_on_if_only_the_check_ends(tmp_path: Path) -> None:
    ended = run_ranks(tmp_path, "stop")
    assert [(code, done.split()) for code, done, _ in ended] == [(0, ["6"]), (0, ["6"])], ended


SCRIPT = """
import torch
weight = torch.nn.Parameter(torch.tensor([1e19]))
optimizer = torch.optim.SGD([weight], lr=0.0)
for step in range(4):
    scale = 10.0 if step == 2 else 1.0
    loss = (weight * weight * scale).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step)
"""


def run_command(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "ulpscope", "run", "--dump-path", str(folder / "dump")]
    command += ["--task", "overflow_check", *flags, "--", str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_ulpscope_run_ends_the_script(tmp_path: Path) -> None:
    ended = run_command(tmp_path)
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == ["step 0", "step 1"], ended.stderr
    assert "OverflowLimitError: [overflow 1 times]: dump file is saved in " in ended.stderr
    # The script's own frames, none of ours.
    assert "train.py" in ended.stderr
    dump = json.loads((tmp_path / "dump" / "step2" / "rank" / "dump.json").read_text())
    assert list(dump["data"]) == ["Tensor.__mul__.1.forward"]


def test_ulpscope_run_may_go_on(tmp_path: Path) -> None:
    ended = run_command(tmp_path, "--overflow-nums", "-1", "--would-overflow", "float16")
    assert (ended.returncode, ended.stdout.split()[-1]) == (0, "3"), ended.stderr
    rows = (tmp_path / "dump" / "step0" / "rank" / "would_overflow.csv").read_text().splitlines()
    assert "Tensor.__mul__.0.forward,float16,1,1,0,1,0" in rows


KILLED = """
import os, signal, sys, torch, ulpscope
run = ulpscope.capture(sys.argv[1], task="overflow_check", overflow_nums=-1)
run.start()
torch.full((3,), 3e38) * 2
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_found_before_a_kill_is_there(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, timeout=120)
    assert ended.returncode == -signal.SIGKILL
    (line,) = (tmp_path / "overflow_rank0.jsonl").read_text().splitlines()
    assert json.loads(line)["call"] == "Tensor.__mul__.0.forward"
    command = [sys.executable, "-m", "ulpscope", "overflow", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert "Tensor.__mul__.0.forward" in shown.stdout, shown.stderr


ENDED = json.dumps({"rank": 1, "ended": "[overflow 1 times]"}) + "\n"


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of rank 1; this process is rank 0 of 2, and its dump folder is that of the file."""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    return tmp_path / "overflow_rank1.jsonl"


def check(folder: Path) -> ulpscope.Capture:
    return ulpscope.capture(folder, task="overflow_check", overflow_nums=-1, strict=True)


def add(file: Path, text: str | bytes) -> None:
    with file.open("ab") as out:
        out.write(text.encode() if isinstance(text, str) else text)


def ends() -> Any:
    return pytest.raises(ulpscope.OverflowLimitError, match=r"^\[overflow 1 times\] \(rank 1\)$")


def test_another_rank_that_ended_before_this_one_began_ends_it(other: Path) -> None:
    # The last line is being written.
    add(other, ENDED + '{"half')
    with check(other.parent) as capture, ends():
        capture.step()
    # A second check of this process.
    with check(other.parent) as capture:
        capture.step()


def test_what_an_earlier_run_left_does_not_end_this_one(other: Path) -> None:
    add(other, ENDED)
    os.utime(other, (0, 0))
    with check(other.parent) as capture:
        capture.step()
        # The other rank ends as it did then.
        add(other, ENDED)
        with ends():
            capture.step()


def test_a_bad_line_loses_no_other_and_only_new_lines_are_read(
    other: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    parsed: list[bytes] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda text: (parsed.append(text), loads(text))[1])
    with check(other.parent) as capture:
        add(other, '{"rank": 1, "step": 0, "call": "Torch.exp.0.forward"}\n')
        add(other, b"{half}\n\xff}\n" + b"[" * 100_000 + b"}\n")
        capture.step()
        assert len(parsed) == 4
        capture.step()
        assert len(parsed) == 4
        add(other, ENDED)
        with ends():
            capture.step()
        assert len(parsed) == 5
    assert "over all ranks, the first overflow is in step 0: Torch.exp.0.forward (rank 1)" in caplog.text


def test_a_file_that_another_rank_begins_again_is_read_from_its_beginning(other: Path) -> None:
    with check(other.parent) as capture:
        add(other, json.dumps({"rank": 1, "stack": ["a" * 1000]}) + "\n")
        capture.step()
        other.write_text(ENDED)
        with ends():
            capture.step()


def test_the_end_of_another_rank_is_seen_in_a_large_file(other: Path) -> None:
    line = json.dumps({"rank": 1, "step": 0, "stack": ["a" * 100_000]}) + "\n"
    with check(other.parent) as capture:
        add(other, line * 180)
        add(other, ENDED)
        with ends():
            capture.step()
