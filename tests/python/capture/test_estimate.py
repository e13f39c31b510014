"""What a step would take: ``capture(estimate=True)`` and ``ulpscope run --dry-run``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured

TRAIN = """\
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go, so that one of ours that is left is seen. Torch may leave caches there."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def train(dump: Path, steps: int = 2, **settings: Any) -> ulpscope.Capture:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ulpscope.capture(dump, model=model, level="mix", **settings) as run:
        for _ in range(steps):
            model(torch.ones(2, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            run.step()
    return run


def on_disk(step: Path) -> tuple[int, int]:
    files = [file.stat() for file in step.rglob("*") if file.is_file()]
    return len(files), sum({file.st_ino: file.st_size for file in files}.values())


def entries_of(value: Any) -> Iterator[dict[str, Any]]:
    """The tensors of a call."""
    if isinstance(value, dict) and "dtype" in value:
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from entries_of(part)


@pytest.mark.parametrize("file_format", ["pack", "pt", "npy", "safetensors"])
@pytest.mark.parametrize(
    "settings",
    [
        {"task": "tensor"},
        {"task": "statistics"},
        {"task": "statistics", "tensor_list": "linear"},
        {"task": "structure"},
        {"task": "tensor", "module": "0", "step": 1},
        {"task": "tensor", "max_calls": 3, "max_bytes": "1K"},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_it_is_what_the_capture_then_writes(
    tmp_path: Path, temporary: Path, settings: dict[str, Any], file_format: str
) -> None:
    dump = tmp_path / "dump"
    found = train(dump, estimate=True, file_format=file_format, **settings).estimate
    assert not dump.exists()
    assert list(temporary.glob("ulpscope*")) == []
    limits = {"max_calls": None, "max_bytes": None}
    train(dump, file_format=file_format, **{**settings, **limits})
    step = settings.get("step", 0)
    assert found.step == step
    files, size = on_disk(dump / f"step{step}")
    assert found.calls == Captured(dump, step).ledger["recorded"]
    assert found.files == files
    assert found.bytes == pytest.approx(size, rel=0.2)
    saved = [
        entry
        for call in Captured(dump, step).calls.values()
        for entry in entries_of(call)
        if "data_name" in entry
    ]
    assert found.tensors == len(saved)


def test_a_loop_that_starts_and_stops_goes_on_after_the_estimate(tmp_path: Path) -> None:
    run = ulpscope.capture(tmp_path / "dump", estimate=True)
    with pytest.raises(RuntimeError, match="no step is over yet"):
        _ = run.estimate
    for _ in range(3):
        run.start()
        torch.sin(torch.ones(3))
        run.stop()
        run.step()
    run.close()
    assert run.estimate.calls == 2
    assert run.steps_done


def test_a_capture_that_records_has_none(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="estimate=True"):
        _ = train(tmp_path / "dump", 1).estimate


def dry_run(folder: Path, *flags: str, text: str = TRAIN) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    command = [sys.executable, "-m", "ulpscope", "run", *flags, "--", "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_a_dry_run_ends_after_one_step_and_writes_nothing(tmp_path: Path, temporary: Path) -> None:
    ran = dry_run(tmp_path, "--task", "tensor", "--step", "1-9", "--dry-run", "--json", "--dump-path", "dump")
    assert ran.returncode == 0, ran.stderr
    *printed, last = ran.stdout.splitlines()
    assert printed == ["step 0"]
    found = json.loads(last)
    assert not (tmp_path / "dump").exists()
    assert list(temporary.glob("ulpscope*")) == []
    assert dry_run(tmp_path, "--task", "tensor", "--step", "1", "--dump-path", "dump").returncode == 0
    files, size = on_disk(tmp_path / "dump" / "step1")
    assert (found["step"], found["files"]) == (1, files)
    assert found["calls"] == Captured(tmp_path / "dump", 1).ledger["recorded"]
    assert found["bytes"] == pytest.approx(size, rel=0.2)


def test_a_dry_run_needs_no_folder_but_checks_a_given_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"level": "mix"}')
    ran = dry_run(tmp_path, "--dry-run", "--config", "config.json")
    assert ran.returncode == 0, ran.stderr
    assert "nothing was written; step 0: " in ran.stdout
    assert list(tmp_path.glob("*/step*")) == []
    ran = dry_run(tmp_path, "--dry-run", "--dump-path", "train.py")
    assert ran.returncode == 2
    assert "--dump-path is 'train.py', which is a file" in ran.stderr


@pytest.mark.slow
def test_in_words(tmp_path: Path) -> None:
    ran = dry_run(tmp_path, "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert "nothing was written; step 0: " in ran.stdout
    assert " calls, 0 saved tensors, 4 files, " in ran.stdout


@pytest.mark.slow
def test_a_script_that_fails_fails(tmp_path: Path, temporary: Path) -> None:
    ran = dry_run(tmp_path, "--dry-run", text="import torch\nraise ValueError('of its own')\n")
    assert ran.returncode == 1
    assert "of its own" in ran.stderr
    assert list(temporary.glob("ulpscope*")) == []


@pytest.mark.slow
def test_a_step_that_never_ran_is_no_estimate(tmp_path: Path) -> None:
    ran = dry_run(tmp_path, "--dry-run", "--step", "100")
    assert ran.returncode == 2, ran.stdout
    assert "step 100 was not reached, so there is nothing to estimate from" in ran.stderr
    assert "nothing was written" not in ran.stdout


def test_json_is_for_dry_runs(tmp_path: Path) -> None:
    ran = dry_run(tmp_path, "--json")
    assert ran.returncode == 2
    assert "--json is for --dry-run" in ran.stderr
