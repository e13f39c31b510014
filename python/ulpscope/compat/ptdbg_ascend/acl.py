"""``dump_config`` and acl mode: which needs an NPU, and torch_npu.

No such device was at hand: the calls of torch_npu are tested with a stand-in.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ulpscope._capture.acl_dump import AclDump, torch_npu_functions
from ulpscope.compat.ptdbg_ascend.recording import log

_DUMP_MODES = ("output", "input", "all")
_SWITCHES = ("on", "off")


class AclConfig:
    """A dump.json that was checked, and the one API that it is used for."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._backward_input: list[Path] = []
        self._dump: AclDump | None = None
        self._counts: dict[str, int] = {}

    @property
    def path(self) -> Path:
        """The dump.json."""
        return self._path

    def begin_step(self) -> None:
        """Counts calls from 0 again."""
        self._counts.clear()

    def set_backward_input(self, paths: list[Path]) -> None:
        """Sets the saved gradients for a backward API."""
        self._backward_input = paths
        if self._dump is not None:
            self._dump.gradients = paths

    def begin(self, name: str) -> None:
        """Dumps the next call of this name: ``Tensor_permute_1_forward``."""
        self.end()
        functions = torch_npu_functions()
        if functions is None:
            raise RuntimeError(
                'mode "acl" needs an Ascend NPU and torch_npu, which is not installed or not loaded'
            )
        if os.environ.get("TASK_QUEUE_ENABLE", "1") != "0":
            log.warning(
                "TASK_QUEUE_ENABLE is not 0: acl mode needs export TASK_QUEUE_ENABLE=0 before the run"
            )
        log.warning('mode "acl" uses more NPU memory')
        self._dump = AclDump(functions, str(self._path), name, self._backward_input, self._counts)
        self._dump.start()

    def end(self) -> None:
        """Dumps no call any more."""
        if self._dump is not None:
            self._dump.stop()
            self._dump = None


def say_not_for_overflows() -> None:
    """Says that acl mode has no effect in an overflow check."""
    log.warning(
        'dump_mode "acl": ACL data of calls that overflow are not dumped; dump them in a second run, with '
        'mode "acl" and the name of the call'
    )


def read_config(name: str, path: Any) -> AclConfig:
    """Checks a dump.json before the run; ``name`` is that of the argument in messages."""
    if path is None:
        raise ValueError(f"{name} is None; acl mode needs the path of a dump.json")
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{name} is {path!r}; expected the path of a dump.json")
    file = Path(path).absolute()
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{name}: {str(path)!r} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {str(path)!r} is no JSON: {error}") from None
    dump = content.get("dump") if isinstance(content, dict) else None
    if not isinstance(dump, dict):
        raise ValueError(f'{name}: {str(path)!r} has no object "dump"')
    _check(f"{name}: {str(path)!r}", dump)
    return AclConfig(file)


def _check(where: str, dump: dict[str, Any]) -> None:
    if dump.get("dump_list", []) != []:
        raise ValueError(f"{where}: dump_list is {dump['dump_list']!r}; expected an empty list")
    folder = dump.get("dump_path")
    if not isinstance(folder, str) or not Path(folder).is_dir():
        raise ValueError(f"{where}: dump_path is {folder!r}; expected a folder that exists")
    for key, default, allowed in (
        ("dump_mode", "output", _DUMP_MODES),
        ("dump_op_switch", "off", _SWITCHES),
    ):
        if (value := dump.get(key, default)) not in allowed:
            raise ValueError(f"{where}: {key} is {value!r}; expected one of {', '.join(allowed)}")


def backward_inputs(paths: Any) -> list[Path]:
    """Checks the .npy files of saved gradients."""
    if not isinstance(paths, list | tuple):
        raise ValueError(f"backward_input is {paths!r}; expected a list of .npy files")
    for path in paths:
        if not isinstance(path, str | os.PathLike) or Path(path).suffix != ".npy":
            raise ValueError(f"backward_input has {path!r}; expected the path of a .npy file")
        if not Path(path).is_file():
            raise ValueError(f"backward_input has {str(path)!r}, which does not exist")
    return [Path(path).absolute() for path in paths]
