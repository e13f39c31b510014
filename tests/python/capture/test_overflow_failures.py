"""Task overflow_check where something fails: the program goes on, and nothing is blamed without evidence."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import ulpscope

CHECK: dict[str, Any] = {"task": "overflow_check", "overflow_nums": -1}


def ledger(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}" / "rank" / "ledger.json").read_text())


def fill_disk_for(file: Path) -> None:
    """Makes a file that can be opened; writing to it fails, since no space is left."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to("/dev/full")


@pytest.mark.parametrize("where", ["host", "torch"])
def test_a_full_disk_does_not_end_the_program(
    where: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill_disk_for(tmp_path / "overflow_rank0.jsonl")
    x = torch.full((2,), 3e38)
    with ulpscope.capture(tmp_path, device_statistics=where, **CHECK) as capture:
        x * 2
        x * 3
        capture.step()
        assert [one.call for one in capture.overflows] == [
            "Tensor.__mul__.0.forward",
            "Tensor.__mul__.1.forward",
        ]
    assert "No space left on device" in caplog.text
    assert any("No space left on device" in note for note in ledger(tmp_path)["notes"])


@pytest.mark.parametrize("action", ["raise", "stop"])
def test_the_number_holds_on_a_full_disk(action: str, tmp_path: Path) -> None:
    fill_disk_for(tmp_path / "overflow_rank0.jsonl")
    x = torch.full((2,), 3e38)
    settings: dict[str, Any] = {"task": "overflow_check", "overflow_nums": 1, "on_overflow": action}
    with ulpscope.capture(tmp_path, **settings) as capture:
        if action == "raise":
            with pytest.raises(ulpscope.OverflowLimitError):
                x * 2
        else:
            x * 2
        x * 3
        assert len(capture.overflows) == 1


class Mistaken(logging.Handler):
    """A handler of the program that fails for a line of the report."""

    def emit(self, record: logging.LogRecord) -> None:
        if "Nothing more is checked" in record.getMessage():
            raise TypeError("a mistake")


def test_a_mistake_in_the_report_does_not_end_the_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = Mistaken()
    logging.getLogger("ulpscope").addHandler(handler)
    try:
        with ulpscope.capture(
            tmp_path, task="overflow_check", overflow_nums=1, on_overflow="stop"
        ) as capture:
            y = torch.full((2,), 3e38) * 2
            capture.step()
    finally:
        logging.getLogger("ulpscope").removeHandler(handler)
    assert y.isinf().all()
    assert "TypeError: a mistake; the run goes on" in caplog.text


def test_a_step_ends_although_would_overflow_cannot_be_written(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, would_overflow="float16", **CHECK) as capture:
        for step in range(2):
            torch.full((2,), 3e38) * 2
            fill_disk_for(tmp_path / f"step{step}" / "rank" / "would_overflow.csv")
            capture.step()
        assert [one.step for one in capture.overflows] == [0, 1]
    for step in range(2):
        assert any("would_overflow.csv: OSError" in note for note in ledger(tmp_path, step)["notes"])


def test_an_input_that_cannot_be_read_leaves_the_origin_open(tmp_path: Path) -> None:
    """Whether NaN began in the call is not known: it is written and noted, and ends nothing."""
    nested = torch.nested.nested_tensor([torch.tensor([torch.nan]), torch.tensor([1.0, 2.0])])
    with ulpscope.capture(tmp_path, task="overflow_check", overflow_nums=1, strict=True) as capture:
        torch.nested.to_padded_tensor(nested, 0.0)
        capture.step()
        assert capture.overflows == []
    notes = [note for note in ledger(tmp_path)["notes"] if note.startswith("overflow: ")]
    assert len(notes) == 1
    assert "returned NaN or infinity, and not all of their inputs could be read" in notes[0]
    dump = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())
    assert len(dump["data"]) == 1


def test_uninitialised_memory_is_not_in_would_overflow(tmp_path: Path) -> None:
    left = torch.full((3,), 1e30)
    with ulpscope.capture(tmp_path, would_overflow="float16", strict=True, **CHECK) as capture:
        torch.empty(3, out=left)
        torch.mul(left, 1)
        capture.step()
    rows = (tmp_path / "step0" / "rank" / "would_overflow.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["Torch.mul.0.forward"]


def test_would_overflow_says_that_values_on_a_device_are_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"would_overflow": "float16", "device_statistics": "torch", "strict": True, **CHECK}
    with caplog.at_level(logging.WARNING, "ulpscope"), ulpscope.capture(tmp_path, **settings) as capture:
        torch.full((2,), 1e30) * 2
        capture.step()
    expected = "would_overflow: values on a device are not compared with its dtype"
    assert any(note.startswith(expected) for note in ledger(tmp_path)["notes"])
    assert expected in caplog.text


def test_only_the_first_overflows_are_kept_and_all_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    x = torch.full((2,), 3e38)
    with ulpscope.capture(tmp_path, strict=True, **CHECK) as capture:
        for _ in range(1005):
            x * 2
        capture.step()
        kept = [one.call for one in capture.overflows]
    assert kept == [f"Tensor.__mul__.{number}.forward" for number in range(1000)]
    assert "1005 calls returned NaN or infinity that their inputs do not have" in caplog.text
    assert len((tmp_path / "overflow_rank0.jsonl").read_text().splitlines()) == 1005


class View(torch.autograd.Function):
    """A program's own function: its node is called ``ViewBackward``, and torch's ``ViewBackward0``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        # The call itself is not seen: only the gradient shows it.
        with torch._C.DisableTorchFunction():
            return gradient / 0


def test_a_function_of_the_program_with_the_name_of_a_view_is_checked(tmp_path: Path) -> None:
    x = torch.ones(2, requires_grad=True)
    with ulpscope.capture(tmp_path, strict=True, **CHECK) as capture:
        y = View.apply(x)
        torch.sum(y).backward()
        capture.step()
        assert [one.call.rpartition(".")[2] for one in capture.overflows] == ["backward"]


@pytest.fixture
def flag(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The flag of an NPU, which the test sets."""
    is_set = [False]
    functions = SimpleNamespace(
        _check_overflow_npu=lambda: is_set[0], _clear_overflow_npu=lambda: is_set.__setitem__(0, False)
    )
    monkeypatch.setitem(sys.modules, "torch_npu", SimpleNamespace(_C=functions))
    return is_set


def test_the_flag_of_a_call_that_is_left_out_is_not_for_the_next(tmp_path: Path, flag: list[bool]) -> None:
    x = torch.ones(2, requires_grad=True)
    with ulpscope.capture(tmp_path, call=["Torch.*"], strict=True, **CHECK) as capture:
        flag[0] = True
        y = torch.relu(x * 2)
        assert capture.overflows == []
        z = y * 2
        z.register_hook(lambda gradient: flag.__setitem__(0, True))
        torch.sum(z).backward()
        assert capture.overflows == []
        flag[0] = True
        torch.tanh(x)
        assert [one.call for one in capture.overflows] == ["Torch.tanh.0.forward"]


def test_the_flag_of_a_call_that_raised_is_not_for_the_next(tmp_path: Path, flag: list[bool]) -> None:
    x = torch.ones(2, 3)
    with ulpscope.capture(tmp_path, strict=True, **CHECK) as capture:
        flag[0] = True
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            torch.mm(x, x)
        torch.relu(x)
        assert capture.overflows == []


@pytest.mark.parametrize("value", [torch.inf, torch.nan, torch.finfo(torch.float32).max])
def test_the_flag_of_a_call_with_a_bad_input_is_no_origin(
    value: float, tmp_path: Path, flag: list[bool]
) -> None:
    x, y = torch.full((2,), value), torch.ones(2, requires_grad=True)
    with ulpscope.capture(tmp_path, strict=True, **CHECK) as capture:
        flag[0] = True
        torch.tanh(x)
        total = torch.sum(y)
        total.register_hook(lambda gradient: flag.__setitem__(0, True))
        total.backward(torch.tensor(value))
        assert capture.overflows == []
