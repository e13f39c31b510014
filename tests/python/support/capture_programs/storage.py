"""Memory that is shared, viewed and written to: it shows who keeps or copies a tensor at the wrong moment."""

from __future__ import annotations

import copy

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from capture_programs.registry import Observed, Watch, program, state


@program
def writes_to_slices(watch: Watch) -> Observed:
    weight = torch.randn(4, 4, requires_grad=True)
    made = []
    with watch(None) as run:
        for _ in range(2):
            x = weight * 2
            x[:, 0] += 1
            x[1:3] *= weight[1:3]
            x[..., 2] = weight[0].sum()
            x[torch.tensor([0, 3])] = weight[:2].exp()
            x[x > 1] = 0.5
            loss = (x * x.t()).sum()
            loss.backward()
            made += [x, loss]
            run.step()
    return {"made": made, "gradient": weight.grad}


@program
def writes_through_views(watch: Watch) -> Observed:
    weight = torch.randn(2, 6, requires_grad=True)
    with watch(None) as run:
        x = weight.sin()
        y = x.view(3, 4)
        y.add_(weight.reshape(3, 4))
        z = x.t()[1:4]
        z.mul_(2).clamp_(min=-1)
        x.narrow(1, 0, 2).zero_()
        x.diagonal().fill_(3.0)
        w = x.unsqueeze(0).expand(2, 2, 6).permute(2, 0, 1)
        loss = (w.sum(0) * 1.5).sum() + y[0].prod()
        loss.backward()
        run.step()
    return {"x": x, "y": y, "z": z, "w": w, "loss": loss, "gradient": weight.grad}


@program
def writes_to_parts_of_a_split(watch: Watch) -> Observed:
    """chunk and split results may be changed in place only outside of a graph, or one by one."""
    weight = torch.randn(6, 2, requires_grad=True)
    with watch(None) as run:
        with torch.no_grad():
            first, second, _ = weight.chunk(3)
            first.add_(1)
            second.copy_(first)
        x = weight * 1
        rows = x[0], x[1]
        rows[0].mul_(rows[1].detach().clone())
        refused = ""
        try:
            x.split(2)[0].add_(1)
        except RuntimeError as error:
            refused = type(error).__name__
        x.square().sum().backward()
        run.step()
    return {"x": x, "rows": rows, "refused": refused, "weight": weight, "gradient": weight.grad}


@program
def in_place_after_use(watch: Watch) -> Observed:
    """Whether a tensor that the backward pass needs was changed is found by its version: it must not move."""
    weight = torch.randn(3, requires_grad=True)
    with watch(None) as run:
        x = weight.exp()
        y = x * 2
        x += 1
        error = ""
        try:
            y.sum().backward()
            x.sum().backward()
        except RuntimeError as failed:
            error = str(failed).partition(":")[0]
        run.step()
    return {"x": x, "y": y, "error": error, "gradient": weight.grad}


@program
def out_arguments_and_in_place_functions(watch: Watch) -> Observed:
    x = torch.randn(3, 4)
    out, pair = torch.empty(3, 4), (torch.empty(3), torch.empty(3, dtype=torch.int64))
    with watch(None) as run:
        torch.add(x, 1, out=out)
        torch.max(x, dim=1, out=pair)
        F.relu(x, inplace=True)
        F.dropout(x, 0.5, training=True, inplace=True)
        x.resize_(2, 4).transpose_(0, 1).squeeze_()
        swapped = torch.zeros(2)
        swapped.set_(out.untyped_storage(), 1, (2, 2), (4, 1))
        run.step()
    return {"x": x, "out": out, "pair": pair, "swapped": swapped}


@program
def own_gradient_descent(watch: Watch) -> Observed:
    """Leaves changed under no_grad and through .data, gradients emptied in place."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    average = copy.deepcopy(model)
    losses = []
    with watch(model) as run:
        for _ in range(3):
            loss = model(torch.randn(5, 3)).square().mean()
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
                    parameter.grad.zero_()
            for kept, parameter in zip(average.parameters(), model.parameters(), strict=True):
                kept.data.mul_(0.9).add_(parameter.data, alpha=0.1)
            losses.append(loss)
            run.step()
    return {"losses": losses, "average": state(average), **state(model)}


@program
def memory_shared_with_numpy(watch: Watch) -> Observed:
    array = np.arange(6, dtype=np.float32)
    with watch(None) as run:
        tensor = torch.from_numpy(array)
        array[0] = 10
        doubled = tensor * 2
        tensor.add_(1)
        array *= 2
        lent = doubled.numpy()
        lent[1] = -1
        total = torch.asarray(array).sum() + doubled.sum()
        run.step()
    return {"array": array, "tensor": tensor, "doubled": doubled, "total": total}


@program
def freed_and_reused_memory(watch: Watch) -> Observed:
    """Tensors that die at once: their addresses are used again by tensors with other elements."""
    sums = []
    weight = torch.randn(8, requires_grad=True)
    with watch(None) as run:
        for number in range(30):
            sums.append((torch.full((8,), float(number)) * weight).sum().detach())
            with torch.no_grad():
                weight += 0.01
        run.step()
    return {"sums": sums, "weight": weight}


@program
def storages_resized_to_nothing(watch: Watch) -> Observed:
    """As FSDP does it: the tensor lives on while its memory comes and goes."""
    flat = torch.randn(8)
    kept = flat.clone()
    made = []
    with watch(None) as run:
        for _ in range(2):
            flat.untyped_storage().resize_(0)
            flat.untyped_storage().resize_(32)
            flat.copy_(kept)
            view = torch.as_strided(flat, (2, 4), (4, 1))
            made.append(view @ view.t())
            run.step()
    return {"flat": flat, "made": made}


@program
def buffers_changed_in_forward(watch: Watch) -> Observed:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))
            self.register_buffer("last", torch.zeros(3), persistent=False)
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            self.seen += 1
            self.last = x.detach().mean(0)
            return x * self.scale - self.last

    model = nn.Sequential(Counting(), nn.BatchNorm1d(3), Counting())
    made = []
    with watch(model) as run:
        for _ in range(2):
            made.append(model(torch.randn(4, 3)))
            made[-1].sum().backward()
            run.step()
    return {"made": made, **state(model)}
