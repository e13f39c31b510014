"""Steps that an earlier capture left in the same folder: named, noted, and never taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import ulpscope
from captured import Captured


def record(folder: Path, steps: int, **settings: object) -> None:
    with ulpscope.capture(folder, **settings) as run:
        for _ in range(steps):
            torch.sin(torch.ones(2))
            run.step()


def left_note(folder: Path, names: str) -> str:
    return f"{names} in {folder}: recorded by an earlier capture, not by this one"


def test_fewer_steps_than_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(tmp_path, 5)
    assert caplog.text == ""
    before = (tmp_path / "step4/rank/dump.json").read_bytes()
    record(tmp_path, 2)
    begin, end = (found.getMessage() for found in caplog.records)
    assert begin.startswith(
        f"{tmp_path} already has step0, step1, step2, step3, step4 of an earlier capture."
    )
    assert end.startswith(left_note(tmp_path, "step2, step3, step4"))
    # The last step that was recorded says so, too; nothing is lost.
    assert Captured(tmp_path, 1).ledger["notes"] == [left_note(tmp_path, "step2, step3, step4")]
    assert Captured(tmp_path, 0).ledger["notes"] == []
    assert (tmp_path / "step4/rank/dump.json").read_bytes() == before


def test_as_many_steps_as_before_leave_nothing_to_say_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, 2)
    record(tmp_path, 3)
    assert len(caplog.records) == 1
    assert [Captured(tmp_path, step).ledger["notes"] for step in range(3)] == [[]] * 3


def test_other_ranks_are_not_spoken_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They may be those of this very run."""
    record(tmp_path, 2)
    (tmp_path / "step0/rank").rename(tmp_path / "step0/rank7")
    (tmp_path / "step1/rank").rename(tmp_path / "step1/rank7")
    record(tmp_path, 1)
    assert caplog.text == ""
    assert (tmp_path / "step1/rank7/dump.json").exists()


def test_files_of_others_are_no_steps(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "step9/rank").mkdir(parents=True)
    (tmp_path / "step9/rank/notes.txt").write_text("the user's own")
    (tmp_path / "steps").mkdir()
    record(tmp_path, 1)
    assert caplog.text == ""
    assert (tmp_path / "step9/rank/notes.txt").exists()


def test_many_steps_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(tmp_path, 12)
    record(tmp_path, 1)
    assert "step6, step7 and 4 more of an earlier capture" in caplog.records[0].getMessage()
    assert "step7, step8 and 3 more in" in caplog.records[1].getMessage()
