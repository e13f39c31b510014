"""Describes where a call was made; computed once for each different stack."""

from __future__ import annotations

import dis
import functools
import json
import linecache
import os
from collections.abc import Callable
from types import CodeType, FrameType
from typing import NamedTuple

from ulpscope._capture.launch.program import Program

_OVERRIDES = os.path.join("torch", "overrides.py")  # noqa: PTH118
_DISPATCH = os.path.join("torch", "_jit_internal.py")  # noqa: PTH118
_OPTIMIZERS = os.path.join("torch", "optim") + os.sep  # noqa: PTH118
_CLIPPING = os.path.join("torch", "nn", "utils", "clip_grad.py")  # noqa: PTH118

# Files that run a forward again within a backward: torch, DeepSpeed, Megatron, fairscale.
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


def _package_folder(code: CodeType) -> str:
    """The folder of this package, as in code objects. The name alone could be that of a clone's folder."""
    return os.path.dirname(os.path.dirname(os.path.dirname(code.co_filename))) + os.sep  # noqa: PTH120


_OWN_FOLDER = _package_folder(_package_folder.__code__)

# The frames around it belong to `ulpscope run`, not to the program.
_LAUNCH = Program.run.__code__


class Stack(NamedTuple):
    """What the recorder needs to know about a stack."""

    frames: str
    """As JSON, innermost first."""
    operator: str | None
    """The operator that made the call, if one did: ``+``, ``+=``, ``==``."""
    names: list[str]
    """The name that the caller's instruction calls, or all names in its code if that is unknown. A function
    not among them was called by other code."""
    positional: int | None
    """How many arguments the caller passed by position, if its instruction shows that."""
    keywords: list[str]
    """The names of those it passed by name."""
    parent: str | None
    is_checkpoint: bool


def describe(frames: list[Frame]) -> Stack:
    """Describes a stack, given as code objects and instructions, innermost first."""
    frames = _without_machinery(frames)
    files = [code.co_filename for code, _ in frames]
    parent = None
    if any(_OPTIMIZERS in file for file in files):
        parent = "optimizer"
    elif any(file.endswith(_CLIPPING) for file in files):
        parent = "clip_grad"
    is_checkpoint = any(file.replace(os.sep, "/").endswith(_CHECKPOINTING) for file in files)
    texts = [text for text in (_text(*frame) for frame in frames) if text]
    callers = (frame for frame in frames if not _is_dispatch(frame[0]))
    caller = next((_instruction(*frame) for frame in callers), _Instruction(None, [], None, []))
    return Stack(json.dumps(texts), *caller, parent, is_checkpoint)


def _is_dispatch(code: CodeType) -> bool:
    """Whether this is torch's wrapper of a pooling function, which calls the variant with or without
    indices."""
    return code.co_name == "fn" and code.co_filename.endswith(_DISPATCH)


def _without_machinery(frames: list[Frame]) -> list[Frame]:
    """Without our own frames, and those between the caller of a function and the recorder."""
    launch = next((place for place, (code, _) in enumerate(frames) if code is _LAUNCH), len(frames))
    frames = [frame for frame in frames[:launch] if not frame[0].co_filename.startswith(_OWN_FOLDER)]
    start = 0
    while start < len(frames) and frames[start][0].co_filename.endswith(_OVERRIDES):
        start += 1
    # The function itself, which checked for function modes.
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


class _Instruction(NamedTuple):
    operator: str | None
    names: list[str]
    positional: int | None
    keywords: list[str]


@functools.lru_cache(maxsize=1 << 14)
def _instruction(code: CodeType, offset: int) -> _Instruction:
    """What the caller's instruction shows about the call."""
    # While a Python function runs, its caller's counter is after the instruction that called it.
    known = [found for found in dis.get_instructions(code) if found.offset <= offset]
    if not known:
        return _Instruction(None, _names(code), None, [])
    *before, found = known
    positional, keywords = _passing(code, found, before)
    callee = _callee(found, before)
    return _Instruction(_operator(found), _names(code) if callee is None else [callee], positional, keywords)


def call_name(
    operators: list[tuple[str, str]], name: str, frame: FrameType | None, hint: str | None = None
) -> str:
    """The name of a call seen at a frame: ``__mul__`` for ``x * 2``, which torch reports as ``mul``.

    ``operators`` has the names by operator; ``hint`` is the operator, if a wrapper knows it. Without one,
    a caller whose code does not mention the function called it through C code, as ``sum(tensors)`` does.
    """
    if not operators:
        return name
    made = _Instruction(hint, [], None, []) if hint else _caller_instruction(frame)
    if made.operator is not None:
        return next((found for known, found in operators if known == made.operator), name)
    return name if name.rpartition(".")[2] in made.names else operators[0][1]


def _caller_instruction(frame: FrameType | None) -> _Instruction:
    """What the program's instruction shows: the first frame that is neither ours nor torch's machinery."""
    frame = _skipping(frame, lambda code: code.co_filename.startswith(_OWN_FOLDER))
    inside = _skipping(frame, lambda code: code.co_filename.endswith(_OVERRIDES))
    if inside is not frame and inside is not None:
        # The function itself, which checked for function modes.
        inside = inside.f_back
    found = _skipping(inside, lambda code: code.co_filename.startswith(_OWN_FOLDER) or _is_dispatch(code))
    return _Instruction(None, [], None, []) if found is None else _instruction(found.f_code, found.f_lasti)


def _skipping(frame: FrameType | None, skips: Callable[[CodeType], bool]) -> FrameType | None:
    while frame is not None and skips(frame.f_code):
        frame = frame.f_back
    return frame


def _operator(found: dis.Instruction) -> str | None:
    if found.opname == "BINARY_OP":
        return found.argrepr
    if found.opname == "COMPARE_OP":
        # Newer versions add that the result becomes a truth value: bool(==).
        return found.argrepr.removeprefix("bool(").removesuffix(")")
    return _BEFORE_3_11.get(found.opname)


def _names(code: CodeType) -> list[str]:
    # Other text is no name, and may not be encodable.
    constants = [
        constant for constant in code.co_consts if isinstance(constant, str) and constant.isidentifier()
    ]
    return [*code.co_names, *code.co_varnames, *code.co_freevars, *constants]


def _passing(
    code: CodeType, found: dis.Instruction, before: list[dis.Instruction]
) -> tuple[int | None, list[str]]:
    """How many arguments are passed by position, and the names of the others."""
    if found.opname in ("CALL_FUNCTION", "CALL_METHOD"):
        return found.arg, []
    if found.opname in ("CALL_FUNCTION_KW", "CALL_KW"):
        names = list(before[-1].argval) if before and isinstance(before[-1].argval, tuple) else None
    elif found.opname == "CALL":
        if before and before[-1].opname == "PRECALL":
            before = before[:-1]
        marked = bool(before) and before[-1].opname == "KW_NAMES"
        names = list(code.co_consts[before[-1].arg or 0]) if marked else []
    else:
        return None, []
    if names is None or found.arg is None:
        return None, []
    return found.arg - len(names), names


def _callee(found: dis.Instruction, before: list[dis.Instruction]) -> str | None:
    """The function that a call instruction calls, by the name it was loaded by: the instruction before those
    of the arguments. None if arguments have branches, which do not run in the order of the instructions."""
    if found.opname not in ("CALL", "CALL_FUNCTION", "CALL_METHOD", "CALL_FUNCTION_KW", "CALL_KW"):
        return None
    wanted = (found.arg or 0) + (found.opname in ("CALL_FUNCTION_KW", "CALL_KW"))
    while before and before[-1].opname in ("PRECALL", "KW_NAMES"):
        before = before[:-1]
    for instruction in reversed(before):
        if wanted == 0 and instruction.opname == "PUSH_NULL":
            continue
        if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
            return None
        if wanted <= 0:
            return _loaded(instruction) if wanted == 0 else None
        wanted -= dis.stack_effect(instruction.opcode, instruction.arg)
    return None


def _loaded(instruction: dis.Instruction) -> str | None:
    if not instruction.opname.startswith("LOAD_"):
        return None
    last = instruction.argval[-1] if isinstance(instruction.argval, tuple) else instruction.argval
    return last if isinstance(last, str) else None
