"""Reads the config.json of the older tools, releases 1.x, 8.x and 26.x, as our settings.

    file ──► JSON, checked for size and form ──► common keys ──┐
                                                               ├──► Settings
                    section of the task ──► its handler ───────┘

There are three kinds of keys. The first becomes a setting. The second does not change what is recorded here,
and is logged. The third requests something that is not supported, and is an error that says what to do
instead. A key that no release knows is an error. Sections of tasks other than the chosen one are ignored, as
in the older tools.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ulpscope._capture.settings import perturb_settings as perturbation
from ulpscope._capture.settings import wrap_ops
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._capture.settings.settings import (
    FILE_FORMATS,
    Settings,
    SettingsError,
    in_file,
    one_of,
    renamed,
    unknown_key,
)

log = logging.getLogger("ulpscope.capture")

MAX_CONFIG_BYTES = 1 << 20

# Common keys that are settings by the same name; only we have those of the second line.
_SAME = frozenset({"dump_path", "rank", "step", "level", "custom_op_namespaces"})
_OURS = frozenset(
    {
        "module",
        "call",
        "skip_scalars",
        "skip_ints",
        "layers",
        "max_bytes",
        "max_calls",
        "strict",
        "init_step",
        "jitter",
        "gradients",
        "parameter_gradients",
        "cuda_graphs",
        "device_statistics",
        "flush_interval",
    }
)
_COMMON = (
    _SAME
    | _OURS
    | {
        "task",
        "async_dump",
        "extra_info",
        "dump_enable",
        "precision",
        "risk_level",
        "enable_dataloader",
        "support_wrap_ops",
        "load",
    }
)

_SELECTION = frozenset({"scope", "list", "data_mode", "slice", "request_id"})


@dataclasses.dataclass(frozen=True)
class Section:
    """The keys of one task, such as ``statistics.summary_mode``."""

    task: str
    keys: Mapping[str, Any]

    def error(self, key: str, problem: str) -> SettingsError:
        """An error about one of the keys."""
        return SettingsError(f"{self.task}.{key}", problem)

    def refuse(self, key: str, instead: str) -> None:
        """Refuses a key that requests something unsupported."""
        value = self.keys.get(key)
        if _is_set(value) and not (value is False and key in _FLAGS):
            raise self.error(key, f"is set, which is not supported; {instead}")


@dataclasses.dataclass(frozen=True)
class Config:
    """A config.json, or a caller's choices without one, before the task's section is read."""

    keys: Mapping[str, Any]
    path: Path | None = None
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Settings that hold where neither the file nor the caller has them."""

    @classmethod
    def read(cls, path: str | os.PathLike[str], defaults: Mapping[str, Any] | None = None) -> Config:
        """Reads a config.json."""
        return cls(_load(Path(path)), Path(path).absolute(), defaults or {})

    @property
    def dump_enable(self) -> bool | None:
        """Whether the file switches recording on or off while the program runs; None: it does not."""
        value = self.keys.get("dump_enable")
        return value if isinstance(value, bool) else None

    @property
    def enable_dataloader(self) -> bool:
        """Whether data loaders drive the steps, in place of start, stop and step."""
        return self.keys.get("enable_dataloader") is True

    def settings(self, **overrides: Any) -> Settings:
        """The settings of the file; ``overrides`` that are not None replace them."""
        overrides = {key: value for key, value in overrides.items() if value is not None}
        try:
            return self._settings(overrides)
        except SettingsError as error:
            raise (error if error.key in overrides else self._in_file(error)) from None

    def _settings(self, overrides: Mapping[str, Any]) -> Settings:
        for key in self.keys:
            if key not in _COMMON and key not in _TASKS:
                raise unknown_key(key, [*_COMMON, *_TASKS], "keys of config.json")
        values = dict(self.defaults)
        values |= {key: self.keys[key] for key in sorted(_SAME | _OURS) if _is_set(self.keys.get(key))}
        values |= self._look_at_common()

        task = _first_set(overrides.get("task"), self.keys.get("task"), "statistics")
        handler = _TASKS.get(task) if isinstance(task, str) else None
        if handler is None:
            supported = ", ".join(name for name, known in _TASKS.items() if known in _RECORDING)
            raise SettingsError(
                "task", f"is {task!r}; expected one of {supported} (or free_benchmark, which records nothing)"
            )
        if task == "overflow_check" and self.path is not None:
            # The guide of these files: the check ends, the run goes on.
            values.setdefault("on_overflow", "stop")
        level = _first_set(overrides.get("level"), values.get("level"), "L1")
        # The handler also sets the level: task structure needs one with modules, whatever was chosen.
        values |= {"task": task, "level": level} | self._handled(task, handler, level)
        values |= {key: value for key, value in overrides.items() if key not in ("task", "level")}
        if "dump_path" not in values:
            raise SettingsError("dump_path", "is missing; give the folder to write to")
        kind = PerturbSettings if handler is _perturb else Settings
        try:
            return kind.from_keywords(**values)
        except SettingsError as error:
            if error.key in overrides or error.key not in _SPELLED:
                raise
            raise renamed(error, f"{task}.{_SPELLED[error.key]}") from None

    def _handled(self, task: str, handler: Handler, level: str) -> dict[str, Any]:
        try:
            return handler(Section(task, self._section(task)), level)
        except SettingsError as error:
            if error.key not in _SPELLED:
                raise
            raise renamed(error, f"{task}.{_SPELLED[error.key]}") from None

    def _section(self, task: str) -> Mapping[str, Any]:
        section = self.keys.get(task)
        if section is None:
            return {}
        if not isinstance(section, dict):
            raise SettingsError(task, f"is {section!r}; expected an object with the keys of that task")
        return section

    def _look_at_common(self) -> dict[str, Any]:
        keys = self.keys
        if _word(keys, "async_dump", (False, True)):
            log.warning(
                "config.json: async_dump changes nothing here, tensors are always written as the calls happen"
            )
        if _word(keys, "precision", ("low", "high")) == "high":
            log.warning(
                "config.json: precision changes nothing here, statistics are always summed in float64"
            )
        if _word(keys, "risk_level", ("ALL", "CORE", "FOCUS")) in ("CORE", "FOCUS"):
            log.warning(
                "config.json: risk_level %s: all calls are recorded here; select some with list",
                keys["risk_level"],
            )
        if keys.get("custom_op_namespaces") not in (None, "", [], ["_C_ascend"]):
            log.warning(
                "config.json: custom_op_namespaces changes nothing here, operators of all are recorded"
            )
        _word(keys, "enable_dataloader", (False, True))
        if _is_set(keys.get("load")):
            raise SettingsError(
                "load", "is set, which is not supported; inputs of modules are recorded, not replaced"
            )
        if _is_set(keys.get("dump_enable")) and not isinstance(keys["dump_enable"], bool):
            raise SettingsError("dump_enable", f"is {keys['dump_enable']!r}; expected true or false")
        values: dict[str, Any] = self._look_at_functions()
        if _word(keys, "extra_info", (True, False)) is False:
            values["stacks"] = False
        return values

    def _look_at_functions(self) -> dict[str, Any]:
        file = self.keys.get("support_wrap_ops")
        if not _is_set(file):
            return {}
        if not isinstance(file, str):
            raise SettingsError("support_wrap_ops", f"is {file!r}; expected the path of a YAML file")
        return {"apis": wrap_ops.read((self.path.parent if self.path else Path()) / file)}

    def _in_file(self, error: SettingsError) -> SettingsError:
        return in_file(error, str(self.path)) if self.path else error


def _record_statistics(section: Section, level: str) -> dict[str, Any]:
    _check_keys(section, _SELECTION | {"summary_mode", "tensor_list", "device", "diff_nums"})
    values = _selection(section) | _digest(section)
    tensor_list = section.keys.get("tensor_list")
    if _is_set(tensor_list):
        if level == "debug":
            log.warning("config.json: tensor_list changes nothing at level debug")
        else:
            values["tensor_list"] = tensor_list
    if _is_set(section.keys.get("device")):
        log.warning("config.json: statistics.device changes nothing here")
    return values


# Keys by which release 1.1 sent tensors to another machine during recording: whether, and how.
_ONLINE = frozenset({"nfs_path", "host", "port", "tls_path", "online_run_ut_recompute"})

# Boolean keys of sections, where false requests nothing.
_FLAGS = frozenset({"online_run_ut", "online_run_ut_recompute"})


def _record_tensors(section: Section, level: str) -> dict[str, Any]:
    _check_keys(
        section,
        _SELECTION
        | _ONLINE
        | {"summary_mode", "bench_path", "diff_nums", "file_format", "backward_input", "online_run_ut"},
    )
    section.refuse("bench_path", "record both runs and use ulpscope compare")
    section.refuse("online_run_ut", "tensors are written to dump_path")
    section.refuse("backward_input", "level L2 records the operators of the backward pass on its own")
    for key in sorted(_ONLINE):
        value = section.keys.get(key)
        if _is_set(value) and not (value is False and key in _FLAGS):
            log.warning("config.json: tensor.%s changes nothing here, tensors are written to dump_path", key)
    values = _selection(section) | _digest(section)
    file_format = section.keys.get("file_format")
    if _is_set(file_format):
        if file_format in ("npy", "bin") and level != "L2":
            # The default config.json of 1.x has it, although its releases write .pt.
            log.warning(
                "config.json: tensor.file_format %s is for level L2: tensors are written as .pt", file_format
            )
            values["file_format"] = "pt"
        elif file_format == "bin":
            *others, last = sorted(FILE_FORMATS)
            supported = f"{', '.join(others)} or {last}"
            raise section.error("file_format", f"is 'bin', which is not supported; use {supported}")
        else:
            values["file_format"] = file_format
    return values


def _record_structure(section: Section, level: str) -> dict[str, Any]:
    _check_keys(section, _SELECTION | {"summary_mode", "diff_nums"})
    values = _selection(section)
    if level in ("L1", "L2", "debug"):
        log.warning("task structure is recorded at level mix, as level %s has no modules", level)
        values["level"] = "mix"
    return values


def _check_overflow(section: Section, level: str) -> dict[str, Any]:
    own = frozenset({"overflow_nums", "check_mode", "on_overflow", "would_overflow"})
    _check_keys(section, _SELECTION | own | {"summary_mode", "diff_nums", "need_replicate"})
    replicate = section.keys.get("need_replicate")
    if replicate is not None and not isinstance(replicate, bool):
        raise SettingsError("need_replicate", f"is {replicate!r}; expected true or false")
    if replicate:
        log.info(
            "config.json: need_replicate is always on here, ulpscope check replays the calls of the dump"
        )
    if section.keys.get("check_mode") in ("aicore", "atomic"):
        log.warning("config.json: check_mode changes nothing here, the results of all calls are checked")
    return _selection(section) | {
        key: section.keys[key] for key in sorted(own) if _is_set(section.keys.get(key))
    }


def _perturb(section: Section, level: str) -> dict[str, Any]:
    known = frozenset({"scope", "list", *perturbation.KEYS})
    _check_keys(section, known)
    values = {key: section.keys[key] for key in sorted(known) if _is_set(section.keys.get(key))}
    # What the guide has; other values are those of ulpscope.check.perturb.
    for key, allowed in (("pert_mode", perturbation.PERT_MODES), ("fuzz_level", ("L1",))):
        if key in values:
            values[key] = one_of(*allowed)(key, values[key])
    return values


Handler = Callable[[Section, str], dict[str, Any]]


def _not_supported(instead: str) -> Handler:
    def refuse(section: Section, level: str) -> dict[str, Any]:
        raise SettingsError("task", f"is {section.task!r}, which is not supported; {instead}")

    return refuse


_RECORDING: tuple[Handler, ...] = (_record_statistics, _record_tensors, _record_structure, _check_overflow)

_REPLAY = _not_supported("record with task tensor, then run: ulpscope check DUMP")

_ORIGINS = _not_supported(
    "task overflow_check finds them while the program runs; task statistics counts the NaN and Inf of every "
    "tensor, and ulpscope overflow DUMP names their origin"
)

_TASKS: dict[str, Handler] = {
    "statistics": _record_statistics,
    "tensor": _record_tensors,
    "structure": _record_structure,
    "overflow_check": _check_overflow,
    "nan_check": _ORIGINS,
    "free_benchmark": _perturb,
    "diff_check": _not_supported("record two runs and use ulpscope compare"),
    "grad_probe": _not_supported("task statistics at level L0 or mix records the gradients of parameters"),
    "acc_check": _REPLAY,
    "run_ut": _REPLAY,
    "exception_dump": _not_supported("it is for MindSpore; use task statistics or tensor"),
}

# Settings that have a key in a task's section, under a different or the same name.
_SPELLED = {
    "scope": "scope",
    "list": "list",
    "data_mode": "data_mode",
    "tensor_list": "tensor_list",
    "digest": "summary_mode",
    "file_format": "file_format",
    **{key: key for key in ("overflow_nums", "check_mode", "on_overflow", "would_overflow")},
    **{key: key for key in perturbation.KEYS},
}


def _is_set(value: object) -> bool:
    """Whether a value is given: the older tools take null, "" and [] for "not given"."""
    return value is not None and value != "" and value != [] and value != {}


def _first_set(*values: Any) -> Any:
    return next((value for value in values if _is_set(value)), None)


def _word(keys: Mapping[str, Any], key: str, allowed: tuple[Any, ...]) -> Any:
    value = keys.get(key)
    if value is None or value == "":
        return None
    # Compare types too, since 1 == True.
    if not any(type(value) is type(word) and value == word for word in allowed):
        words = ", ".join(json.dumps(word) for word in allowed)
        raise SettingsError(key, f"is {value!r}; expected one of {words}")
    return value


def _check_keys(section: Section, known: frozenset[str]) -> None:
    for key in section.keys:
        if key not in known:
            error = unknown_key(key, known, f"keys of task {section.task}")
            raise renamed(error, f"{section.task}.{key}")


def _selection(section: Section) -> dict[str, Any]:
    section.refuse("slice", "whole tensors are recorded")
    section.refuse("request_id", "whole tensors are recorded")
    return {
        key: section.keys[key] for key in ("scope", "list", "data_mode") if _is_set(section.keys.get(key))
    }


def _digest(section: Section) -> dict[str, Any]:
    try:
        mode = _word(section.keys, "summary_mode", ("statistics", "md5", "xor", "xxh3"))
    except SettingsError as error:
        raise renamed(error, f"{section.task}.summary_mode") from None
    if mode == "xor":
        log.warning(
            "config.json: summary_mode xor is recorded as xxh3, with statistics: "
            "the digests agree with those of Ulpscope's own dumps, not with xor ones"
        )
        mode = "xxh3"
    return {"digest": mode} if mode in ("md5", "xxh3") else {}


def _load(path: Path) -> dict[str, Any]:
    try:
        if path.exists() and not path.is_file():
            raise SettingsError(str(path), "is not a file; expected a config.json")
        with path.open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_CONFIG_BYTES:
        raise SettingsError(
            str(path), f"has more than {MAX_CONFIG_BYTES} bytes; a config.json has a few hundred"
        )
    try:
        keys = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise SettingsError(
            str(path), f"is not UTF-8 text: byte {error.start} is {content[error.start]:#x}"
        ) from None
    except json.JSONDecodeError as error:
        raise SettingsError(
            str(path), f"is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except RecursionError:
        raise SettingsError(str(path), "is nested too deeply; a config.json has two levels") from None
    except SettingsError as error:
        raise in_file(error, str(path)) from None
    if not isinstance(keys, dict):
        raise SettingsError(
            str(path), f"holds {type(keys).__name__}; expected an object with keys such as task"
        )
    return keys


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for key, value in pairs:
        if key in keys:
            raise SettingsError(key, "is given twice")
        keys[key] = value
    return keys
