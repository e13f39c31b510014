"""Is an overflow normal? The overflowed calls of an overflow check, made again in raised precision.

    forward_info_{pid}.json [backward_info_{pid}.json] ──► each call in float64 ──► normal, abnormal, neither

Normal: the exact result leaves the range of the dtype too, so no kernel could return it. Abnormal: it does
not, and the call in its own dtype overflows. If neither overflows, the call does not reproduce it: that is no
verdict.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import torch

from ulpscope._files import load
from ulpscope._replay.arguments import DTYPES, ArgumentTensor, Rebuilt, Slot
from ulpscope._replay.command import read_object, say, shown
from ulpscope._replay.execution import Execution, Outcome, Way, raised
from ulpscope._replay.functions import NotReplayableError, function_of

_MAX_DEPTH = 50
_MAX_ELEMENTS = 1 << 28
# Of a stack, innermost first; the rest is in the file.
_MAX_FRAMES = 5


class _Recorded:
    """What `ArgumentTensor` asks of a recorded tensor."""

    def __init__(self, requires_grad: bool) -> None:
        self.requires_grad = requires_grad
        self.source = None


def run_overflow_check(forward: str | None, backward: str | None) -> int:
    """Prints a line for each call. Returns 1 if an overflow is abnormal, 2 if a call cannot be replayed."""
    if forward is None:
        print("ulpscope check: error: -backward needs -forward: the arguments are there", file=sys.stderr)
        return 2
    try:
        calls, gradients = _read(forward), _read(backward) if backward else {}
    except (OSError, ValueError) as error:
        print(f"ulpscope check: error: {shown(str(error))}", file=sys.stderr)
        return 2
    if not calls and not gradients:
        print(f"ulpscope check: error: {shown(forward)} has no calls", file=sys.stderr)
        return 2
    code = 0
    stacks = _stacks(Path(forward))
    known = {_forward_of(name) for name in calls}
    for name in [*calls, *(name for name in gradients if _forward_of(name) not in known)]:
        try:
            verdicts = _verdicts(name, calls, _gradients_for(gradients, name), Path(forward).parent)
        except MemoryError:
            say(f"The {shown(name)} overflow could not be replayed: there is not enough memory for it")
            code = code or 2
            continue
        except (
            NotReplayableError,
            RuntimeError,
            ValueError,
            TypeError,
            ArithmeticError,
            LookupError,
            OSError,
        ) as error:
            say(f"The {shown(name)} overflow could not be replayed: {shown(str(error))}")
            code = code or 2
            continue
        for called, verdict in verdicts:
            say(_sentence(shown(called), verdict))
            for line in stacks.get(_key(called), []):
                say(f"    {shown(line)}")
            if verdict == "abnormal":
                code = 1
    return code


def _sentence(name: str, verdict: str) -> str:
    if verdict == "not reproduced":
        return f"The {name} overflow did not reproduce: neither precision leaves the range of the dtype."
    article = "an" if verdict == "abnormal" else "a"
    return f"The {name} overflow is {article} {verdict} overflow."


def _verdicts(
    name: str, calls: dict[str, Any], gradients: list[Any] | None, folder: Path
) -> list[tuple[str, str]]:
    base, _, number = _forward_of(name).rpartition(".")
    if not number.isdigit():
        base = _forward_of(name)
    if name not in calls:
        raise NotReplayableError("the arguments of its forward call are not recorded")
    arguments = _arguments(calls[name], folder)
    execution = Execution(function_of(base), arguments, [])
    given = None if gradients is None else [_gradient(one, folder) for one in gradients]
    exact, _ = raised(execution, given)
    own = execution.run(Way(), given)
    forward = _verdict(own.results, exact.results)
    if given is None:
        return [(name, forward)]
    backward = (f"{_forward_of(name)}.backward", _verdict(_grads(own), _grads(exact)))
    # The arguments of a call are recorded for its backward pass too: that is no overflow of the forward pass.
    return [backward] if forward == "not reproduced" else [(name, forward), backward]


def _grads(outcome: Outcome) -> list[Any]:
    return outcome.gradients or []


def _verdict(own: list[Any], exact: list[Any]) -> str:
    pairs = [
        (one, other)
        for one, other in zip(own, exact, strict=False)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dtype.is_floating_point
    ]
    reaches = any(_leaves_range(other, one.dtype) for one, other in pairs)
    overflows = any(not bool(one.isfinite().all()) for one, _ in pairs)
    if reaches:
        return "normal"
    return "abnormal" if overflows else "not reproduced"


def _leaves_range(exact: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the exact result is not finite, or too large for the dtype."""
    largest = torch.finfo(dtype).max
    return bool((~exact.isfinite() | (exact.abs() > largest)).any())


def _key(name: str) -> tuple[str, bool]:
    """A call and its direction, whatever the spelling."""
    return _forward_of(name), name.endswith("backward")


def _stacks(forward: Path) -> dict[tuple[str, bool], list[str]]:
    """Where the calls were made: the ``stack_info_{pid}.json`` beside the other files, if it is there."""
    path = forward.with_name(forward.name.replace("forward_info", "stack_info"))
    if path == forward or not path.is_file():
        return {}
    try:
        found = _read(str(path))
    except (OSError, ValueError) as error:
        print(f"ulpscope check: warning: {shown(str(error))}", file=sys.stderr)
        return {}
    return {
        _key(name): [" ".join(frame.split()) for frame in frames[:_MAX_FRAMES] if isinstance(frame, str)]
        for name, frames in found.items()
        if isinstance(frames, list)
    }


def _read(path: str) -> dict[str, Any]:
    return read_object(path, "an object of calls")


def _forward_of(name: str) -> str:
    """``Functional.linear.0`` of any spelling: ``Functional*linear*0_forward``, with dots, with ``_``."""
    plain = name.replace("*", ".")
    for end in ("_forward", "_backward", ".forward", ".backward"):
        plain = plain.removesuffix(end)
    if "." not in plain:
        front, _, number = plain.rpartition("_")
        prefix, _, api = front.partition("_")
        plain = f"{prefix}.{api}.{number}"
    return plain


def _gradients_for(gradients: dict[str, Any], name: str) -> list[Any] | None:
    wanted = _forward_of(name)
    return next((value for key, value in gradients.items() if _forward_of(key) == wanted), None)


def _arguments(call: Any, folder: Path) -> Rebuilt:
    positional = call.get("args", []) if isinstance(call, dict) else None
    keyword = call.get("kwargs", {}) if isinstance(call, dict) else None
    if not isinstance(positional, list) or not isinstance(keyword, dict):
        raise NotReplayableError("its arguments are not recorded")
    made = Rebuilt()
    made.positional = [_value(one, folder, made, _MAX_DEPTH) for one in positional]
    made.keyword = {key: _value(one, folder, made, _MAX_DEPTH) for key, one in keyword.items()}
    return made


def _value(value: Any, folder: Path, made: Rebuilt, depth: int) -> Any:
    if depth == 0:
        raise NotReplayableError("its arguments are nested too deep")
    if isinstance(value, list):
        return [_value(one, folder, made, depth - 1) for one in value]
    if value is None or not isinstance(value, dict):
        return value
    kind, found = value.get("type"), value.get("value")
    if kind == "torch.Tensor":
        tensor = _tensor(value, folder)
        made.tensors.append(ArgumentTensor(_Recorded(bool(value.get("requires_grad"))), tensor, False))  # type: ignore[arg-type]
        return Slot(len(made.tensors) - 1)
    if kind == "slice" and isinstance(found, list) and len(found) == 3:
        return slice(*found)
    if kind == "torch.dtype" and found in DTYPES:
        return DTYPES[found]
    if kind == "torch.device":
        return torch.device("cpu")
    if kind in ("int", "float", "bool", "str"):
        return found
    raise NotReplayableError(f"an argument is a {kind} that cannot be rebuilt")


def _gradient(value: Any, folder: Path) -> torch.Tensor | None:
    return (
        _tensor(value, folder) if (isinstance(value, dict) and "dtype" in value) or _has_file(value) else None
    )


def _has_file(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("datapath"), str)


def _tensor(value: dict[str, Any], folder: Path) -> torch.Tensor:
    """The recorded elements; without them, a tensor between the recorded extremes."""
    if _has_file(value):
        path = Path(value["datapath"])
        # The path is that of the machine that recorded it: its last parts are looked for beside the file.
        parts = [part for part in path.parts if part not in ("..", path.anchor)]
        for count in range(1, min(len(parts), 4) + 1):
            near = folder.joinpath(*parts[-count:])
            # Links, of folders too, do not lead out of the folder.
            if near.is_file() and near.resolve().is_relative_to(folder.resolve()):
                tensor = load(near)
                if not isinstance(tensor, torch.Tensor):
                    raise NotReplayableError(f"{near}: expected one tensor")
                return tensor
        raise NotReplayableError(f"{path.name} is not beside the json file")
    dtype, shape = DTYPES.get(str(value.get("dtype"))), value.get("shape")
    if (
        dtype is None
        or not isinstance(shape, list)
        or not all(isinstance(dim, int) and dim >= 0 for dim in shape)
    ):
        raise NotReplayableError("dtype or shape of a tensor are unknown")
    if math.prod(shape) > _MAX_ELEMENTS:
        raise NotReplayableError("a tensor has too many elements")
    low, high = value.get("Min"), value.get("Max")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        raise NotReplayableError("the values of a tensor are unknown")
    generator = torch.Generator().manual_seed(1234)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low).to(dtype)
