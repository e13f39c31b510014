"""Statistics that torch's own operations compute where a tensor is: the same as on the host, without waiting.

There is no accelerator here. The path is forced on tensors of the CPU, and run on a device written in Python
(``standin_device.py``), whose copies to the host lag behind.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import ulpscope  # noqa: E402
from device_programs import needs_python_devices, on_device  # noqa: E402

# How far apart the mean and the norm may be from those of the host: docs/capture.md states it.
BOUND = 1e-12

FLOATS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
INTS = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]


def calls(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "step0" / "rank" / "dump.json").read_text())["data"]


def ledger(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "step0" / "rank" / "ledger.json").read_text())


def input_of(folder: Path, tensor: torch.Tensor, where: str) -> dict[str, Any]:
    """How a tensor is recorded as an argument."""
    with ulpscope.capture(folder / where, device_statistics=where):
        torch.atleast_1d(tensor)
    (call,) = calls(folder / where).values()
    assert (ledger(folder / where)["unread"], ledger(folder / where)["notes"]) == ({}, [])
    return call["input_args"][0]


def assert_same(found: dict[str, Any], expected: dict[str, Any], scale: float) -> None:
    assert list(found) == list(expected)
    # All of a complex tensor is about moduli, which are rounded.
    rounded = list(expected) if "complex" in expected["dtype"] else ["Mean", "Norm"]
    for key, value in expected.items():
        if isinstance(value, float) and math.isfinite(value) and key in rounded:
            assert found[key] == pytest.approx(value, rel=BOUND, abs=BOUND * scale), key
        elif isinstance(value, float) and math.isnan(value):
            assert math.isnan(found[key]), key
        else:
            assert (type(found[key]), found[key]) == (type(value), value), key


def random(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    if dtype.is_complex or dtype.is_floating_point:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        values = torch.randn(*shape, dtype=wide, generator=generator) * 3
        return (values.abs() if dtype.itemsize == 1 else values).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 100, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("layout", ["packed", "strided", "expanded", "scalar", "empty"])
@pytest.mark.parametrize("dtype", FLOATS + NARROW + INTS)
def test_every_dtype_and_layout_is_measured_as_on_the_host(tmp_path, dtype, layout):
    if not hasattr(torch, dtype):
        pytest.skip(f"this release of torch has no {dtype}")
    kind = getattr(torch, dtype)
    x = {
        "packed": lambda: random(kind, 33, 65),
        "strided": lambda: random(kind, 40, 66).t()[3:, 1::3],
        "expanded": lambda: random(kind, 33, 1).expand(33, 65),
        "scalar": lambda: random(kind, 1).reshape(()),
        "empty": lambda: torch.empty(0, 3, dtype=kind),
    }[layout]()
    scale = x.to(torch.complex128).abs().mean().item() if x.numel() else 0.0
    assert_same(input_of(tmp_path, x, "torch"), input_of(tmp_path, x, "host"), scale)


SPECIAL = [
    [1.0, math.nan, -2.0],
    [math.inf, 3.0, -math.inf],
    [math.inf, math.inf],
    [-math.inf],
    [math.nan, math.inf, -math.inf],
    [-0.0, -0.0],
    [5e-324, -1e-310, 1.7976931348623157e308],
]


@pytest.mark.parametrize("values", SPECIAL, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_special_values_are_measured_as_on_the_host(tmp_path, dtype, values):
    x = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
    if x.is_complex():
        x = torch.cat([x, torch.complex(x.real.roll(1), x.real)])
    finite = x.to(torch.complex128).abs()
    scale = finite[finite.isfinite()].sum().item()
    assert_same(input_of(tmp_path, x, "torch"), input_of(tmp_path, x, "host"), scale)


def test_large_tensors_are_measured_in_pieces_and_repeated_elements_once(tmp_path):
    large = torch.arange(9_000_000, dtype=torch.int32).to(torch.float16).view(3000, 3000)[:, :2999]
    endless = random(torch.float32, 5, 1).expand(5, 1 << 40)
    for number, x in enumerate([large, endless]):
        folder = tmp_path / str(number)
        assert_same(input_of(folder, x, "torch"), input_of(folder, x, "host"), 1e5)


def train(folder: Path | None, **capture: Any) -> list[torch.Tensor]:
    """Losses, gradients, parameters and random numbers of a short training."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.ReLU(inplace=True), torch.nn.Linear(16, 4)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []

    def loop(run: Any) -> None:
        for _ in range(2):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(torch.randn(5, 8)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            if run is not None:
                run.step()

    if folder is None:
        loop(None)
    else:
        with ulpscope.capture(folder, model, **capture) as run:
            loop(run)
    parameters = list(model.parameters())
    return [*losses, *parameters, *(p.grad for p in parameters), torch.rand(3)]


@pytest.mark.parametrize("level", ["L0", "mix", "L2"])
def test_the_run_and_the_calls_stay_the_same(tmp_path, level):
    plain = train(None)
    measured = train(tmp_path / "torch", level=level, device_statistics="torch")
    assert all(torch.equal(one, other) for one, other in zip(plain, measured, strict=True))
    train(tmp_path / "host", level=level, device_statistics="host")
    names = [list(calls(tmp_path / where)) for where in ("torch", "host")]
    assert names[0] == names[1]
    assert ulpscope.compare(tmp_path / "torch", tmp_path / "host").first_divergence is None


def test_digests_samples_and_files_are_made_of_the_elements(tmp_path):
    x = torch.randn(5)
    for settings in ({"digest": "xxh3"}, {"sample": 2}, {"task": "tensor"}):
        (key,) = settings
        folders = [tmp_path / key / where for where in ("torch", "host")]
        for folder in folders:
            with ulpscope.capture(folder, device_statistics=folder.name, **settings):
                torch.sin(x)
        assert calls(folders[0]) == calls(folders[1])


def test_no_thread_and_no_room_is_left(tmp_path):
    def threads() -> list[str]:
        tasks = Path("/proc/self/task").iterdir()
        return [task.joinpath("comm").read_text().strip() for task in tasks]

    with ulpscope.capture(tmp_path, device_statistics="torch"):
        torch.sin(torch.randn(5))
        # A thread takes its name when it first runs.
        last_moment = time.monotonic() + 10
        while "ulpscope-number" not in threads() and time.monotonic() < last_moment:
            time.sleep(0.01)
        assert "ulpscope-number" in threads()
    assert "ulpscope-number" not in threads()
    text = (tmp_path / "step0" / "rank" / "dump.json").read_text()
    assert "\t" not in text
    assert "pending" not in text


@pytest.mark.parametrize("found", ["gpu", None, 7200])
def test_wrong_settings_are_refused(tmp_path, found):
    with pytest.raises(ulpscope.SettingsError, match="device_statistics"):
        ulpscope.capture(tmp_path, device_statistics=found)
    with pytest.raises(ulpscope.SettingsError, match="flush_interval"):
        ulpscope.capture(tmp_path, flush_interval=found)


@needs_python_devices
def test_a_device_measures_before_later_changes_and_nothing_waits_within_the_step(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = torch.randn(6, 7)
        cpu = x.clone()
        def program(x):
            y = torch.sin(x)
            y.mul_(2).add_(1)
            y[2:5].exp()
            return torch.matmul(y.t(), y)
        with ulpscope.capture(folder + "/cpu"):
            program(cpu)
        on_device = to_device(x)
        waits = []
        standin_device.Event.synchronize = lambda event: (waits.append(1), catch_up())
        with ulpscope.capture(folder + "/standin", flush_interval=0.01) as run:
            program(on_device)
            time.sleep(0.05)
            assert not waits
            run.step()
            assert waits
        """,
    )
    assert done.returncode == 0, done.stderr
    cpu, device = (calls(tmp_path / name) for name in ("cpu", "standin"))
    assert list(cpu) == list(device)
    for name in cpu:
        for part in ("input_args", "output"):
            for found, expected in zip(device[name][part], cpu[name][part], strict=True):
                if "Max" in expected:
                    assert_same(found, expected, 10)
    assert ledger(tmp_path / "standin")["unread"] == {}


@needs_python_devices
def test_a_device_without_float64_adds_in_float32(tmp_path):
    done = on_device(
        tmp_path,
        """
        torch.manual_seed(0)
        x = torch.randn(1000, 300) * 3 + 1
        on_device = to_device(x)
        standin_device.lacking.add(torch.float64)
        with ulpscope.capture(folder + "/cpu"):
            torch.sin(x)
        with ulpscope.capture(folder + "/standin"):
            torch.sin(on_device)
        """,
    )
    assert done.returncode == 0, done.stderr
    found, expected = (calls(tmp_path / name)["Torch.sin.0.forward"] for name in ("standin", "cpu"))
    for part in ("input_args", "output"):
        one, other = found[part][0], expected[part][0]
        assert (one["Max"], one["Min"]) == (other["Max"], other["Min"])
        assert one["Norm"] != other["Norm"]
        assert (one["Mean"], one["Norm"]) == pytest.approx((other["Mean"], other["Norm"]), rel=1e-4)


@needs_python_devices
def test_a_killed_run_has_the_numbers_that_had_arrived(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        run = ulpscope.capture(folder, flush_interval=0.01)
        run.start()
        y = torch.sin(x)
        catch_up()
        time.sleep(0.3)
        torch.cos(y)
        os.kill(os.getpid(), 9)
        """,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    listed = ulpscope_command("ls", str(tmp_path), "--json")
    assert listed.returncode == 0, listed.stderr
    assert "numbers of 2 tensors had not arrived" in listed.stdout + listed.stderr
    lines = (tmp_path / "step0" / "rank" / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    items = [json.loads(line).get("data", {}) for line in lines]
    inputs = [data["input_args"][0] for data in items if "input_args" in data]
    outputs = [data["output"][0] for data in items if "output" in data]
    assert [item["Max"] for item in inputs] == [0.5, None]
    assert [item["Max"] for item in outputs] == [pytest.approx(math.sin(0.5)), None]


def ulpscope_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})


@needs_python_devices
def test_numbers_that_do_not_arrive_are_counted_and_missing_operations_are_done_on_the_host(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        def fail(event):
            raise RuntimeError("the device is gone")
        as_it_is, standin_device.Event.synchronize = standin_device.Event.synchronize, fail
        with ulpscope.capture(folder + "/lost"):
            torch.sin(x)
        standin_device.Event.synchronize = as_it_is
        standin_device.lacking.add("linalg_vector_norm")
        with ulpscope.capture(folder + "/lacking"):
            torch.sin(x)
        """,
    )
    assert done.returncode == 0, done.stderr
    (call,) = calls(tmp_path / "lost").values()
    assert [call[part][0]["Max"] for part in ("input_args", "output")] == [None, None]
    assert ledger(tmp_path / "lost")["unread"] == {"its numbers did not arrive from its device": 2}
    (call,) = calls(tmp_path / "lacking").values()
    assert [call[part][0]["Max"] for part in ("input_args", "output")] == [0.5, pytest.approx(math.sin(0.5))]
    assert any("lacks an operation" in note for note in ledger(tmp_path / "lacking")["notes"])


@needs_python_devices
def test_a_forked_child_leaves_the_numbers_to_its_parent(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        with ulpscope.capture(folder, flush_interval=0.01):
            y = torch.sin(x)
            child = os.fork()
            if child == 0:
                torch.cos(y)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        """,
    )
    assert done.returncode == 0, done.stderr
    assert list(calls(tmp_path)) == ["Torch.sin.0.forward"]
    assert ledger(tmp_path)["unread"] == {}


@needs_python_devices
def test_an_interruption_at_the_end_of_a_step_reaches_the_program_and_loses_nothing(tmp_path):
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 0.5))
        as_it_is = standin_device.Event.synchronize
        def interrupted(event):
            standin_device.Event.synchronize = as_it_is
            raise KeyboardInterrupt
        standin_device.Event.synchronize = interrupted
        run = ulpscope.capture(folder)
        run.start()
        torch.sin(x)
        try:
            run.step()
        except KeyboardInterrupt:
            print("interrupted")
        run.close()
        """,
    )
    assert (done.returncode, done.stdout) == (0, "interrupted\n"), done.stderr
    assert ledger(tmp_path)["unread"] == {}
    assert calls(tmp_path)["Torch.sin.0.forward"]["input_args"][0]["Max"] == 0.5


@needs_python_devices
def test_a_device_without_memory_is_not_called_one_that_lacks_an_operation(tmp_path):
    done = on_device(
        tmp_path,
        """
        standin_device.full.update(("amax", "aminmax", "sum"))
        x = to_device(torch.full((3,), 0.5))
        with ulpscope.capture(folder):
            torch.sin(x)
        """,
    )
    assert done.returncode == 0, done.stderr
    (note,) = ledger(tmp_path)["notes"]
    assert "had no memory left for it" in str(note)
    assert calls(tmp_path)["Torch.sin.0.forward"]["input_args"][0]["Max"] == 0.5


@needs_python_devices
@pytest.mark.parametrize(("captured", "read"), [(0, False), (1, True)])
def test_whether_a_graph_is_captured_is_asked_of_the_device_of_the_tensor(tmp_path, captured, read):
    """The tensor is on device 0, and device 1 is the current one."""
    done = on_device(
        tmp_path,
        f"""
        x = to_device(torch.full((3,), 0.5))
        assert x.device.index == 0
        current = 1
        class Device:
            def __init__(self, number):
                self.number = number
            def __enter__(self):
                global current
                self.before, current = current, self.number
            def __exit__(self, *_):
                global current
                current = self.before
        torch.standin.device = Device
        torch.standin.current_device = lambda: current
        torch.standin.is_current_stream_capturing = lambda: current == {captured}
        with ulpscope.capture(folder):
            torch.sin(x)
        assert current == 1
        """,
    )
    assert done.returncode == 0, done.stderr
    assert (calls(tmp_path)["Torch.sin.0.forward"]["input_args"][0]["Max"] == 0.5) is read
    assert ("graph" in str(ledger(tmp_path)["unread"])) is not read
