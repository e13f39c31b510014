"""The command on a terminal: tables that fit, and colour where it is wanted."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

PROGRAM = [sys.executable, "-m", "ulpscope"]
COLOURS = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CLICOLOR")


def on_terminal(
    folder: Path, *words: str, columns: int = 80, term: str = "xterm-256color", **variables: str
) -> tuple[int, str]:
    """Exit code and everything that reached a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in COLOURS}
    environment |= {"TERM": term, **variables}
    with subprocess.Popen(
        [*PROGRAM, *words], cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # On Linux the end of a terminal is an error.
                break
            if not piece:
                break
            shown += piece
        code = running.wait()
    os.close(ours)
    return code, shown.decode().replace("\r\n", "\n")


def in_a_pipe(folder: Path, *words: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in COLOURS}
    return subprocess.run(
        [*PROGRAM, *words], cwd=folder, capture_output=True, text=True, env=environment | variables
    ).stdout


@pytest.fixture
def four_files(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    for layer in range(4):
        name = f"model.layers.{layer}.self_attention.query_key_value.weight.npy"
        np.save(tmp_path / name, generator.normal(size=(64, 48)).astype(np.float32))
    return tmp_path


def test_a_table_has_one_line_per_row_and_fits(four_files: Path) -> None:
    code, shown = on_terminal(four_files, "stats", ".", "--color", "never")
    lines = shown.splitlines()
    assert code == 0
    # Headings, a rule, four rows, and what found no room.
    assert len(lines) <= 8, shown
    assert all(len(line) <= 80 for line in lines), shown
    assert all(f"layers.{layer}." in lines[2 + layer] for layer in range(4)), shown
    assert shown.split()[-4:] == ["--wide", "shows", "all", "columns"], shown


def test_wide_shows_everything_as_a_pipe_does(four_files: Path) -> None:
    piped = in_a_pipe(four_files, "stats", ".")
    assert "subnormals" in piped
    assert "…" not in piped
    assert on_terminal(four_files, "stats", ".", "--wide", "--color", "never") == (0, piped)


def test_a_terminal_that_does_not_know_its_width_has_80_columns(four_files: Path) -> None:
    at_80 = on_terminal(four_files, "stats", ".")
    assert on_terminal(four_files, "stats", ".", columns=0) == at_80


@pytest.fixture
def two_tensors(tmp_path: Path) -> Path:
    np.save(tmp_path / "a.npy", np.ones(4, np.float32))
    np.save(tmp_path / "b.npy", np.full(4, 3, np.float32))
    return tmp_path


def is_coloured(shown: str) -> bool:
    return "\x1b[" in shown


def test_colour_goes_by_flag_environment_and_reader(two_tensors: Path) -> None:
    words = ("compare", "a.npy", "b.npy")
    assert is_coloured(on_terminal(two_tensors, *words)[1])
    for variables in ({"NO_COLOR": "1"}, {"CLICOLOR": "0"}, {"FORCE_COLOR": "0"}):
        assert not is_coloured(on_terminal(two_tensors, *words, **variables)[1]), variables
    assert not is_coloured(on_terminal(two_tensors, *words, term="dumb")[1])
    assert not is_coloured(on_terminal(two_tensors, *words, "--color", "never")[1])
    assert not is_coloured(in_a_pipe(two_tensors, *words))
    for variables in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}):
        assert is_coloured(in_a_pipe(two_tensors, *words, **variables)), variables
    assert is_coloured(in_a_pipe(two_tensors, *words, "--color=always"))
    assert is_coloured(in_a_pipe(two_tensors, "--help", "--color", "always"))
    assert not is_coloured(on_terminal(two_tensors, "--help", "--color", "never")[1])


def test_the_verdict_is_coloured(two_tensors: Path) -> None:
    for words, colour in (
        (("compare", "a.npy", "b.npy"), 9),
        (("compare", "a.npy", "a.npy"), 10),
        (("diff", "a.npy", "b.npy"), 9),
        (("diff", "a.npy", "a.npy"), 10),
    ):
        shown = in_a_pipe(two_tensors, *words, "--color", "always")
        verdict = next(line for line in shown.splitlines() if re.search("agree|differ|AGREE|DIFFER", line))
        assert f"\x1b[38;5;{colour}m" in verdict, shown


def test_explanations_are_wrapped_and_commands_are_not(two_tensors: Path) -> None:
    subprocess.run([*PROGRAM, "compare", "a.npy", "b.npy", "-o", "out"], cwd=two_tensors, capture_output=True)
    code, shown = on_terminal(two_tensors, "explain", "out", columns=50)
    assert code == 0
    lines = shown.splitlines()
    assert all(len(line) <= 50 or "ulpscope" in line for line in lines), shown
    piped = in_a_pipe(two_tensors, "explain", "out")
    assert any(len(line) > 50 for line in piped.splitlines()), "there is something to wrap"
    assert shown.split() == piped.split()
