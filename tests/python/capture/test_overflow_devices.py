"""Task overflow_check on devices: results and inputs are measured there, and judged when the numbers arrive.

There is no accelerator here. The path is forced on tensors of the CPU (``device_statistics="torch"``), and
run on a device written in Python (``standin_device.py``), whose copies to the host lag behind.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

import device_programs
import ulpscope
from device_programs import needs_python_devices


def checked(folder: Path, run: Callable[[], Any], **settings: Any) -> list[ulpscope.Overflow]:
    keywords = {"overflow_nums": -1, "strict": True, "device_statistics": "torch", **settings}
    with ulpscope.capture(folder, task="overflow_check", **keywords) as capture:
        run()
        capture.step()
        return capture.overflows


def ledger(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}" / "rank" / "ledger.json").read_text())


def test_the_first_call_is_named_and_what_follows_is_not(tmp_path: Path) -> None:
    x = torch.full((3,), 3e38)

    def run() -> None:
        y = x * 0.5
        for _ in range(3):
            y = y * 3

    found = checked(tmp_path, run)
    assert [one.call for one in found] == ["Tensor.__mul__.1.forward"]
    assert (found[0].counted, found[0].written) == (True, False)
    assert "in run" in found[0].stack[0]
    (line,) = (tmp_path / "overflow_rank0.jsonl").read_text().splitlines()
    assert json.loads(line)["stack"] == list(found[0].stack)
    step = ledger(tmp_path)
    assert step["skipped"] == {"found on a device": 1, "in range": 1, "passed infinity on": 2}
    assert any("their tensors are not in the dump" in note for note in step["notes"])
    assert any("the first is Tensor.__mul__.1.forward" in note for note in step["notes"])


def test_the_report_says_that_tensors_were_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ulpscope"):
        checked(tmp_path, lambda: torch.full((3,), 3e38) * 2)
    assert "1 calls ran on a device and were found after they had returned" in caplog.text
    assert "device_statistics='host'" in caplog.text


def test_a_value_that_is_passed_on_purpose_is_no_overflow(tmp_path: Path) -> None:
    def run() -> None:
        mask = torch.tensor([True, False])
        masked = torch.zeros(2).masked_fill(mask, float("-inf"))
        masked + 1
        F.softmax(masked, dim=0)
        torch.full((2,), float("inf"))
        torch.where(mask, float("-inf"), torch.zeros(2))
        torch.zeros(2).masked_fill_(mask, float("-inf")).exp_()

    assert checked(tmp_path, run) == []


def test_uninitialised_memory_is_no_overflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills it with NaN, as memory of a device may be."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.use_deterministic_algorithms(True)
    try:
        found = checked(tmp_path, lambda: [torch.empty(8), torch.zeros(8).new_empty(3), torch.ones(3) * 2])
        assert torch.empty(8).isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)
    assert found == []
    assert not any("NaN" in note for note in notes_of(tmp_path))


def notes_of(folder: Path) -> list[str]:
    file = folder / "step0" / "rank" / "ledger.json"
    return json.loads(file.read_text())["notes"] if file.exists() else []


def test_nan_of_infinities_is_an_origin_and_passing_it_on_is_none(tmp_path: Path) -> None:
    mask = torch.full((2,), float("-inf"))
    found = checked(tmp_path, lambda: F.softmax(mask + 1, dim=0) * 2)
    assert [one.call for one in found] == ["Functional.softmax.0.forward"]


def test_what_comes_from_outside_is_inherited(tmp_path: Path) -> None:
    x = torch.tensor([1.0, float("nan")])
    assert checked(tmp_path, lambda: [x + 1, x + 2]) == []
    assert any("NaN that was among their inputs" in note for note in notes_of(tmp_path))


def test_changes_in_place_are_judged_by_what_was_there_before(tmp_path: Path) -> None:
    found = checked(tmp_path / "born", lambda: torch.ones(2).div_(torch.zeros(2)))
    assert [one.call for one in found] == ["Tensor.div_.0.forward"]
    damaged = torch.full((2,), float("inf"))
    assert checked(tmp_path / "inherited", lambda: damaged.div_(torch.ones(2))) == []
    assert checked(tmp_path / "overwritten", lambda: torch.full((2,), torch.inf).fill_(1).mul(2)) == []


def test_the_backward_call_where_it_begins(tmp_path: Path) -> None:
    x = torch.zeros(2, requires_grad=True)
    found = checked(tmp_path, lambda: (torch.sqrt(x) * 3).sum().backward())
    assert [one.call for one in found] == ["Torch.sqrt.0.backward"]


def test_gradients_of_an_infinite_result_are_inherited(tmp_path: Path) -> None:
    """As on the host: the forward call is the origin."""
    x = torch.tensor([200.0], requires_grad=True)
    names = [
        [one.call for one in checked(tmp_path / where, lambda: x.exp().backward(), device_statistics=where)]
        for where in ("torch", "host")
    ]
    assert names == [["Tensor.exp.0.forward"]] * 2


def test_saturation_is_seen(tmp_path: Path) -> None:
    x = torch.full((2,), 65504.0)
    assert checked(tmp_path, lambda: [x.half(), (x + 0.5).half(), x.half() * 1], overflow_nums=1) == []
    assert [note for note in notes_of(tmp_path) if "largest number" in note] == [
        "overflow: 3 calls returned the largest number of their dtype; the first is Tensor.half.0.forward"
    ]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_what_contains_the_origin_is_no_second_one(level: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU()))
    with torch.no_grad():
        model[0][0].weight.fill_(3e38)
    found = checked(tmp_path, lambda: model(torch.full((1, 2), 10.0)), level=level, model=model)
    expected = {"L0": "Module.0.0.Linear.forward.0", "mix": "Functional.linear.0.forward"}[level]
    assert [one.call for one in found] == [expected]


def test_a_step_that_the_loss_scaler_skips_does_not_count(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
    settings: dict[str, Any] = {"device_statistics": "torch", "strict": True}
    with ulpscope.capture(tmp_path, task="overflow_check", **settings) as capture:
        for _ in range(16):
            loss = model(torch.full((1, 2), 1e2)).square().sum()
            optimizer.zero_grad()
            scaler.scale(loss * 1e-1).backward()
            scaler.step(optimizer)
            scaler.update()
            capture.step()
        skipped = capture.overflows
    assert {one.call.rpartition(".")[2] for one in skipped} == {"forward", "backward"}
    assert not any(one.counted for one in skipped)


def test_an_overflow_that_the_loss_scaler_does_not_see_counts(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    hidden = torch.zeros(1, requires_grad=True)
    with ulpscope.capture(tmp_path, task="overflow_check", device_statistics="torch"):
        loss = model(torch.ones(1, 2)).sum() + torch.sqrt(hidden).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        with pytest.raises(ulpscope.OverflowLimitError):
            scaler.update()


def test_the_number_ends_the_run_at_the_end_of_the_step_at_the_latest(tmp_path: Path) -> None:
    with ulpscope.capture(
        tmp_path, task="overflow_check", overflow_nums=2, device_statistics="torch", flush_interval=60
    ) as capture:
        x = torch.full((2,), 3e38)
        x * 2
        capture.step()
        assert len(capture.overflows) == 1
        x * 2
        with pytest.raises(ulpscope.OverflowLimitError, match=r"^\[overflow 2 times\]"):
            capture.step()


class Sizes(torch.utils._python_dispatch.TorchDispatchMode):
    """The elements of the largest tensor that an operation made."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        own = [one.untyped_storage().data_ptr() for one in args if isinstance(one, torch.Tensor)]
        if isinstance(found, torch.Tensor) and found.untyped_storage().data_ptr() not in own:
            self.largest = max(self.largest, found.numel())
        return found


def test_large_and_expanded_tensors_need_no_memory_of_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The mode of the test sees what is hidden from those of the program.
    monkeypatch.setattr(torch._C, "_DisableTorchDispatch", torch.no_grad)
    endless = torch.tensor([[1.0], [torch.nan]]).expand(2, 1 << 40)
    large = torch.full((5000, 5000), 6e4, dtype=torch.float16)[:, 1:]
    factors = torch.ones(4999, dtype=torch.float16)
    factors[-1] = 2
    narrow = torch.ones(20_000_000).to(torch.float8_e4m3fn)
    with Sizes() as sizes:
        found = checked(
            tmp_path, lambda: [endless.view(1, *endless.shape), large.mul_(factors), narrow.view(2, -1)]
        )
    # Fewer than large has: it is measured in pieces, and narrow is converted so.
    assert 1 << 20 < sizes.largest <= 1 << 23
    assert [(one.call, one.written) for one in found] == [("Tensor.mul_.0.forward", False)]
    assert any("NaN that was among their inputs" in note for note in notes_of(tmp_path))
    assert ledger(tmp_path)["skipped"]["in range"] == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "float8_e5m2"])
@pytest.mark.parametrize("value", [1.0, torch.inf, -torch.inf, torch.nan])
def test_every_dtype_is_measured(dtype: str, value: float, tmp_path: Path) -> None:
    """Bits are read as floats, so that what is not finite begins in the call."""
    x = torch.ones(7).to(getattr(torch, dtype))
    x[3] = value
    bits = x.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])
    found = checked(tmp_path, lambda: [bits.view(x.dtype), x.view(7, 1)])
    calls = [(one.call, one.written) for one in found]
    assert calls == ([] if value == 1.0 else [("Tensor.view.0.forward", False)])
    of_inputs = "NaN" if value != value else "infinity"
    notes = [note for note in notes_of(tmp_path) if f"returned {of_inputs} that was among" in note]
    assert len(notes) == (value != 1.0)
    # It was measured where it is, not copied.
    assert not any("lacks an operation" in note for note in notes_of(tmp_path))


def on_device(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Runs a program that has the device, and the settings of a check."""
    settings = "settings = dict(task='overflow_check', overflow_nums=-1, strict=True)\n"
    return device_programs.on_device(folder, settings + textwrap.dedent(program))


@needs_python_devices
def test_nothing_waits_within_the_step_and_changed_tensors_are_judged_as_they_were(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        mask = to_device(torch.tensor([True, False, True]))
        waits = []
        standin_device.Event.synchronize = lambda event: (waits.append(1), catch_up())
        with ulpscope.capture(folder, flush_interval=0.01, **settings) as run:
            masked = torch.zeros_like(x).masked_fill(mask, float("-inf"))
            y = x * 2
            y.zero_()
            (masked + y).relu()
            time.sleep(0.05)
            assert not waits
            assert run.overflows == []
            run.step()
            assert waits
            print([one.call for one in run.overflows])
        """,
    )
    assert (done.returncode, done.stdout) == (0, "['Tensor.__mul__.0.forward']\n"), done.stderr


@needs_python_devices
def test_a_copy_to_the_host_passes_infinity_on(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        with ulpscope.capture(folder, **settings) as run:
            y = x * 2
            y.cpu()
            y.to("cpu").add(1)
            to_device(torch.full((3,), float("inf"))).cpu()
            run.step()
            print([one.call for one in run.overflows])
        """,
    )
    assert (done.returncode, done.stdout) == (0, "['Tensor.__mul__.0.forward']\n"), done.stderr


@needs_python_devices
def test_what_had_arrived_before_a_kill_is_there(tmp_path: Path) -> None:
    """The thread reports it, although the program makes no further call."""
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        run = ulpscope.capture(folder, flush_interval=0.01, **settings)
        run.start()
        x * 2
        catch_up()
        time.sleep(0.5)
        os.kill(os.getpid(), 9)
        """,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    (line,) = (tmp_path / "overflow_rank0.jsonl").read_text().splitlines()
    assert json.loads(line)["call"] == "Tensor.__mul__.0.forward"
    assert not json.loads(line)["written"]


@needs_python_devices
def test_the_run_ends_at_the_next_call_after_the_numbers_have_arrived(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        settings["overflow_nums"] = 1
        with ulpscope.capture(folder, flush_interval=0.01, **settings):
            x * 2
            catch_up()
            time.sleep(0.5)
            try:
                x + 1
            except ulpscope.OverflowLimitError as error:
                print(str(error).split("]")[0])
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[overflow 1 times\n"), done.stderr


@needs_python_devices
def test_numbers_that_do_not_arrive_are_counted(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        def fail(event):
            raise RuntimeError("the device is gone")
        standin_device.Event.synchronize = fail
        with ulpscope.capture(folder + "/lost", **settings) as run:
            x * 2
            run.step()
            print(run.overflows)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert ledger(tmp_path / "lost")["unread"] == {"its numbers did not arrive from its device": 2}


@needs_python_devices
def test_a_device_that_lacks_the_operation_is_checked_on_the_host(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), 3e38))
        standin_device.lacking.add("linalg_vector_norm")
        with ulpscope.capture(folder, **settings) as run:
            x * 2
            run.step()
            print([one.call for one in run.overflows])
        """,
    )
    assert (done.returncode, done.stdout) == (0, "['Tensor.__mul__.0.forward']\n"), done.stderr


@needs_python_devices
def test_an_input_whose_numbers_do_not_arrive_leaves_the_origin_open(tmp_path: Path) -> None:
    done = on_device(
        tmp_path,
        """
        x = to_device(torch.full((3,), float("inf")))
        def fail(event):
            raise RuntimeError("the device is gone")
        standin_device.Event.synchronize = fail
        with ulpscope.capture(folder + "/lost", **settings) as run:
            x.cpu()
            run.step()
            print(run.overflows)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert any("not all of their inputs could be read" in note for note in notes_of(tmp_path / "lost"))


@needs_python_devices
def test_a_finalizer_that_waits_for_the_devices_again_does_not_hang(tmp_path: Path) -> None:
    """Waiting and reporting ask Python, which may run any finalizer on the same thread."""
    done = on_device(
        tmp_path,
        """
        import faulthandler
        faulthandler.dump_traceback_later(30, exit=True)
        x = to_device(torch.full((3,), 3e38))
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(torch.ones(1))
        asked = {"wait": 0, "report": 0}
        def again(why):
            # A loss scaler that has decided waits for the devices.
            asked[why] += 1
            with torch._C.DisableTorchFunction():
                scaler.scale([])
                scaler.update(1.0)
        def waits(event):
            catch_up()
            again("wait")
        def opens(event, details):
            if event == "open" and str(details[0]).endswith("overflow_rank0.jsonl"):
                again("report")
        with ulpscope.capture(folder, flush_interval=60, **settings) as run:
            standin_device.Event.synchronize = waits
            sys.addaudithook(opens)
            x * 2
            x * 3
            run.step()
            assert min(asked.values()) > 0, asked
            print([one.call for one in run.overflows])
        """,
    )
    expected = "['Tensor.__mul__.0.forward', 'Tensor.__mul__.1.forward']\n"
    assert (done.returncode, done.stdout) == (0, expected), done.stderr
