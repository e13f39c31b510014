"""The settings of a run, checked once.

Three interfaces of capture lead here:

    keywords of ulpscope.capture ──────┐
    config.json (config.py) ───────────┼──► Settings: one type per value, every rule kept ──► Run
    flags of ulpscope run (launch/) ───┘

A ``Settings`` is valid and needs no further checks. An interface with a different name for a setting catches
the ``SettingsError`` and reports it under that name with ``renamed``.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from ulpscope._capture.noise.seed import MAX_SEED
from ulpscope._capture.settings import patterns
from ulpscope._core import recorded_formats

if TYPE_CHECKING:
    from typing_extensions import Self

Task = Literal["statistics", "tensor", "structure", "overflow_check"]
Level = Literal["L0", "L1", "mix", "L2", "debug"]
Digest = Literal["md5", "xxh3", "mix64"]
FileFormat = Literal["pack", "pt", "npy", "safetensors"]
Layers = Literal["all", "first", "last"]
StackForm = Literal["grouped", "by_name"]
DataMode = Literal["all", "forward", "backward", "input", "output"]
Layout = Literal["msprobe", "torch_npu_hooks", "torch_npu_hooks_async", "ptdbg_ascend"]
ListMatch = Literal["part", "start", "part_any_case"]
Gradients = Literal["arguments", "last_node", "functions_last_node"]
DeviceStatistics = Literal["auto", "host", "torch"]
CheckMode = Literal["all", "aicore", "atomic"]
OnOverflow = Literal["raise", "stop"]
Sample = int | Literal["all"] | None

TASKS: tuple[Task, ...] = ("statistics", "tensor", "structure", "overflow_check")
LEVELS: tuple[Level, ...] = ("L0", "L1", "mix", "L2", "debug")
DIGESTS: tuple[Digest, ...] = ("md5", "xxh3", "mix64")
# The formats that the core writes, the default first. FileFormat names them for type checkers.
FILE_FORMATS = tuple(recorded_formats())
LAYERS: tuple[Layers, ...] = ("all", "first", "last")
STACK_FORMS: tuple[StackForm, ...] = ("grouped", "by_name")
DATA_MODES: tuple[DataMode, ...] = ("all", "forward", "backward", "input", "output")
LAYOUTS: tuple[Layout, ...] = ("msprobe", "torch_npu_hooks", "torch_npu_hooks_async", "ptdbg_ascend")
LIST_MATCHES: tuple[ListMatch, ...] = ("part", "start", "part_any_case")
GRADIENTS: tuple[Gradients, ...] = ("arguments", "last_node", "functions_last_node")
DEVICE_STATISTICS: tuple[DeviceStatistics, ...] = ("auto", "host", "torch")
CHECK_MODES: tuple[CheckMode, ...] = ("all", "aicore", "atomic")
ON_OVERFLOW: tuple[OnOverflow, ...] = ("raise", "stop")
# Names of dtypes as torch has them. The recorder knows their ranges.
WOULD_OVERFLOW = (
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)

# The older tools' limit. A range such as "0-999999999" would otherwise be expanded in memory.
MAX_STEP_OR_RANK = 1_000_000

# A sample is for people to look at; more is what files of tensors are for.
MAX_SAMPLE = 1_000_000

_API_NAME = re.compile(r"\w+\..+\.\d+\.(forward|backward)")
_MODULE_NAME = re.compile(r"Module\..+\.(forward|backward)\.\d+")
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)I?B?", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class SettingsError(ValueError):
    """An invalid setting: which one, its value, and what is allowed."""

    # Tracebacks show the name under which users catch it.
    __module__ = "ulpscope"

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key} {problem}" if key else problem)
        self.key = key
        self.problem = problem


def renamed(error: SettingsError, key: str) -> SettingsError:
    """The same error, with the name by which the user knows the setting."""
    return SettingsError(key, error.problem)


def in_file(error: SettingsError, file: str) -> SettingsError:
    """The same error, with the file that contains the setting."""
    found = SettingsError(error.key, error.problem)
    found.args = (f"{file}: {error}",)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one run; see docs/capture.md for what each does."""

    dump_path: Path
    task: Task = "statistics"
    level: Level = "L1"
    step: tuple[int, ...] = ()
    """The selected steps, in order; empty: all."""
    rank: tuple[int, ...] = ()
    """The selected ranks, in order; empty: all."""
    scope: tuple[str, ...] = ()
    """The first and the last recorded call; empty: from the beginning to the end."""
    list: tuple[str, ...] = ()
    """Records calls whose name contains one of these; empty: all."""
    list_match: ListMatch = "part"
    """How ``list`` matches a name: by any part, by its start, or by any part in any case."""
    module: tuple[str, ...] = ()
    """Records calls in modules whose path matches one of these patterns; empty: everything."""
    call: tuple[str, ...] = ()
    """Records calls whose name matches one of these patterns; empty: all."""
    apis: tuple[str, ...] = ()
    """Records calls of these functions, such as "Functional.conv2d", and no others; empty: all."""
    data_mode: tuple[DataMode, ...] = ("all",)
    tensor_list: tuple[str, ...] = ()
    """With task statistics: also saves the tensors of calls whose name contains one of these."""
    digest: Digest | None = None
    """A digest of every tensor: "md5" is the older tools' word for CRC-32."""
    file_format: FileFormat = "pack"
    """"pack": a few large files for each step and rank; others: a file for each tensor."""
    stacks: bool = True
    stack_form: StackForm = "grouped"
    """The form of stack.json: that of msprobe from 8.1 on, or that of 1.x."""
    backward_stacks: bool = False
    """Whether backward calls have a stack too: that of the pass. For layouts that have a place for it."""
    skip_scalars: bool = False
    skip_ints: bool = False
    skip_single_values: bool = False
    """Whether tensors without dimensions, and those without elements, are left out."""
    layers: Layers = "all"
    """Which of several repeated layers of one kind are recorded."""
    max_bytes: int | None = None
    max_calls: int | None = None
    strict: bool = False
    """Whether a failure to record raises, instead of a note in the ledger."""
    init_step: int = 0
    jitter: int | None = None
    """Changes the model's inputs by one unit in the last place, up or down by this seed; None: off."""
    custom_op_namespaces: tuple[str, ...] = ("_C_ascend",)
    layout: Layout = "msprobe"
    """The tool whose files are made when the recording of a step ends or pauses."""
    layout_path: str | None = None
    """Where a layout other than msprobe writes; ``{step}`` and ``{rank}`` stand for numbers."""
    sample: Sample = None
    """How many of the first elements of each tensor are recorded beside its statistics."""
    strides: bool = False
    """Whether the strides of each tensor are recorded, and its offset in memory."""
    inner_calls: bool = False
    """Whether the calls inside torch's own Python functions are recorded, each before the outer one."""
    gradients: Gradients = "arguments"
    """Whether backward calls have the gradients of arguments, or those at the last node of the graph. With
    ``functions_last_node``, modules have the former and functions the latter."""
    parameter_gradients: bool = True
    """At levels L0 and mix: whether the accumulated gradients of each module's parameters are recorded."""
    device_statistics: DeviceStatistics = "auto"
    """Where tensors on other devices are measured: there, after a copy to the host, or all by torch."""
    flush_interval: float = 0.2
    """How many seconds numbers that have arrived from a device may wait before they are in the journal."""
    cuda_graphs: bool = False
    """Whether CUDA graphs are recorded at each replay: the kernels that measure stay in the graphs."""
    overflow_nums: int = 1
    """With task overflow_check: after how many overflows the run, or the check, ends; -1: never."""
    on_overflow: OnOverflow = "raise"
    """What then ends: "raise" ends the run with a ValueError, "stop" only the check, as msprobe does."""
    check_mode: CheckMode = "all"
    """The older tool's choice of units of an NPU. Here all results are checked."""
    would_overflow: str | None = None
    """With task overflow_check: also counts the values that this dtype would lose, such as "float16"."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = self._checks()[field.name](field.name, getattr(self, field.name))
            # The class is frozen; only here values are converted to their types.
            object.__setattr__(self, field.name, value)
        self._check_together()

    @classmethod
    def _checks(cls) -> Mapping[str, Callable[[str, object], object]]:
        """What checks and converts each value."""
        return _CHECKS

    @classmethod
    def from_keywords(cls, dump_path: str | os.PathLike[str], **keywords: Any) -> Self:
        """Settings from loosely typed keywords: ``step="0,2-4"``, ``max_bytes="10G"``, ``list="relu"``."""
        known = [field.name for field in dataclasses.fields(cls)]
        for key in keywords:
            if key not in known:
                raise unknown_key(key, known, "settings")
        return cls(dump_path=dump_path, **keywords)  # type: ignore[arg-type]

    def by_name(self) -> Mapping[str, Any]:
        """All settings by name, in the order of this class; read-only."""
        return MappingProxyType({field.name: getattr(self, field.name) for field in dataclasses.fields(self)})

    def _check_together(self) -> None:
        if self.task == "structure":
            if self.level == "debug":
                raise SettingsError(
                    "level", "is 'debug', where single tensors are saved; task structure saves none"
                )
            if self.digest is not None:
                raise SettingsError(
                    "digest", f"is {self.digest!r}; task structure has no tensors to take a digest of"
                )
        self._check_overflow()
        if self.tensor_list and self.task != "statistics":
            raise SettingsError(
                "tensor_list", f"is for task statistics, but task is {self.task!r}; use list to select calls"
            )
        for name in self.scope:
            self._check_scope_name(name)
        self._check_layout()

    def _check_overflow(self) -> None:
        if self.task != "overflow_check":
            for key, default in (("overflow_nums", 1), ("on_overflow", "raise"), ("would_overflow", None)):
                if getattr(self, key) != default:
                    raise SettingsError(key, f"is for task overflow_check, but task is {self.task!r}")
            return
        if self.level == "debug":
            raise SettingsError(
                "level", "is 'debug', where single tensors are saved; task overflow_check checks calls"
            )
        if self.layout != "msprobe":
            raise SettingsError("layout", f"is {self.layout!r}; task overflow_check writes layout 'msprobe'")

    def _check_layout(self) -> None:
        if self.layout == "msprobe":
            if self.layout_path is not None:
                raise SettingsError(
                    "layout_path",
                    f"is {self.layout_path!r}, but layout is 'msprobe', whose files are below dump_path",
                )
            return
        if self.layout_path is None:
            raise SettingsError("layout_path", f"is None; layout {self.layout!r} needs the path of its file")
        if self.layout == "ptdbg_ascend" and self.task == "tensor" and self.file_format != "npy":
            raise SettingsError("layout", "is 'ptdbg_ascend', which needs file_format='npy'")
        is_folder = self.layout == "torch_npu_hooks_async"
        if Path(self.layout_path).is_dir() and not is_folder:
            raise SettingsError(
                "layout_path", f"is {self.layout_path!r}, which is a folder; expected the path of a file"
            )
        if is_folder and (self.task != "tensor" or self.file_format != "npy" or not self.strides):
            raise SettingsError(
                "layout", f"is {self.layout!r}, which needs task='tensor', file_format='npy' and strides=True"
            )

    def _check_scope_name(self, name: str) -> None:
        api, module = (
            "an API call as in Torch.add.0.forward",
            "a module call as in Module.fc.Linear.forward.0",
        )
        patterns, expected = {
            "L0": ((_MODULE_NAME,), module),
            "L1": ((_API_NAME,), api),
            "L2": ((_API_NAME,), api),
        }.get(self.level, ((_API_NAME, _MODULE_NAME), f"{api} or {module}"))
        if not any(pattern.fullmatch(name) for pattern in patterns):
            raise SettingsError(
                "scope", f"has {name!r}; at level {self.level} it takes the full name of {expected}"
            )


def unknown_key(key: str, known: Iterable[str], what: str) -> SettingsError:
    """The error for an unknown key, with the most similar known one."""
    known = sorted(known)
    near = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known {what}: {', '.join(known)}"
    return SettingsError(key, f"is not among the known {what}; {hint}")


def _wrong(key: str, found: object, expected: str) -> SettingsError:
    shown = repr(found)
    if len(shown) > 120:
        shown = f"{shown[:117]}..."
    return SettingsError(key, f"is {shown}; expected {expected}")


def _path(key: str, value: object) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise _wrong(key, value, "the path of a folder")
    text = os.fspath(value)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise _wrong(key, value, "the path of a folder")
    if text.startswith(("s3://", "gs://")):
        raise SettingsError(
            key, f"is {text!r}; dumps are written on this machine only: copy it to the bucket afterwards"
        )
    # A script may change its working folder between steps; the dump stays in one place.
    path = Path(text).absolute()
    if path.exists() and not path.is_dir():
        raise SettingsError(
            key, f"is {text!r}, which is a file; expected a folder, or a name to create one under"
        )
    return path


def _file(key: str, value: object) -> str | None:
    if value is None:
        return None
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise _wrong(key, value, "the path of a file")
    return str(Path(text).absolute())


def one_of(*allowed: str | None) -> Callable[[str, object], object]:
    """A check for a setting that is one of several words."""
    expected = ", ".join("None" if word is None else word for word in allowed)

    def check(key: str, value: object) -> object:
        if not (value is None or isinstance(value, str)) or value not in allowed:
            near = difflib.get_close_matches(str(value), [word for word in allowed if word], n=1, cutoff=0.7)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            raise _wrong(key, value, f"one of {expected}{hint}")
        return value

    return check


def flag(key: str, value: object) -> bool:
    """A check for a setting that is true or false."""
    if not isinstance(value, bool):
        raise _wrong(key, value, "true or false")
    return value


def whole_number(key: str, value: object) -> int:
    """A check for a setting that is a whole number above 0."""
    if not _is_int(value) or value <= 0:
        raise _wrong(key, value, "a whole number above 0")
    return value


def overflow_limit(key: str, value: object) -> int:
    """A check for a number of overflows."""
    if not _is_int(value) or (value <= 0 and value != -1):
        raise _wrong(key, value, "a number above 0, or -1 for no end")
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _names(key: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, tuple | list):
        raise _wrong(key, value, "a list of names")
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise _wrong(key, value, f"a list of names, but one of them is {item!r}")
    return tuple(items)


def _selection(key: str, value: object) -> tuple[str, ...]:
    names = _names(key, value)
    for name in names:
        if name.startswith("name-regex("):
            raise SettingsError(key, f"has {name!r}; expected a part of a name, not a regular expression")
    return names


def _patterns(key: str, value: object) -> tuple[str, ...]:
    names = _names(key, value)
    for name in names:
        try:
            patterns.compiled(name)
        except re.error as error:
            raise SettingsError(key, f"has {name!r}, which is no pattern: {error}") from None
    return names


def _apis(key: str, value: object) -> tuple[str, ...]:
    names = _names(key, value)
    for name in names:
        prefix, dot, function = name.partition(".")
        if not (prefix and dot and function):
            raise SettingsError(key, f"has {name!r}; expected a prefix and a function, as in Torch.relu")
    return names


def _scope(key: str, value: object) -> tuple[str, ...]:
    names = _names(key, value)
    if len(names) not in (0, 2):
        raise _wrong(key, value, "two names, of the first and the last call to record, or none")
    return names


def _namespaces(key: str, value: object) -> tuple[str, ...]:
    names = _names(key, value)
    for name in names:
        if not name.isidentifier():
            raise _wrong(key, value, f"namespaces of torch.ops, but {name!r} cannot be one")
    return names


def _data_mode(key: str, value: object) -> tuple[str, ...]:
    given = _names(key, value)
    for word in given:
        if word not in DATA_MODES:
            raise _wrong(key, value, f"words out of {', '.join(DATA_MODES)}")
    if "all" in given and len(set(given)) > 1:
        raise _wrong(key, value, "'all' alone, or words without it")
    return tuple(word for word in DATA_MODES if word in given) or ("all",)


def _numbers(key: str, value: object) -> tuple[int, ...]:
    """Steps or ranks: 3, [0, "2", "4-6"], "0,2-4"; sorted, each once."""
    if value is None:
        return ()
    items: Iterable[object] = (
        value.split(",")
        if isinstance(value, str)
        else (value if isinstance(value, tuple | list | range | set | frozenset) else [value])
    )
    numbers: set[int] = set()
    for item in items:
        first, last = _number_range(key, item, value)
        numbers.update(range(first, last + 1))
    return tuple(sorted(numbers))


def _number_range(key: str, item: object, whole: object) -> tuple[int, int]:
    """One item of several; the error shows the whole text as the user gave it."""
    shown = whole if isinstance(whole, str) else item
    expected = f"numbers from 0 to {MAX_STEP_OR_RANK} and ranges such as '4-6'"
    if _is_int(item):
        first = last = item
    elif isinstance(item, str) and (match := re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", item)):
        first = int(match[1])
        last = int(match[2] or match[1])
    else:
        raise _wrong(key, shown, expected)
    if not 0 <= first <= last <= MAX_STEP_OR_RANK:
        raise _wrong(key, shown, expected)
    return first, last


def _limit(key: str, value: object) -> int | None:
    if value is None:
        return None
    if not _is_int(value) or value <= 0:
        raise _wrong(key, value, "a number above 0, or None for no limit")
    return value


def _size(key: str, value: object) -> int | None:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if not match or not int(match[1]):
            raise _wrong(key, value, "a number of bytes above 0, such as 500M or 10G")
        return int(match[1]) * _SIZE_UNITS[match[2].upper()]
    return _limit(key, value)


def _sample(key: str, value: object) -> Sample:
    if value is None or value == "all":
        return value
    if not _is_int(value) or not 0 <= value <= MAX_SAMPLE:
        raise _wrong(key, value, f"a number of elements up to {MAX_SAMPLE}, 'all', or None")
    return value


def _interval(key: str, value: object) -> float:
    is_number = _is_int(value) or isinstance(value, float)
    if not is_number or not 0.001 <= value <= 3600:  # type: ignore[operator]
        raise _wrong(key, value, "a number of seconds from 0.001 to 3600")
    return float(value)  # type: ignore[arg-type]


def _init_step(key: str, value: object) -> int:
    if not _is_int(value) or not 0 <= value <= MAX_STEP_OR_RANK:
        raise _wrong(key, value, f"a number from 0 to {MAX_STEP_OR_RANK}")
    return value


def _seed(key: str, value: object) -> int | None:
    if value is None:
        return None
    if not _is_int(value) or not 0 <= value <= MAX_SEED:
        raise _wrong(key, value, f"a seed from 0 to {MAX_SEED}, or None")
    return value


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "dump_path": _path,
    "task": one_of(*TASKS),
    "level": one_of(*LEVELS),
    "step": _numbers,
    "rank": _numbers,
    "scope": _scope,
    "list": _selection,
    "list_match": one_of(*LIST_MATCHES),
    "module": _patterns,
    "call": _patterns,
    "apis": _apis,
    "data_mode": _data_mode,
    "tensor_list": _selection,
    "digest": one_of(None, *DIGESTS),
    "file_format": one_of(*FILE_FORMATS),
    "stacks": flag,
    "stack_form": one_of(*STACK_FORMS),
    "backward_stacks": flag,
    "skip_scalars": flag,
    "skip_ints": flag,
    "skip_single_values": flag,
    "layers": one_of(*LAYERS),
    "max_bytes": _size,
    "max_calls": _limit,
    "strict": flag,
    "init_step": _init_step,
    "jitter": _seed,
    "custom_op_namespaces": _namespaces,
    "layout": one_of(*LAYOUTS),
    "layout_path": _file,
    "sample": _sample,
    "strides": flag,
    "inner_calls": flag,
    "gradients": one_of(*GRADIENTS),
    "parameter_gradients": flag,
    "device_statistics": one_of(*DEVICE_STATISTICS),
    "flush_interval": _interval,
    "cuda_graphs": flag,
    "overflow_nums": overflow_limit,
    "on_overflow": one_of(*ON_OVERFLOW),
    "check_mode": one_of(*CHECK_MODES),
    "would_overflow": one_of(None, *WOULD_OVERFLOW),
}
