"""The settings of a perturbation: the keys of msprobe's free benchmark, with its rules, and ours.

They extend those of capture: where to write, which steps, ranks and calls. Every rule is checked before
anything runs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

from ulpscope._capture.settings.settings import Settings, SettingsError, flag, one_of, whole_number

PertMode = Literal[
    "amplification", "improve_precision", "bit_noise", "add_noise", "change_value", "no_change", "to_cpu"
]
HandlerType = Literal["check", "fix"]
FuzzStage = Literal["forward", "backward"]

PERT_MODES: tuple[PertMode, ...] = (
    "improve_precision",
    "bit_noise",
    "add_noise",
    "change_value",
    "no_change",
    "to_cpu",
)
AMPLIFICATION: PertMode = "amplification"
HANDLER_TYPES: tuple[HandlerType, ...] = ("check", "fix")
FUZZ_STAGES: tuple[FuzzStage, ...] = ("forward", "backward")
FUZZ_DEVICES = ("npu", "cpu")

# Changes that only raise the quality of a result, which may therefore replace the original one.
FIXING: tuple[PertMode, ...] = ("improve_precision", "to_cpu")

KEYS = (
    "fuzz_device",
    "pert_mode",
    "handler_type",
    "fuzz_level",
    "fuzz_stage",
    "if_preheat",
    "preheat_step",
    "max_sample",
)
"""The keys of the section ``free_benchmark`` that no other task has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PerturbSettings(Settings):
    """The settings of one perturbation; see docs/free-benchmark.md for what each does."""

    # A task that no capture has.
    task: Literal["free_benchmark"] = "free_benchmark"  # type: ignore[assignment]
    pert_mode: PertMode = "improve_precision"
    handler_type: HandlerType = "check"
    fuzz_device: Literal["npu", "cpu"] = "npu"
    """The guide's word: ``npu`` is the device that the call runs on."""
    fuzz_level: Literal["L1", "L0"] = "L1"
    """What is perturbed: calls of functions, or (pert_mode amplification) of modules."""
    fuzz_stage: FuzzStage = "forward"
    if_preheat: bool = False
    preheat_step: int = 15
    max_sample: int = 20
    """The most samples of one API in a step, and the most calls whose inputs wait for the backward pass."""
    seed: int = 0
    """Seeds the signs of the noise."""

    @classmethod
    def _checks(cls) -> Mapping[str, Callable[[str, object], object]]:
        return {
            **super()._checks(),
            "task": one_of("free_benchmark"),
            "pert_mode": one_of(*PERT_MODES, AMPLIFICATION),
            "handler_type": one_of(*HANDLER_TYPES),
            "fuzz_device": one_of(*FUZZ_DEVICES),
            "fuzz_level": one_of("L1", "L0"),
            "fuzz_stage": one_of(*FUZZ_STAGES),
            "if_preheat": flag,
            "preheat_step": whole_number,
            "max_sample": whole_number,
            "seed": _seed,
        }

    def _check_together(self) -> None:
        if self.level != "L1":
            raise SettingsError("level", f"is {self.level!r}; task free_benchmark works at level L1")
        super()._check_together()
        if self.scope and self.list:
            raise SettingsError("scope", "is given together with list; use one of them to select calls")
        self._check_device()
        self._check_fix()
        if self.fuzz_stage == "backward" and not self.list and self.pert_mode != AMPLIFICATION:
            raise SettingsError(
                "fuzz_stage",
                "is 'backward', which needs a list of the calls to check: their inputs are kept in memory",
            )
        if self.if_preheat and self.pert_mode in (AMPLIFICATION, "no_change"):
            raise SettingsError(
                "if_preheat", f"is true, but pert_mode {self.pert_mode!r} has no threshold to learn"
            )
        if self.fuzz_level == "L0" and self.pert_mode != AMPLIFICATION:
            raise SettingsError(
                "fuzz_level", f"is 'L0'; pert_mode {self.pert_mode!r} changes calls of functions: use 'L1'"
            )
        if self.fuzz_level == "L0" and self.fuzz_stage == "backward":
            raise SettingsError("fuzz_level", "is 'L0'; the backward pass is checked at 'L1'")

    def _check_device(self) -> None:
        if (self.fuzz_device == "cpu") == (self.pert_mode == "to_cpu"):
            return
        if self.pert_mode == "to_cpu":
            raise SettingsError("fuzz_device", "is 'npu'; pert_mode 'to_cpu' needs fuzz_device 'cpu'")
        raise SettingsError(
            "fuzz_device", f"is 'cpu', which needs pert_mode 'to_cpu', but pert_mode is {self.pert_mode!r}"
        )

    def _check_fix(self) -> None:
        if self.handler_type != "fix":
            return
        if self.pert_mode not in FIXING:
            raise SettingsError(
                "pert_mode",
                f"is {self.pert_mode!r}; handler_type 'fix' works with {' and '.join(FIXING)}",
            )
        if self.fuzz_stage != "forward":
            raise SettingsError(
                "fuzz_stage",
                "is 'backward'; handler_type 'fix' works with 'forward', which changes the backward pass too",
            )
        if self.if_preheat:
            raise SettingsError("if_preheat", "is true, but handler_type 'fix' compares nothing")


def _seed(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 32:
        raise SettingsError(key, f"is {value!r}; expected a number from 0 to {(1 << 32) - 1}")
    return value
