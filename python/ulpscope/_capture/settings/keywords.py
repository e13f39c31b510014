"""The keywords of ``ulpscope.capture`` with their types, for editors and type checkers.

``Settings`` checks the same names at run time; a test compares the two lists.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypedDict

from ulpscope._capture.settings.settings import (
    CheckMode,
    DataMode,
    DeviceStatistics,
    Digest,
    FileFormat,
    Gradients,
    Layers,
    Layout,
    ListMatch,
    OnOverflow,
    Sample,
    StackForm,
)

Numbers: TypeAlias = int | str | Iterable[int | str] | None
"""Steps or ranks: 3, [0, "2-4"], "0,2-4"; None: all."""

Names: TypeAlias = str | Sequence[str] | None

Size: TypeAlias = int | str | None
"""A number of bytes, or a text such as "500M"."""


class CaptureKeywords(TypedDict, total=False):
    """Keywords of ``ulpscope.capture`` besides ``dump_path``, ``model``, ``level`` and ``task``."""

    step: Numbers
    rank: Numbers
    scope: Sequence[str] | None
    list: Names
    list_match: ListMatch
    module: Names
    call: Names
    apis: Names
    data_mode: DataMode | Sequence[DataMode] | None
    tensor_list: Names
    digest: Digest | None
    file_format: FileFormat
    stacks: bool
    stack_form: StackForm
    backward_stacks: bool
    skip_scalars: bool
    skip_ints: bool
    skip_single_values: bool
    layers: Layers
    max_bytes: Size
    max_calls: int | None
    strict: bool
    init_step: int
    jitter: int | None
    custom_op_namespaces: Names
    layout: Layout
    layout_path: str | os.PathLike[str] | None
    sample: Sample
    strides: bool
    inner_calls: bool
    gradients: Gradients
    parameter_gradients: bool
    device_statistics: DeviceStatistics
    flush_interval: float
    cuda_graphs: bool
    overflow_nums: int
    on_overflow: OnOverflow
    check_mode: CheckMode
    would_overflow: str | None
