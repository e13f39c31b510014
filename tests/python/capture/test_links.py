"""Symbolic links below ``dump_path``: capture does not follow them out of the dump."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ulpscope
from captured import Captured


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the user's with files of the names that a dump has."""
    folder = tmp_path / "outside"
    (folder / "rank").mkdir(parents=True)
    for name in ("dump.json", "rank/dump.json", "victim"):
        (folder / name).write_text("the user's own")
    return folder


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


LINKS = {
    "step0": "outside",
    "step0/rank": "outside",
    "after_last_step": "outside",
    ".rank.lock": "outside/victim",
}


def put_link(dump: Path, name: str, target: Path) -> None:
    (dump / name).parent.mkdir(parents=True, exist_ok=True)
    (dump / name).symlink_to(target)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_refused_before_anything_is_recorded(tmp_path: Path, outside: Path, name: str) -> None:
    before = contents(outside)
    put_link(tmp_path / "dump", name, tmp_path / LINKS[name])
    with pytest.raises(ulpscope.SettingsError) as refused:
        ulpscope.capture(tmp_path / "dump").start()
    assert f"where '{name}' is a symbolic link" in str(refused.value)
    assert "remove it, or choose another folder" in str(refused.value)
    assert contents(outside) == before


def test_ulpscope_run_says_so_before_the_script_runs(tmp_path: Path, outside: Path) -> None:
    put_link(tmp_path / "dump", "step0", outside)
    before = contents(outside)
    (tmp_path / "script.py").write_text("print('ran')\n")
    words = [sys.executable, "-m", "ulpscope", "run", "--dump-path", "dump", "--", "script.py"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "'step0' is a symbolic link" in ran.stderr
    assert contents(outside) == before


@pytest.mark.parametrize("name", ["step1", "step1/rank"])
def test_a_link_that_comes_later_ends_the_recording_and_not_the_run(
    tmp_path: Path, outside: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(outside)
    dump = tmp_path / "dump"
    with ulpscope.capture(dump) as run:
        torch.sin(torch.ones(2))
        put_link(dump, name, outside)
        run.step()
        assert torch.sin(torch.ones(2)).shape == (2,)
    assert contents(outside) == before
    assert "Torch.sin.0.forward" in Captured(dump).calls
    assert f"{dump / name} is a symbolic link" in caplog.text


def test_a_link_in_the_place_of_a_step_that_is_being_recorded(
    tmp_path: Path, outside: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(outside)
    dump = tmp_path / "dump"
    with ulpscope.capture(dump, task="tensor"):
        torch.sin(torch.ones(2))
        (dump / "step0").rename(dump / "moved")
        (dump / "step0").symlink_to(outside)
        torch.cos(torch.ones(2))
    assert contents(outside) == before
    assert "is a symbolic link" in caplog.text
    # What was recorded can be read where it is now.
    assert (dump / "moved/rank/journal.jsonl").exists()


def test_links_in_the_place_of_files_are_replaced(tmp_path: Path, outside: Path) -> None:
    before = contents(outside)
    rank = tmp_path / "dump/step0/rank"
    rank.mkdir(parents=True)
    for name in ("dump.json", "journal.jsonl", "ledger.json", "stack.json"):
        (rank / name).symlink_to(outside / "victim")
    (rank / "dump_tensor_data").symlink_to(outside)
    with ulpscope.capture(tmp_path / "dump", task="tensor"):
        torch.sin(torch.ones(2))
    assert contents(outside) == before
    assert not [path for path in rank.rglob("*") if path.is_symlink()]


def test_the_folder_itself_and_those_above_may_be_links(tmp_path: Path) -> None:
    (tmp_path / "disk/dump").mkdir(parents=True)
    (tmp_path / "data").symlink_to("disk")
    (tmp_path / "disk/link").symlink_to("dump")
    with ulpscope.capture(tmp_path / "data/link", task="tensor"):
        torch.sin(torch.ones(2))
    assert "Torch.sin.0.forward" in Captured(tmp_path / "disk/dump").calls
