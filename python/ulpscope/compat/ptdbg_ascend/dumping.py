"""The functions of ptdbg_ascend: ``set_dump_path``, ``register_hook``, ``set_dump_switch`` and others."""

from __future__ import annotations

import os
from typing import Any

from ulpscope.compat.arguments import check_registered
from ulpscope.compat.ptdbg_ascend import acl
from ulpscope.compat.ptdbg_ascend.overflow import Overflows, check_overflow_nums
from ulpscope.compat.ptdbg_ascend.place import DEFAULT_TAG, ENVIRONMENT, Place, place_of
from ulpscope.compat.ptdbg_ascend.recording import Recording, check_rank, is_selected
from ulpscope.compat.ptdbg_ascend.selection import SWITCHES, Selection, one_of, selection_of
from ulpscope.compat.ptdbg_ascend.tool_log import print_switched_off, print_switched_on

_KEYWORDS = ("rank", "overflow_nums", "dump_mode", "dump_config")


def acc_cmp_dump(*_: Any, **__: Any) -> None:
    """For ``register_hook``: a dump for a comparison."""
    raise TypeError("acc_cmp_dump is an argument of register_hook(model, acc_cmp_dump)")


def overflow_check(*_: Any, **__: Any) -> None:
    """For ``register_hook``: an error after some calls that overflow."""
    raise TypeError("overflow_check is an argument of register_hook(model, overflow_check)")


class Functions:
    """What the functions have set in this process."""

    def __init__(self) -> None:
        self.place: Place | None = None
        self.rank: int | None = None
        self.recording = Recording()
        self.acl: acl.AclConfig | None = None
        self.overflows: Overflows | None = None
        self.is_registered = False
        # What was switched on before register_hook.
        self.waiting: Selection | None = None

    def switch_on(self, selection: Selection) -> None:
        place = self.known_place("set_dump_switch")
        if not self.is_registered:
            self.waiting = selection
            return
        if selection.mode == "acl":
            if self.acl is None:
                raise ValueError('mode "acl" needs register_hook(model, acc_cmp_dump, dump_mode="acl", …)')
            self.acl.begin(selection.scope[0])
            print_switched_on(f"according to dump config {self.acl.path}")
            return
        self.recording.start(selection.settings(place, rank=self.rank), self.rank)
        if is_selected(self.rank):
            print_switched_on(f"to {place.folder}")

    def known_place(self, caller: str) -> Place:
        """The folder that was set, or that of the environment."""
        if self.place is None:
            try:
                self.place = place_of("fpath", None)
            except ValueError:
                raise ValueError(f"{caller}: there is no dump path; call set_dump_path first") from None
        return self.place

    def end_hook(self) -> None:
        """Ends what an earlier ``register_hook`` began besides a dump."""
        if self.acl is not None:
            self.acl.end()
        if self.overflows is not None:
            self.overflows.close()
        self.acl = self.overflows = None

    def switch_off(self) -> None:
        self.waiting = None
        if self.acl is not None:
            self.acl.end()
        self.recording.stop()
        print_switched_off()


functions = Functions()


def set_dump_path(fpath: str | os.PathLike[str] | None = None, dump_tag: str = DEFAULT_TAG) -> None:
    """Sets the folder of the dump, ``{fpath}/{dump_tag}_v4.0.T2``. ASCEND_WORK_PATH stands for ``fpath``."""
    functions.place = place_of("fpath", fpath, dump_tag)
    functions.recording.close()


def register_hook(model: Any, hook: Any, **kwargs: Any) -> None:
    """Prepares a dump (``acc_cmp_dump``) or begins the search for overflows (``overflow_check``)."""
    check_registered(model, kwargs, _KEYWORDS)
    if hook not in (acc_cmp_dump, overflow_check):
        raise TypeError(f"register_hook: hook is {hook!r}; expected acc_cmp_dump or overflow_check")
    rank = check_rank(kwargs.get("rank"))
    dump_mode = kwargs.get("dump_mode", "api")
    one_of("dump_mode", dump_mode, ("api", "acl"))
    overflow_nums = check_overflow_nums(kwargs.get("overflow_nums", 1))
    config = acl.read_config("dump_config", kwargs.get("dump_config")) if dump_mode == "acl" else None
    if hook is overflow_check and functions.place is None and ENVIRONMENT not in os.environ:
        # So says the guide of overflow checks, whose examples set no path.
        place = place_of("fpath", ".")
    else:
        place = functions.known_place("register_hook")
    functions.end_hook()
    functions.rank = rank
    functions.acl = config
    functions.is_registered = True
    if hook is overflow_check:
        functions.recording.close()
        functions.overflows = Overflows(place, overflow_nums, rank)
        functions.overflows.begin()
        if config is not None:
            acl.say_not_for_overflows()
    elif functions.waiting is not None:
        functions.switch_on(functions.waiting)
        functions.waiting = None


def set_dump_switch(
    switch: str,
    mode: str = "all",
    scope: Any = (),
    api_list: Any = (),
    filter_switch: str = "OFF",
    dump_mode: Any = ("all",),
    summary_only: bool = False,
) -> None:
    """Begins a dump with ``"ON"``, and ends it with ``"OFF"``, which writes its files."""
    one_of("switch", switch, SWITCHES)
    selection = selection_of(mode, scope, api_list, filter_switch, dump_mode, summary_only, "dump_mode")
    if switch == "ON":
        functions.switch_on(selection)
    else:
        functions.switch_off()


def set_overflow_check_switch(switch: str, filter_switch: str = "OFF") -> None:
    """Checks for overflows from ``"ON"`` to ``"OFF"``. Without this call everything is checked."""
    one_of("switch", switch, SWITCHES)
    one_of("filter_switch", filter_switch, SWITCHES)
    if functions.overflows is None:
        raise ValueError("set_overflow_check_switch: call register_hook(model, overflow_check) first")
    functions.overflows.switch(switch == "ON", filter_switch == "ON")


def set_backward_input(backward_input: Any) -> None:
    """Sets the saved gradients with which acl mode runs a backward API: .npy files of an earlier dump."""
    paths = acl.backward_inputs(backward_input)
    if functions.acl is None:
        raise ValueError('set_backward_input is for register_hook(model, acc_cmp_dump, dump_mode="acl", …)')
    functions.acl.set_backward_input(paths)
