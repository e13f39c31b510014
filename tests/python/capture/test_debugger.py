"""PrecisionDebugger: one for the process, faithful to its arguments, its file and its steps.

What a run records is tested elsewhere; here a stand-in notes what it is asked to do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ulpscope import PrecisionDebugger, SettingsError
from ulpscope._capture.settings import Settings, config_watch


class StandIn:
    """Notes what it is asked to do, and counts steps as a run does."""

    made: list[StandIn]

    def __init__(self, settings: Settings, model: Any = None) -> None:
        self.settings = settings
        self.model = model
        self.asked: list[Any] = []
        self._step = settings.init_step
        type(self).made.append(self)

    @property
    def steps_done(self) -> bool:
        return bool(self.settings.step) and self._step > max(self.settings.step)

    def step(self) -> None:
        self.asked.append("step")
        self._step += 1

    def set_init_step(self, step: int) -> None:
        self.asked.append(("set_init_step", step))
        self._step = step

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: self.asked.append((name, *args) if args and args != (None,) else name)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[StandIn]]:
    """The runs that are made, in order; in a folder of their own."""
    module = types.ModuleType("ulpscope._capture.lifecycle.run")
    StandIn.made = []
    module.Run = StandIn  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ulpscope._capture.lifecycle.run", module)
    monkeypatch.chdir(tmp_path)
    yield StandIn.made
    PrecisionDebugger.close()


def write(path: Path, **keys: Any) -> str:
    """A config.json; each differs from the one before in its time at least."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(json.dumps(keys))
    os.utime(path, ns=(before + 10**9, before + 10**9))
    return str(path)


def test_a_second_one_is_the_first(made: list[StandIn], caplog: pytest.LogCaptureFixture) -> None:
    first = PrecisionDebugger(dump_path="a", level="L0")
    assert PrecisionDebugger() is first
    assert caplog.text == ""
    assert PrecisionDebugger(dump_path="b", task="tensor") is first
    assert "new arguments are ignored" in caplog.text
    assert [run.settings.dump_path.name for run in made] == ["a"]


def test_one_that_could_not_be_made_is_not_in_the_way(made: list[StandIn]) -> None:
    with pytest.raises(SettingsError, match="level is 'L9'"):
        PrecisionDebugger(dump_path="a", level="L9")
    PrecisionDebugger(dump_path="b")
    assert made[0].settings.dump_path.name == "b"


def test_close_makes_room_for_another(made: list[StandIn]) -> None:
    first = PrecisionDebugger(dump_path="a")
    PrecisionDebugger.close()
    PrecisionDebugger.close()
    assert made[0].asked == ["stop", "close"]
    assert PrecisionDebugger(dump_path="b") is not first


@pytest.mark.parametrize(
    ("method", "arguments"),
    [("start", ()), ("stop", ()), ("step", ()), ("save", (1, "x")), ("set_init_step", (1,))],
)
def test_without_one_the_methods_say_what_is_missing(
    made: list[StandIn], method: str, arguments: Any
) -> None:
    with pytest.raises(RuntimeError, match=rf"construct one before {method}\(\)"):
        getattr(PrecisionDebugger, method)(*arguments)


def test_methods_work_on_the_class(made: list[StandIn]) -> None:
    model = torch.nn.Linear(1, 1)
    PrecisionDebugger(dump_path="a", model=model)
    PrecisionDebugger.start()
    PrecisionDebugger.forward_backward_dump_end()
    PrecisionDebugger.stop()
    PrecisionDebugger.step()
    PrecisionDebugger.register_custom_api(torch, "add", "Mine")
    PrecisionDebugger.restore_custom_api(torch, "add")
    assert made[0].asked == [
        ("start", model),
        "end_forward",
        "stop",
        "step",
        ("register_custom_api", torch, "add", "Mine"),
        ("restore_custom_api", torch, "add"),
    ]


def test_a_model_given_to_start_is_remembered(made: list[StandIn]) -> None:
    models = [torch.nn.Linear(1, 1), torch.nn.ReLU()]
    debugger = PrecisionDebugger(dump_path="a", level="mix")
    debugger.start(models)
    debugger.stop()
    debugger.start()
    assert made[0].asked == [("start", models), "stop", ("start", models)]


@pytest.mark.parametrize("model", [3, [torch.nn.ReLU(), "relu"]])
def test_what_is_no_model_is_refused(made: list[StandIn], model: Any) -> None:
    with pytest.raises(SettingsError, match=r"model is or holds a (int|str); expected a torch\.nn\.Module"):
        PrecisionDebugger(dump_path="a", model=model)
    PrecisionDebugger(dump_path="a")
    with pytest.raises(SettingsError, match="model is or holds"):
        PrecisionDebugger.start(model)


def test_arguments_count_before_the_file(made: list[StandIn], tmp_path: Path) -> None:
    config = write(tmp_path / "c.json", task="tensor", dump_path="a", level="L0", step=[1])
    PrecisionDebugger(config, dump_path="b", step=["2-3"])
    settings = made[0].settings
    assert (settings.dump_path.name, settings.task, settings.level, settings.step) == (
        "b",
        "tensor",
        "L0",
        (2, 3),
    )


def test_without_a_file_it_writes_where_the_older_tools_do(made: list[StandIn], tmp_path: Path) -> None:
    PrecisionDebugger()
    assert made[0].settings == Settings.from_keywords(tmp_path / "dump_path")


def test_after_the_last_wanted_step_it_stops_for_good(made: list[StandIn]) -> None:
    debugger = PrecisionDebugger(dump_path="a", step=[0, 1])
    for _ in range(4):
        debugger.start()
        debugger.stop()
        debugger.step()
    assert made[0].asked.count("start") == 2


def test_steps_can_be_counted_from_elsewhere(made: list[StandIn]) -> None:
    debugger = PrecisionDebugger(dump_path="a", step=[7])
    debugger.set_init_step(7)
    debugger.start()
    debugger.step()
    debugger.start()
    assert made[0].asked == [("set_init_step", 7), "start", "step", "stop"]
    with pytest.raises(SettingsError, match="init_step is -1"):
        debugger.set_init_step(-1)


def test_save_is_for_level_debug(made: list[StandIn], caplog: pytest.LogCaptureFixture) -> None:
    debugger = PrecisionDebugger(dump_path="a")
    debugger.save(1, "x")
    debugger.save(1, "x")
    assert made[0].asked == []
    assert caplog.text.count("save records at level debug only; the level is L1") == 1
    debugger.close()
    PrecisionDebugger(dump_path="a", level="debug").save(1, "x", False)
    assert made[1].asked == [("save", 1, "x", False)]


def test_what_only_inference_servers_give_is_refused(made: list[StandIn]) -> None:
    PrecisionDebugger(dump_path="a")
    with pytest.raises(SettingsError, match="token_range is given to start, which is not supported"):
        PrecisionDebugger.start(token_range=[0, 1])


class TestChangedFile:
    """A config.json with ``dump_enable`` is looked at again while the program runs."""

    @pytest.fixture(autouse=True)
    def at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(config_watch, "SECONDS_WHEN_RECORDING", -1)
        monkeypatch.setattr(config_watch, "SECONDS_WHEN_OFF", -1)

    def test_switches_recording_on_and_off(self, made: list[StandIn], tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=False))
        debugger.start()
        assert made[0].asked == []
        write(file, dump_path="a", dump_enable=True)
        debugger.step()
        assert made[0].asked == ["step", "start"]
        write(file, dump_path="a", dump_enable=False)
        debugger.step()
        assert made[0].asked == ["step", "start", "step", "stop"]

    def test_without_the_key_the_file_is_read_once(self, made: list[StandIn], tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a"))
        write(file, dump_path="b", dump_enable=False)
        debugger.start()
        assert (len(made), made[0].asked) == (1, ["start"])

    def test_other_settings_are_another_run_at_the_same_step(
        self, made: list[StandIn], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True, step=[0]), level="L1")
        debugger.register_custom_api(torch, "add", None)
        debugger.start()
        debugger.step()
        debugger.stop()
        debugger.step()
        write(file, dump_path="a", dump_enable=True, step=[5], level="L0", task="tensor")
        debugger.start()
        assert made[0].asked[-1] == "close"
        settings = made[1].settings
        assert (settings.init_step, settings.step, settings.level, settings.task) == (2, (5,), "L1", "tensor")
        assert made[1].asked == [("register_custom_api", torch, "add", None), "start"]
        assert "has changed: recording goes on with its settings" in caplog.text

    def test_other_settings_and_off_is_said_to_be_off(
        self, made: list[StandIn], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        debugger.start()
        write(file, dump_path="a", dump_enable=False, task="tensor")
        debugger.step()
        assert (made[0].asked, made[1].asked) == (["start", "step", "stop", "close"], [])
        assert "has changed: recording is off" in caplog.text
        assert "goes on" not in caplog.text

    def test_a_file_gone_wrong_switches_off(
        self, made: list[StandIn], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        debugger.start()
        write(file, dump_path="a", dump_enable=True, level="L9")
        debugger.step()
        assert made[0].asked == ["start", "step", "stop"]
        assert "level is 'L9'; expected one of L0, L1, mix, L2, debug; recording is off" in caplog.text
        write(file, dump_path="a", dump_enable=True)
        debugger.step()
        assert made[0].asked == ["start", "step", "stop", "step", "start"]

    def test_a_file_being_replaced_changes_nothing(self, made: list[StandIn], tmp_path: Path) -> None:
        file = tmp_path / "c.json"
        debugger = PrecisionDebugger(write(file, dump_path="a", dump_enable=True))
        file.unlink()
        debugger.start()
        assert made[0].asked == ["start"]


def test_the_file_is_not_looked_at_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter((100.0, 100.4, 100.6, 100.9, 103.5, 103.7))
    monkeypatch.setattr(config_watch.time, "monotonic", lambda: next(clock))
    file = tmp_path / "c.json"
    write(file, a=1)
    watch = config_watch.ConfigWatch(file)
    write(file, a=2)
    assert [watch.has_changed(recording=True) for _ in range(3)] == [False, True, False]
    write(file, a=3)
    assert [watch.has_changed(recording=False) for _ in range(2)] == [False, True]


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
