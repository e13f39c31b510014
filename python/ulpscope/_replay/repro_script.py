"""The text of the script that shows a failing call with plain torch; `repro.py` fills in the call.

Its judgement is that of the check: the same two limits, the same rules for what is not finite, and the same
elements left out.
"""

SCRIPT = '''\
"""{name}: {what}

Run it with plain torch{where}. It makes the call in raised precision, and prints the error of each result
that failed beside what rounding explains. Exit code: 1 wrong, 0 right, 2 not possible here.
"""

{imports}import json
import sys
from pathlib import Path

import torch

{path}DTYPES = {{
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8,
    "BOOL": torch.bool, "C64": torch.complex64, "C128": torch.complex128,
}}
COMPLEX = {{torch.float64: torch.complex128, torch.float32: torch.complex64}}
NAMES, STRIDES, WANTED = {names!r}, {strides!r}, {wanted!r}
# Arguments that are the same tensor: the gradient of the second was added to that of the first.
SAME = {same!r}
# What failed: the result, whose ("recorded", or a device), the largest error that passes of all and of one.
CHECKS = {checks}


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


tensors = read(Path(__file__).with_suffix(".safetensors"))


def kind(own, precision):
    if precision is None or not (own.is_floating_point or own.is_complex):
        return own
    return COMPLEX[precision] if own.is_complex else precision


def argument(name, stride, precision, device):
    value = tensors[name]
    laid_out = torch.empty_strided(value.shape, stride, dtype=value.dtype).copy_(value)
    return laid_out.to(device, kind(value.dtype, precision))


def flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def call(precision, device="cpu"):
    torch.set_default_dtype(precision or torch.float32)
    given = [argument(name, stride, precision, device) for name, stride in zip(NAMES, STRIDES)]
    for name, one in zip(NAMES, given):
        one.requires_grad_(name in WANTED)
    {slots}= [one.clone() for one in given]
    {prepare}
    result = {call}
    results = flat({result})
    found = {{f"output.{{number}}": one for number, one in enumerate(results)}}
    pairs = [
        (one, tensors[f"gradient.{{number}}"].to(device))
        for number, one in enumerate(results)
        if f"gradient.{{number}}" in tensors and one.requires_grad
    ]
    leaves = [(name, one) for name, one in zip(NAMES, given) if one.requires_grad]
    if pairs and leaves:
        made = torch.autograd.grad(
            [one for one, _ in pairs],
            [one for _, one in leaves],
            [gradient.to(one.dtype) for one, gradient in pairs],
            allow_unused=True,
        )
        gradients = dict(zip([name for name, _ in leaves], made))
        for name, first in SAME.items():
            if gradients.get(name) is not None and gradients.get(first) is not None:
                gradients[first] = gradients[first] + gradients.pop(name)
        found.update({{f"{{name}}.gradient": one for name, one in gradients.items()}})
    return found


def numbers(tensor):
    tensor = tensor.detach().cpu()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


def is_wrong(name, whose, found, exact, most, most_of_one):
    if found is None or exact is None or found.shape != exact.shape:
        print(f"{{name}} ({{whose}}): it has a different shape")
        return True
    largest = torch.finfo(found.dtype).max if found.dtype.is_floating_point else float("inf")
    found, exact = numbers(found), numbers(exact)
    # Beyond the range of the dtype, infinity is right, and its largest number too.
    expected = torch.where(exact.abs() > largest, exact.sign() * float("inf"), exact)
    is_at_end = expected.isinf() & exact.isfinite() & (found == exact.sign() * largest)
    counted = ~tensors.get(f"undecided.{{name}}", torch.zeros(found.shape, dtype=torch.bool))
    finite = found.isfinite() & expected.isfinite() & counted
    same = (found.isnan() & expected.isnan()) | (found == expected) | is_at_end
    broken = int((counted & ~finite & ~same).sum())
    error = (found - exact)[finite].abs()
    size, peak = error.norm().item(), error.max().item() if error.numel() else 0.0
    print(
        f"{{name}} ({{whose}}): error {{size:.3e}}, limit {{most:.3e}}; of one element {{peak:.3e}}, "
        f"limit {{most_of_one:.3e}}; NaN or infinite on one side: {{broken}}"
    )
    return broken > 0 or size > most or peak > most_of_one


reference = call({precision})
by_device = {{}}
failed = False
for name, whose, most, most_of_one in CHECKS:
    if whose == "recorded":
        found = tensors.get(f"recorded.{{name}}")
    else:
        if whose not in by_device:
            try:
                by_device[whose] = call(None, whose)
            except (RuntimeError, AssertionError) as error:
                print(f"the call cannot be made on {{whose}}: {{error}}", file=sys.stderr)
                sys.exit(2)
        found = by_device[whose].get(name)
    failed |= is_wrong(name, whose, found, reference.get(name), most, most_of_one)
sys.exit(1 if failed else 0)
'''
