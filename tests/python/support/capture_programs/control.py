"""Control flow: exceptions, generators, threads, other processes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from capture_programs.registry import Observed, Watch, program, state, train


@program
def exceptions_caught(watch: Watch) -> Observed:
    """Errors inside calls and modules, at several depths; what follows is as if nothing had happened."""

    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            made = self.fc(x)
            if x.sum() > 0:
                raise KeyError("positive")
            return made

    model = nn.Sequential(Failing(), nn.ReLU())
    errors, made = [], []
    with watch(model) as run:
        for sign in (1.0, -1.0, 1.0):
            x = sign * torch.ones(2, 3)
            for attempt in (
                lambda x=x: model(x),
                lambda x=x: torch.add(x, torch.ones(5)),
                lambda x=x: F.cross_entropy(x, torch.tensor([9, 0])),
                lambda x=x: x.view(7),
                lambda x=x: torch.max_pool2d(x, "odd"),
                lambda x=x: model[0].fc(x) + 1,
            ):
                try:
                    made.append(attempt())
                except (KeyError, RuntimeError, IndexError, TypeError) as error:
                    errors.append(type(error).__name__)
            made[-1].sum().backward()
            run.step()
    return {"errors": errors, "made": made, **state(model)}


@program
def exceptions_in_backward(watch: Watch) -> Observed:
    model = nn.Linear(2, 2)
    errors = []

    def refuse(grad: Tensor) -> Tensor:
        raise ValueError("no")

    with watch(model) as run:
        for _ in range(2):
            y = model(torch.ones(1, 2))
            z = y * 2
            z.register_hook(refuse)
            try:
                z.sum().backward()
            except ValueError as error:
                errors.append(str(error))
            y.sum().backward()
            run.step()
    return {"errors": errors, **state(model)}


@program
def exception_leaves_the_capture(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    raised = ""
    try:
        with watch(model):
            model(torch.ones(1, 2)).sum().backward()
            torch.ones(2) @ torch.ones(3)
    except RuntimeError as error:
        raised = type(error).__name__
    model(torch.ones(1, 2)).sum().backward()
    return {"raised": raised, **state(model)}


@program
def warnings_of_torch(watch: Watch) -> Observed:
    """Each is heard as often as without capture, with its text."""
    x = torch.ones(3, requires_grad=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with watch(None) as run:
            made = x * 2
            made.grad  # noqa: B018
            F.mse_loss(torch.ones(3, 1), torch.ones(3))
            run.step()
    return {"warnings": [str(warning.message)[:50] for warning in heard]}


@program
def generators(watch: Watch) -> Observed:
    """Calls between the yields of a generator that is left halfway, closed, and thrown into."""
    weight = torch.randn(3, requires_grad=True)

    def scaled() -> Iterator[Tensor]:
        try:
            with torch.no_grad():
                for number in range(5):
                    yield weight * number
        except ValueError:
            yield weight * -1
        finally:
            seen.append(weight.sum())

    seen: list[Tensor] = []
    with watch(None) as run:
        left = scaled()
        seen += [next(left), weight * 2, next(left)]
        thrown = scaled()
        seen += [next(thrown), thrown.throw(ValueError())]
        left.close()
        run.step()
    seen.append(torch.stack([part.sum() for part in map(torch.exp, seen)]))
    return {"seen": seen}


@program
def threads(watch: Watch) -> Observed:
    """Several threads train models of their own at once; one more only makes tensors."""
    models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 1)) for _ in range(3)]
    inputs = [torch.randn(5, 4) for _ in models]
    made: dict[str, Tensor] = {}

    def work(model: nn.Module, x: Tensor) -> None:
        for _ in range(5):
            model(x).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.05 * parameter.grad

    def make() -> None:
        made["inside"] = torch.arange(6.0).reshape(2, 3).cumsum(0)

    with watch(nn.ModuleList(models)) as run:
        workers = [threading.Thread(target=work, args=pair) for pair in zip(models, inputs, strict=True)]
        workers.append(threading.Thread(target=make))
        for worker in workers:
            worker.start()
        mine = torch.ones(3).cumsum(0)
        for worker in workers:
            worker.join()
        run.step()
        with ThreadPoolExecutor(2) as pool:
            pooled = list(pool.map(lambda model: model(inputs[0]).sum(), models))
        run.step()
    return {"mine": mine, "made": made, "pooled": pooled, "models": [state(model) for model in models]}


@program
def backward_in_another_thread(watch: Watch) -> Observed:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    with watch(model) as run:
        for _ in range(2):
            loss = model(torch.ones(2, 3)).sum()
            worker = threading.Thread(target=loss.backward)
            worker.start()
            worker.join()
            run.step()
    return state(model)


class Squares(Dataset[tuple[Tensor, Tensor]]):
    """Made with torch calls, in whichever process asks."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.full((3,), float(index)) + torch.rand(3)
        return x, x.square().sum(dim=0, keepdim=True)


@program
def data_loader_workers(watch: Watch) -> Observed:
    """Two forked workers inherit the run; they must neither write to the dump nor change what they load."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    losses = []
    loader = DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=2)
    with watch(model) as run:
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss)
            run.step()
    return {"losses": losses, **state(model)}


@program
def torch_function_modes_of_the_user(watch: Watch) -> Observed:
    """Other modes around and inside: they see the same calls as without capture."""

    class Counting(torch.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[str] = []

        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.calls.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))

    class Dispatched(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[str] = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.calls.append(str(function))
            return function(*args, **(kwargs or {}))

    outer, inner, below = Counting(), Counting(), Dispatched()
    model = nn.Sequential(nn.Linear(3, 3), nn.GELU())

    def loss_of(x: Tensor) -> Tensor:
        with inner, below:
            return model(x).sum()

    with outer:
        seen = train(watch, model, [torch.ones(2, 3)] * 2, loss_of)
    return {**seen, "outer": outer.calls, "inner": inner.calls, "below": below.calls}


@program
def device_and_dtype_defaults(watch: Watch) -> Observed:
    made = []
    with watch(None) as run:
        torch.set_default_dtype(torch.float64)
        try:
            made.append(torch.ones(2) / 3)
        finally:
            torch.set_default_dtype(torch.float32)
        with torch.device("cpu"):
            made.append(torch.arange(3) / 2)
        generator = torch.Generator().manual_seed(3)
        made += [
            torch.rand(2, generator=generator),
            torch.randperm(4),
            torch.bernoulli(torch.full((3,), 0.5)),
        ]
        with torch.random.fork_rng():
            torch.manual_seed(1)
            made.append(torch.randn(2))
        run.step()
    return {"made": made}
