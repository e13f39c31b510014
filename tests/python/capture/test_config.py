"""Settings and config.json: what is taken, what is refused, and in which words."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import ulpscope
from ulpscope import PrecisionDebugger, SettingsError

# The largest config.json that is read.
MAX_CONFIG_BYTES = 1 << 20

# As mindstudio-probe 1.1 and 26.2 ship them.
STOCK_1 = {
    "task": "statistics",
    "dump_path": "./dump_path",
    "rank": [],
    "step": [],
    "level": "L1",
    "enable_dataloader": False,
    "tensor": {"scope": [], "list": [], "data_mode": ["all"], "file_format": "npy"},
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
    "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
    "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
    "free_benchmark": {"scope": [], "list": [], "fuzz_device": "npu", "pert_mode": "improve_precision"},
}
STOCK_26 = {
    "task": "statistics",
    "dump_path": "./dump_path",
    "rank": [],
    "step": [],
    "level": "L1",
    "extra_info": True,
    "async_dump": False,
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    "acc_check": {"white_list": [], "black_list": [], "error_data_path": "./"},
}


def write(folder: Path, config: Any) -> Path:
    path = folder / "config.json"
    path.write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def settings_of(dump_path: Any, **keywords: Any) -> Mapping[str, Any]:
    """The settings of a capture with these keywords."""
    return ulpscope.capture(dump_path, **keywords).settings


def read_file(path: Path, **overrides: Any) -> Mapping[str, Any]:
    """The settings of a debugger with this config.json."""
    try:
        return PrecisionDebugger(path, **overrides).settings
    finally:
        PrecisionDebugger.close()


def read(folder: Path, config: Any, **overrides: Any) -> Mapping[str, Any]:
    return read_file(write(folder, config), **overrides)


def debugger_settings(dump_path: Any, **settings: Any) -> Mapping[str, Any]:
    """The same settings as a debugger has them: it writes a file for each tensor."""
    return settings_of(dump_path, **{"file_format": "pt", **settings})


def refused(folder: Path, config: Any, **overrides: Any) -> str:
    path = write(folder, config)
    with pytest.raises(SettingsError) as caught:
        read_file(path, **overrides)
    return str(caught.value).replace(str(path), "FILE")


class TestSettings:
    def test_defaults(self, tmp_path: Path) -> None:
        assert settings_of(tmp_path) == {
            "dump_path": tmp_path,
            "task": "statistics",
            "level": "L1",
            "step": (),
            "rank": (),
            "scope": (),
            "list": (),
            "list_match": "part",
            "backward_stacks": False,
            "skip_single_values": False,
            "module": (),
            "call": (),
            "data_mode": ("all",),
            "tensor_list": (),
            "digest": None,
            "file_format": "pack",
            "stacks": True,
            "skip_scalars": False,
            "skip_ints": False,
            "layers": "all",
            "max_bytes": None,
            "max_calls": None,
            "strict": False,
            "init_step": 0,
            "jitter": None,
            "custom_op_namespaces": ("_C_ascend",),
            "apis": (),
            "stack_form": "grouped",
            "layout": "msprobe",
            "layout_path": None,
            "sample": None,
            "strides": False,
            "inner_calls": False,
            "gradients": "arguments",
            "parameter_gradients": True,
            "device_statistics": "auto",
            "flush_interval": 0.2,
            "cuda_graphs": False,
            "overflow_nums": 1,
            "on_overflow": "raise",
            "check_mode": "all",
            "would_overflow": None,
        }

    @pytest.mark.parametrize(
        ("given", "steps"),
        [
            ("0,2-4", (0, 2, 3, 4)),
            ([3, "3", "1-2", 0], (0, 1, 2, 3)),
            (5, (5,)),
            ("7", (7,)),
            (range(2), (0, 1)),
            ([], ()),
            (None, ()),
            (["999999-1000000"], (999_999, 1_000_000)),
        ],
    )
    def test_steps_and_ranks_are_numbers_and_ranges(self, given: Any, steps: tuple[int, ...]) -> None:
        settings = settings_of("d", step=given, rank=given)
        assert (settings["step"], settings["rank"]) == (steps, steps)

    @pytest.mark.parametrize(
        ("given", "size"), [("10G", 10 << 30), ("500 MB", 500 << 20), ("1kib", 1024), (7, 7)]
    )
    def test_sizes_have_units(self, given: Any, size: int) -> None:
        assert settings_of("d", max_bytes=given)["max_bytes"] == size

    def test_one_name_is_a_list_of_one(self) -> None:
        assert settings_of("d", list="relu")["list"] == ("relu",)

    def test_data_modes_have_one_order(self) -> None:
        given = ["output", "forward", "output"]
        assert settings_of("d", data_mode=given)["data_mode"] == ("forward", "output")

    def test_the_folder_stays_where_it_is_when_the_script_moves(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert settings_of("dumps")["dump_path"] == tmp_path / "dumps"

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"lvel": "L1"}, "lvel is not among the known settings; did you mean 'level'?"),
            ({"level": "l1"}, "level is 'l1'; expected one of L0, L1, mix, L2, debug"),
            ({"level": ["L1"]}, "level is ['L1']; expected one of L0, L1, mix, L2, debug"),
            (
                {"task": "tensors"},
                "expected one of statistics, tensor, structure, overflow_check (did you mean 'tensor'?)",
            ),
            ({"step": [True]}, "step is True; expected numbers from 0 to 1000000 and ranges such as '4-6'"),
            ({"step": "4-2"}, "step is '4-2'; expected numbers"),
            ({"step": -1}, "step is -1; expected numbers"),
            ({"step": 1.0}, "step is 1.0; expected numbers"),
            ({"rank": "0-99999999999"}, "rank is '0-99999999999'; expected numbers"),
            ({"rank": ["1-2-3"]}, "rank is '1-2-3'; expected numbers"),
            ({"scope": ["Torch.add.0.forward"]}, "expected two names, of the first and the last call"),
            ({"scope": ["add", "mul"]}, "scope has 'add'; at level L1 it takes the full name of an API call"),
            (
                {"level": "L0", "scope": ["Torch.add.0.forward"] * 2},
                "at level L0 it takes the full name of a module call as in Module.fc.Linear.forward.0",
            ),
            ({"list": [3]}, "list is [3]; expected a list of names, but one of them is 3"),
            ({"list": [""]}, "but one of them is ''"),
            ({"list": ["name-regex(a+)"]}, "expected a part of a name, not a regular expression"),
            ({"data_mode": ["all", "input"]}, "expected 'all' alone, or words without it"),
            ({"data_mode": ["inputs"]}, "expected words out of all, forward, backward, input, output"),
            ({"digest": "sha1"}, "digest is 'sha1'; expected one of None, md5, xxh3, mix64"),
            ({"task": "structure", "digest": "md5"}, "task structure has no tensors"),
            ({"task": "structure", "level": "debug"}, "level is 'debug'"),
            ({"task": "tensor", "tensor_list": ["a"]}, "tensor_list is for task statistics"),
            ({"max_bytes": "0"}, "max_bytes is '0'; expected a number of bytes above 0"),
            ({"max_bytes": "ten"}, "max_bytes is 'ten'; expected a number of bytes above 0"),
            ({"max_calls": True}, "max_calls is True; expected a number above 0"),
            ({"strict": 1}, "strict is 1; expected true or false"),
            ({"init_step": -1}, "init_step is -1; expected a number from 0 to 1000000"),
            ({"custom_op_namespaces": ["a b"]}, "'a b' cannot be one"),
        ],
    )
    def test_errors_name_the_key_what_was_found_and_what_is_allowed(
        self, keywords: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(SettingsError) as caught:
            settings_of("d", **keywords)
        assert message in str(caught.value)

    def test_a_file_is_no_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(SettingsError, match="which is a file; expected a folder"):
            settings_of(tmp_path / "file")

    @pytest.mark.parametrize("path", [None, "", "a\0b", 3, b"bytes"])
    def test_what_is_no_path_is_refused(self, path: Any) -> None:
        with pytest.raises(SettingsError, match=r"dump_path is .*; expected the path of a folder"):
            settings_of(path)


class TestConfig:
    @pytest.mark.parametrize("stock", [STOCK_1, STOCK_26])
    def test_stock_files_are_all_defaults(
        self, tmp_path: Path, stock: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert read(tmp_path, stock) == debugger_settings("dump_path")
        assert caplog.text == ""

    def test_every_key_that_becomes_a_setting(self, tmp_path: Path) -> None:
        config = {
            "task": "statistics",
            "dump_path": str(tmp_path / "here"),
            "rank": [0, "2-3"],
            "step": ["1", "4-6"],
            "level": "mix",
            "extra_info": False,
            "custom_op_namespaces": ["mine"],
            "layers": "first",
            "skip_scalars": True,
            "skip_ints": True,
            "max_bytes": "1G",
            "max_calls": 10,
            "strict": True,
            "init_step": 3,
            "jitter": 0,
            "module": ["layers.*.mlp"],
            "call": "re:linear|bmm",
            "statistics": {
                "scope": ["Torch.add.0.forward", "Module.fc.Linear.forward.0"],
                "list": ["relu"],
                "data_mode": ["forward", "input"],
                "summary_mode": "md5",
                "tensor_list": ["softmax"],
            },
        }
        assert read(tmp_path, config) == debugger_settings(tmp_path) | {
            "dump_path": tmp_path / "here",
            "level": "mix",
            "step": (1, 4, 5, 6),
            "rank": (0, 2, 3),
            "scope": ("Torch.add.0.forward", "Module.fc.Linear.forward.0"),
            "list": ("relu",),
            "data_mode": ("forward", "input"),
            "tensor_list": ("softmax",),
            "digest": "md5",
            "stacks": False,
            "skip_scalars": True,
            "skip_ints": True,
            "layers": "first",
            "max_bytes": 1 << 30,
            "max_calls": 10,
            "strict": True,
            "init_step": 3,
            "jitter": 0,
            "module": ("layers.*.mlp",),
            "call": ("re:linear|bmm",),
            "custom_op_namespaces": ("mine",),
        }

    def test_only_the_section_of_the_task_counts(self, tmp_path: Path) -> None:
        config = {
            "dump_path": "d",
            "statistics": {"list": ["a"]},
            "tensor": {"list": ["b"]},
            "run_ut": {"?": 1},
        }
        assert read(tmp_path, config)["list"] == ("a",)
        assert read(tmp_path, config, task="tensor")["list"] == ("b",)

    def test_arguments_count_before_the_file(self, tmp_path: Path) -> None:
        config = {"dump_path": "d", "task": "tensor", "level": "L0", "step": [1]}
        settings = read(tmp_path, config, dump_path="e", task="statistics", level="mix", step=[2])
        found = [settings[name] for name in ("dump_path", "task", "level", "step")]
        assert found == [Path("e").absolute(), "statistics", "mix", (2,)]

    def test_null_and_empty_say_nothing(self, tmp_path: Path) -> None:
        config = {
            "dump_path": "d",
            "task": "",
            "level": None,
            "step": None,
            "risk_level": "",
            "load": "",
            "dump_enable": None,
            "statistics": None,
        }
        assert read(tmp_path, config) == debugger_settings("d")

    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            ({"async_dump": True}, "async_dump changes nothing here"),
            ({"precision": "high"}, "precision changes nothing here"),
            ({"custom_op_namespaces": ["mine"]}, "custom_op_namespaces changes nothing here"),
            ({"risk_level": "FOCUS"}, "risk_level FOCUS: all calls are recorded here; select some with list"),
            ({"risk_level": "CORE"}, "risk_level CORE: all calls are recorded here"),
            ({"statistics": {"device": "host"}}, "device changes nothing here"),
            ({"task": "tensor", "tensor": {"host": "10.0.0.1"}}, "tensor.host changes nothing here"),
            ({"task": "tensor", "tensor": {"port": 7}}, "tensor.port changes nothing here"),
            ({"task": "tensor", "tensor": {"nfs_path": "n"}}, "tensor.nfs_path changes nothing here"),
            ({"task": "tensor", "tensor": {"tls_path": "t"}}, "tensor.tls_path changes nothing here"),
            (
                {"task": "tensor", "tensor": {"online_run_ut_recompute": True}},
                "tensor.online_run_ut_recompute changes nothing here, tensors are written to dump_path",
            ),
            (
                {"level": "debug", "statistics": {"tensor_list": ["a"]}},
                "tensor_list changes nothing at level debug",
            ),
        ],
    )
    def test_keys_that_change_nothing_are_said_once(
        self, tmp_path: Path, keys: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        level, task = keys.get("level", "L1"), keys.get("task", "statistics")
        namespaces = keys.get("custom_op_namespaces", ["_C_ascend"])
        assert read(tmp_path, {"dump_path": "d", **keys}) == debugger_settings(
            "d", level=level, task=task, custom_op_namespaces=namespaces
        )
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert said in caplog.text

    @pytest.mark.parametrize(
        "keys",
        [
            {"precision": "low"},
            {"risk_level": "ALL"},
            {"async_dump": False},
            {"custom_op_namespaces": ["_C_ascend"]},
            {"task": "tensor", "tensor": {"online_run_ut": False, "online_run_ut_recompute": False}},
            {"task": "tensor", "tensor": {"nfs_path": "", "host": "", "port": None}},
        ],
    )
    def test_what_is_so_anyhow_is_not_worth_a_word(
        self, tmp_path: Path, keys: dict[str, Any], caplog: pytest.LogCaptureFixture
    ) -> None:
        read(tmp_path, {"dump_path": "d", **keys})
        assert caplog.text == ""

    def test_summary_modes(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        found = {
            mode: read(tmp_path, {"dump_path": "d", "statistics": {"summary_mode": mode}})["digest"]
            for mode in ("statistics", "md5", "xxh3")
        }
        assert found == {"statistics": None, "md5": "md5", "xxh3": "xxh3"}
        assert caplog.text == ""
        config = {"dump_path": "d", "task": "tensor", "tensor": {"summary_mode": "xor"}}
        assert read(tmp_path, config)["digest"] == "xxh3"
        assert "summary_mode xor is recorded as xxh3" in caplog.text

    def test_structure_is_recorded_with_modules(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert read(tmp_path, {"dump_path": "d", "task": "structure", "level": "L0"})["level"] == "L0"
        assert caplog.text == ""
        assert read(tmp_path, {"dump_path": "d", "task": "structure"}, level="L1")["level"] == "mix"
        assert "task structure is recorded at level mix" in caplog.text

    def test_npy_is_for_l2_where_the_older_tools_have_it_so(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        config = {"dump_path": "d", "task": "tensor", "tensor": {"file_format": "npy"}}
        assert read(tmp_path, config, level="L2")["file_format"] == "npy"
        assert caplog.text == ""
        assert read(tmp_path, config)["file_format"] == "pt"
        assert "tensors are written as .pt" in caplog.text
        config["tensor"] = {"file_format": "safetensors"}
        assert read(tmp_path, config)["file_format"] == "safetensors"

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ({}, "FILE: dump_path is missing; give the folder to write to"),
            ({"taks": 1}, "FILE: taks is not among the known keys of config.json; did you mean 'task'?"),
            ({"dump_path": 3}, "FILE: dump_path is 3; expected the path of a folder"),
            (
                {"dump_path": "d", "level": "L3"},
                "FILE: level is 'L3'; expected one of L0, L1, mix, L2, debug",
            ),
            ({"dump_path": "d", "task": 3}, "FILE: task is 3; expected one of statistics, tensor, structure"),
            (
                {"dump_path": "d", "task": "tensr"},
                "FILE: task is 'tensr'; expected one of statistics, tensor",
            ),
            (
                {"dump_path": "d", "statistics": {"sumary_mode": "md5"}},
                "FILE: statistics.sumary_mode is not among the known keys of task statistics; "
                "did you mean 'summary_mode'?",
            ),
            (
                {"dump_path": "d", "statistics": {"summary_mode": "crc"}},
                "FILE: statistics.summary_mode is 'crc'; "
                'expected one of "statistics", "md5", "xor", "xxh3"',
            ),
            (
                {"dump_path": "d", "task": "tensor", "tensor": {"data_mode": ["in"]}},
                "FILE: tensor.data_mode is ['in']; expected words out of",
            ),
            ({"dump_path": "d", "statistics": [1]}, "FILE: statistics is [1]; expected an object"),
            ({"dump_path": "d", "async_dump": 1}, "FILE: async_dump is 1; expected one of false, true"),
            ({"dump_path": "d", "dump_enable": "yes"}, "FILE: dump_enable is 'yes'; expected true or false"),
            ({"dump_path": "d", "risk_level": "LOW"}, "FILE: risk_level is 'LOW'; expected one of"),
            ({"dump_path": "d", "precision": "mid"}, "FILE: precision is 'mid'; expected one of"),
            ({"dump_path": "d", "rank": False}, "FILE: rank is False; expected numbers from 0 to"),
            ({"dump_path": "d", "step": False}, "FILE: step is False; expected numbers from 0 to"),
            ({"dump_path": "d", "level": False}, "FILE: level is False; expected one of L0, L1"),
            ({"dump_path": "d", "level": 0}, "FILE: level is 0; expected one of L0, L1"),
            ({"dump_path": "d", "task": False}, "FILE: task is False; expected one of statistics, tensor"),
            ({"dump_path": "d", "max_calls": False}, "FILE: max_calls is False; expected a number above 0"),
            (
                {"dump_path": "d", "statistics": {"list": False}},
                "FILE: statistics.list is False; expected a list of names",
            ),
            (
                {"dump_path": "d", "task": "tensor", "tensor": {"file_format": False}},
                "FILE: tensor.file_format is False; expected one of pack, pt, npy, safetensors",
            ),
            ({"dump_path": "d", "extra_info": "no"}, "FILE: extra_info is 'no'; expected one of true, false"),
        ],
    )
    def test_bad_keys_and_values_are_named(self, tmp_path: Path, config: Any, message: str) -> None:
        assert message in refused(tmp_path, config)

    def test_a_bad_argument_is_not_blamed_on_the_file(self, tmp_path: Path) -> None:
        assert refused(tmp_path, {"dump_path": "d"}, level="L3").startswith("level is 'L3'")

    @pytest.mark.parametrize(
        ("keys", "message"),
        [
            ({"task": "nan_check"}, "task is 'nan_check', which is not supported; task overflow_check finds"),
            ({"task": "nan_check"}, "counts the NaN and Inf of every tensor"),
            ({"task": "grad_probe"}, "level L0 or mix records the gradients of parameters"),
            ({"task": "diff_check"}, "record two runs and use ulpscope compare"),
            ({"task": "exception_dump"}, "it is for MindSpore; use task statistics or tensor"),
            ({"task": "acc_check"}, "record with task tensor, then run: ulpscope check DUMP"),
            ({"task": "run_ut"}, "record with task tensor, then run: ulpscope check DUMP"),
            ({"load": {"path": "x"}}, "load is set, which is not supported"),
            ({"statistics": {"slice": [{"dim": 0}]}}, "statistics.slice is set, which is not supported"),
            ({"statistics": {"request_id": "7"}}, "statistics.request_id is set, which is not supported"),
            (
                {"task": "tensor", "tensor": {"bench_path": "x"}},
                "tensor.bench_path is set, which is not supported",
            ),
            ({"task": "tensor", "tensor": {"online_run_ut": True}}, "tensor.online_run_ut is set"),
            (
                {"task": "tensor", "level": "L2", "tensor": {"file_format": "bin"}},
                "use npy, pack, pt or safetensors",
            ),
        ],
    )
    def test_what_is_not_done_here_is_refused_with_what_to_do(
        self, tmp_path: Path, keys: dict[str, Any], message: str
    ) -> None:
        assert message in refused(tmp_path, {"dump_path": "d", **keys})

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"task": "tensor",\n "x" 3}', "FILE is not JSON: line 2, column 6: Expecting ':' delimiter"),
            ("", "FILE is not JSON: line 1, column 1"),
            ("[1]", "FILE holds list; expected an object with keys such as task"),
            ('{"task": "tensor", "task": "x"}', "FILE: task is given twice"),
            ("[" * 100_000, "FILE is nested too deeply"),
            (" " * (MAX_CONFIG_BYTES + 1), f"FILE has more than {MAX_CONFIG_BYTES} bytes"),
        ],
    )
    def test_files_that_are_none(self, tmp_path: Path, text: str, message: str) -> None:
        assert message in refused(tmp_path, text)

    def test_other_bytes_than_text(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_bytes(b'{"task": "\xff"}')
        with pytest.raises(SettingsError, match="is not UTF-8 text: byte 10 is 0xff"):
            read_file(tmp_path / "config.json")

    def test_no_file(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"none\.json cannot be read: No such file"):
            read_file(tmp_path / "none.json")
        with pytest.raises(SettingsError, match=r"is not a file; expected a config\.json"):
            read_file(tmp_path)

    def test_windows_editors_are_welcome(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_bytes(b'\xef\xbb\xbf{"dump_path": "d"}\r\n')
        assert read_file(tmp_path / "config.json") == debugger_settings("d")


@pytest.mark.parametrize("path", ["/proc/nope/x", "a_file/below"])
def test_a_folder_that_cannot_be_made(tmp_path, path):
    (tmp_path / "a_file").write_text("")
    with pytest.raises(SettingsError, match=r"dump_path is .*, a folder that cannot be made: .*"):
        ulpscope.capture(tmp_path / path).start()


def test_a_wrong_list_of_steps_is_shown_as_it_was_debugger_settings():
    with pytest.raises(SettingsError, match=r"step is '1,,2'"):
        debugger_settings("dumps", step="1,,2")
