"""Several captures at once: in one process, under ``ulpscope run``, and from several processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ulpscope
from captured import Captured
from patches import Guarded, left_behind, snapshot


@pytest.fixture(autouse=True)
def _forget_the_debugger() -> Iterator[None]:
    yield
    ulpscope.PrecisionDebugger.close()


def net() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())


class TestInOneProcess:
    @pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
    def test_a_second_start_is_refused_and_names_the_first(self, tmp_path: Path, level: str) -> None:
        before = snapshot()
        model, x = net(), torch.ones(1, 2)
        first = ulpscope.capture(tmp_path / "first", model, level)
        second = ulpscope.capture(tmp_path / "second" / "deeper", model, level)
        first.start()
        with pytest.raises(
            RuntimeError,
            match=r"only one capture can record at a time: call stop\(\) or close\(\) on the first",
        ) as refused:
            second.start()
        assert str(tmp_path / "first") in str(refused.value)
        assert not (tmp_path / "second").exists()
        model(x)
        first.close()
        second.close()
        assert list(left_behind(before, snapshot())) == []
        assert not (tmp_path / "second").exists()
        assert Captured(tmp_path / "first").calls

    def test_after_the_first_has_stopped_the_second_may_start(self, tmp_path: Path) -> None:
        first, second = ulpscope.capture(tmp_path / "first"), ulpscope.capture(tmp_path / "second")
        first.start()
        torch.sin(torch.ones(2))
        with pytest.raises(RuntimeError):
            second.start()
        first.stop()
        second.start()
        torch.cos(torch.ones(2))
        second.stop()
        first.start()
        torch.tan(torch.ones(2))
        first.close()
        second.close()
        names = [
            [name.split(".")[1] for name in Captured(tmp_path / folder).calls]
            for folder in ("first", "second")
        ]
        assert names == [["ones", "sin", "ones", "tan"], ["ones", "cos"]]

    def test_from_another_thread(self, tmp_path: Path) -> None:
        raised: list[BaseException] = []

        def start() -> None:
            try:
                ulpscope.capture(tmp_path / "second").start()
            except RuntimeError as error:
                raised.append(error)

        with ulpscope.capture(tmp_path / "first"):
            thread = threading.Thread(target=start)
            thread.start()
            thread.join()
        assert [str(tmp_path / "first") in str(error) for error in raised] == [True]

    def test_a_debugger_beside_a_capture(self, tmp_path: Path) -> None:
        debugger = ulpscope.PrecisionDebugger(dump_path=tmp_path / "second")
        with ulpscope.capture(tmp_path / "first"), pytest.raises(RuntimeError, match="first"):
            debugger.start()
        debugger.start()
        torch.sin(torch.ones(2))
        debugger.stop()
        assert "Torch.sin.0.forward" in Captured(tmp_path / "second").calls

    def test_saving_by_hand_beside_a_capture(self, tmp_path: Path) -> None:
        """Level debug is no stranger between program and torch."""
        with ulpscope.capture(tmp_path / "calls"), ulpscope.capture(tmp_path / "saved", level="debug") as run:
            run.save(torch.sin(torch.ones(2)), "x")
        assert "Torch.sin.0.forward" in Captured(tmp_path / "calls").calls
        assert list(Captured(tmp_path / "saved").document("debug.json")["data"]) == ["x.0.debug"]

    def test_one_whose_installation_failed_does_not_stand_in_the_way(self, tmp_path: Path) -> None:
        first = ulpscope.capture(tmp_path / "first")
        with Guarded(TypeError("cannot")), pytest.raises(TypeError, match="cannot"):
            first.start()
        with ulpscope.capture(tmp_path / "second"):
            torch.sin(torch.ones(2))
        assert "Torch.sin.0.forward" in Captured(tmp_path / "second").calls

    @pytest.mark.parametrize("model", [3, [], [torch.nn.Linear(2, 2), "no module"]], ids=repr)
    def test_one_whose_model_is_none_leaves_nothing(self, tmp_path: Path, model: object) -> None:
        message = r"^model (is|has) an? .*; expected a torch.nn.Module or a list of them$"
        with pytest.raises(ulpscope.SettingsError, match=message):
            ulpscope.capture(tmp_path / "dump", model=model)
        run = ulpscope.capture(tmp_path / "dump")
        with pytest.raises(ulpscope.SettingsError, match=message):
            run.start(model)
        assert not list(tmp_path.iterdir())
        with ulpscope.capture(tmp_path / "dump"):
            torch.sin(torch.ones(2))
        assert "Torch.sin.0.forward" in Captured(tmp_path / "dump").calls
        run.close()

    def test_one_whose_installation_failed_leaves_nothing(self, tmp_path: Path) -> None:
        """Nor does it take the place of what an earlier run has left."""
        with ulpscope.capture(tmp_path / "used"):
            torch.sin(torch.ones(2))
        runs = [ulpscope.capture(tmp_path / folder) for folder in ("used", "new/folder")]
        # Something that the ledger would say: a thread that is not seen.
        is_over = threading.Event()
        thread = threading.Thread(target=is_over.wait)
        thread.start()
        with Guarded(TypeError("cannot")):
            for run in runs:
                with pytest.raises(TypeError, match="cannot"):
                    run.start()
        is_over.set()
        thread.join()
        for run in runs:
            run.close()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["used"]
        assert [path.name for path in (tmp_path / "used").iterdir()] == ["step0"]
        assert "Torch.sin.0.forward" in Captured(tmp_path / "used").calls
        with ulpscope.capture(tmp_path / "used"):
            torch.cos(torch.ones(2))
        assert "Torch.cos.0.forward" in Captured(tmp_path / "used").calls

    def test_the_same_folder_is_refused(self, tmp_path: Path) -> None:
        """Also of a capture that has stopped: it may go on, and has yet to clear up."""
        first = ulpscope.capture(tmp_path)
        first.start()
        torch.sin(torch.ones(2))
        first.stop()
        with pytest.raises(ulpscope.SettingsError, match=r"dump_path .* another capture of this process"):
            ulpscope.capture(tmp_path).start()
        with pytest.raises(ulpscope.SettingsError, match="dump_path"):
            ulpscope.capture(tmp_path, level="debug").save(torch.ones(2), "x")
        assert "Torch.sin.0.forward" in Captured(tmp_path).calls
        first.close()
        with ulpscope.capture(tmp_path):
            torch.cos(torch.ones(2))
        assert "Torch.cos.0.forward" in Captured(tmp_path).calls
        assert sorted(path.name for path in tmp_path.iterdir()) == ["step0"]


SLEEPER = """\
import sys, torch, ulpscope
run = ulpscope.capture(sys.argv[1])
run.start()
torch.sin(torch.ones(2))
run.step()
torch.cos(torch.ones(2))
print("ready", flush=True)
sys.stdin.readline()
torch.tan(torch.ones(2))
run.close()
"""


def another(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """A process that records, and waits in its second step for a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
class TestFromTwoProcesses:
    def test_a_folder_in_use_is_refused_and_not_touched(self, tmp_path: Path) -> None:
        process = another(tmp_path)
        before = (tmp_path / "step0" / "rank" / "dump.json").read_bytes()
        with pytest.raises(ulpscope.SettingsError, match=f"dump_path .* process {process.pid}"):
            ulpscope.capture(tmp_path).start()
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
        assert (tmp_path / "step0" / "rank" / "dump.json").read_bytes() == before
        assert [name for name in Captured(tmp_path, step=1).calls if "ones" not in name] == [
            "Torch.cos.0.forward",
            "Torch.tan.0.forward",
        ]
        with ulpscope.capture(tmp_path):
            torch.tan(torch.ones(2))
        assert "Torch.tan.0.forward" in Captured(tmp_path).calls

    def test_a_killed_process_holds_nothing(self, tmp_path: Path) -> None:
        process = another(tmp_path)
        process.kill()
        process.communicate(timeout=60)
        with ulpscope.capture(tmp_path):
            torch.tan(torch.ones(2))
        assert "Torch.tan.0.forward" in Captured(tmp_path).calls
        assert sorted(path.name for path in tmp_path.iterdir()) == ["step0", "step1"]

    def test_ranks_write_side_by_side(self, tmp_path: Path) -> None:
        processes = [another(tmp_path, RANK=str(rank)) for rank in range(2)]
        for process in processes:
            process.communicate("\n", timeout=60)
        assert [process.returncode for process in processes] == [0, 0]
        for rank in ("rank0", "rank1"):
            assert "Torch.sin.0.forward" in Captured(tmp_path, rank=rank).calls

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
    def test_a_forked_child_neither_holds_nor_frees_the_folder(self, tmp_path: Path) -> None:
        run = ulpscope.capture(tmp_path)
        run.start()
        torch.sin(torch.ones(2))
        read, write = os.pipe()
        waits, goes = os.pipe()
        child = os.fork()
        if not child:
            # It may capture on its own, elsewhere; here it is refused.
            told = "not refused"
            try:
                ulpscope.capture(tmp_path).start()
            except ulpscope.SettingsError as error:
                told = f"{error}"
            try:
                with ulpscope.capture(tmp_path / "child"):
                    torch.sin(torch.ones(2))
                told += ", recorded elsewhere"
            except BaseException as error:
                told += f", {error!r}"
            os.write(write, told.encode())
            os.close(write)
            os.close(goes)
            os.read(waits, 1)
            os._exit(0)
        os.close(write)
        os.close(waits)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        assert f"process {os.getpid()}" in told
        assert told.endswith("recorded elsewhere")
        run.close()
        # While the child still lives.
        with ulpscope.capture(tmp_path):
            torch.tan(torch.ones(2))
        os.close(goes)
        os.waitpid(child, 0)
        assert "Torch.tan.0.forward" in Captured(tmp_path).calls
        assert "Torch.sin.0.forward" in Captured(tmp_path / "child").calls


INNER = """\
import json, torch, ulpscope
torch.manual_seed(0)
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(1, 2)
{begin}
for step in range(2):
    {start}
    loss = model(x).sum()
    loss.backward()
    {stop}
    torch.neg(loss)
    optimizer.step()
    {step}
{end}
torch.sinh(x)
calls = json.load(open({dump!r} + "/step1/rank/dump.json"))["data"]
print(len([call for call in calls if "linear.0.forward" in call]), loss.item().hex())
"""

PARTS = {
    "debugger": {
        "begin": "debugger = ulpscope.PrecisionDebugger(dump_path={dump!r})",
        "start": "debugger.start(model)",
        "stop": "debugger.stop()",
        "step": "debugger.step()",
        "end": "",
    },
    "capture": {
        "begin": "run = ulpscope.capture({dump!r}); run.start()",
        "start": "",
        "stop": "",
        "step": "run.step()",
        "end": "run.close()",
    },
}


def script(folder: Path, parts: dict[str, str], dump: str) -> Path:
    file = folder / "train.py"
    parts = {name: part.format(dump=dump) for name, part in parts.items()}
    file.write_text(INNER.format(dump=dump, **parts))
    return file


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=120)


def names(folder: Path, step: int | str) -> list[str]:
    return [name.rpartition(".")[0] for name in Captured(folder, step).calls if name.endswith("forward")]


@pytest.fixture(scope="module", params=PARTS)
def alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, list[list[str]]]:
    """A script without us: how it captures, what it prints, and what it records in each step."""
    folder = tmp_path_factory.mktemp("alone")
    script(folder, PARTS[request.param], "own")
    plain = python(folder, "train.py")
    assert (plain.returncode, plain.stdout[:2]) == (0, "1 "), plain.stderr
    return request.param, plain.stdout, [names(folder / "own", step) for step in range(2)]


@pytest.mark.slow
class TestUnderTheRunCommand:
    """A script's own capture goes before ours: the script does what it does without us."""

    @pytest.mark.parametrize("level", ["L1", "mix"])
    def test_the_scripts_own_capture_goes_first(
        self, tmp_path: Path, alone: tuple[str, str, list[list[str]]], level: str
    ) -> None:
        how, printed, recorded = alone
        script(tmp_path, PARTS[how], "own")
        command = ("-m", "ulpscope", "run", "--dump-path", "ours", "--level", level, "--", "train.py")
        ran = python(tmp_path, *command)
        assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
        assert [names(tmp_path / "own", step) for step in range(2)] == recorded
        assert ran.stderr.count("its own capture") == 1
        for step in range(2):
            ours = names(tmp_path / "ours", step)
            assert not any("linear" in name for name in ours)
            assert any("Torch.neg" in name for name in ours) == (how == "debugger")
            notes = Captured(tmp_path / "ours", step).ledger["notes"]
            assert any("own capture" in note and str(tmp_path / "own") in note for note in notes)
        # After it has closed, ours goes on.
        assert "Torch.sinh.0" in names(tmp_path / "ours", "after_last_step")

    def test_the_same_folder_is_left_to_the_script(
        self, tmp_path: Path, alone: tuple[str, str, list[list[str]]]
    ) -> None:
        how, printed, recorded = alone
        script(tmp_path, PARTS[how], "own")
        ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "own", "--", "train.py")
        assert (ran.returncode, ran.stdout) == (0, printed), ran.stderr
        assert [names(tmp_path / "own", step) for step in range(2)] == recorded
        assert "the script's own capture writes to" in ran.stderr

    def test_a_folder_in_use_is_reported_before_the_script_runs(self, tmp_path: Path) -> None:
        process = another(tmp_path / "dump")
        (tmp_path / "train.py").write_text("print('ran')\nimport torch\n")
        ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "dump", "--", "train.py")
        process.communicate("\n", timeout=60)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert f"dump_path is {str(tmp_path / 'dump')!r}" in ran.stderr
        assert f"process {process.pid}" in ran.stderr

    def test_a_folder_taken_meanwhile_does_not_stop_the_script(self, tmp_path: Path) -> None:
        """By another process, between the start of the script and its import of torch."""
        (tmp_path / "train.py").write_text(
            "import subprocess, sys\n"
            f"other = subprocess.Popen([sys.executable, '-c', {SLEEPER!r}, 'dump'],"
            " stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)\n"
            "assert other.stdout.readline() == 'ready\\n'\n"
            "import torch\n"
            "print(torch.sinh(torch.ones(1)).item() > 1)\n"
            "other.communicate('\\n')\n"
        )
        ran = python(tmp_path, "-m", "ulpscope", "run", "--dump-path", "dump", "--", "train.py")
        assert (ran.returncode, ran.stdout) == (0, "True\n"), ran.stderr
        assert "nothing is recorded" in ran.stderr
        data = json.loads((tmp_path / "dump" / "step1" / "rank" / "dump.json").read_text())["data"]
        assert [name for name in data if "ones" not in name] == ["Torch.cos.0.forward", "Torch.tan.0.forward"]
