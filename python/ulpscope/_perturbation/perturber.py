"""Which calls are perturbed, and how a perturbation is kept from harming the program.

It takes the place of the recorder in capture's ``Installation``, so it sees the calls that capture sees,
under the same names. A subclass runs a selected call and judges it.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ulpscope._capture.calls.functions import Function
from ulpscope._capture.calls.named_calls import NamedCall, NamedCalls
from ulpscope._capture.lifecycle import ranks
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.settings.perturb_settings import PerturbSettings
from ulpscope._perturbation import messages
from ulpscope._perturbation.findings import Finding, Findings

_log = logging.getLogger("ulpscope.check")


class Perturber(NamedCalls):
    """Perturbs the selected calls while it is on."""

    def __init__(self, settings: PerturbSettings, selection: Selection, findings: Findings) -> None:
        super().__init__()
        self.settings = settings
        self.step = settings.init_step
        self.is_on = False
        """Whether calls are perturbed."""
        self.is_collecting = False
        """Whether the backward pass of calls that were perturbed is."""
        self.findings = findings
        self._selection = selection
        self._process = os.getpid()
        # Scope: before the first call, inside, after the last.
        self._is_inside = False
        self._is_after = False
        self._noted: set[str] = set()
        # The names of modules by their addresses, at level L0.
        self._modules: dict[int, str] = {}

    def perturbed(self, call: NamedCall) -> Any:
        """Runs a selected call, perturbs it, and returns what the program gets as its result."""
        raise NotImplementedError

    def around(self, call: NamedCall) -> Any:
        """Runs a call."""
        # A forked process has a copy of the mode: its calls, such as those of data loaders, are left alone.
        if not self.is_on or os.getpid() != self._process or not self._is_selected(call):
            return call.original()
        return self.perturbed(call)

    def next_step(self) -> None:
        """Ends a step."""
        self.restart()
        self.step += 1
        self._is_inside = self._is_after = False

    def report(
        self,
        call: NamedCall,
        stage: str,
        change: str,
        output: Any,
        output_index: int | None,
        cause: str = "",
    ) -> None:
        """Reports a call whose output responded too strongly."""
        self.findings.add(
            Finding(
                ranks.current_rank(),
                self.settings.pert_mode,
                stage,
                self.step,
                call.name if stage == "forward" else backward_name(call),
                change,
                str(output.dtype),
                str(output.shape),
                output_index,
                cause,
            )
        )

    def hold_back(self, call: NamedCall, error: Exception) -> None:
        """Reports an error of a second run; raises it only if the user asked for that."""
        if self.settings.strict:
            raise error
        messages.failed(call.name, error)

    def wants(self, function: Function) -> bool:
        """Every function that capture records."""
        return True

    def _is_selected(self, call: NamedCall) -> bool:
        name = call.name
        if self.settings.scope:
            first, last = self.settings.scope
            self._is_inside = self._is_inside or (name == first and not self._is_after)
            is_inside = self._is_inside
            if name == last and is_inside:
                self._is_inside, self._is_after = False, True
            if not is_inside:
                return False
        listed = self.settings.list
        if listed and not any(part in name or part in backward_name(call) for part in listed):
            return False
        wants = self._selection.wants_call
        return wants is None or wants(name)

    # What an Installation asks of a recorder, beyond names.

    def note(self, text: str) -> None:
        """Logs what the program does that cannot be seen; each once."""
        if text not in self._noted:
            self._noted.add(text)
            _log.info("%s", text)

    note_once = note

    def begin_pass(self) -> None:
        """A backward pass begins."""

    def end_pass(self) -> None:
        """A backward pass ends."""

    def forget_model(self) -> None:
        """The installation is removed."""
        self._modules.clear()

    def add_module(self, module: Any, base: str | None, is_muted: bool, is_selected: bool) -> None:
        """A module has a name: ``Module.fc.Linear``."""
        if base is not None and not is_muted and (is_selected or not self.settings.module):
            self._modules[id(module)] = base

    def forget_module(self, address: int) -> None:
        """A module is gone."""
        self._modules.pop(address, None)

    def is_outermost(self) -> bool:
        """Whether no module runs: modules that are met later belong to no model."""
        return True

    def enter_module(self, module: Any, args: Any, kwargs: Any) -> Any:
        """A module is about to run; None if it is not perturbed."""

    def leave_module(self, begun: Any, module: Any, output: Any) -> None:
        """A module has returned."""

    def raised_module(self, begun: Any, module: Any, kind: str) -> None:
        """A module has raised: there is nothing to judge."""

    def add_origin(self, *_: Any) -> None:
        """A parameter has a name."""

    def parameter_gradient(self, *_: Any) -> None:
        """A parameter has its gradient."""

    def begin(self, *_: Any) -> None:
        """A message between processes begins: it is never perturbed."""

    def let_go(self, _: Any) -> tuple[None, None]:
        """Two tensors are about to be swapped: nothing is known about them."""
        return None, None

    def know_again(self, *_: Any) -> None:
        """Two tensors were swapped."""


def backward_name(call: NamedCall) -> str:
    """``Functional.linear.0.backward``."""
    return f"{call.base}.{call.number}.backward"
