"""PrecisionDebugger: one for the process, faithful to its arguments, its file and its steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from captured import Captured
from ulpscope import PrecisionDebugger, SettingsError


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Dumps go to the folder of the test, and no test leaves a debugger to the next."""
    monkeypatch.chdir(tmp_path)
    yield
    PrecisionDebugger.close()


def recorded(dump_path: str) -> dict[int, list[str]]:
    """The calls of each step that was recorded; the run is over."""
    PrecisionDebugger.close()
    steps = sorted(int(path.name.removeprefix("step")) for path in Path(dump_path).glob("step*"))
    return {step: list(Captured(Path(dump_path), step).calls) for step in steps}


def sine() -> None:
    torch.sin(torch.ones(2))


SINE = ["Torch.ones.0.forward", "Torch.sin.0.forward"]


def write(path: Path, **keys: Any) -> str:
    """A config.json; each differs from the one before in its time at least."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(json.dumps(keys))
    os.utime(path, ns=(before + 10**9, before + 10**9))
    return str(path)


def test_a_second_one_is_the_first(caplog: pytest.LogCaptureFixture) -> None:
    first = PrecisionDebugger(dump_path="a", level="L0")
    assert PrecisionDebugger() is first
    assert caplog.text == ""
    assert PrecisionDebugger(dump_path="b", task="tensor") is first
    assert "new arguments are ignored" in caplog.text
    assert (first.settings["dump_path"].name, first.settings["task"]) == ("a", "statistics")


def test_one_that_could_not_be_made_is_not_in_the_way() -> None:
    wrong: Any = "L9"
    with pytest.raises(SettingsError, match="level is 'L9'"):
        PrecisionDebugger(dump_path="a", level=wrong)
    assert PrecisionDebugger(dump_path="b").settings["dump_path"].name == "b"


def test_close_makes_room_for_another() -> None:
    first = PrecisionDebugger(dump_path="a")
    first.start()
    sine()
    PrecisionDebugger.close()
    PrecisionDebugger.close()
    sine()
    assert PrecisionDebugger(dump_path="b") is not first
    assert recorded("a") == {0: SINE}


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("start", ()), ("stop", ()), ("step", ()), ("save", (1, "x")), ("set_init_step", (1,))],
)
def test_without_one_the_methods_say_what_is_missing(method: str, arguments: Any) -> None:
    with pytest.raises(RuntimeError, match=rf"construct one before {method}\(\)"):
        getattr(PrecisionDebugger, method)(*arguments)


class Own:
    """Functions of the user."""

    @staticmethod
    def double(x: torch.Tensor) -> torch.Tensor:
        return x.mul(2)


def test_methods_work_on_the_class() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    PrecisionDebugger(dump_path="a", model=model, level="mix")
    PrecisionDebugger.register_custom_api(Own, "double", "Mine")
    PrecisionDebugger.start()
    loss = model(Own.double(torch.ones(1, 1))).sum()
    PrecisionDebugger.forward_backward_dump_end()
    sine()
    loss.backward()
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    PrecisionDebugger.restore_custom_api(Own, "double")
    PrecisionDebugger.start()
    Own.double(torch.ones(1, 1))
    calls = recorded("a")
    assert {"Mine.double.0.forward", "Module.0.Linear.forward.0", "Module.0.Linear.backward.0"} <= set(
        calls[0]
    )
    assert "Torch.sin.0.forward" not in calls[0]
    assert calls[1] == ["Torch.ones.0.forward", "Tensor.mul.0.forward"]


def test_a_model_given_to_start_is_remembered() -> None:
    models = [torch.nn.Sequential(torch.nn.Linear(1, 1)), torch.nn.Sequential(torch.nn.ReLU())]
    debugger = PrecisionDebugger(dump_path="a", level="L0")
    debugger.start(models)
    models[0](torch.ones(1, 1))
    debugger.stop()
    debugger.start()
    models[1](torch.ones(1, 1))
    assert [name.split(".")[-3] for name in recorded("a")[0]] == ["Linear", "ReLU"]


@pytest.mark.parametrize("model", [3, [torch.nn.ReLU(), "relu"]])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(SettingsError, match=r"model is or holds a (int|str); expected a torch\.nn\.Module"):
        PrecisionDebugger(dump_path="a", model=model)
    PrecisionDebugger(dump_path="a")
    with pytest.raises(SettingsError, match="model is or holds"):
        PrecisionDebugger.start(model)


def test_arguments_count_before_the_file(tmp_path: Path) -> None:
    config = write(tmp_path / "c.json", task="tensor", dump_path="a", level="L0", step=[1])
    settings = PrecisionDebugger(config, dump_path="b", step=["2-3"]).settings
    found = [settings[name] for name in ("dump_path", "task", "level", "step")]
    assert found == [tmp_path / "b", "tensor", "L0", (2, 3)]


def test_without_a_file_it_writes_where_the_older_tools_do(tmp_path: Path) -> None:
    assert PrecisionDebugger().settings["dump_path"] == tmp_path / "dump_path"


def test_after_the_last_wanted_step_it_stops_for_good() -> None:
    debugger = PrecisionDebugger(dump_path="a", step=[0, 1])
    for _ in range(4):
        debugger.start()
        sine()
        debugger.stop()
        debugger.step()
    assert recorded("a") == {0: SINE, 1: SINE}


def test_steps_can_be_counted_from_elsewhere() -> None:
    debugger = PrecisionDebugger(dump_path="a", step=[7])
    debugger.set_init_step(7)
    debugger.start()
    sine()
    debugger.step()
    debugger.start()
    sine()
    with pytest.raises(SettingsError, match="init_step is -1"):
        debugger.set_init_step(-1)
    assert recorded("a") == {7: SINE}


def test_save_is_for_level_debug(caplog: pytest.LogCaptureFixture) -> None:
    debugger = PrecisionDebugger(dump_path="a")
    debugger.save(torch.ones(1), "x")
    debugger.save(torch.ones(1), "x")
    assert caplog.text.count("save records at level debug only; the level is L1") == 1
    debugger.close()
    assert not Path("a").exists()
    PrecisionDebugger(dump_path="a", level="debug").save(torch.ones(1), "x", False)
    PrecisionDebugger.close()
    assert list(Captured(Path("a")).document("debug.json")["data"]) == ["x.0.debug"]


def test_what_only_inference_servers_give_is_refused() -> None:
    PrecisionDebugger(dump_path="a")
    with pytest.raises(SettingsError, match="token_range is given to start, which is not supported"):
        PrecisionDebugger.start(token_range=[0, 1])


class Clock:
    """The time as the program sees it, moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        self._start = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: self._start + self._ahead)

    def move(self, seconds: float) -> None:
        self._ahead += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


class TestChangedFile:
    """A config.json with ``dump_enable`` is looked at again while the program runs."""

    def test_switches_recording_on_and_off(self, clock: Clock, tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=False))
        debugger.start()
        for is_on in (False, True, False):
            write(file, dump_path="a", dump_enable=is_on)
            clock.move(10)
            debugger.step()
            sine()
        assert recorded("a") == {2: SINE}

    def test_without_the_key_the_file_is_read_once(self, clock: Clock, tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a"))
        write(file, dump_path="b", dump_enable=False)
        clock.move(10)
        debugger.start()
        sine()
        assert recorded("a") == {0: SINE}
        assert not Path("b").exists()

    def test_other_settings_are_another_run_at_the_same_step(
        self, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True, step=[0]), level="L1")
        debugger.register_custom_api(Own, "double")
        debugger.start()
        debugger.step()
        debugger.stop()
        debugger.step()
        write(file, dump_path="b", dump_enable=True, step=[2], level="L0", task="tensor")
        clock.move(10)
        debugger.start()
        settings = debugger.settings
        assert (settings["step"], settings["level"], settings["task"]) == ((2,), "L1", "tensor")
        Own.double(torch.ones(1))
        assert "has changed: recording goes on with its settings" in caplog.text
        assert list(recorded("b")) == [2]
        assert "Own.double.0.forward" in recorded("b")[2]

    def test_other_settings_and_off_is_said_to_be_off(
        self, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        debugger.start()
        sine()
        write(file, dump_path="a", dump_enable=False, task="tensor")
        clock.move(10)
        debugger.step()
        sine()
        assert "has changed: recording is off" in caplog.text
        assert "goes on" not in caplog.text
        assert recorded("a") == {0: SINE}

    def test_a_file_gone_wrong_switches_off(
        self, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        debugger.start()
        for level in ("L9", "L1"):
            sine()
            write(file, dump_path="a", dump_enable=True, level=level)
            clock.move(10)
            debugger.step()
        sine()
        assert "level is 'L9'; expected one of L0, L1, mix, L2, debug; recording is off" in caplog.text
        assert recorded("a") == {0: SINE, 2: SINE}

    def test_a_file_being_replaced_changes_nothing(self, clock: Clock, tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        file.unlink()
        clock.move(10)
        debugger.start()
        sine()
        assert recorded("a") == {0: SINE}

    def test_is_not_looked_at_all_the_time(self, clock: Clock, tmp_path: Path) -> None:
        """Twice a second while it records, every three seconds while it is off."""
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        debugger.start()
        changes = ((0.4, False), (0.2, False), (2.5, True), (0.7, True), (0.1, True))
        for seconds, is_on in changes:
            write(file, dump_path="a", dump_enable=is_on)
            clock.move(seconds)
            debugger.step()
            sine()
        assert list(recorded("a")) == [0, 1, 4, 5]


@pytest.mark.slow
def test_the_end_of_the_process_closes_it(tmp_path: Path) -> None:
    script = (
        "import torch, ulpscope\n"
        f"debugger = ulpscope.PrecisionDebugger(dump_path={str(tmp_path / 'd')!r})\n"
        "debugger.start()\n"
        "torch.ones(2) + 1\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    folder = tmp_path / "d" / "step0" / "rank"
    assert "Tensor.__add__.0.forward" in json.loads((folder / "dump.json").read_text())["data"]
    assert not (folder / "journal.jsonl").exists()
