"""What functions of torch are called, and which are none of a dump's business."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

import ulpscope
from captured import Captured, capture_of

# Queries about a tensor, and operations on the object: they compute nothing of interest.
WITHOUT_ARGUMENTS = """
    size dim ndimension numel nelement storage_offset element_size data_ptr get_device dim_order has_names
    is_floating_point is_complex is_signed is_contiguous is_pinned is_shared is_inference is_neg is_conj
    is_distributed _is_view _is_zerotensor untyped_storage __len__ __repr__ __str__ __hash__ dense_dim
    __dir__ __dlpack__ __dlpack_device__ __array__ sparse_dim
""".split()  # noqa: SIM905
WITH_ARGUMENTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "is_same_size": lambda x: x.is_same_size(x),
    "is_set_to": lambda x: x.is_set_to(x),
    "is_tensor": torch.is_tensor,
    "is_storage": torch.is_storage,
    "names": lambda x: x.names,
    "register_hook": lambda x: x.register_hook(lambda gradient: None),
    "requires_grad_": lambda x: x.requires_grad_(),
    "__format__": lambda x: f"{x[0].detach():.1f}",
    "__reduce_ex__": lambda x: x.__reduce_ex__(2),
    "can_cast": lambda x: torch.can_cast(x.dtype, torch.int32),
    "result_type": lambda x: torch.result_type(x, 1),
    "promote_types": lambda x: torch.promote_types(x.dtype, torch.float64),
    "set_grad_enabled": lambda x: torch.set_grad_enabled(True),
    "is_grad_enabled": lambda x: torch.is_grad_enabled(),
    "q_scale": lambda x: torch.quantize_per_tensor(x.detach(), 1.0, 0, torch.qint8).q_scale(),
}


@pytest.mark.parametrize("name", [*WITHOUT_ARGUMENTS, *WITH_ARGUMENTS])
def test_queries_are_not_recorded(tmp_path: Path, name: str) -> None:
    if name in WITHOUT_ARGUMENTS and not hasattr(torch.Tensor, name):
        pytest.skip(f"this torch has no {name}")
    x = torch.ones(3, requires_grad=name == "register_hook")
    query = WITH_ARGUMENTS.get(name, lambda x: getattr(x, name)())
    calls = capture_of(tmp_path, lambda: (query(x), torch.sin(x))).calls
    assert [call for call in calls if f".{name}." in call] == []
    assert "Torch.sin.0.forward" in calls


def test_a_function_that_is_gone_leaves_its_name_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def temporary(x: Any) -> Any:
        if has_torch_function_unary(x):
            return handle_torch_function(alive(), (x,), x)
        return x + 1

    alive: Any = weakref.ref(temporary)
    monkeypatch.setattr(torch, "temporary", temporary, raising=False)
    with ulpscope.capture(tmp_path):
        monkeypatch.undo()
        del temporary
        gc.collect()
        # As long as it is there, no other function can have its id.
        assert alive() is not None
        alive()(torch.ones(2))
    assert "Torch.temporary.0.forward" in Captured(tmp_path).calls
