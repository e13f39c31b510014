"""A failing call as a separate script: plain torch, with its tensors in a .safetensors file beside it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._files import save
from ulpscope._replay.arguments import Slot
from ulpscope._replay.functions import NotReplayableError, ReplayFunction
from ulpscope._replay.modules import STATE, ModuleCall
from ulpscope._replay.repro_script import SCRIPT

if TYPE_CHECKING:
    from ulpscope._replay.replay import Replay, Replayed
    from ulpscope._replay.results import CheckedTensor

_SPACES = {
    "Tensor": "torch.Tensor",
    "Torch": "torch",
    "Functional": "torch.nn.functional",
    "VF": "torch",
    "Aten": "torch.ops.aten",
}
# Of what a different standard judges, this share of the error that the check found is still wrong.
_SHARE = 0.5


def write_repro(folder: Path, file_name: str, replay: Replay, replayed: Replayed) -> Path:
    """Writes the script of a failing call and its tensors.

    Raises a `NotReplayableError` that says why, if plain torch cannot show the failure.
    """
    function = replay.function
    if replayed.remark:
        raise NotReplayableError("the call draws random numbers, which a script would draw anew")
    if function.prefix not in _SPACES and not function.is_module:
        raise NotReplayableError("it is no function of torch; the check computed it by its formula")
    if replay.is_narrowed:
        raise NotReplayableError("its dtype is wrong, which a call in raised precision does not show")
    failed = [one for one in replayed.tensors if one.status == "error"]
    tensors, checks = _tensors(replay, failed), [_check(replay, one) for one in failed]
    devices = sorted({whose for _, whose, _, _ in checks if whose != "recorded"})
    prepare, call = _call(replay)
    given = replay.arguments.tensors
    names = [f"argument.{number}" for number in range(len(given))]
    text = SCRIPT.format(
        name=_harmless(replay.name),
        what=_what(replay, devices),
        imports="import importlib\n" if function.is_module else "",
        path="sys.path.append(str(Path.cwd()))\n" if function.is_module else "",
        where=", in the folder of the program whose module it imports" if function.is_module else "",
        names=names,
        strides=[tuple(one.tensor.stride()) for one in given],
        wanted=[name for name, one in zip(names, given, strict=True) if one.needs_grad],
        same={names[number]: names[other] for number, other in replay.shared_gradients.items()},
        checks=_text([list(check) for check in checks]),
        slots="".join(f"t{number}, " for number in range(len(names))) or "[] ",
        prepare=prepare,
        call=call,
        result="t0" if function.returns_its_argument else "result",
        precision=str(replay.reference()[1]),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{file_name}.py"
    save(path.with_suffix(".safetensors"), tensors)
    path.write_text(text, encoding="utf-8")
    return path


def _what(replay: Replay, devices: list[str]) -> str:
    inputs = "inputs drawn from the recorded statistics" if replay.arguments.is_drawn else "recorded inputs"
    if not devices:
        return f"what was recorded is not the result of its {inputs}."
    return f"what {' and '.join(map(_harmless, devices))} computes is not the result of its {inputs}."


def _tensors(replay: Replay, failed: list[CheckedTensor]) -> dict[str, torch.Tensor]:
    tensors = {
        f"argument.{number}": one.tensor.contiguous() for number, one in enumerate(replay.arguments.tensors)
    }
    for number, gradient in enumerate(replay.gradients or []):
        if gradient is not None:
            tensors[f"gradient.{number}"] = gradient.contiguous()
    recorded = {
        "forward": replay.recorded_results(),
        "backward": [] if replay.of_node else replay.recorded_gradients(),
    }
    for one in failed:
        direction, number = replay.position(one)
        name = _name(direction, number)
        if one.judged == "recorded" and number < len(recorded[direction]):
            found = recorded[direction][number]
            if found is not None:
                tensors[f"recorded.{name}"] = found.contiguous()
        left_out = replay.undecided(direction, number)
        if left_out is not None and bool(left_out.any()):
            tensors[f"undecided.{name}"] = left_out.contiguous()
    return tensors


def _name(direction: str, number: int) -> str:
    return f"output.{number}" if direction == "forward" else f"argument.{number}.gradient"


def _check(replay: Replay, one: CheckedTensor) -> tuple[str, str, float, float]:
    """What the script judges: the result, whose it is, and the largest errors that pass."""
    direction, number = replay.position(one)
    most, most_of_one = one.limits
    if not replay.is_judged_by_rounding:
        most = min(most, _SHARE * one.error * replay.size_of_reference(direction, number))
    return _name(direction, number), one.judged, most, most_of_one


def _call(replay: Replay) -> tuple[str, str]:
    """A line of preparation, and the expression of the call."""
    function: ReplayFunction = replay.function
    chosen, index_as = replay.chosen()
    keyword = {key: value for key, value in replay.arguments.keyword.items() if key != STATE}
    if isinstance(chosen, ModuleCall):
        if chosen.expression is None:
            raise NotReplayableError("the module was given as an object, and not by a name to import")
        state = _text(replay.arguments.keyword[STATE])
        positional = "".join(f"{_text(value)}, " for value in replay.arguments.positional)
        return (
            f"module = ({chosen.expression}).train({chosen.training}).to(device, precision)",
            f"torch.func.functional_call(module, {state}, ({positional}), {_text(keyword)})",
        )
    space = _SPACES[function.prefix]
    if function.prefix == "Torch" and chosen is getattr(torch.linalg, function.name, None):
        space = "torch.linalg"
    arguments = [_text(value) for value in replay.arguments.positional]
    if index_as is tuple and len(arguments) > 1 and isinstance(replay.arguments.positional[1], list):
        arguments[1] = f"tuple({arguments[1]})"
    for key, value in keyword.items():
        # A key of a dump is code only if it is a plain name.
        plain = key.isidentifier()
        arguments.append(f"{key}={_text(value)}" if plain else f"**{{{key!r}: {_text(value)}}}")
    return "pass", f"{space}.{function.name}({', '.join(arguments)})"


def _harmless(name: str) -> str:
    """The name of a call for a docstring. Names in dumps may contain anything, even quotes that end it."""
    return re.sub(r"[^A-Za-z0-9._]", "-", name)


def _text(value: Any) -> str:
    """The expression of an argument. Texts from a dump are quoted; nothing of them is code."""
    if isinstance(value, Slot):
        return f"t{value.number}"
    if isinstance(value, list | torch.Size):
        return f"[{', '.join(_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_text(item)}' for key, item in value.items())}}}"
    if isinstance(value, torch.dtype):
        return f"kind({value}, precision)"
    if isinstance(value, torch.device):
        return "torch.device(device)"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
