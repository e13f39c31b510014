"""The autograd graph: recomputation, hooks, second derivatives, own functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from capture_programs.networks import Transformer, next_token_loss, sentences
from capture_programs.registry import Observed, Watch, program, state, train


class Layer(nn.Module):
    """Something worth recomputing: it draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.dropout(F.gelu(self.fc(x)))


class Recomputed(nn.Module):
    """Layers under checkpointing, one of them nested in another."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.layers = nn.ModuleList(Layer() for _ in range(4))

    def pair(self, x: Tensor) -> Tensor:
        return checkpoint(self.layers[2], self.layers[1](x), use_reentrant=self.reentrant)

    def forward(self, x: Tensor) -> Tensor:
        x = checkpoint(self.layers[0], x, use_reentrant=self.reentrant)
        x = checkpoint(self.pair, x, use_reentrant=self.reentrant)
        return self.layers[3](x)


@program
def checkpoints_reentrant(watch: Watch) -> Observed:
    model = Recomputed(reentrant=True)
    x = torch.randn(3, 4, requires_grad=True)
    seen = train(watch, model, [x, x], lambda batch: model(batch).square().sum())
    return {**seen, "x": x.grad}


@program
def checkpoints_not_reentrant(watch: Watch) -> Observed:
    model = Recomputed(reentrant=False)
    x = torch.randn(3, 4, requires_grad=True)
    seen = train(watch, model, [x, x], lambda batch: model(batch).square().sum())
    return {**seen, "x": x.grad}


@program
def checkpoints_without_early_stop(watch: Watch) -> Observed:
    model = nn.Sequential(*(Layer() for _ in range(4)))

    def loss_of(batch: Tensor) -> Tensor:
        with torch.utils.checkpoint.set_checkpoint_early_stop(False):
            first = checkpoint(model[0], batch, use_reentrant=False, preserve_rng_state=False)
        return checkpoint_sequential(model[1:], 2, first, use_reentrant=False).sum()

    return train(watch, model, [torch.randn(2, 4)] * 2, loss_of)


@program
def gradient_penalty(watch: Watch) -> Observed:
    """A second derivative through the graph of the first."""
    model = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 1))
    x = torch.randn(4, 3, requires_grad=True)

    def loss_of(batch: Tensor) -> Tensor:
        score = model(batch)
        (slope,) = torch.autograd.grad(score.sum(), batch, create_graph=True)
        return score.mean() + (slope.norm(dim=1) - 1).square().mean()

    return train(watch, model, [x, x], loss_of)


@program
def third_derivative(watch: Watch) -> Observed:
    x = torch.tensor([0.5, -1.5], requires_grad=True)
    orders = []
    with watch(None) as run:
        y = (x.sin() * x.exp()).sum()
        for _ in range(3):
            (slope,) = torch.autograd.grad(y, x, create_graph=True)
            orders.append(slope)
            y = slope.sum()
        hessian = torch.autograd.functional.hessian(lambda v: (v**3).sum() * v[0], x.detach())
        run.step()
    return {"orders": orders, "hessian": hessian}


@program
def hooks_of_the_user(watch: Watch) -> Observed:
    """Hooks that change what passes through them, of every kind, put on before and during capture."""
    model = Transformer(layers=1)
    heard: list[Any] = []

    def forward_pre(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0] * 1.5,)

    def forward_post(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        heard.append(args[0].detach().clone())
        return output * 0.5

    def with_kwargs(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        heard.append(len(args) + len(kwargs))
        return args, kwargs

    def backward(_: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        heard.append([grad_input, grad_output])
        return tuple(None if grad is None else grad * 0.9 for grad in grad_input)

    def shrink(parameter: Tensor) -> None:
        parameter.grad.mul_(0.1)  # type: ignore[union-attr]

    block = model.blocks[0]
    block.norm1.register_forward_pre_hook(forward_pre)
    block.norm2.register_forward_hook(forward_post)
    block.mlp.register_forward_pre_hook(with_kwargs, with_kwargs=True)
    block.out.register_full_backward_hook(backward)
    block.qkv.register_full_backward_pre_hook(lambda _, grads: (grads[0] * 2,))
    model.head.weight.register_hook(lambda grad: grad * 3)
    model.norm.weight.register_post_accumulate_grad_hook(shrink)

    def loss_of(batch: Tensor) -> Tensor:
        loss = next_token_loss(model, batch)
        loss.register_hook(lambda grad: grad * 1.25)
        loss.grad_fn.register_prehook(lambda grads: (grads[0] + 0.01,))  # type: ignore[union-attr]
        return loss

    return {**train(watch, model, sentences(), loss_of), "heard": heard}


@program
def global_hooks_of_the_user(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    heard: list[Any] = []
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, args, output: heard.append(type(module).__name__)
    )
    packed: list[tuple[int, ...]] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tuple(tensor.shape))
        return tensor

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            seen = train(watch, model, [torch.randn(2, 3)] * 2, lambda batch: model(batch).sum())
    finally:
        handle.remove()
    return {**seen, "heard": heard, "packed": packed}


@program
def retained_gradients(watch: Watch) -> Observed:
    x = torch.randn(3, requires_grad=True)
    with watch(None) as run:
        y = x * 2
        y.retain_grad()
        z = y.exp()
        z.backward(torch.ones(3), retain_graph=True)
        z.backward(torch.full((3,), 2.0))
        error = ""
        try:
            z.sum().backward()
        except RuntimeError as failed:
            error = str(failed)[:40]
        run.step()
    return {"x": x.grad, "y": y.grad, "z": z, "error": error}


@program
def accumulated_gradients(watch: Watch) -> Observed:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with watch(model) as run:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=False)
            for _ in range(3):
                (model(torch.randn(2, 4)).square().mean() / 3).backward()
            optimizer.step()
            run.step()
    return state(model)


class Rounded(torch.autograd.Function):
    """Straight-through rounding: two inputs, one without a gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, digits: int) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x)
        whole = torch.round(x, decimals=digits)
        rest = x - whole
        ctx.mark_non_differentiable(rest)
        return whole, rest

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * torch.sign(x), None


class Doubled(torch.autograd.Function):
    """In place, with a context of its own."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.mark_dirty(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


@program
def own_autograd_functions(watch: Watch) -> Observed:
    model = nn.Linear(3, 3)
    rests = []

    def loss_of(batch: Tensor) -> Tensor:
        whole, rest = Rounded.apply(model(batch), 1)
        rests.append(rest)
        return Doubled.apply(whole * 1).square().sum()

    return {**train(watch, model, [torch.randn(2, 3)] * 2, loss_of), "rests": rests}


@program
def function_transforms(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    x = torch.randn(5, 3)

    def loss_of(values: dict[str, Tensor], sample: Tensor) -> Tensor:
        return torch.func.functional_call(model, values, (sample,)).square().sum()

    with watch(model) as run:
        each = torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 0))(parameters, x)
        jacobian = torch.func.jacrev(lambda v: v.sin() * v.sum())(x[0])
        _, tangent = torch.func.jvp(torch.exp, (x[1],), (torch.ones(3),))
        run.step()
    return {"each": each, "jacobian": jacobian, "tangent": tangent}


@program
def backward_after_the_end(watch: Watch) -> Observed:
    """A graph that was made under capture and is walked after it."""
    model = Transformer(layers=1)
    (batch,) = sentences(1)
    with watch(model) as run:
        loss = next_token_loss(model, batch)
        run.step()
        other = next_token_loss(model, batch)
    (loss + other).backward()
    return {"loss": loss, "other": other, **state(model)}


@program
def graph_made_before(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.Linear(3, 1))
    x = torch.randn(2, 3, requires_grad=True)
    before = model(x)
    with watch(model) as run:
        (before * model(x)).sum().backward()
        run.step()
    return {"x": x.grad, **state(model)}
