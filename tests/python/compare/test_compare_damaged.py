"""Comparing dumps that are damaged, empty or not there, onto disks that are full."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path

import pytest

import ulpscope
from dumps import chain, read_csv, run, write_rank


def test_empty_dumps_are_not_in_agreement(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, [])
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "INCONCLUSIVE: there was nothing to compare" in ran.stdout


def test_a_missing_tensor_file_is_named_and_the_rest_compared(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    gone = tmp_path / "target" / "dump_tensor_data" / "Functional.gelu.1.forward.output.0.pt"
    gone.unlink()
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "-o", tmp_path / "out")
    assert ran.returncode == 2
    assert "Functional.gelu.1.forward.output.0.pt" in ran.stderr
    assert "No such file" in ran.stderr
    [row] = [
        row
        for row in read_csv(tmp_path / "out")
        if row["target_name"].startswith("Functional.gelu.1.forward.output")
    ]
    assert row["basis"] == "statistics"


def test_a_dump_that_breaks_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    path = tmp_path / "target" / "dump.json"
    text = path.read_text()
    path.write_text(text[: text.index("Functional.gelu.2.forward")])
    ran = run("compare", tmp_path / "target", tmp_path / "golden", "--json")
    assert ran.returncode == 2
    assert "dump.json" in ran.stderr
    assert "truncated" in ran.stderr
    summary = json.loads(ran.stdout)["summary"]
    assert summary["only_in_golden"] == 2
    assert summary["problems"] == 1


def test_unreadable_permissions(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(2))
    (tmp_path / "target" / "dump.json").chmod(0)
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "ermission denied" in ran.stderr


def test_nothing_there(tmp_path: Path) -> None:
    ran = run("compare", tmp_path / "absent", tmp_path / "absent too")
    assert ran.returncode == 2
    assert "absent" in ran.stderr
    with pytest.raises(FileNotFoundError):
        ulpscope.compare(tmp_path / "absent", tmp_path / "absent too")


def limit_file_size() -> None:
    """What a full disk looks like to a program: writing fails half-way."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize("kind", ["csv", "xlsx", "json"])
def test_a_full_disk_ends_in_a_message_and_leaves_nothing(
    pair: tuple[Path, Path], tmp_path: Path, kind: str
) -> None:
    out = tmp_path / "out"
    ran = run("compare", *pair, "-o", out, "--format", kind, preexec_fn=limit_file_size)
    assert ran.returncode == 2
    assert "File too large" in ran.stderr
    assert "panicked" not in ran.stderr
    assert not [path for path in out.iterdir() if path.suffix == f".{kind}"]


def test_a_full_disk_does_not_lose_the_verdict(pair: tuple[Path, Path], tmp_path: Path) -> None:
    ran = run("compare", *pair, "-o", tmp_path / "out", "--format", "csv", preexec_fn=limit_file_size)
    assert ran.returncode == 2
    assert "DIFFER" in ran.stdout
    assert "Functional.linear.3.forward" in ran.stdout


def test_a_missing_folder_is_missing_once(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(3))
    (tmp_path / "target" / "dump_tensor_data").rename(tmp_path / "elsewhere")
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "1 file or tensor could not be read" in ran.stdout, ran.stdout
    assert ran.stderr.count("dump_tensor_data") == 1, ran.stderr


def test_statistics_that_are_no_numbers_are_damage(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        write_rank(tmp_path / side, chain(2), tensors=False)
    path = tmp_path / "target" / "dump.json"
    data = json.loads(path.read_text())
    output = data["data"]["Functional.gelu.0.forward"]["output"][0]
    output["Max"], output["shape"] = "abc", ["x", -3]
    path.write_text(json.dumps(data))
    ran = run("compare", tmp_path / "target", tmp_path / "golden")
    assert ran.returncode == 2
    assert "expected a number as a tensor's Max" in ran.stderr
    assert "expected a list of sizes as a tensor's shape" in ran.stderr
