"""A failing call as a separate script: plain torch, with its tensors in a .safetensors file beside it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ulpscope._files import save
from ulpscope._replay.arguments import Slot
from ulpscope._replay.functions import ReplayFunction

if TYPE_CHECKING:
    from ulpscope._replay.replay import Replay

_SPACES = {
    "Tensor": "torch.Tensor",
    "Torch": "torch",
    "Functional": "torch.nn.functional",
    "VF": "torch",
    "Aten": "torch.ops.aten",
}

_SCRIPT = '''\
"""{name}: the result that was recorded is not that of its recorded inputs.

Run it with plain torch: it makes the call in raised precision and prints the error of each recorded result.
Ends with exit code 1 if an error is larger than {limit:.1e} of the result.
"""

import json
import sys
from pathlib import Path

import torch


def read(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found = {{}}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            raw = bytearray(data[8 + length + start : 8 + length + end])
            dtype = DTYPES[entry["dtype"]]
            flat = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
            found[name] = flat.reshape(entry["shape"])
    return found


DTYPES = {{
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool, "C64": torch.complex64, "C128": torch.complex128,
}}
tensors = read(Path(__file__).with_suffix(".safetensors"))


def argument(name, stride, precision):
    value = tensors[name]
    laid_out = torch.empty_strided(value.shape, stride, dtype=value.dtype).copy_(value)
    if value.is_floating_point():
        laid_out = laid_out.to(precision)
    if value.is_complex():
        laid_out = laid_out.to(torch.complex128 if precision == torch.float64 else torch.complex64)
    return laid_out


def flat(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def call(precision):
    names, strides, wanted = {names!r}, {strides!r}, {wanted!r}
    given = [argument(name, stride, precision) for name, stride in zip(names, strides)]
    for name, one in zip(names, given):
        one.requires_grad_(name in wanted)
    {slots}= [one.clone() for one in given]
    result = {call}
    results = flat({result})
    found = dict(enumerate(results))
    pairs = [(found[n], tensors[f"gradient.{{n}}"]) for n in found if f"gradient.{{n}}" in tensors]
    leaves = [one for one in given if one.requires_grad]
    gradients = {{}}
    if pairs and leaves:
        made = torch.autograd.grad(
            [one for one, _ in pairs], leaves, [g.to(one.dtype) for one, g in pairs], allow_unused=True
        )
        named = [name for name, one in zip(names, given) if one.requires_grad]
        gradients = dict(zip(named, made))
    return found, gradients


torch.set_default_dtype({precision})
results, gradients = call({precision})
worst = 0.0
expected = [(f"output.{{n}}", one) for n, one in results.items()]
expected += [(f"{{name}}.gradient", one) for name, one in gradients.items()]
for name, reference in expected:
    recorded = tensors.get(f"recorded.{{name}}")
    if recorded is None or reference is None:
        continue
    difference = (recorded.to(reference.dtype) - reference).detach().abs().double()
    size = reference.detach().abs().double().norm()
    error = (difference.norm() / size if size else difference.norm()).item()
    worst = max(worst, error) if error == error else float("inf")
    print(f"{{name}}: relative error {{error:.3e}}, largest difference {{difference.max().item():.3e}}")
sys.exit(worst > {limit!r})
'''


def write_repro(folder: Path, file_name: str, replay: Replay, floor: float) -> Path | None:
    """Writes the script of a failing call and its tensors; ``None`` for functions that torch lacks."""
    function = replay.function
    if function.prefix not in _SPACES:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"argument.{number}" for number in range(len(replay.arguments.tensors))]
    given = replay.arguments.tensors
    tensors = {name: one.tensor.contiguous() for name, one in zip(names, given, strict=True)}
    for number, gradient in enumerate(replay.gradients or []):
        if gradient is not None:
            tensors[f"gradient.{number}"] = gradient.contiguous()
    for number, one in enumerate(replay.recorded_results()):
        if one is not None:
            tensors[f"recorded.output.{number}"] = one.contiguous()
    for number, one in enumerate(replay.recorded_gradients()):
        if one is not None and not replay.of_node:
            tensors[f"recorded.argument.{number}.gradient"] = one.contiguous()
    text = _SCRIPT.format(
        name=_harmless(replay.name),
        limit=3 * floor,
        names=names,
        strides=[tuple(one.tensor.stride()) for one in given],
        wanted=[name for name, one in zip(names, given, strict=True) if one.needs_grad],
        slots="".join(f"t{number}, " for number in range(len(names))) or "[] ",
        call=_call(function, replay),
        result="t0" if function.returns_its_argument else "result",
        precision=str(replay.reference()[1]),
    )
    path = folder / f"{file_name}.py"
    save(path.with_suffix(".safetensors"), tensors)
    path.write_text(text, encoding="utf-8")
    return path


def _call(function: ReplayFunction, replay: Replay) -> str:
    space = _SPACES[function.prefix]
    chosen, index_as = replay.chosen()
    if chosen is not function.candidates[0]:
        space = "torch.linalg"
    arguments = [_text(value) for value in replay.arguments.positional]
    if index_as is tuple and len(arguments) > 1 and isinstance(replay.arguments.positional[1], list):
        arguments[1] = f"tuple({arguments[1]})"
    for key, value in replay.arguments.keyword.items():
        # A key of a dump is code only if it is a plain name.
        plain = key.isidentifier()
        arguments.append(f"{key}={_text(value)}" if plain else f"**{{{key!r}: {_text(value)}}}")
    return f"{space}.{function.name}({', '.join(arguments)})"


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
        return "precision" if value.is_floating_point else str(value)
    if isinstance(value, torch.device):
        return 'torch.device("cpu")'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)
