"""Verdicts on programs of their own: what healthy runs do, and kernels that are wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import ulpscope


def captured(path: Path, program: Callable[[], object], task: str = "tensor") -> Path:
    torch.manual_seed(0)
    with ulpscope.capture(path, level="mix", task=task):
        program()
    return path


class Wrong(TorchDispatchMode):
    """A kernel that gives something else than it should."""

    def __init__(self, operator: Any, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._operator, self._change = operator, change

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return self._change(result) if func is self._operator else result


def noisy() -> Tensor:
    """A matrix product, summed up in another order if asked to."""
    return torch.randn(64, 256) @ torch.randn(256, 32)


def in_another_order() -> Tensor:
    a, b = torch.randn(64, 256), torch.randn(256, 32)
    return torch.flip(a, (1,)) @ torch.flip(b, (0,))


def train(dtype: torch.dtype) -> Callable[[Path], Path]:
    def run(path: Path) -> Path:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        model = nn.Sequential(nn.Linear(16, 32), layer, nn.Linear(32, 8)).to(dtype)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        x, y = torch.randn(4, 12, 16).to(dtype), torch.randint(0, 8, (48,))
        with ulpscope.capture(path, model=model, level="mix", task="tensor") as capture:
            for _ in range(3):
                optimizer.zero_grad()
                F.cross_entropy(model(x).flatten(0, 1), y).backward()
                optimizer.step()
                capture.step()
        return path

    return run


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_training_in_another_precision_raises_nothing(tmp_path: Path, dtype: torch.dtype) -> None:
    """Adam divides noise by noise, and weights of later steps are results of earlier ones."""
    compared = ulpscope.compare(train(torch.float32)(tmp_path / "a"), train(dtype)(tmp_path / "b"))
    assert compared.divergences == []


def test_the_sign_of_a_single_number_is_no_error(tmp_path: Path) -> None:
    """The dumps record the norm of a single number with its sign."""
    golden = captured(tmp_path / "golden", lambda: -0.5 * noisy().mean())
    target = captured(tmp_path / "target", lambda: -0.5 * in_another_order().mean())
    assert [one.call for one in ulpscope.compare(target, golden).divergences] == []


ATEN = torch.ops.aten
WRONG: dict[str, tuple[Callable[[Tensor], Tensor], Any, Callable[[Tensor], Tensor]]] = {
    "Torch.rsqrt.0.forward": (lambda x: torch.rsqrt(x * x + 1), ATEN.rsqrt.default, lambda y: y * 1.5),
    "Torch.log.0.forward": (lambda x: torch.log(x * x + 1), ATEN.log.default, lambda y: y * 1.5),
    "Torch.argmax.0.forward": (lambda x: torch.argmax(x, -1), ATEN.argmax.default, lambda y: (y + 1) % 32),
    "Tensor.__truediv__.0.forward": (lambda x: x / (1000 + x.abs()), ATEN.div.Tensor, lambda y: y * 1.05),
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_kernel_after_noise_is_found(tmp_path: Path, call: str) -> None:
    program, operator, change = WRONG[call]
    golden = captured(tmp_path / "golden", lambda: program(noisy()))
    healthy = captured(tmp_path / "healthy", lambda: program(in_another_order()))
    with Wrong(operator, change):
        target = captured(tmp_path / "target", lambda: program(in_another_order()))
    assert [one.call for one in ulpscope.compare(healthy, golden).divergences] == []
    found = ulpscope.compare(target, golden).divergences
    assert [one.call for one in found] == [call]
    assert found[0].kind == "diverged here"


class WrongDerivative(torch.autograd.Function):
    """A fused kernel with the right result and the wrong gradient, as a port may have it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return F.silu(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return gradient * torch.sigmoid(x)


def test_a_wrong_gradient_of_a_replaced_function_is_found(tmp_path: Path) -> None:
    def run(path: Path, activation: Callable[[Tensor], Tensor]) -> Path:
        torch.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(4)])
        x = torch.randn(16, 32)
        with ulpscope.capture(path, model=layers, level="mix", task="tensor"):
            for number, layer in enumerate(layers):
                x = (activation if number == 2 else F.silu)(layer(x))
            x.square().mean().backward()
        return path

    golden = run(tmp_path / "golden", F.silu)
    compared = ulpscope.compare(run(tmp_path / "target", WrongDerivative.apply), golden)
    assert compared.first_divergence is not None
    # The gradient that arrives at the layer before is wrong, and nothing after the function is.
    assert compared.first_divergence.call in (
        "Autograd.WrongDerivative.0.backward",
        "Functional.linear.2.backward",
    )
    assert compared.first_divergence.direction == "backward"


def test_nan_made_by_a_call_of_one_side_is_blamed_on_it(tmp_path: Path) -> None:
    golden = captured(tmp_path / "golden", lambda: torch.exp(noisy().sigmoid()).sum())
    target = captured(
        tmp_path / "target", lambda: torch.exp(torch.mul(noisy().sigmoid(), float("nan"))).sum()
    )
    found = ulpscope.compare(target, golden).divergences
    assert found[0].call == "Torch.mul.0.forward"


def test_the_same_nan_on_both_sides_is_named(tmp_path: Path) -> None:
    def program() -> Tensor:
        return torch.sqrt(noisy()).sum()

    dumps = [captured(tmp_path / name, program) for name in ("target", "golden")]
    found = ulpscope.compare(*dumps).divergences
    assert (found[0].call, found[0].kind) == ("Torch.sqrt.0.forward", "non-finite born here")


@pytest.mark.parametrize(
    "draw", [F.dropout, torch.randn_like, torch.bernoulli], ids=lambda draw: draw.__name__
)
def test_other_random_numbers_are_an_origin(tmp_path: Path, draw: Callable[[Tensor], Tensor]) -> None:
    def run(name: str, seed: int) -> Path:
        def program() -> Tensor:
            x = noisy().sigmoid()
            torch.manual_seed(seed)
            return (x * draw(x)).sum()

        return captured(tmp_path / name, program)

    compared = ulpscope.compare(run("target", 2), run("golden", 1))
    found = compared.divergences
    assert [(one.call.split(".")[1], one.kind) for one in found] == [(draw.__name__, "origin differs")]
    call = found[0].call.removesuffix(".forward")
    assert f"The random numbers drawn by {call} differ" in compared.explain()


def test_a_wrong_dropout_is_no_draw(tmp_path: Path) -> None:
    def program() -> Tensor:
        return F.dropout(noisy().sigmoid(), 0.5).sum()

    golden = captured(tmp_path / "golden", program)
    with Wrong(torch.ops.aten.mul.Tensor, lambda result: result * 1.5):
        target = captured(tmp_path / "target", program)
    found = ulpscope.compare(target, golden).divergences
    assert [(one.call, one.kind) for one in found] == [("Functional.dropout.0.forward", "diverged here")]


def test_infinities_of_both_sides_are_named_where_they_reach_the_end(tmp_path: Path) -> None:
    def harmful() -> Tensor:
        return ((noisy() > 0).float().log() + 1).sum()

    def harmless() -> Tensor:
        return ((noisy() > 0).float().log() + 1).softmax(-1).sum()

    for program, expected in ((harmful, ["Tensor.log.0.forward"]), (harmless, [])):
        dumps = [captured(tmp_path / program.__name__ / side, program) for side in ("target", "golden")]
        found = ulpscope.compare(*dumps).divergences
        assert [one.call for one in found] == expected
        assert all(one.kind == "non-finite born here" for one in found)


def test_a_scaled_loss_is_named(tmp_path: Path) -> None:
    def run(name: str, scale: float | None) -> Path:
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)), torch.randn(8, 16)
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task="tensor"):
            loss = model(x).square().mean()
            (loss if scale is None else torch.mul(loss, scale)).backward()
        return tmp_path / name

    found = ulpscope.compare(run("target", 128.0), run("golden", None)).divergences
    assert [one.call for one in found] == ["Torch.mul.0.backward"]


def test_what_differs_without_effect_is_noted(tmp_path: Path) -> None:
    def run(name: str, momentum: float, dtype: torch.dtype) -> Path:
        def program() -> Tensor:
            x = F.batch_norm(noisy(), torch.zeros(32), torch.ones(32), training=True, momentum=momentum)
            return x.to(dtype).sigmoid().float().sum()

        return captured(tmp_path / name, program)

    compared = ulpscope.compare(run("target", 0.5, torch.bfloat16), run("golden", 0.1, torch.float32))
    assert compared.divergences == []
    notes = "\n".join(compared.notes)
    assert "2 calls get different scalar arguments" in notes
    assert "the inputs allow; the first is Functional.batch_norm.0.forward" in notes
    assert "Tensor.to.0.forward (torch.bfloat16 against torch.float32)" in notes


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_product_in_coarser_precision_is_recognised(tmp_path: Path, dtype: torch.dtype) -> None:
    golden = captured(tmp_path / "golden", lambda: noisy().sigmoid())
    with Wrong(torch.ops.aten.mm.default, lambda result: result.to(dtype).to(result.dtype)):
        target = captured(tmp_path / "target", lambda: noisy().sigmoid())
    compared = ulpscope.compare(target, golden)
    name = "bfloat16" if dtype is torch.bfloat16 else "TF32 or float16"
    assert [one.call for one in compared.divergences] == ["Tensor.__matmul__.0.forward"]
    assert f"as much as if it were computed in {name}" in compared.divergences[0].why
    assert ("allow_tf32 = False" in compared.explain()) == (dtype is torch.float16)


def trained_on(path: Path, steps: list[Tensor], betas: tuple[float, float] = (0.9, 0.999)) -> Path:
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.Adam(model.parameters(), 0.01, betas)
    with ulpscope.capture(path, model=model, level="mix", task="tensor") as capture:
        for x in steps:
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            capture.step()
    return path


def test_later_steps_are_judged(tmp_path: Path) -> None:
    torch.manual_seed(1)
    steps = list(torch.randn(3, 16, 8).unbind())
    golden = trained_on(tmp_path / "golden", steps)
    other = trained_on(tmp_path / "other", [steps[0], steps[1] * 1.02, steps[2]])
    found = ulpscope.compare(other, golden).divergences
    assert (found[0].call, found[0].kind) == ("Functional.linear.0.forward", "origin differs")
    assert found[0].entry == "Functional.linear.0.forward.input.0"
    # Corrected for its beginning, the first step is the same; what is kept of it is not.
    for betas in ((0.5, 0.999), (0.9, 0.5)):
        target = trained_on(tmp_path / f"betas{betas[0]}", steps, betas)
        assert ulpscope.compare(target, golden).divergences[0].kind == "different program"


def test_weights_that_all_differ_are_other_weights(tmp_path: Path) -> None:
    def run(name: str, change: Callable[[Tensor], Tensor]) -> Path:
        torch.manual_seed(0)
        model, x = nn.Sequential(*[nn.Linear(32, 32) for _ in range(4)]), torch.randn(8, 32)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(change(parameter))
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task="tensor"):
            model(x).square().mean().backward()
        return tmp_path / name

    golden = run("golden", lambda parameter: parameter)
    found = ulpscope.compare(run("target", lambda parameter: parameter * 1.01), golden).divergences
    assert (found[0].kind, found[0].entry) == ("origin differs", "Functional.linear.0.forward.input.1")
    # Out of a checkpoint of half the size.
    assert ulpscope.compare(run("stored", lambda parameter: parameter.bfloat16().float()), golden).ok


def test_modules_alone_agree_in_another_precision(tmp_path: Path) -> None:
    """What happens between modules is not recorded at L0."""

    def run(name: str, dtype: torch.dtype) -> Path:
        torch.manual_seed(0)
        before, after, x = nn.Linear(32, 32), nn.Linear(32, 32), torch.randn(4, 12, 32)
        model = nn.ModuleList([before, after]).to(dtype)
        with ulpscope.capture(tmp_path / name, model=model, level="L0", task="tensor"):
            after(F.gelu(before(x.to(dtype)))).square().mean().backward()
        return tmp_path / name

    assert ulpscope.compare(run("target", torch.float64), run("golden", torch.float32)).divergences == []


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("fault", ["momentum", "scale", "skipped"])
def test_what_a_step_left_is_named_in_the_next(tmp_path: Path, fault: str, task: str) -> None:
    """A buffer that moves too slowly, gradients of portions that were not averaged, an update left out."""

    def run(name: str, is_wrong: bool) -> Path:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
        if fault == "momentum" and is_wrong:
            model[1].momentum = 0.01
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        steps = [step.unbind() for step in torch.randn(2, 2, 8, 16).unbind()]
        with ulpscope.capture(tmp_path / name, model=model, level="mix", task=task) as capture:
            for number, batches in enumerate(steps):
                model.train(number == 0)
                for batch in batches:
                    loss = model(batch).square().mean()
                    (loss if fault == "scale" and is_wrong else loss / 2).backward()
                if not (fault == "skipped" and is_wrong):
                    optimizer.step()
                optimizer.zero_grad()
                capture.step()
        return tmp_path / name

    compared = ulpscope.compare(run("target", True), run("golden", False))
    assert compared.agreement == "differ"
    later = [one for one in compared.divergences if one.step == 1]
    assert later[0].kind == "origin differs"


def test_gradients_that_nothing_explains_in_the_end_are_no_agreement(tmp_path: Path) -> None:
    """The logistic map doubles an error each time, as it should; in the end nothing is left in common."""

    def run(name: str, dtype: torch.dtype) -> Path:
        torch.manual_seed(0)
        layer = nn.Linear(8, 8).to(dtype)
        x = torch.randn(4, 8).to(dtype)
        with ulpscope.capture(tmp_path / name, model=nn.ModuleList([layer]), level="mix", task="tensor"):
            y = torch.sigmoid(layer(x))
            for _ in range(40):
                y = y * (1 - y) * 3.9
            y.sum().backward()
        return tmp_path / name

    compared = ulpscope.compare(run("target", torch.float32), run("golden", torch.float64))
    assert compared.agreement == "differ"
    assert compared.divergences[-1].call == "Module.0.Linear.parameters_grad.0"
    assert compared.divergences[-1].confidence < 0.5
