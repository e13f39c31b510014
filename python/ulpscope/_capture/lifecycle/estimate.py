"""What a capture would write, measured on one step that is recorded without its tensors.

    settings ──► the same without tensors and limits, into a temporary folder ──► one step
                    └──► calls from its ledger, tensors and digests from its dump.json ──► Estimate

Tensors with equal digests would share a file. The temporary folder is deleted afterwards.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ulpscope import _core
from ulpscope._capture.settings import Settings, SettingsError

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """What one step of a capture writes; the steps of a training are typically alike."""

    step: int
    """The step that was measured."""
    calls: int
    """Recorded calls, forward and backward."""
    tensors: int
    """Tensors that would be saved."""
    files: int
    """Files of the step. With a file for each tensor, equal ones share their content, not their name."""
    bytes: int
    """Size of these files on disk."""

    def __str__(self) -> str:
        return (
            f"step {self.step}: {self.calls:,} calls, {self.tensors:,} saved tensors, "
            f"{self.files:,} files, {_in_units(self.bytes)} on disk"
        )

    def to_json(self) -> str:
        """The fields as JSON text."""
        return json.dumps(dataclasses.asdict(self))


class NothingMeasuredError(RuntimeError):
    """The step that was to be measured did not run."""


class Estimation:
    """One step recorded to measure its size."""

    def __init__(self, wanted: Settings) -> None:
        if wanted.task == "overflow_check":
            raise SettingsError("task", "is 'overflow_check', which writes nothing until a call overflows")
        self._wanted = wanted
        self._folder = Path(tempfile.mkdtemp(prefix="ulpscope-estimate-"))
        self._delete = weakref.finalize(self, _delete, self._folder, os.getpid())
        self._file_overhead: int | None = None
        self._saves_some = wanted.task == "tensor" or bool(wanted.tensor_list)
        self.step = min((step for step in wanted.step if step >= wanted.init_step), default=wanted.init_step)
        self.settings = dataclasses.replace(
            wanted,
            dump_path=self._folder,
            task="statistics" if wanted.task == "tensor" else wanted.task,
            digest="xxh3" if self._saves_some else wanted.digest,
            tensor_list=(),
            max_bytes=None,
            max_calls=None,
            step=(self.step,),
        )
        """The settings to record with."""

    def finish(self) -> Estimate:
        """The estimate, once the step is over; deletes the temporary folder."""
        try:
            return self._measure()
        finally:
            self._delete()

    def _measure(self) -> Estimate:
        calls = tensors = files = size = 0
        ledgers = sorted(self._folder.glob("*/*/ledger.json"))
        if not ledgers:
            raise NothingMeasuredError(
                f"step {self.step} was not reached, so there is nothing to estimate from"
            )
        for ledger in ledgers:
            calls += json.loads(ledger.read_text())["recorded"]
            documents = [file for file in ledger.parent.iterdir() if file.is_file()]
            saved = list(self._saved(json.loads((ledger.parent / "dump.json").read_text())["data"]))
            tensors += len(saved)
            files += len(documents)
            size += sum(file.stat().st_size for file in documents)
            # Equal tensors share their elements; the first gives the name.
            content = {(digest, dtype, shape): name for name, digest, dtype, shape in reversed(saved)}
            if self._wanted.file_format == "pack":
                kinds = [(name, dtype, shape) for (_, dtype, shape), name in reversed(content.items())]
                packs, packed = _core.pack_size(kinds)
                files += packs
                size += packed
            else:
                files += len(saved)
                size += sum(_payload(dtype, shape) + self._overhead() for _, dtype, shape in content)
        return Estimate(step=self.step, calls=calls, tensors=tensors, files=files, bytes=size)

    def _saved(self, calls: dict[str, Any]) -> Iterator[tuple[str, str, str, tuple[int, ...]]]:
        """Name, digest, dtype and shape of the tensors that would be saved."""
        if not self._saves_some:
            return
        parts = self._wanted.tensor_list
        for name, call in calls.items():
            if self._wanted.task == "tensor" or any(part in name for part in parts):
                for number, entry in enumerate(_entries(call)):
                    if "md5" in entry:
                        yield f"{name}.output.{number}", entry["md5"], entry["dtype"], tuple(entry["shape"])

    def _overhead(self) -> int:
        """The size of a file in the chosen format beyond its elements."""
        import torch

        if self._file_overhead is None:
            # Archives contain their file name several times.
            file = self._folder / f"Functional.linear.0.forward.input.0.{self._wanted.file_format}"
            one = torch.zeros(1, 1, dtype=torch.uint8, device="cpu")
            _core.write_file(file, one)
            self._file_overhead = file.stat().st_size - 1
        return self._file_overhead


def _entries(value: Any) -> Iterator[dict[str, Any]]:
    """The tensors of a call in dump.json."""
    if isinstance(value, dict):
        if isinstance(value.get("dtype"), str) and isinstance(value.get("shape"), list):
            yield value
        else:
            for part in value.values():
                yield from _entries(part)
    elif isinstance(value, list):
        for part in value:
            yield from _entries(part)


def _delete(folder: Path, process: int) -> None:
    # The folder belongs to the parent, not to a forked child.
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def _payload(dtype: str, shape: tuple[int, ...]) -> int:
    import torch

    kind = getattr(torch, dtype.removeprefix("torch."), None)
    return math.prod(shape) * (kind.itemsize if isinstance(kind, torch.dtype) else 1)


def _in_units(size: float) -> str:
    unit = 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size /= 1024
        unit += 1
    return f"{size:,.0f} {_UNITS[0]}" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"
