"""The session at a terminal: prompt, completion, history, Ctrl-C, Ctrl-D, and programs at the terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

PROMPT = "PrecisionTool > "


class Typist:
    """A session at a terminal, typed by a test."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        environment = os.environ | {
            "TERM": "xterm",
            "SHELL": "/bin/sh",
            "XDG_STATE_HOME": str(folder / "state"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
            # The terminal has to be the session's own, for Ctrl-C to reach its processes.
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
        os.close(theirs)
        self._shown = ""

    def until(self, text: str) -> str:
        """What is shown up to a text."""
        deadline = time.monotonic() + 60
        while text not in self._shown:
            assert time.monotonic() < deadline, self._shown
            ready, _, _ = select.select([self._ours], [], [], 1)
            if ready:
                self._shown += self._read()
        before, _, self._shown = self._shown.partition(text)
        return before

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def ended(self) -> int:
        while self._read():
            pass
        return self._process.wait(60)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # On Linux the end of a terminal is an error.
            return ""


@pytest.fixture
def typist(tmp_path: Path) -> Iterator[Typist]:
    np.save(tmp_path / "tensor_one.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    one = Typist(tmp_path, "ulpscope", "shell")
    one.until(PROMPT)
    yield one
    one.close()


def test_tab_completes_commands_and_files_and_ctrl_d_leaves(typist: Typist, tmp_path: Path) -> None:
    typist.type("pt tens\t\r")
    typist.until("Shape: (2, 3)")
    typist.until(PROMPT)
    typist.type("hel\t\r")
    typist.until("list the commands")
    typist.until(PROMPT)
    # The line before the last one.
    typist.type("\x1b[A\x1b[A\r")
    typist.until("Shape: (2, 3)")
    typist.until(PROMPT)
    typist.type("\x04")
    assert typist.ended() == 0
    assert "pt tensor_one.npy" in (tmp_path / "state/ulpscope/shell_history").read_text()


def test_tab_completes_names_of_operators(typist: Typist, tmp_path: Path) -> None:
    graph = tmp_path / "precision_data/graph/all/ge_proto_00000001_Build.txt"
    graph.parent.mkdir(parents=True)
    graph.write_text('graph { name: "g" op { name: "LeNet/conv1/Conv2D" type: "Conv2D" } }')
    typist.type("ni LeN\t\r")
    typist.until("Op(Type/Name): [Conv2D] LeNet/conv1/Conv2D")
    typist.until(PROMPT)
    typist.type("ls -n LeNet/co\t\r")
    typist.until("[Conv2D][] LeNet/conv1/Conv2D")
    typist.until(PROMPT)
    typist.type("\x04")
    assert typist.ended() == 0


def test_ctrl_c_clears_a_line_and_leaves_at_an_empty_prompt(typist: Typist) -> None:
    typist.type("pt something")
    typist.until("something")
    typist.type("\x03")
    typist.type("run echo still $((40 + 2))\r")
    typist.until("still 42")
    typist.until(PROMPT)
    typist.type("\x03")
    assert typist.ended() == 0


def test_programs_have_the_terminal_and_pipes_and_globs_work(typist: Typist) -> None:
    typist.type("run ls *.npy | tr a-z A-Z; test -t 0 && echo at a $(echo terminal)\r")
    typist.until("TENSOR_ONE.NPY")
    typist.until("at a terminal")
    typist.until(PROMPT)
    typist.type("read answer; echo got $answer\r")
    typist.until("$answer")
    time.sleep(0.3)
    typist.type("it\r")
    typist.until("got it")
    typist.until(PROMPT)
    # Ctrl-C ends the program, not the session.
    typist.type("sleep 100\r")
    typist.until("sleep 100")
    time.sleep(0.5)
    typist.type("\x03")
    typist.until(PROMPT)
    typist.type("exit\r")
    assert typist.ended() == 0


def test_ctrl_c_cancels_a_running_command(typist: Typist, tmp_path: Path) -> None:
    np.save(tmp_path / "large.npy", np.random.default_rng(0).normal(size=1 << 25).astype(np.float32))
    started = time.monotonic()
    typist.type("pt large.npy\r")
    typist.until("large.npy")
    time.sleep(0.5)
    typist.type("\x03")
    typist.until("[ERROR] pt: cancelled")
    # Its text takes far longer.
    assert time.monotonic() - started < 10
    typist.until(PROMPT)
    assert not (tmp_path / "large.npy.txt").exists()
    typist.type("exit\r")
    assert typist.ended() == 0


def test_the_shell_of_ptdbg(tmp_path: Path) -> None:
    one = Typist(tmp_path, "ulpscope.compat.ptdbg_ascend.parse")
    one.until("Parse >>> ")
    one.type("echo a shell command\r")
    one.until("\na shell command")
    one.until("Parse >>> ")
    one.type("\x03")
    assert one.ended() == 0
    one.close()


def test_the_guides_own_line_with_the_drop_in(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ulpscope", "run", "--drop-in", "-m", "ptdbg_ascend.parse"],
        cwd=tmp_path,
        input="help vc\n",
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 0
    assert ended.stdout.startswith("usage: vc -m MY_DUMP_PATH -g GOLDEN_DUMP_PATH")
