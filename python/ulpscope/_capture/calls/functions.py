"""The name of a torch function in a dump, and whether its calls are recorded.

Names are those of the older tools: ``Tensor.add``, ``Functional.linear``, ``Torch.cat``, ``VF.lstm``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch

from ulpscope._capture.calls.originals import is_of_program
from ulpscope._capture.collectives.collective_calls import COLLECTIVES

Treatment = Literal["pass", "through", "record"]


class Function(NamedTuple):
    """What the recorder needs to know about a function."""

    treatment: Treatment
    prefix: str
    name: str
    operators: list[tuple[str, str]]
    """Its names when called through an operator: ``("+", "__add__")``."""
    changes: list[int]
    """The positions of arguments that it modifies."""
    changes_if: str
    """The parameter that enables this; empty if it always does."""
    parameters: list[str]
    """The names of its parameters, if known."""
    kind: Literal["python", "operator", "other"]
    """Whether it is written in Python, one of torch's operators or registered as one, or neither."""
    is_of_program: bool
    """Whether the program may have replaced a torch function with it: see `originals`."""
    only_reads: bool
    """Whether a call writes to no argument, except to those of ``changes`` and to ``out``."""


# Queries about a tensor's layout, class or hooks, and operations on the object, not on its numbers (copies of
# objects, names of dimensions). They compute nothing of interest and are not recorded.
_PASS = frozenset(
    """
    size dim ndimension numel nelement storage_offset element_size data_ptr get_device dim_order has_names
    is_floating_point is_complex is_signed is_contiguous is_pinned is_shared is_inference is_same_size
    is_set_to is_neg is_conj is_coalesced is_distributed is_storage is_tensor _is_view _is_zerotensor _nnz
    storage untyped_storage _typed_storage storage_type names rename_ align_as
    refine_names register_hook register_post_accumulate_grad_hook retain_grad requires_grad_
    _make_subclass _has_compatible_shallow_copy_type _clear_non_serializable_cached_data _update_names
    __len__ __repr__ __str__ __format__ __hash__ __dir__ __reduce_ex__ __reduce__ __setstate__ __dlpack__
    __dlpack_device__ __array__ __array_wrap__ __deepcopy__ __cuda_array_interface__ can_cast result_type
    promote_types get_default_dtype device Generator sym_float sym_int sym_ite sym_max sym_min sym_not
    sym_sum _sym_sqrt module_load share_memory_ _assert _dimI _dimV dense_dim sparse_dim q_scale
    q_zero_point qscheme
    """.split()
)

# The same, as torch calls them on classes that wrap other tensors. Torch calls some while it adds a tensor to
# the autograd graph and holds its lock: reading the tensor's node then would deadlock.
_PASS_OPERATORS = frozenset(
    """
    size sym_size stride sym_stride dim numel sym_numel storage_offset sym_storage_offset is_contiguous
    sym_is_contiguous is_strides_like_format is_non_overlapping_and_dense device layout
    """.split()
)

# Switches of torch itself, and queries about them.
_PASS_STARTS = ("_set_", "set_", "is_", "_is_", "get_", "_get_", "autocast_")

# They run recorded calls, but are not recorded themselves; see `wrappers.add_engine`.
_THROUGH = frozenset(("backward", "grad"))

# Internal operators of torch.
_PASS_SPACES = frozenset(("profiler",))

# Parts of collectives. Their results are not readable yet when they return: wrappers record them.
_THROUGH_SPACES = frozenset(
    ("c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "c10d_functional_autograd")
)

_VF = frozenset("lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell".split())

_OPERATORS = {
    "add": [("+", "__add__"), ("r+", "__radd__")],
    "mul": [("*", "__mul__"), ("r*", "__rmul__")],
    "sub": [("-", "__sub__")],
    "div": [("/", "__truediv__")],
    "true_divide": [("/", "__truediv__")],
    "matmul": [("@", "__matmul__"), ("@=", "__matmul__")],
    "pow": [("**", "__pow__")],
    "remainder": [("%", "__mod__")],
    "eq": [("==", "__eq__")],
    "ne": [("!=", "__ne__")],
    "lt": [("<", "__lt__")],
    "le": [("<=", "__le__")],
    "gt": [(">", "__gt__")],
    "ge": [(">=", "__ge__")],
    "bitwise_and": [("&", "__rand__")],
    "bitwise_or": [("|", "__ror__")],
    "bitwise_xor": [("^", "__rxor__")],
    "add_": [("+=", "__iadd__")],
    "sub_": [("-=", "__isub__")],
    "mul_": [("*=", "__imul__")],
    "div_": [("/=", "__idiv__")],
    "floor_divide_": [("//=", "__ifloordiv__")],
    "remainder_": [("%=", "__imod__")],
    "pow_": [("**=", "__ipow__")],
}


# Functions that modify arguments other than the first, and the parameter that enables this.
_CHANGES_IF = {
    "batch_norm": ([1, 2], "training"),
    "instance_norm": ([1, 2], "use_input_stats"),
    "embedding": ([1], "max_norm"),
    "embedding_bag": ([1], "max_norm"),
}

# Operators that modify arguments although their schema does not say so.
_CHANGES_IF_UNTOLD = dict.fromkeys(
    ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm"), ([3, 4], "training")
)

# Functions that write to no argument, and are not named after an operator.
_READERS = frozenset(
    "double float half bfloat16 long int short char byte bool type T mT cross_entropy".split()
)

_OPERATOR_TYPES = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


class Functions:
    """Identifies functions. A function with several names gets the one that models use."""

    def __init__(self) -> None:
        # Keeps the function alive: after it is freed, another object could get its id.
        self._names: dict[int, tuple[str, str, Any]] = {}
        for prefix, name, function in _known():
            self._names.setdefault(id(function), (prefix, name, function))

    def describe(self, function: Any) -> Function:
        """Describes a function; one that torch does not list is named by where it was defined."""
        known = self._names.get(id(function))
        prefix, name = known[:2] if known is not None else _by_definition(function)
        operators = _OPERATORS.get(name, []) if prefix == "Tensor" else []
        treatment = _treatment(prefix, name)
        # A pooling function has a Python wrapper, which selects the variant with or without indices.
        face = vars(torch.nn.functional).get(f"_{name}", function) if prefix == "Functional" else function
        parameters = _parameters(face)
        kind: Literal["python", "operator", "other"] = "python" if parameters else "other"
        changes, changes_if = _changes(prefix, name, function)
        if isinstance(function, _OPERATOR_TYPES):
            kind = "operator"
            parameters, changes = _by_schema(function)
            if prefix == "Aten" and name in _CHANGES_IF_UNTOLD:
                changes, changes_if = _CHANGES_IF_UNTOLD[name]
        is_own = is_of_program(function)
        return Function(
            treatment,
            prefix,
            name,
            operators,
            changes,
            changes_if,
            parameters,
            kind,
            is_own,
            not is_own and _only_reads(prefix, name),
        )


def _known() -> Iterator[tuple[str, str, Any]]:
    """Every function with its prefix and name; earlier ones win."""
    for name in dir(torch.Tensor):
        function = getattr(torch.Tensor, name, None)
        if callable(function):
            yield "Tensor", name, function
    for name in _VF:
        function = getattr(torch, name, None)
        if function is not None:
            yield "VF", name, function
    spaces = [
        ("Functional", "", torch.nn.functional),
        ("Torch", "", torch.linalg),
        ("Torch", "fft.", torch.fft),
        ("Torch", "special.", torch.special),
        ("Torch", "", torch),
        ("Torch", "", torch.functional),
        ("Functional", "", torch._C._nn),
    ]
    for prefix, inner, space in spaces:
        for name, function in list(vars(space).items()):
            if callable(function) and not isinstance(function, type):
                yield prefix, inner + name, function


def _by_definition(function: Any) -> tuple[str, str]:
    if isinstance(function, _OPERATOR_TYPES):
        packet: Any = function.overloadpacket if isinstance(function, torch._ops.OpOverload) else function
        space, _, name = packet._qualified_op_name.partition("::")
        return {"aten": "Aten", "npu": "NPU"}.get(space, space), name
    module = str(getattr(function, "__module__", None) or "")
    name = str(getattr(function, "__name__", None) or type(function).__name__)
    for start, prefix in [
        ("torch_npu", "NPU"),
        ("torch.nn.functional", "Functional"),
        ("torch._tensor", "Tensor"),
        ("torch.distributed", "Distributed"),
        ("torch", "Torch"),
    ]:
        if module == start or module.startswith(start + "."):
            return prefix, name
    owner = getattr(function, "__objclass__", None)
    if isinstance(owner, type) and issubclass(torch.Tensor, owner):
        return "Tensor", name
    return module.rpartition(".")[2] or "Torch", name


def _treatment(prefix: str, name: str) -> Treatment:
    if prefix in _PASS_SPACES:
        return "pass"
    if prefix in _THROUGH_SPACES or (prefix == "Distributed" and name in COLLECTIVES):
        return "through"
    if prefix in ("Aten", "prim"):
        return "pass" if name in _PASS_OPERATORS else "record"
    if prefix not in ("Tensor", "Torch", "Functional"):
        return "record"
    if name in _PASS or (prefix == "Torch" and name.startswith(_PASS_STARTS) and name != "is_nonzero"):
        return "pass"
    if name in _THROUGH:
        return "through"
    return "record"


def _parameters(function: Any) -> list[str]:
    code = getattr(function, "__code__", None)
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]) if code is not None else []


def _by_schema(operator: Any) -> tuple[list[str], list[int]]:
    """The parameters of an operator, and the positions of those that it modifies.

    Only overloads that have a position count: it is modified if all of them modify it, and has a name if all
    of them use the same one.
    """
    is_packet = isinstance(operator, torch._ops.OpOverloadPacket)
    overloads = [getattr(operator, name) for name in operator.overloads()] if is_packet else [operator]
    parameters, changes = [], []
    for position, arguments in enumerate(
        itertools.zip_longest(*(overload._schema.arguments for overload in overloads))
    ):
        present = [argument for argument in arguments if argument is not None]
        names = {argument.name for argument in present}
        parameters.append(names.pop() if len(names) == 1 else "")
        if all(argument.alias_info is not None and argument.alias_info.is_write for argument in present):
            changes.append(position)
    return parameters, changes


def _changes(prefix: str, name: str, function: Any) -> tuple[list[int], str]:
    if prefix == "Functional":
        if name in _CHANGES_IF:
            return _CHANGES_IF[name]
        if "inplace" in _parameters(function):
            return [0], "inplace"
    return ([0] if _changes_first(name) else []), ""


def _only_reads(prefix: str, name: str) -> bool:
    """Whether no overload of the operator writes to an argument, except to one named ``out``."""
    if prefix not in ("Tensor", "Torch", "Functional", "Aten") or name.startswith("__"):
        return False
    if prefix != "Aten" and name in _READERS:
        return True
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    arguments = [argument for overload in overloads for argument in overload._schema.arguments]
    # Schemas of normalisations do not say that they write to these. When those of `functional` do is known.
    is_known = prefix == "Functional" and name in _CHANGES_IF
    has_untold = not is_known and any(argument.name == "running_mean" for argument in arguments)
    writes = any(
        argument.alias_info is not None and argument.alias_info.is_write and not argument.is_out
        for argument in arguments
    )
    return not writes and not has_untold


def _changes_first(name: str) -> bool:
    if name.startswith("__"):
        return (
            name.startswith("__i") and name not in ("__invert__", "__int__", "__index__")
        ) or name == "__setitem__"
    return name.endswith("_")
