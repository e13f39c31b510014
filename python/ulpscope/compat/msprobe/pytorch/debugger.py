"""``msprobe.pytorch.PrecisionDebugger`` of release 1.1.1: its checks and messages, over our capture."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ulpscope._capture.lifecycle import ranks
from ulpscope._debugger import PrecisionDebugger as _Debugger
from ulpscope.compat.msprobe.exceptions import MsprobeException

log = logging.getLogger("ulpscope.compat.msprobe")

TASKS = ["tensor", "statistics", "overflow_check", "free_benchmark", "run_ut", "grad_probe"]
LEVELS = ["L0", "L1", "L2", "mix"]


class PrecisionDebugger(_Debugger):
    """Records a training script, as msprobe's class of this name does."""

    # compare of this release looks for the stack of a call by its name.
    _own_settings: ClassVar[Mapping[str, Any]] = {"stack_form": "by_name"}
    _said_unwanted: ClassVar[bool] = False

    def __init__(
        self,
        config_path: str | None = None,
        task: Any = None,
        dump_path: str | None = None,
        level: Any = None,
        model: Any = None,
        step: Any = None,
    ) -> None:
        if _Debugger._instance is None:
            _check(config_path, task, dump_path, level, model)
            PrecisionDebugger._said_unwanted = False
        super().__init__(config_path, task, dump_path, level, model, step)
        if self.settings["task"] == "free_benchmark":
            _print_log()

    @classmethod
    def start(cls, model: Any = None, *others: Any, **keywords: Any) -> None:
        """Starts recording. Levels L0 and mix need a model, here or in the constructor."""
        session = cls._of_process("start")
        if session.level not in ("L0", "mix"):
            if model is not None or session.model is not None:
                log.warning(
                    "The current level is not L0 or mix level, so the model parameters will not be used."
                )
        elif model is None and session.model is None:
            log.error(
                "For level %s, PrecisionDebugger or start interface must receive a 'model' argument.",
                session.level,
            )
            raise _wrong("missing the parameter 'model'")
        elif model is not None and not _is_model(model):
            log.error("The 'model' parameter of start must be a torch.nn.Module type.")
            raise _wrong("model must be a torch.nn.Module")
        if not cls._has_wanted_rank(session.settings["rank"]):
            return
        super().start(model, *others, **keywords)

    @classmethod
    def _has_wanted_rank(cls, wanted: Sequence[int]) -> bool:
        """Whether this process may have one of the ranks. The tool dumps nothing of a process on its own."""
        if not wanted or ranks.may_be_one_of(wanted):
            return True
        if not cls._said_unwanted:
            cls._said_unwanted = True
            text = "rank %s is selected, which this process does not have: nothing is dumped here"
            log.warning(text, list(wanted))
        return False

    @classmethod
    def record_module(cls, module: Any, name: str) -> None:
        """Records the calls of a module under a name, and nothing else until ``end_record_module``."""
        with cls._of_process("module_dump") as session:
            session.run.record_module(module, name)

    @classmethod
    def end_record_module(cls) -> None:
        """Records everything again."""
        with cls._of_process("module_dump_end") as session:
            session.run.end_record_module()


def _check(config_path: Any, task: Any, dump_path: Any, level: Any, model: Any) -> None:
    if config_path is not None and not isinstance(config_path, str | os.PathLike):
        raise _wrong("config_path must be a string")
    if task is not None and task not in TASKS:
        raise _wrong(f"task must be one of {TASKS}")
    if dump_path is not None and not isinstance(dump_path, str | os.PathLike):
        raise _wrong("dump_path must be a string")
    if level is not None and level not in LEVELS:
        raise _wrong(f"level must be one of {LEVELS}")
    if model is not None and not _is_model(model):
        raise _wrong("model must be a torch.nn.Module")


def _print_log() -> None:
    """The free benchmark reports each call on stdout, as the tool does."""
    found = logging.getLogger("ulpscope.check")
    if not found.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(asctime)s (%(process)d) [%(levelname)s] %(message)s"))
        found.addHandler(handler)
        found.setLevel(logging.INFO)
        # The program's own handlers would print the lines again.
        found.propagate = False


def _is_model(model: Any) -> bool:
    import torch

    # Later releases also take a list of models.
    models = model if isinstance(model, list | tuple) else [model]
    return all(isinstance(one, torch.nn.Module) for one in models)


def _wrong(text: str) -> MsprobeException:
    return MsprobeException(MsprobeException.INVALID_PARAM_ERROR, text)
