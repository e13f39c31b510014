"""The faults by name, and which calls each can be in.

What is done to a tensor as such is done to results and, under a name that ends in ``-backward``, to
gradients. Faults that only one kind of call can have know what it was called with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from faults import corruption
from faults.corruption import Change, times
from faults.fused import LinearWithoutGelu
from faults.planting import (
    Call,
    Fault,
    InGradient,
    InModule,
    InResult,
    InWeight,
    Planted,
    differentiable,
    weights,
)
from faults.products import summed_in_bf16

_ATTENTION = "Functional.scaled_dot_product_attention"
_PRODUCTS = ("Functional.linear", "Torch.mm", "Tensor.__matmul__", "Functional.conv2d")
# Those whose gradient for their first argument comes from one node.
_DIFFERENTIATED = (
    *_PRODUCTS,
    _ATTENTION,
    "Functional.softmax",
    "Functional.layer_norm",
    "Functional.gelu",
    "Functional.silu",
    "Functional.relu",
    "Tensor.__mul__",
)
_COMPUTING = (
    *_DIFFERENTIATED,
    "Functional.group_norm",
    "Functional.batch_norm",
    "Functional.conv_transpose2d",
    "Tensor.__add__",
    "VF.lstm",
    "VF.gru",
    "VF.gru_cell",
)
_LAYER_NORM = ("Functional.layer_norm",)
_MIXING = ("Tensor.__matmul__", _ATTENTION)
_WEIGHTED = ("Functional.linear", "Functional.conv2d", "Functional.conv_transpose2d")

Fits = Callable[[Call, Sequence[Call]], bool]


def _is_matrix(x: Tensor) -> bool:
    return x.dim() >= 2 and x.shape[-1] >= 8 and x.numel() // x.shape[-1] >= 8


def _gives_matrix(call: Call, calls: Sequence[Call]) -> bool:
    return _is_matrix(call.given)


def _has_gradient(call: Call, calls: Sequence[Call]) -> bool:
    return bool(differentiable(call)) and _is_matrix(call.tensors[differentiable(call)[0]])


def _has_later_twin(call: Call, calls: Sequence[Call]) -> bool:
    """Whether a call of the same kind, whose gradient comes first, takes a tensor of the same shape."""
    return _has_gradient(call, calls) and any(
        other.kind == call.kind
        and other.number > call.number
        and other.tensors[differentiable(call)[0]].shape == call.tensors[differentiable(call)[0]].shape
        for other in calls
    )


def _has_weight(call: Call, calls: Sequence[Call]) -> bool:
    return bool(weights(call))


def _has_bias(call: Call, calls: Sequence[Call]) -> bool:
    return len(weights(call)) > 1


def _has_heads(call: Call, calls: Sequence[Call]) -> bool:
    return call.given.dim() == 4


def _takes_turns(call: Call, calls: Sequence[Call]) -> bool:
    """Whether the rows that are selected are those of the rotations."""
    return (call.held[0] or "").endswith("turns")


def _is_frozen(call: Call, calls: Sequence[Call]) -> bool:
    return not call.argument(5, "training")


def _result(change: Change) -> InResult:
    return InResult(lambda call, generator: change(call.given, generator))


def _gradient(change: Change, of_weight: bool = False) -> InGradient:
    return InGradient(lambda gradient, _, generator: change(gradient, generator), of_weight)


def _on_tensors(name: str, change: Change) -> list[Fault]:
    """The same in a result and in a gradient."""
    return [
        Fault(name, _COMPUTING, _result(change), _gives_matrix),
        Fault(f"{name}-backward", _DIFFERENTIATED, _gradient(change), _has_gradient),
    ]


def _kernel(name: str, kinds: tuple[str, ...], change: Callable[[Call], Tensor], fits: Fits) -> Fault:
    """A kernel that computes something else from the same arguments."""
    return Fault(name, kinds, InResult(lambda call, _: change(call)), fits)


def _softmax_over_the_dim_before(call: Call) -> Tensor:
    dim = call.argument(1, "dim") % call.given.dim()
    return call.again(1, "dim", (dim - 1) % call.given.dim())


def _mask_off_by_one(call: Call) -> Tensor:
    """Every token sees the next one, too."""
    return call.again(1, "mask", torch.triu(call.args[1], diagonal=2))


def _stale_statistics(module: nn.Module, site: Call) -> Planted:
    """Half way between what they were initially and what they are."""
    assert isinstance(module, nn.BatchNorm2d)
    assert module.running_mean is not None
    assert module.running_var is not None
    with torch.no_grad():
        module.running_mean.mul_(0.5)
        module.running_var.lerp_(torch.ones_like(module.running_var), 0.5)
    call = f"{site.name}.forward"
    accepted = tuple(f"buffer:{site.held[place]}" for place in (1, 2))
    return Planted(call, f"{call}.input.1", accepted, takes_the_same=False)


def _dropout_left_on(module: nn.Module, site: Call) -> Planted:
    module.train()
    return Planted(f"{site.name}.forward", f"{site.name}.forward.output.0")


def _extra_call(module: nn.Module, site: Call) -> Planted:
    """The models themselves multiply with the operator, so that this is the only call of its name."""
    module.register_forward_hook(lambda _, args, given: torch.mul(given, 1.02))
    call = "Torch.mul.0.forward"
    return Planted(call, f"{call}.output.0", golden_entry=f"{site.name}.forward.output.0")


def _fused_without_activation(module: nn.Module, site: Call) -> Planted:
    module.fused = LinearWithoutGelu  # type: ignore[assignment]
    call, golden = f"Autograd.{LinearWithoutGelu.__name__}.0.forward", f"{site.name}.forward"
    return Planted(call, f"{call}.output.0", (f"golden:{golden}",), golden_entry=f"{golden}.output.0")


FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        *_on_tensors("scale-1.5", times(1.5)),
        *_on_tensors("scale-1.01", times(1.01)),
        *_on_tensors("scale-1.0078125", times(1 + 2**-7)),
        *_on_tensors("sign-flip", times(-1)),
        *_on_tensors("rows-permuted", corruption.rows_permuted),
        *_on_tensors("one-element", corruption.one_element),
        *_on_tensors("one-tile", corruption.one_tile),
        *_on_tensors("nan", corruption.nan),
        *_on_tensors("fp16-overflow", corruption.fp16_overflow),
        Fault("weight-5-percent", _WEIGHTED, InWeight(times(1.05)), _has_weight),
        Fault("weight-transposed", _WEIGHTED, InWeight(corruption.transposed), _has_weight),
        Fault("weight-bit", _WEIGHTED, InWeight(corruption.bit_flipped), _has_weight),
        _kernel("missing-bias", _WEIGHTED, lambda call: call.again(2, "bias", None), _has_bias),
        _kernel("layer-norm-eps", _LAYER_NORM, lambda call: call.again(4, "eps", 1e-3), _gives_matrix),
        Fault("stale-batch-norm", ("Functional.batch_norm",), InModule(_stale_statistics), _is_frozen),
        _kernel("softmax-dim", ("Functional.softmax",), _softmax_over_the_dim_before, lambda *_: True),
        _kernel("causal-mask", ("Tensor.masked_fill",), _mask_off_by_one, lambda *_: True),
        _kernel(
            "rotary-position",
            ("Torch.index_select",),
            lambda call: call.again(2, "index", call.args[2] + 1),
            _takes_turns,
        ),
        Fault("heads-swapped", _MIXING, _result(corruption.heads_swapped), _has_heads),
        _kernel(
            "bf16-accumulation",
            _PRODUCTS,
            lambda call: summed_in_bf16(call.function, call.args),
            _gives_matrix,
        ),
        Fault("dropout-on", ("Functional.dropout",), InModule(_dropout_left_on)),
        Fault("gradient-zeroed", _DIFFERENTIATED, _gradient(times(0)), _has_gradient),
        Fault("gradient-doubled", _DIFFERENTIATED, _gradient(times(2)), _has_gradient),
        Fault("weight-gradient-zeroed", _WEIGHTED, _gradient(times(0), of_weight=True), _has_weight),
        Fault("weight-gradient-doubled", _WEIGHTED, _gradient(times(2), of_weight=True), _has_weight),
        Fault("gradient-of-another", _DIFFERENTIATED, InGradient(corruption.another), _has_later_twin),
        Fault("extra-call", (*_LAYER_NORM, *_WEIGHTED), InModule(_extra_call), _has_weight),
        Fault("fused-calls", ("Functional.gelu",), InModule(_fused_without_activation)),
    )
}
