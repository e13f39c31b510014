"""Gradients that come in parts: computed exactly, in little memory, and without calling a tensor subclass."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch

from ulpscope._capture.values import tensors


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_parts_are_subtracted_in_pieces(
    dtype: torch.dtype, is_transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "_PIECE", 1000)
    sizes: list[int] = []
    widened = tensors._widened

    def watched(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return widened(tensor)

    monkeypatch.setattr(tensors, "_widened", watched)
    whole, first, second = torch.randn(3, 61, 67, dtype=dtype)
    if is_transposed:
        first = first.t().contiguous().t()
    found = tensors.subtract(whole, [first, second])
    wide = torch.complex128 if dtype.is_complex else torch.float64
    wanted = (whole.to(wide) - first.to(wide) - second.to(wide)).to(dtype)
    assert found is not None
    assert found.dtype == dtype
    assert torch.equal(found, wanted)
    assert max(sizes) == 1000
    assert sum(sizes) == 3 * whole.numel()


@pytest.mark.parametrize("shape", [(), (0,), (3,)])
def test_small_gradients(shape: tuple[int, ...]) -> None:
    whole = torch.randn(shape)
    found = tensors.subtract(whole, [whole.expand(shape)])
    assert found is not None
    assert torch.equal(found, torch.zeros(shape))


def test_a_part_of_a_gradient_that_lies_like_its_base_is_no_copy() -> None:
    base = torch.randn(8, 8)
    view = base.t()[2:5, ::2]
    gradient = torch.randn(8, 8)
    part = tensors.take_part(gradient, tensors.part_of(view, base))
    assert part is not None
    assert torch.equal(part, gradient.t()[2:5, ::2])
    assert part.untyped_storage().data_ptr() == gradient.untyped_storage().data_ptr()
    moved = gradient.t().contiguous().t()
    part = tensors.take_part(moved, tensors.part_of(view, base))
    assert part is not None
    assert torch.equal(part, gradient.t()[2:5, ::2])


class Listening(torch.Tensor):
    """Hears of every operation on it."""

    heard: ClassVar[list[str]] = []

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.heard.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs or {})


@pytest.mark.skipif(torch.__version__.startswith("2.1."), reason="such a class adds in its own way there")
def test_a_class_of_tensors_hears_nothing_and_is_kept() -> None:
    plain = torch.randn(4)
    own = plain.as_subclass(Listening)
    Listening.heard.clear()
    made = [
        tensors.add([own, own]),
        tensors.subtract(own, [own]),
        tensors.take_part(own, tensors.part_of(plain[1:3], plain)),
    ]
    assert Listening.heard == []
    wanted = [plain * 2, torch.zeros(4), plain[1:3]]
    for found, value in zip(made, wanted, strict=True):
        assert type(found) is Listening
        assert torch.equal(found.as_subclass(torch.Tensor), value)


def test_sparse_gradients_are_added() -> None:
    sparse = torch.eye(3).to_sparse()
    found = tensors.add([sparse, sparse])
    assert found is not None
    assert torch.equal(found.to_dense(), torch.eye(3) * 2)
