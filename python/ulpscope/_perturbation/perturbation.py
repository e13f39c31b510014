"""What ``ulpscope.check.perturb`` returns. It exposes the user's methods of a ``PerturbRun``."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from ulpscope._capture.regions.compiled import untraced
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._perturbation.findings import Finding
from ulpscope._perturbation.run import PerturbRun


class Perturbation:
    """Perturbs the calls of a program, step by step; created by ``ulpscope.check.perturb``."""

    __slots__ = ("__weakref__", "_run")

    def __init__(self, settings: PerturbSettings, model: Any = None) -> None:
        self._run = PerturbRun(settings, model)

    def __enter__(self) -> Perturbation:
        self._run.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def findings(self) -> list[Finding]:
        """What was found so far, in order."""
        return self._run.findings

    @property
    def steps_done(self) -> bool:
        """Whether every selected step is over; nothing more is perturbed then."""
        return self._run.steps_done

    @untraced
    def start(self, model: Any = None) -> None:
        """Starts to perturb calls."""
        self._run.start(model)

    @untraced
    def stop(self) -> None:
        """Stops until the next ``start``: calls after it, forward and backward, are not touched."""
        self._run.stop()

    @untraced
    def step(self) -> None:
        """Ends a step: calls are counted from 0 again."""
        self._run.step()

    @untraced
    def register_custom_api(self, module: Any, api: str, prefix: str | None = None) -> None:
        """Also perturbs the calls of ``module.api``, as ``prefix.api``."""
        self._run.register_custom_api(module, api, prefix)

    @untraced
    def restore_custom_api(self, module: Any, api: str) -> None:
        """Undoes ``register_custom_api``."""
        self._run.restore_custom_api(module, api)

    @untraced
    def close(self) -> None:
        """Ends the check, and restores torch."""
        self._run.close()
