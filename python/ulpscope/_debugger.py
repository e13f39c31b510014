"""``PrecisionDebugger``: capture under the names that scripts written for msprobe use.

One object per process: ``start``, ``stop`` and ``step`` can be called on the class from any file. A ``Run``
does the work. This module adds the singleton, config.json, and hot reload (a config.json with
``dump_enable`` can be changed while the program runs).
"""

from __future__ import annotations

import atexit
import copy
import dataclasses
import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ulpscope._capture.settings import Settings, SettingsError
from ulpscope._capture.settings.config import Config
from ulpscope._capture.settings.config_watch import ConfigWatch
from ulpscope._capture.settings.perturb_settings import PerturbSettings

if TYPE_CHECKING:
    from ulpscope._capture.lifecycle.loader_steps import LoaderSteps
    from ulpscope._capture.lifecycle.run import Run
    from ulpscope._capture.settings.settings import Level, Task
    from ulpscope._perturbation.run import PerturbRun

log = logging.getLogger("ulpscope.capture")

# The default folder of the older tools.
DEFAULT_DUMP_PATH = "./dump_path"

# Scripts of the older tools open a file for each tensor.
_DEFAULTS = {"file_format": "pt"}

# Another thread may end the step.
_lock = threading.RLock()


class PrecisionDebugger:
    """Records a training script; same interface as msprobe's class of this name, see docs/capture.md.

    Constructing it again returns the same object. Arguments override config.json. Before ``start``, nothing
    is recorded and torch is not changed.
    """

    _instance: ClassVar[PrecisionDebugger | None] = None
    # What a face of an older tool sets, whatever config.json has.
    _own_settings: ClassVar[Mapping[str, Any]] = {}
    _session: _Session

    def __new__(cls, *args: Any, **keywords: Any) -> PrecisionDebugger:
        """The one object of the process."""
        with _lock:
            _leave_to_parent()
            return PrecisionDebugger._instance or super().__new__(cls)

    def __init__(
        self,
        config_path: str | os.PathLike[str] | None = None,
        task: Task | None = None,
        dump_path: str | os.PathLike[str] | None = None,
        level: Level | None = None,
        model: Any = None,
        step: Any = None,
    ) -> None:
        with _lock:
            if PrecisionDebugger._instance is not None:
                if any(value is not None for value in (config_path, task, dump_path, level, model, step)):
                    log.warning(
                        "this process has its PrecisionDebugger: that one is used, new arguments are ignored"
                    )
                return
            defaults = _DEFAULTS | ({"on_overflow": "stop"} if task == "overflow_check" else {})
            config = (
                Config({"dump_path": DEFAULT_DUMP_PATH}, defaults=defaults)
                if config_path is None
                else Config.read(config_path, _DEFAULTS)
            )
            overrides = {"task": task, "dump_path": dump_path, "level": level, "step": step}
            overrides |= self._own_settings
            self._session = _Session(config, overrides, _checked_model(model))
            PrecisionDebugger._instance = self
            atexit.register(PrecisionDebugger.close)
            self._session.follow_loaders()

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings by name, as they are used: config.json, arguments and defaults together."""
        return self._session.settings

    @classmethod
    def start(
        cls, model: Any = None, token_range: Any = None, rank_id: Any = None, scheduled_tokens: Any = None
    ) -> None:
        """Starts recording. ``model``: a module or a list of them. Without one, levels L0 and mix use the
        first module called. After the last selected step this does nothing."""
        for name, value in (
            ("token_range", token_range),
            ("rank_id", rank_id),
            ("scheduled_tokens", scheduled_tokens),
        ):
            if value is not None:
                raise SettingsError(
                    name, "is given to start, which is not supported; select with step and rank"
                )
        with cls._of_process("start") as session:
            session.start(_checked_model(model))

    @classmethod
    def stop(cls) -> None:
        """Stops recording until the next ``start``."""
        with cls._of_process("stop") as session:
            session.stop()

    @classmethod
    def step(cls) -> None:
        """Ends a step: its dump is complete, and call numbers start at 0 again."""
        with cls._of_process("step") as session:
            session.step()

    @classmethod
    def forward_backward_dump_end(cls) -> None:
        """Stops recording calls of this step. The backward pass of recorded calls is still recorded."""
        with cls._of_process("forward_backward_dump_end") as session:
            session.run.end_forward()

    @classmethod
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """At level debug: records a tensor, or a list or dictionary of tensors, and its gradients."""
        with cls._of_process("save") as session:
            session.save(variable, name, save_backward)

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Numbers steps from ``step`` on, for training that resumes from a checkpoint."""
        with cls._of_process("set_init_step") as session:
            session.set_init_step(step)

    @classmethod
    def register_custom_api(cls, module: Any, api: str, api_prefix: str | None = None) -> None:
        """Records calls of ``module.api``, one of your own functions."""
        with cls._of_process("register_custom_api") as session:
            session.register_custom_api(module, api, api_prefix)

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Stops recording calls of ``module.api``."""
        with cls._of_process("restore_custom_api") as session:
            session.restore_custom_api(module, api)

    @classmethod
    def close(cls) -> None:
        """Ends the capture; then a new object can be constructed. Called automatically at process exit."""
        with _lock:
            instance, PrecisionDebugger._instance = PrecisionDebugger._instance, None
            if instance is not None:
                atexit.unregister(PrecisionDebugger.close)
                instance._session.close()

    @classmethod
    def _of_process(cls, wanted: str) -> _Session:
        instance = PrecisionDebugger._instance
        if instance is not None and instance._session.process != os.getpid():
            # Constructed before the fork and used in the child: record in the child too.
            instance._session = instance._session.of_child()
        if instance is None:
            raise RuntimeError(
                f"there is no PrecisionDebugger in this process: construct one before {wanted}()"
            )
        return instance._session


class _Session:
    """A run, and the config.json that it may follow. As a context manager, it holds the lock."""

    def __init__(self, config: Config, overrides: dict[str, Any], model: Any) -> None:
        self._overrides = overrides
        self._settings = config.settings(**overrides)
        self._model = model
        self._enabled = config.dump_enable is not False
        self._watch = ConfigWatch(config.path) if config.path and config.dump_enable is not None else None
        self._started = False
        self._step = self._settings.init_step
        self._custom_apis: list[tuple[Any, str, str | None]] = []
        self._said_not_debug = False
        self._loaders: LoaderSteps | None = None
        self._has_loaders = config.enable_dataloader
        self._said_driven: set[str] = set()
        self.process = os.getpid()
        self.run = _new_run(self._settings)

    def __enter__(self) -> _Session:
        _lock.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        _lock.release()

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._settings.by_name()

    @property
    def level(self) -> Level:
        return self._settings.level

    @property
    def model(self) -> Any:
        return self._model

    def follow_loaders(self) -> None:
        """Lets data loaders drive the steps, if config.json says so."""
        if self._has_loaders:
            from ulpscope._capture.lifecycle.loader_steps import LoaderSteps

            self._loaders = LoaderSteps(self._start, self._end_step, lambda: self.run.steps_done)
            self._loaders.install()

    def start(self, model: Any) -> None:
        if model is not None:
            self._model = model
        if not self._is_driven("start"):
            self._start()

    def stop(self) -> None:
        if not self._is_driven("stop"):
            self._stop()

    def step(self) -> None:
        if not self._is_driven("step"):
            self._step_on()

    def _is_driven(self, method: str) -> bool:
        if self._loaders is not None and method not in self._said_driven:
            self._said_driven.add(method)
            log.warning("DataLoader is enabled, %s() skipped.", method)
        return self._loaders is not None

    def _end_step(self) -> None:
        self._stop()
        self._step_on()

    def _start(self) -> None:
        self._follow_config()
        self._start_run()
        self._started = True

    def _stop(self) -> None:
        self._started = False
        self.run.stop()
        self._follow_config()

    def _step_on(self) -> None:
        self.run.step()
        self._step += 1
        if self.run.steps_done:
            self.run.stop()
        self._follow_config()

    def save(self, variable: Any, name: str, save_backward: bool) -> None:
        if self._settings.level != "debug":
            if not self._said_not_debug:
                log.warning("save records at level debug only; the level is %s", self._settings.level)
                self._said_not_debug = True
        elif self._enabled:
            self.run.save(variable, name, save_backward)

    def set_init_step(self, step: int) -> None:
        self._step = dataclasses.replace(self._settings, init_step=step).init_step
        self.run.set_init_step(step)

    def register_custom_api(self, module: Any, api: str, prefix: str | None) -> None:
        self.run.register_custom_api(module, api, prefix)
        self._custom_apis.append((module, api, prefix))

    def restore_custom_api(self, module: Any, api: str) -> None:
        self.run.restore_custom_api(module, api)
        self._custom_apis = [
            known for known in self._custom_apis if known[0] is not module or known[1] != api
        ]

    def of_child(self) -> _Session:
        """The same in a forked child, with a separate run that has not started."""
        child = copy.copy(self)
        child.process = os.getpid()
        child._started = False
        child._custom_apis = []
        child.run = _new_run(dataclasses.replace(self._settings, init_step=self._step))
        for module, api, prefix in self._custom_apis:
            child.register_custom_api(module, api, prefix)
        if self._loaders is not None:
            # Its callbacks are the parent's.
            self._loaders.remove()
            child._loaders = None
            child.follow_loaders()
        return child

    def close(self) -> None:
        if self._loaders is not None:
            self._loaders.remove()
        self.run.stop()
        self.run.close()

    def _start_run(self) -> None:
        if self._enabled and not self.run.steps_done:
            self.run.start(self._model)

    def _follow_config(self) -> None:
        """Applies a changed config.json: on, off, or on with different settings."""
        if self._watch is None or not self._watch.has_changed(recording=self._enabled):
            return
        settings = self._settings
        try:
            config = Config.read(self._watch.path)
            settings = config.settings(**self._overrides)
            enabled = self._enabled if config.dump_enable is None else config.dump_enable
        except SettingsError as error:
            log.warning("%s; recording is off until the file is right", error)
            enabled = False
        was_recording = self._started and self._enabled
        if was_recording and (not enabled or settings != self._settings):
            self.run.stop()
        self._enabled = enabled
        if settings != self._settings:
            self._replace_run(settings)
            manner = "recording goes on with its settings" if enabled else "recording is off"
            log.warning("%s has changed: %s", self._watch.path, manner)
            was_recording = False
        if self._started and not was_recording:
            self._start_run()

    def _replace_run(self, settings: Settings) -> None:
        self.run.close()
        self._settings = settings
        self.run = _new_run(dataclasses.replace(settings, init_step=self._step))
        for module, api, prefix in self._custom_apis:
            self.run.register_custom_api(module, api, prefix)


def _leave_to_parent() -> None:
    """Drops the parent's object in a forked child, which may construct its own."""
    instance = PrecisionDebugger._instance
    if instance is not None and instance._session.process != os.getpid():
        PrecisionDebugger._instance = None


def _new_run(settings: Settings) -> Run | PerturbRun:
    # Imports torch, which programs that only read dumps do not need.
    if isinstance(settings, PerturbSettings):
        from ulpscope._perturbation.run import PerturbRun

        return PerturbRun(settings)
    from ulpscope._capture.lifecycle.run import Run

    return Run(settings)


def _checked_model(model: Any) -> Any:
    """Checks that the model is a module, or a list or tuple of modules."""
    if model is None:
        return None
    import torch

    models = model if isinstance(model, list | tuple) else [model]
    for one in models:
        if not isinstance(one, torch.nn.Module):
            raise SettingsError(
                "model", f"is or holds a {type(one).__name__}; expected a torch.nn.Module or a list of them"
            )
    return model
