"""Tensors of a device that get files: copied in its order, written when they arrive, in bounded memory.

There is no accelerator here: the device is written in Python (``standin_device.py``). Its copies to the host
lag behind until the program waits, or the test lets it catch up.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not hasattr(getattr(torch._C, "_acc", None), "create_empty_tensor"):
    pytest.skip("this release of torch has no devices written in Python", allow_module_level=True)

import ulpscope  # noqa: E402
from device_programs import on_device  # noqa: E402


def rank(folder: Path, step: int = 0) -> Path:
    return folder / f"step{step}" / "rank"


def ledger(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((rank(folder, step) / "ledger.json").read_text())


PROGRAM = """
torch.manual_seed(0)
values = torch.randn(6, 7), torch.randn(7, 5, dtype=torch.float64), torch.arange(12).view(3, 4)
def program(x, wide, ints):
    y = torch.sin(x)
    y.mul_(2).add_(1)
    torch.matmul(y.t(), y)
    y[2:5].exp()
    torch.cos(wide.t()[1:])
    torch.add(ints, 1)
    torch.sin(x)
    x.fill_(0)
"""


@pytest.mark.parametrize("file_format", ["pack", "pt", "npy"])
@pytest.mark.parametrize("digest", [None, "md5", "xxh3"])
def test_files_and_lines_are_those_of_copies_that_are_waited_for(tmp_path, file_format, digest):
    done = on_device(
        tmp_path,
        PROGRAM
        + f"""
waits = []
as_it_is = standin_device.Event.synchronize
standin_device.Event.synchronize = lambda event: (waits.append(1), as_it_is(event))
for where in ("host", "auto"):
    given = [to_device(value) for value in values]
    settings = dict(task="tensor", file_format={file_format!r}, digest={digest!r}, stacks=False)
    with ulpscope.capture(folder + "/" + where, device_statistics=where, **settings) as run:
        program(*given)
        assert not waits, where
        run.step()
    assert bool(waits) == (where == "auto")
""",
    )
    assert done.returncode == 0, done.stderr
    host, late = (rank(tmp_path / where) for where in ("host", "auto"))
    assert (late / "dump.json").read_text().replace("/auto/", "/host/") == (host / "dump.json").read_text()
    files = sorted(path.name for path in (host / "dump_tensor_data").iterdir())
    assert files == sorted(path.name for path in (late / "dump_tensor_data").iterdir())
    assert files
    for name in files:
        assert (late / "dump_tensor_data" / name).read_bytes() == (
            host / "dump_tensor_data" / name
        ).read_bytes()
    assert (ledger(tmp_path / "auto")["unread"], ledger(tmp_path / "auto")["notes"]) == ({}, [])
    first = ulpscope.load(f"{tmp_path / 'auto'}:Torch.sin.0.forward.output.0")
    assert first.shape == (6, 7)


def test_a_killed_run_has_the_tensors_that_had_arrived(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        run = ulpscope.capture(folder, task="tensor", flush_interval=0.01)
        run.start()
        y = torch.sin(x)
        catch_up()
        time.sleep(0.3)
        torch.cos(y)
        os.kill(os.getpid(), 9)
        """,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lines = (rank(tmp_path) / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    items = [json.loads(line).get("data", {}) for line in lines]
    inputs = [data["input_args"][0] for data in items if "input_args" in data]
    assert [(item["Max"], "data_name" in item) for item in inputs] == [(0.5, True), (None, False)]
    assert ulpscope.load(f"{tmp_path}:Torch.sin.0.forward.input.0").tolist() == [0.5] * 3


def test_memory_is_bounded_by_waiting_for_the_oldest(tmp_path):
    done = on_device(
        tmp_path,
        """
        import weakref
        most, held = 0, {}
        as_it_is = standin_device.wrapped
        def counted(behind):
            # What the device holds: copies, and numbers of one element.
            global most
            tensor = as_it_is(behind)
            if any(behind.data_ptr() == own.behind.data_ptr() for own in tensors):
                return tensor
            held[id(tensor)] = behind.numel() * behind.element_size()
            weakref.finalize(tensor, held.pop, id(tensor), None)
            most = max(most, sum(held.values()))
            return tensor
        tensors = [to_device(torch.full((8 << 20,), float(number))) for number in range(20)]
        standin_device.wrapped = counted
        with ulpscope.capture(folder, task="tensor", stacks=False):
            for tensor in tensors:
                torch.atleast_1d(tensor)
        print(most >> 20)
        """,
    )
    assert done.returncode == 0, done.stderr
    # 40 copies of 32 MiB, of which eight were there at a time.
    assert int(done.stdout) == 256
    data = json.loads((rank(tmp_path) / "dump.json").read_text())["data"]
    assert [call["input_args"][0]["Max"] for call in data.values()] == [float(n) for n in range(20)]
    # Arguments and results are equal: each is written once.
    size = sum(path.stat().st_size for path in (rank(tmp_path) / "dump_tensor_data").iterdir())
    assert 20 * (32 << 20) <= size < 20.1 * (32 << 20)


def test_a_copy_that_does_not_arrive_is_counted(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        def fail(event):
            raise RuntimeError("the device is gone")
        standin_device.Event.synchronize = fail
        with ulpscope.capture(folder, task="tensor"):
            torch.sin(x)
        """,
    )
    assert done.returncode == 0, done.stderr
    assert ledger(tmp_path)["unread"] == {"its numbers did not arrive from its device": 2}


def test_several_steps_keep_their_own_files(tmp_path):
    done = on_device(
        tmp_path,
        """
        with ulpscope.capture(folder, task="tensor") as run:
            for number in range(3):
                x = to_device(torch.full((3,), float(number)))
                torch.sin(x)
                run.step()
        """,
    )
    assert done.returncode == 0, done.stderr
    for number in range(3):
        found = ulpscope.load(f"{tmp_path / f'step{number}'}:Torch.sin.0.forward.input.0")
        assert found.tolist() == [float(number)] * 3


@pytest.mark.parametrize("size", ["120k", "260k"])
def test_a_full_disk_ends_the_recording_and_says_what_is_missing(tmp_path, size):
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        done = on_device(
            disk,
            """
            xs = [to_device(torch.full((2000,), float(number))) for number in range(32)]
            with ulpscope.capture(folder, task="tensor") as run:
                for number, x in enumerate(xs):
                    y = torch.sin(x)
                    if number % 8 == 7:
                        run.step()
            assert torch.equal(y.cpu(), torch.sin(xs[31].cpu()))
            """,
        )
        assert done.returncode == 0, done.stderr
        assert "No space left on device" in done.stderr
        loaded = 0
        for number in range(32):
            try:
                found = ulpscope.load(f"{disk / f'step{number // 8}'}:Torch.sin.{number % 8}.forward.input.0")
            except (ValueError, OSError):
                continue
            assert found.tolist() == [float(number)] * 2000
            loaded += 1
        assert 0 < loaded < 32
        # The first step that is not whole has its journal, whose last line is the ledger.
        journal = min(disk.glob("step*/rank/journal.jsonl"))
        last = json.loads(journal.read_bytes().rstrip(b"\0").splitlines()[-1])["ledger"]
        assert "No space left on device" in last["ended"]
        assert last["seen"] == last["recorded"] + sum(last["failed"].values()) + sum(last["skipped"].values())
    finally:
        subprocess.run(["umount", str(disk)], check=True)
