"""What ``ulpscope check`` says where it cannot go on, and of what it judged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from test_command import check

import ulpscope


def recorded(folder: Path, task: str = "tensor", count: int = 1) -> Path:
    """Some calls of relu."""
    with ulpscope.capture(folder, level="L1", task=task):
        for _ in range(count):
            torch.relu(torch.arange(4.0))
    return folder


def test_results_that_were_computed_now_are_not_called_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "1 of them: judged is what this machine computes now, not the recorded run"
    dump = recorded(tmp_path / "statistics", "statistics")
    assert check(str(dump), "--white-list", "relu") == 0
    assert said in capsys.readouterr().out.splitlines()[1]
    check(str(dump), "--white-list", "relu", "--json")
    assert json.loads(capsys.readouterr().out)["judged_here"] == 1
    dump = recorded(tmp_path / "tensor")
    check(str(dump), "--white-list", "relu")
    assert "judged is" not in capsys.readouterr().out
    check(str(dump), "--white-list", "relu", "--json")
    assert json.loads(capsys.readouterr().out)["judged_here"] == 0


@pytest.mark.parametrize("text", ["[]", "{", "3", "\x00"])
def test_a_config_that_is_none_is_named(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    assert check(str(recorded(tmp_path / "dump")), "--config", str(config)) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"ulpscope check: error: {config}")


def test_one_name_or_module_needs_no_list(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    with ulpscope.capture(tmp_path, model=model, level="mix", task="tensor"):
        torch.relu(model(torch.ones(2, 4)))
    assert [call.call for call in ulpscope.check(tmp_path, white_list="relu").calls] == ["Torch.relu.0"]
    assert "Torch.relu.0" not in [call.call for call in ulpscope.check(tmp_path, black_list="relu").calls]
    for modules in (model, lambda: torch.nn.Sequential(torch.nn.Linear(4, 4))):
        checked = ulpscope.check(tmp_path, modules=modules)
        assert checked
        # The whole model, and not what is in it alone.
        names = {call.call for call in checked.calls if call.forward == "pass"}
        assert {"Module.0.Linear.0"} < names


def test_why_no_call_is_checked_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = recorded(tmp_path / "dump")
    assert check(str(dump), "--white-list", "nosuch") == 2
    assert "leave no call; the dump has: arange, relu" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    document = {"task": "tensor", "level": "L1", "dump_data_dir": None, "data": {}}
    (tmp_path / "empty" / "dump.json").write_text(json.dumps(document))
    assert check(str(tmp_path / "empty")) == 2
    assert "has no forward calls" in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_is_one_line_and_the_check_can_go_on(jobs: str, tmp_path: Path) -> None:
    dump, out = recorded(tmp_path / "dump", count=3000), tmp_path / "out"
    command = [sys.executable, "-m", "ulpscope", "check", str(dump), "-o", str(out), "-j", jobs]
    # As a terminal does it: the signal goes to the whole group.
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    progress = out / "check_progress.jsonl"
    deadline = time.monotonic() + 60
    while not (progress.exists() and progress.read_text().count("\n") > 3) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    shown, errors = running.communicate(timeout=60)
    assert (running.returncode, shown) == (130, "")
    assert errors == "ulpscope check: interrupted; the same command with --resume continues\n"
    assert progress.exists()


def test_a_reader_that_wants_no_more_is_no_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ulpscope", "check", str(recorded(tmp_path)), "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(timeout=60) == 0


def test_an_overflow_check_ignores_no_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    info = tmp_path / "forward_info_0.json"
    info.write_text("{}")
    for words in (["dump"], ["-o", "out"], ["--json"], ["--white-list", "relu"]):
        assert check("-forward", str(info), *words) == 2
        assert "cannot be combined with" in capsys.readouterr().err
    assert check("-forward", str(info)) == 2
    assert f"{info} has no calls" in capsys.readouterr().err
    info.write_text("{")
    assert check("-forward", str(info)) == 2
    assert capsys.readouterr().err.startswith(f"ulpscope check: error: {info} is no JSON file")


def test_the_reason_why_a_call_is_not_replayed_is_the_right_one(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path / "random", level="L1", task="tensor"):
        torch.randn(4)
        torch.ones(4).normal_()
    reasons = {call.call: call.message for call in ulpscope.check(tmp_path / "random").skipped}
    drawn = "it draws random numbers"
    assert reasons == {"Torch.randn.0": drawn, "Tensor.normal_.0": drawn}
    [call, *_] = ulpscope.check(recorded(tmp_path / "structure", "structure")).skipped
    assert call.message.startswith("the dump has no arguments, as with task structure")
