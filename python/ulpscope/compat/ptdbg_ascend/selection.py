"""What is dumped: the modes of ``set_dump_switch`` and ``configure_hook`` as settings of capture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ulpscope._capture.settings import Settings
from ulpscope._capture.settings.settings import DATA_MODES, Task
from ulpscope.compat.ptdbg_ascend.place import Place

MODES = ("all", "list", "range", "stack", "acl", "api_list", "api_stack")
SWITCHES = ("ON", "OFF")

# {Prefix}_{function}[_{number}][_{direction}][_{input or output}…], as in the result of a comparison.
_NAME = re.compile(r"([A-Za-z]+)_(.+?)(?:_(\d+))?(?:_(forward|backward))?(?:_(?:input|output)[.\d]*)?")
_SIDE = re.compile(r"_(?:input|output)[.\d]*\Z")


@dataclass(frozen=True)
class Selection:
    """The arguments of one call, checked."""

    mode: str = "all"
    scope: tuple[str, ...] = ()
    api_list: tuple[str, ...] = ()
    filter_switch: str = "OFF"
    data_mode: tuple[str, ...] = ("all",)
    summary_only: bool = False

    def settings(self, place: Place, step: Sequence[int] = (), rank: int | None = None) -> Settings:
        """The settings of capture."""
        keywords: dict[str, Any] = {}
        if self.mode == "list" or (self.mode == "stack" and len(self.scope) == 1):
            keywords |= {"list": self.scope, "list_match": "start"}
        elif self.mode in ("range", "stack") and self.scope:
            keywords |= {"scope": tuple(_full_name(name) for name in self.scope)}
        elif self.mode == "api_list":
            keywords |= {"list": self.api_list, "list_match": "part_any_case"}
        is_filtered = self.filter_switch == "ON"
        has_stacks = self.mode in ("api_stack", "list", "range", "stack")
        task: Task = "structure" if self.mode == "stack" else "statistics" if self.summary_only else "tensor"
        return Settings(
            dump_path=place.journal,
            task=task,
            file_format="npy",
            step=tuple(step),
            rank=() if rank is None else (rank,),
            data_mode=self.data_mode,  # type: ignore[arg-type]
            stacks=has_stacks,
            backward_stacks=has_stacks,
            skip_scalars=is_filtered,
            skip_ints=is_filtered,
            skip_single_values=is_filtered,
            gradients="last_node",
            layout="ptdbg_ascend",
            layout_path=place.pkl(self.mode),
            **keywords,
        )


def selection_of(
    mode: Any, scope: Any, api_list: Any, filter_switch: Any, data_mode: Any, summary_only: Any, io_name: str
) -> Selection:
    """Checks the arguments. ``io_name`` is what the caller calls the filter by direction and side."""
    one_of("mode", mode, MODES)
    one_of("filter_switch", filter_switch, SWITCHES)
    scope, api_list = _names("scope", scope), _names("api_list", api_list)
    _check_scope(mode, scope)
    if mode == "api_list" and not api_list:
        raise ValueError('api_list is empty; mode "api_list" needs names, as in api_list=["relu"]')
    words = _names(io_name, data_mode) if data_mode is not None else ("all",)
    if not words or any(word not in DATA_MODES for word in words):
        raise ValueError(f"{io_name} is {data_mode!r}; expected a list of {', '.join(DATA_MODES)}")
    if "all" in words and len(words) > 1:
        raise ValueError(f"{io_name} is {data_mode!r}; 'all' can only be given alone")
    if not isinstance(summary_only, bool):
        raise ValueError(f"summary_only is {summary_only!r}; expected True or False")
    without_side = tuple(_SIDE.sub("", name) for name in scope)
    return Selection(mode, without_side, api_list, filter_switch, words, summary_only)


def one_of(name: str, value: object, allowed: Sequence[str]) -> None:
    """Raises unless a value is one of the allowed ones."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} is {value!r}; expected one of {', '.join(allowed)}")


def _check_scope(mode: str, scope: tuple[str, ...]) -> None:
    wrong, expected = {
        "list": (not scope, "the names of the APIs"),
        "range": (len(scope) != 2, "two names, of the first and the last API"),
        "stack": (len(scope) > 2, "no name, one name, or the first and the last"),
        "acl": (len(scope) != 1, "the name of one API"),
    }.get(mode, (False, ""))
    if wrong:
        names = "1 name" if len(scope) == 1 else f"{len(scope)} names"
        raise ValueError(f'scope has {names}; mode "{mode}" needs {expected}')


def _names(name: str, value: object) -> tuple[str, ...]:
    """A list of names. None is an empty one: it is the tool's own default."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or any(not isinstance(item, str) or not item for item in value):
        raise ValueError(f"{name} is {value!r}; expected a list of names")
    return tuple(value)


def _full_name(name: str) -> str:
    """``Tensor.abs.1.forward`` for ``Tensor_abs_1_forward``. The first call is meant without a number."""
    found = _NAME.fullmatch(name)
    if found is None:
        return name
    prefix, function, number, direction = found.groups()
    return f"{prefix}.{function}.{number or 0}.{direction or 'forward'}"
