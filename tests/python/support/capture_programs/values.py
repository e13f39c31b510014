"""Values that are not plain float32 tensors."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from capture_programs.registry import Observed, Watch, program, state, train


@program
def no_grad_and_inference_mode(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(2, 3)
    with watch(model) as run:
        with torch.no_grad():
            quiet = model(x)
            with torch.enable_grad():
                loud = model(x)
        with torch.inference_mode():
            inferred = model(x)
            inferred += 1
            made = torch.ones(2)
        used = made.clone() * 2
        refused = ""
        try:
            (made * nn.Parameter(torch.ones(2))).sum().backward()
        except RuntimeError as error:
            refused = str(error)[:30]
        run.step()
    return {"quiet": quiet, "loud": loud, "inferred": inferred, "used": used, "refused": refused}


@program
def inference_mode_around_capture(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU())
    with torch.inference_mode(), watch(model) as run:
        made = model(torch.randn(2, 3))
        run.step()
    return {"made": made}


@program
def every_dtype(watch: Watch) -> Observed:
    made = []
    with watch(None) as run:
        x = torch.linspace(-3, 3, 12).reshape(3, 4)
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            made += [x.to(dtype) + 1, x.to(dtype).sum(), torch.matmul(x.to(dtype), x.to(dtype).t())]
        for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
            made += [x.to(dtype) * 2, x.to(dtype).sum(), x.to(dtype) // 2]
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz):
            low = x.to(dtype)
            made += [low, low.to(torch.float32) * 2, low.view(torch.uint8), torch.cat([low, low])]
        for dtype in (torch.uint16, torch.uint32, torch.uint64):
            made += [torch.arange(3).to(dtype), torch.arange(3).to(dtype).view(-1, 1)]
        truth = x > 0
        made += [truth, truth & (x < 2), truth.any(), ~truth, truth.sum(), torch.where(truth, x, 0)]
        made += [torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()]
        run.step()
    return {"made": made}


@program
def complex_numbers(watch: Watch) -> Observed:
    weight = torch.randn(4, dtype=torch.complex64, requires_grad=True)
    signal = torch.randn(4)
    with watch(None) as run:
        spectrum = torch.fft.fft(signal) * weight
        bent = spectrum.conj() * torch.view_as_complex(torch.randn(4, 2))
        negative = bent.conj().imag
        loss = torch.fft.ifft(bent).abs().square().sum() + negative.sum()
        loss.backward()
        run.step()
    return {"spectrum": spectrum, "bent": bent, "negative": negative, "gradient": weight.grad}


@program
def sparse_tensors(watch: Watch) -> Observed:
    places = torch.tensor([[0, 1, 1], [2, 0, 0]])
    weight = torch.randn(3, 2, requires_grad=True)
    with watch(None) as run:
        sparse = torch.sparse_coo_tensor(places, torch.tensor([1.0, 2.0, 3.0]), (2, 3))
        product = torch.sparse.mm(sparse, weight)
        product.sum().backward()
        whole = (sparse + sparse).coalesce()
        rows = whole.to_sparse_csr()
        multiplied = rows @ weight.detach()
        run.step()
    return {
        "sparse": sparse,
        "product": product,
        "whole": whole,
        "rows": rows,
        "multiplied": multiplied,
        "gradient": weight.grad,
    }


@program
def nested_and_meta_tensors(watch: Watch) -> Observed:
    with watch(None) as run:
        meta = torch.empty(3, 4, device="meta") @ torch.empty(4, 5, device="meta")
        ragged = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        padded = (ragged * 2).to_padded_tensor(0.0)
        run.step()
    return {"shape": list(meta.shape), "padded": padded}


@program
def empty_and_zero_dimensional(watch: Watch) -> Observed:
    weight = torch.randn((), requires_grad=True)
    with watch(None) as run:
        nothing = torch.zeros(0, 4) + 1
        joined = torch.cat([nothing, torch.ones(2, 4)])
        total = nothing.sum() + weight * torch.tensor(2.0)
        stacked = torch.stack([weight, weight.exp()])
        total.backward(retain_graph=True)
        stacked.sum().backward()
        index = nothing.new_zeros((0,), dtype=torch.int64)
        run.step()
        number = weight.item() + float(total) + int(torch.tensor(3)) + len(joined) + bool(total != 0)
    return {
        "nothing": nothing,
        "joined": joined,
        "total": total,
        "gradient": weight.grad,
        "index": index,
        "number": number,
    }


@program
def not_finite(watch: Watch) -> Observed:
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 1e30, 1e-42], requires_grad=True)
    odd = torch.tensor([0x7FC00001, -0x3FFFFF, 0x7F800000], dtype=torch.int32).view(torch.float32)
    with watch(None) as run:
        made = [1 / x, x.log(), x.sqrt(), x * 1e30, odd + 0, odd * 2, x - x / 0]
        sum(part.sum() for part in made[:4]).backward()  # type: ignore[union-attr]
        largest = torch.tensor([float("nan"), 1.0, float("inf")]).max()
        run.step()
    return {"made": made, "largest": largest, "odd": odd, "gradient": x.grad}


class Metres(Tensor):
    """A subclass that keeps its type, as torch does by default."""


class Logged(Tensor):
    """A subclass with its own idea of what to do."""

    calls: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapped(Tensor):
    """A tensor without memory of its own: everything goes to the one inside."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapped:
        outer = Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())
        outer.inner = inner
        return outer

    def __init__(self, inner: Tensor) -> None:
        super().__init__()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def strip(value: Any) -> Any:
            return value.inner if isinstance(value, Wrapped) else value

        def wrap(value: Any) -> Any:
            return Wrapped(value) if isinstance(value, Tensor) else value

        tree_map = torch.utils._pytree.tree_map
        return tree_map(wrap, function(*tree_map(strip, args), **tree_map(strip, kwargs or {})))


@program
def tensor_subclasses(watch: Watch) -> Observed:
    Logged.calls.clear()
    weight = torch.randn(3, requires_grad=True)
    with watch(None) as run:
        metres = torch.randn(3).as_subclass(Metres)
        longer = metres * 2 + weight
        logged = torch.ones(3).as_subclass(Logged)
        sums = (logged + 1).sum() + (logged @ weight)
        wrapped = Wrapped(torch.arange(3.0))
        doubled = (wrapped * 2 + 1).exp()
        longer.sum().backward()
        sums.backward()
        run.step()
    return {
        "longer": longer,
        "sums": sums,
        "calls": list(Logged.calls),
        "wrapped": [type(doubled).__name__, doubled.inner],
        "gradient": weight.grad,
    }


class Duck:
    """Not a tensor at all, but torch's functions take it."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> str:
        return f"duck {function.__name__}"


@program
def things_that_only_look_like_tensors(watch: Watch) -> Observed:
    with watch(None) as run:
        heard = [torch.add(Duck(), 1), F.linear(torch.ones(1, 2), Duck())]  # type: ignore[arg-type]
        run.step()
    return {"heard": heard}


Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Bundle:
    """As model libraries return their outputs."""

    state: Tensor
    extras: tuple[Tensor | None, ...]


@program
def structured_arguments_and_results(watch: Watch) -> Observed:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, pair: Pair, table: dict[str, list[Tensor]], *rest: Any, flag: str = "") -> Bundle:
            made = self.fc(pair.left) + pair.right + table["x"][0]
            return Bundle(made, (made * len(rest), None, made.sum()))

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Bundle:
            return self.inner(Pair(x, x * 2), {"x": [x, x]}, 1, None, torch.float32, flag="on")

    model = Outer()
    return train(watch, model, [torch.randn(1, 2)] * 2, lambda x: model(x).state.sum() + model(x).extras[2])


@program
def lazy_and_shared_modules(watch: Watch) -> Observed:
    """Parameters that come to be during capture, a module called twice, one never called."""
    shared = nn.Linear(3, 3)
    model = nn.Sequential(nn.LazyLinear(3), shared, nn.ReLU(), shared, nn.Identity())
    model.register_module("unused", nn.Linear(2, 2))
    unused = model._modules.pop("unused")
    x = torch.randn(2, 4)
    with watch(model) as run:
        for _ in range(2):
            model(x).sum().backward()
            run.step()
    return {**state(model), "unused": unused.weight}  # type: ignore[union-attr]
