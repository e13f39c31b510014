"""What the recorder asks of Python."""

from __future__ import annotations

import logging

from ulpscope._capture.calls import inner_calls, kernels, originals, stacks
from ulpscope._capture.calls.functions import Functions
from ulpscope._capture.lifecycle.overflow_watch import OverflowLimitError, OverflowWatch
from ulpscope._capture.lifecycle.selection import Selection
from ulpscope._capture.values import description, device_copies, device_statistics, tensors
from ulpscope._capture.values.device_range import measure_range

_log = logging.getLogger("ulpscope")


class Front:
    """The recorder's queries to Python: once per function and stack, each time for unusual values."""

    def __init__(self, selection: Selection, reported: set[str], watch: OverflowWatch | None = None) -> None:
        self._reported = reported
        self.wants_call = selection.wants_call
        self.function = Functions().describe
        self.original = originals.original
        self.stack = stacks.describe
        self.value = description.describe
        self.tensor = tensors.describe
        self.shard = tensors.shard
        self.measurable = device_statistics.measurable
        self.stage = device_copies.stage
        self.measure = device_statistics.measure
        self.add = tensors.add
        self.subtract = tensors.subtract
        self.part_of = tensors.part_of
        self.take_part = tensors.take_part
        self.call_open = inner_calls.call_open
        self.has_replaced_kernels = kernels.has_replaced
        if watch is not None:
            self.overflowed = watch.overflowed
            self.overflow_limit_error = OverflowLimitError
            self.has_overflow_flag = watch.has_flag
            self.take_overflow_flag = watch.take_flag
            self.measure_range = measure_range

    def warn(self, message: str) -> None:
        """Logs a message of the recorder, which then counts as reported."""
        self._reported.add(message)
        _log.warning("%s", message)
