"""Where a call was made, in words; asked once for each different stack."""

from __future__ import annotations

import dis
import functools
import json
import linecache
import os
from types import CodeType

_OWN_FOLDER = os.path.join("ulpscope", "_capture") + os.sep  # noqa: PTH118

_OVERRIDES = os.path.join("torch", "overrides.py")  # noqa: PTH118
_OPTIMIZERS = os.path.join("torch", "optim") + os.sep  # noqa: PTH118
_CLIPPING = os.path.join("torch", "nn", "utils", "clip_grad.py")  # noqa: PTH118

# Files whose forward within a backward is a repeated one: torch, DeepSpeed, Megatron, fairscale.
_CHECKPOINTING = (
    "torch/utils/checkpoint.py",
    "activation_checkpointing/checkpointing.py",
    "tensor_parallel/random.py",
    "checkpoint_activations.py",
)

_BEFORE_3_11 = {
    "BINARY_ADD": "+",
    "BINARY_SUBTRACT": "-",
    "BINARY_MULTIPLY": "*",
    "BINARY_TRUE_DIVIDE": "/",
    "BINARY_FLOOR_DIVIDE": "//",
    "BINARY_MODULO": "%",
    "BINARY_POWER": "**",
    "BINARY_MATRIX_MULTIPLY": "@",
    "BINARY_AND": "&",
    "BINARY_OR": "|",
    "BINARY_XOR": "^",
    "INPLACE_ADD": "+=",
    "INPLACE_SUBTRACT": "-=",
    "INPLACE_MULTIPLY": "*=",
    "INPLACE_TRUE_DIVIDE": "/=",
    "INPLACE_FLOOR_DIVIDE": "//=",
    "INPLACE_MODULO": "%=",
    "INPLACE_POWER": "**=",
    "INPLACE_MATRIX_MULTIPLY": "@=",
}

Frame = tuple[CodeType, int]


def describe(frames: list[Frame]) -> tuple[str, str | None, str | None, bool]:
    """The frames as JSON, innermost first; the operator that made the call; its parent; whether it is in a checkpoint."""
    frames = _without_machinery(frames)
    files = [code.co_filename for code, _ in frames]
    parent = None
    if any(_OPTIMIZERS in file for file in files):
        parent = "optimizer"
    elif any(file.endswith(_CLIPPING) for file in files):
        parent = "clip_grad"
    is_checkpoint = any(file.replace(os.sep, "/").endswith(_CHECKPOINTING) for file in files)
    operator = _operator(*frames[0]) if frames else None
    texts = [text for text in (_text(*frame) for frame in frames) if text]
    return json.dumps(texts), operator, parent, is_checkpoint


def _without_machinery(frames: list[Frame]) -> list[Frame]:
    """Without our own frames, and without those between the caller of a function and its recorder."""
    frames = [frame for frame in frames if _OWN_FOLDER not in frame[0].co_filename]
    start = 0
    while start < len(frames) and frames[start][0].co_filename.endswith(_OVERRIDES):
        start += 1
    # The function itself, which asked whether somebody wants to see its call.
    return frames[start + 1 :] if start else frames


@functools.lru_cache(maxsize=1 << 16)
def _text(code: CodeType, instruction: int) -> str:
    line = _line(code, instruction)
    source = linecache.getline(code.co_filename, line).strip()
    if not source:
        return ""
    return f"File {code.co_filename}, line {line}, in {code.co_name}, \n {source}"


def _line(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


@functools.lru_cache(maxsize=1 << 14)
def _operator(code: CodeType, instruction: int) -> str | None:
    """The operator that an instruction stands for: ``+``, ``+=``, ``==``."""
    for found in dis.get_instructions(code):
        if found.offset != instruction:
            continue
        if found.opname == "BINARY_OP":
            return found.argrepr
        if found.opname == "COMPARE_OP":
            # Newer versions say that the result is turned into a truth value: bool(==).
            return found.argrepr.removeprefix("bool(").removesuffix(")")
        return _BEFORE_3_11.get(found.opname)
    return None
