"""What is installed while calls are recorded: the function mode, the wrappers, the hooks of parameters.

``install`` installs everything and ``remove`` removes it: while nothing is recorded, nothing is installed.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ulpscope._capture.calls import modes, wrappers
from ulpscope._capture.calls.operators import OperatorMode
from ulpscope._capture.calls.recorded import recorded
from ulpscope._capture.calls.scripts import add_scripts
from ulpscope._capture.collectives.collective_calls import add_collectives
from ulpscope._capture.lifecycle.failures import Failures
from ulpscope._capture.lifecycle.loss_scaling import LossScaling
from ulpscope._capture.lifecycle.patches import Patches
from ulpscope._capture.lifecycle.ranks import add_process_group
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.lifecycle.switch import Switch
from ulpscope._capture.modules.exchanged_gradients import ExchangedGradients
from ulpscope._capture.modules.module_registry import ModuleRegistry
from ulpscope._capture.noise.jitter import Jitter
from ulpscope._capture.regions.compiled import CompiledRegions
from ulpscope._capture.regions.cuda_graphs import CudaGraphs
from ulpscope._capture.regions.graphs import add_graphs
from ulpscope._capture.regions.region_calls import RegionCalls
from ulpscope._capture.regions.tracing import Tracers
from ulpscope._capture.settings import Settings
from ulpscope._core import Recorder

CustomApis = dict[tuple[Any, str], tuple[str, str]]
"""The prefix and the name of the calls of a function, by its owner and its name there."""

_OTHERS_UNSEEN = (
    "capture stepped aside for one thread while there were others: their modules, custom autograd functions, "
    "collectives and new threads were not seen meanwhile"
)


_BACKWARD_UNSELECTED = (
    "module: at level L2 the operators of a backward pass run in no module, and are not recorded"
)


class Installation:
    """Installs the recorder between a program and torch, and removes it."""

    def __init__(
        self,
        settings: Settings,
        selection: Selection,
        recorder: Recorder,
        on_rank: Callable[[], None],
        jitter: Jitter | None = None,
        scaling: LossScaling | None = None,
    ) -> None:
        self._recorder = recorder
        self._jitter = jitter
        self._scaling = scaling
        self._on_rank = on_rank
        self._is_function_level = settings.level in ("L1", "mix")
        self._selects_modules = bool(settings.module)
        self._tracks_modules = (
            settings.level in ("L0", "mix") or settings.layers != "all" or self._selects_modules
        )
        self._sees_operators = settings.level == "L2"
        self._patches = Patches()
        self._switch = Switch()
        self._tracers: Tracers | None = None
        self._suspensions = 0
        # Re-entrant: a garbage collection inside it may run a finalizer that calls compiled code.
        self._lock = threading.RLock()
        self._block = (threading.get_ident(), modes.Within())
        self._flush_collectives: Callable[[], None] = lambda: None
        self._operators = OperatorMode(recorder) if self._sees_operators else None
        failures = Failures(recorder.note, settings.strict)
        self._known = ModuleRegistry(recorder, failures, settings, selection.modules)
        self._exchanged = ExchangedGradients(self._known)
        self._compiled = CompiledRegions(self._suspend, recorder.note, self._wrap_tracers)
        # A list of functions selects calls of torch.
        self._regions = None if settings.apis else RegionCalls(recorder, self._known, settings.level)
        self._graphs = CudaGraphs(recorder) if settings.cuda_graphs else None
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self.installed = False
        # Whether functions of torch are left alone for now, and only custom calls are recorded.
        self.only_custom = False
        # Whether a backward pass has begun in this step.
        self.has_backward = False

    @property
    def _sees_functions(self) -> bool:
        return self._is_function_level and not self.only_custom

    def install(self, model: Any, custom: CustomApis) -> None:
        """Installs everything, or nothing if that fails."""
        self.installed = True
        try:
            self._put_in_place(model, custom)
        except BaseException:
            self.remove()
            raise

    def _put_in_place(self, model: Any, custom: CustomApis) -> None:
        self._known.begin(model)
        self._exchanged.begin()
        if self._sees_operators and self._selects_modules:
            self._recorder.note_once(_BACKWARD_UNSELECTED)
        with self._lock:
            self._patches, self._switch, self._suspensions = Patches(), Switch(), 0
        switch = self._switch
        if self._tracks_modules and not self.only_custom:
            wrappers.add_modules(self._patches, self._recorder, switch, self._known)
        if self._jitter is not None:
            self._jitter.add_arguments(self._patches, discovers=model is None)
        if self._sees_functions:
            wrappers.add_operators(self._patches, self._recorder)
            wrappers.add_set(
                self._patches, self._recorder, switch, lambda: modes.is_function_mode_on(self._recorder)
            )
            wrappers.add_fast_paths(self._patches, self._without_mode)
            wrappers.add_autograd_functions(self._patches, self._recorder, switch, self._suspended)
        for (module, api), (prefix, own_name) in custom.items():
            # Level L0 records modules: also one that has a name of its own.
            if self._is_function_level or not (own_name or self._sees_operators):
                wrapped = recorded(self._recorder, switch, prefix, own_name, getattr(module, api))
                self._patches.add(module, api, wrapped)
        wrappers.add_engine(self._patches, self._in_backward)
        if not self._sees_operators:
            wrappers.add_hook_placer(self._patches)
        if self._sees_functions or self._sees_operators:
            wrappers.add_threads(self._patches, self._in_thread)
            self._note_threads()
            self._flush_collectives = add_collectives(self._patches, self._recorder, switch)
        wrappers.add_replicas(self._patches, self._recorder, switch)
        if not self._sees_operators:
            add_scripts(self._patches, self._recorder, switch, self._sees_functions)
        if self._scaling is not None:
            self._scaling.add(self._patches)
        wrappers.add_swaps(self._patches, self._recorder, self._known)
        self._tracers = Tracers(self._patches, switch, self._suspended, self._recorder.note)
        self._tracers.add()
        add_graphs(self._patches, switch, self._recorder.note, self._graphs)
        add_process_group(self._patches, switch, self._suspended, self._on_rank)
        self._patches.install()
        self._push_modes()
        self._compiled.install(None if self.only_custom else self._regions)

    def remove(self) -> None:
        """Removes everything."""
        try:
            # Records complete calls, which may raise if the user asked for that.
            self._flush_collectives()
            self._exchanged.record()
            self._known.end_step()
        finally:
            self._take_away()

    def _take_away(self) -> None:
        self._flush_collectives = lambda: None
        self._exchanged.end()
        self._compiled.remove()
        self._pop_modes()
        with self._lock:
            self.installed = False
            self._switch.off()
            for place in self._patches.taken_over():
                self._recorder.note(f"{place} was replaced by the program meanwhile: its replacement stays")
            self._patches.remove()
            self._patches.recall()
        self._known.end()
        self._recorder.forget_model()

    def next_step(self) -> None:
        """Restarts the counts of parameters."""
        self._flush_collectives()
        self._exchanged.record()
        self._known.end_step()
        self._known.next_step()
        self.has_backward = False

    def begin_step(self) -> None:
        """Notes in the next step's ledger what continues from the step before."""
        if self.installed:
            self._compiled.next_step()

    def _push_modes(self) -> None:
        """Puts the modes on this thread, unless they are on already.

        They are per thread: stopping on another thread cannot remove them here. They stay, do nothing, and
        are used again.
        """
        if self._sees_functions and not modes.is_function_mode_on(self._recorder):
            modes.put_function_mode(self._recorder, self._within().function_modes)
        if self._operators is not None and not modes.is_dispatch_mode_on(self._operators):
            modes.put_dispatch_mode(self._operators, self._within().dispatch_modes)

    def enter_block(self) -> None:
        """Expects that the user's modes that are on now outlive the recording."""
        self._block = (threading.get_ident(), modes.Within.now())

    def _within(self) -> modes.Within:
        thread, within = self._block
        return within if thread == threading.get_ident() else modes.Within()

    def _pop_modes(self) -> None:
        modes.take_function_mode(self._recorder)
        if self._operators is not None:
            modes.take_dispatch_mode(self._operators)

    def _suspend(self) -> Callable[[], None]:
        """Removes everything from this thread; returns a function that puts it back.

        All threads share the wrappers: they are removed while any thread is suspended. The ledger says so.
        """
        with self._lock:
            if not self.installed:
                return _nothing
            patches, switch = self._patches, self._switch
            self._suspensions += 1
            if self._suspensions == 1:
                patches.remove()
        if threading.active_count() > 1:
            self._recorder.note(_OTHERS_UNSEEN)
        switch.suspend()
        put_back = [modes.take_function_mode(self._recorder)]
        if self._operators is not None:
            put_back.append(modes.take_dispatch_mode(self._operators))

        def resume() -> None:
            switch.resume()
            with self._lock:
                if not self.installed or patches is not self._patches:
                    # Recording was stopped in the meantime.
                    return
                self._suspensions -= 1
                if self._suspensions == 0:
                    patches.install()
            for put in put_back:
                put()

        return resume

    def _wrap_tracers(self) -> None:
        """Wraps tracers that were replaced while capture was suspended."""
        if self._tracers is not None:
            self._tracers.add()

    @contextlib.contextmanager
    def _suspended(self) -> Iterator[None]:
        resume = self._suspend()
        try:
            yield
        finally:
            resume()

    @contextlib.contextmanager
    def _without_mode(self) -> Iterator[None]:
        """Without the function mode, on this thread."""
        put_back = modes.take_function_mode(self._recorder)
        try:
            yield
        finally:
            put_back()

    def _note_threads(self) -> None:
        """Notes threads that were started before recording began."""
        own = threading.current_thread()
        others = [
            thread for thread in threading.enumerate() if thread is not own and thread not in self._threads
        ]
        if others:
            self._recorder.note(
                f"threads that ran before recording began are not seen ({len(others)} of them)"
            )

    def _in_thread(self, thread: threading.Thread) -> contextlib.AbstractContextManager[Any]:
        """What is on while another thread runs.

        No dispatch mode: torch keeps process-wide flags for these. Threads that end in a different order than
        they began would leave the flags wrong.
        """
        self._threads.add(thread)
        if self._sees_operators:
            self._recorder.note("a thread was started: level L2 does not see what runs on it")
        return self._with_mode()

    @contextlib.contextmanager
    def _in_backward(self) -> Iterator[None]:
        """What is on while a backward pass runs."""
        self.has_backward = True
        if not self._sees_functions:
            yield
            return
        self._recorder.begin_pass()
        try:
            with self._with_mode():
                yield
        finally:
            self._recorder.end_pass()

    @contextlib.contextmanager
    def _with_mode(self) -> Iterator[None]:
        """With the function mode on this thread, unless it is on already."""
        if not self.installed or not self._sees_functions or modes.is_function_mode_on(self._recorder):
            yield
            return
        modes.put_function_mode(self._recorder)
        try:
            yield
        finally:
            modes.take_function_mode(self._recorder)


def _nothing() -> None:
    """There was nothing to remove."""
