"""``PrecisionDebugger`` of ptdbg_ascend: dumps and overflow checks of chosen steps."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from ulpscope._capture.lifecycle.loader_steps import LoaderSteps
from ulpscope._capture.lifecycle.run import Run
from ulpscope._capture.settings.settings import MAX_STEP_OR_RANK
from ulpscope.compat.ptdbg_ascend import acl
from ulpscope.compat.ptdbg_ascend.overflow import Overflows, check_overflow_nums
from ulpscope.compat.ptdbg_ascend.place import place_of
from ulpscope.compat.ptdbg_ascend.recording import Recording, check_rank, is_selected, log
from ulpscope.compat.ptdbg_ascend.selection import SWITCHES, Selection, one_of, selection_of
from ulpscope.compat.ptdbg_ascend.tool_log import print_switched_off, print_switched_on

_HOOKS = ("dump", "overflow_check")


class PrecisionDebugger:
    """Dumps (``hook_name="dump"``) or checks for overflows (``"overflow_check"``). One object per process."""

    _instance: ClassVar[PrecisionDebugger | None] = None

    def __init__(
        self,
        dump_path: str | os.PathLike[str] | None = None,
        hook_name: str | None = None,
        rank: int | None = None,
        step: Sequence[int] | None = None,
        enable_dataloader: bool = False,
    ) -> None:
        one_of("hook_name", hook_name, _HOOKS)
        steps = _checked_steps(step)
        if not isinstance(enable_dataloader, bool):
            raise ValueError(f"enable_dataloader is {enable_dataloader!r}; expected True or False")
        self._rank = check_rank(rank)
        self._place = place_of("dump_path", dump_path, has_steps=bool(steps))
        self._steps = steps
        self._step = 0
        self._is_on = False
        self._process = os.getpid()
        self._recording = Recording()
        self._selection = Selection(mode="api_stack")
        self._acl: acl.AclConfig | None = None
        self._overflows: Overflows | None = None
        self._loaders: LoaderSteps | None = None
        if hook_name == "dump":
            self.configure_hook = self._configure_dump
        else:
            self.configure_hook = self._configure_overflow
            self._overflows = Overflows(self._place, 1, self._rank)
        before, PrecisionDebugger._instance = PrecisionDebugger._instance, self
        if before is not None:
            log.warning(
                "PrecisionDebugger was constructed before: that one ends; construct it outside of loops"
            )
            before.close()
        atexit.register(self.close)
        if enable_dataloader:
            self._loaders = LoaderSteps(self._start, self._end_step, self._is_over, self._exit)
            self._loaders.install()

    configure_hook: Any

    def _configure_dump(
        self,
        mode: str = "api_stack",
        scope: Any = (),
        api_list: Any = (),
        filter_switch: str = "OFF",
        acl_config: str | None = None,
        backward_input: Any = (),
        input_output_mode: Any = ("all",),
        summary_only: bool = False,
    ) -> None:
        """Chooses what is dumped; without this call everything, with stacks."""
        self._selection = selection_of(
            mode, scope, api_list, filter_switch, input_output_mode, summary_only, "input_output_mode"
        )
        if self._acl is not None:
            self._acl.end()
        if mode == "acl":
            self._acl = acl.read_config("acl_config", acl_config)
            self._acl.set_backward_input(acl.backward_inputs(backward_input or ()))

    def _configure_overflow(
        self,
        mode: str | None = None,
        acl_config: str | None = None,
        overflow_nums: int = 1,
        need_replicate: bool = False,
        *,
        filter_switch: str = "OFF",
    ) -> None:
        """Chooses after how many overflows training ends. The guide does not have ``filter_switch``."""
        if mode not in (None, "api", "acl"):
            raise ValueError(f"mode is {mode!r}; expected None, 'api' or 'acl'")
        if not isinstance(need_replicate, bool):
            raise ValueError(f"need_replicate is {need_replicate!r}; expected True or False")
        one_of("filter_switch", filter_switch, SWITCHES)
        numbers = check_overflow_nums(overflow_nums)
        if mode == "acl":
            acl.read_config("acl_config", acl_config)
            acl.say_not_for_overflows()
        if self._overflows is not None:
            self._overflows.close()
        self._overflows = Overflows(self._place, numbers, self._rank, filter_switch == "ON", need_replicate)
        self._overflows.begin_step(self._step)

    @classmethod
    def start(cls) -> None:
        """Begins, unless this step is not selected."""
        debugger = cls._of_process("start")
        if not debugger._is_driven("start"):
            debugger._start()

    @classmethod
    def stop(cls) -> None:
        """Ends until the next ``start``; the files have everything so far."""
        debugger = cls._of_process("stop")
        if not debugger._is_driven("stop"):
            debugger._stop()

    @classmethod
    def step(cls) -> None:
        """Ends a step."""
        debugger = cls._of_process("step")
        if not debugger._is_driven("step"):
            debugger._next_step()

    @classmethod
    def current_run(cls) -> Run | None:
        """The capture that records, if one does."""
        return None if cls._instance is None else cls._instance._recording.run

    def close(self) -> None:
        """Ends everything, and names the steps that were not reached."""
        atexit.unregister(self.close)
        if self._process == os.getpid() and (missed := [step for step in self._steps if step > self._step]):
            log.warning("steps %s were not reached: nothing is dumped for them", missed)
        if self._loaders is not None:
            self._loaders.remove()
        self._stop()
        if self._overflows is not None:
            self._overflows.close()
        self._recording.close()

    @classmethod
    def _of_process(cls, wanted: str) -> PrecisionDebugger:
        if cls._instance is None:
            raise RuntimeError(f"there is no PrecisionDebugger: construct one before {wanted}()")
        return cls._instance

    def _is_driven(self, method: str) -> bool:
        if self._loaders is not None:
            log.warning("DataLoader is enabled, %s() skipped.", method)
        return self._loaders is not None

    def _start(self) -> None:
        is_wanted = not self._steps or self._step in self._steps
        where = f"to {self._place.folder}"
        if self._overflows is not None:
            if is_wanted:
                self._overflows.begin()
        elif self._selection.mode == "acl":
            assert self._acl is not None
            where = f"according to dump config {self._acl.path}"
            if is_wanted:
                self._acl.begin(self._selection.scope[0])
        elif not self._recording.steps_done:
            self._recording.start(self._selection.settings(self._place, self._steps, self._rank), self._rank)
        if is_wanted and is_selected(self._rank):
            print_switched_on(where)
            self._is_on = True

    def _stop(self) -> None:
        if self._is_on:
            print_switched_off()
            self._is_on = False
        if self._overflows is not None:
            self._overflows.pause()
        if self._acl is not None:
            self._acl.end()
        self._recording.stop()

    def _next_step(self) -> None:
        if self._recording.run is not None:
            self._recording.run.step()
            if not self._steps and self._step == 0:
                log.warning(
                    "every step replaces the dump of the one before; step=[…] keeps those that it names"
                )
        self._step += 1
        if self._overflows is not None:
            self._overflows.begin_step(self._step)
        if self._acl is not None:
            self._acl.begin_step()

    def _end_step(self) -> None:
        self._stop()
        self._next_step()

    def _is_over(self) -> bool:
        return bool(self._steps) and self._step > max(self._steps)

    def _exit(self) -> Exception:
        return Exception(f"ptdbg: exit after iteration {list(self._steps)}")


def _checked_steps(step: Any) -> tuple[int, ...]:
    if step is None:
        return ()
    if not isinstance(step, list | tuple | range):
        raise ValueError(f"step is {step!r}; expected a list of numbers, as in step=[0, 2]")
    for number in step:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_STEP_OR_RANK:
            raise ValueError(f"step has {number!r}; expected numbers from 0 to {MAX_STEP_OR_RANK}")
    return tuple(sorted(set(step)))
