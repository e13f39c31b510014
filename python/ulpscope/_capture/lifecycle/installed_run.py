"""What every run has that installs itself into torch: functions of the program that it sees, too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ulpscope._capture.lifecycle.installation import CustomApis, Installation
from ulpscope._capture.regions.compiled import untraced


class InstalledRun(ABC):
    """A run with an `Installation`, which is made anew when what it covers changes."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._custom: CustomApis = {}

    @untraced
    def register_custom_api(self, module: Any, api: str, prefix: str | None = None) -> None:
        """Also sees the calls of ``module.api``, as ``prefix.api``."""
        if not callable(getattr(module, api, None)):
            raise ValueError(f"api: {module!r} has no function {api!r}")
        name = prefix or str(getattr(module, "__name__", type(module).__name__)).rpartition(".")[2]
        self._custom[module, api] = (name, api)
        self._reinstall()

    @untraced
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Undoes ``register_custom_api``."""
        if self._custom.pop((module, api), None) is not None:
            self._reinstall()

    @abstractmethod
    def _update(self) -> None:
        """Installs or removes everything, as this step requires."""

    def _reinstall(self) -> None:
        if self._installation.installed:
            self._installation.remove()
            self._update()
