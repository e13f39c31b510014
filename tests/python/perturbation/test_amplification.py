"""Amplification: ten wrong operators are named with their cause, and nothing in ten healthy networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from faults.perturbation.bad import CASES, Bad, planted
from faults.perturbation.healthy import GPT, NETWORKS
from watched_runs import watched

# aten warns about each kernel that is replaced.
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
def test_a_wrong_operator_is_named_alone_with_its_cause(case: Bad, tmp_path: Path) -> None:
    with planted(case), ulpscope.check.perturb(tmp_path) as check:
        case.program()
    named = {one.api_name.rpartition(".")[0] for one in check.findings}
    assert named
    assert all(name.startswith(case.named) for name in named), named
    assert check.findings[0].cause.startswith(case.cause)
    header, first, *_ = (tmp_path / "perturbation.csv").read_text().splitlines()
    assert header == "rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index,cause"
    assert case.cause in first


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_a_healthy_network_has_no_finding(network: Callable[[], Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    step = network()
    with ulpscope.check.perturb(tmp_path) as check:
        step()
    assert [str(one) for one in check.findings] == []
    assert list(tmp_path.iterdir()) == []


DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def noisy(folder: Path, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What the second run of a call gets."""
    with watched(folder) as function:
        function.call(itertools.repeat(torch.ones(1)), *inputs)
    return function.runs[1][0]


def test_noise_is_one_unit_and_harmless(tmp_path: Path) -> None:
    for dtype in DTYPES:
        info = torch.finfo(dtype)
        special = torch.tensor([0.0, math.inf, -math.inf, math.nan, *[info.max, info.min] * 20], dtype=dtype)
        x = torch.cat([torch.randn(1000).to(dtype), special])
        (y,) = noisy(tmp_path, x)
        change = ((y.double() - x.double()) / x.double())[:1000]
        assert y.dtype == dtype
        assert change.abs().max() <= 2 * info.eps
        assert 0.4 < (change != 0).double().mean() < 0.6
        assert torch.equal(y[1000:1003], x[1000:1003])
        assert y[1003].isnan()
        assert y[1004:].isfinite().all()
        assert change.square().mean().sqrt() == pytest.approx(info.eps * math.sqrt(0.5), rel=0.35)
    large = torch.ones(3 * (1 << 18) + 5)
    first, second = noisy(tmp_path, large[:99], large)
    assert (second != 1).double().mean() == pytest.approx(0.5, abs=0.01)
    assert not torch.equal(first, second[:99]), "arguments move apart"


def test_the_gain_is_the_change_of_the_output_over_that_of_the_inputs(tmp_path: Path) -> None:
    for dtype in DTYPES:
        x, eps = torch.ones(3, dtype=dtype), torch.finfo(dtype).eps
        one, wide = torch.ones(1, dtype=dtype), torch.full((1,), 2.0, dtype=torch.float64)
        # The noisy inputs move it, a repetition does not, and float64 disagrees: only then is it a finding.
        with watched(tmp_path) as function:
            function.call([one, one * (1 + 2**-5), one, wide, wide, one, one, one], x)
        (finding,) = function.check.findings
        assert finding.cause.startswith("loses bits")
        gain = (2**-5 - eps) / (eps * math.sqrt(0.5))
        assert finding.cause.endswith(f"; gain {gain:.3g}")


@pytest.mark.parametrize(
    ("first", "again", "difference"),
    [
        ([1.0, 2.0], [1.0, 3.0], "differ by 4.5e-01 of the output"),
        ([math.inf, 2.0], [math.inf, 3.0], "differ by 5.0e-01 of the output"),
        ([math.nan, 1.0], [0.0, 1.0], "differ in what is NaN or infinite"),
        ([0.0, 1.0], [math.nan, 1.0], "differ in what is NaN or infinite"),
        ([math.inf, 1.0], [torch.finfo(torch.float32).max, 1.0], "differ in what is NaN or infinite"),
        ([math.inf, 1.0], [-math.inf, 1.0], "differ in what is NaN or infinite"),
        ([1.0, 1.0], [1.0], "have the shapes [2] and [1]"),
        ([1.0, 1.0], [1.0, 1.0, 1.0], "have the shapes [2] and [3]"),
    ],
)
def test_a_call_that_does_not_repeat_is_named(
    first: list[float], again: list[float], difference: str, tmp_path: Path
) -> None:
    output = torch.tensor(first)
    with watched(tmp_path) as function:
        function.call([output, output, torch.tensor(again)], torch.ones(2))
    causes = [one.cause.partition(";")[0] for one in function.check.findings]
    assert causes == [f"not repeatable: two runs on the same inputs {difference}"]


def test_a_call_that_repeats_its_nan_and_infinities_is_not_called_unrepeatable(tmp_path: Path) -> None:
    output = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    with watched(tmp_path) as function:
        function.call(itertools.repeat(output), torch.ones(2))
    (finding,) = function.check.findings
    assert finding.cause.startswith("returns NaN from finite inputs (75% of the output)")


def test_a_backward_pass_that_loses_bits_is_named(tmp_path: Path) -> None:
    class Lossy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            gradient = gradients[0]
            return ((gradient + 1e4) - 1e4) * 2 if gradient.dtype != torch.float64 else gradient * 2

    x = torch.randn(32, 32).requires_grad_()
    with ulpscope.check.perturb(tmp_path, fuzz_stage="backward") as check:
        torch.tanh(Lossy.apply(torch.sin(x))).sum().backward()
    assert [one.api_name for one in check.findings] == ["Autograd.Lossy.0.backward"]
    assert check.findings[0].cause.startswith("loses bits")


class Shifted(nn.Module):
    """It loses the digits of its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e5) - 1e5


def test_modules_are_judged_as_a_whole(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), Shifted(), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = torch.randn(16, 8)
    torch.manual_seed(1)
    plain = model(x)
    after = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(before)
    torch.manual_seed(1)
    with ulpscope.check.perturb(tmp_path, model, fuzz_level="L0") as check:
        checked = model(x)
    assert torch.equal(plain, checked)
    assert all(torch.equal(after[name], value) for name, value in model.state_dict().items())
    assert check.findings[0].api_name == "Module.2.Shifted.forward.0"
    assert check.findings[0].cause.startswith("loses bits")
    assert {one.api_name for one in check.findings[1:]} <= {"Module.Sequential.forward.0"}


def test_a_healthy_model_has_no_finding_at_module_level(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = GPT().bfloat16()
    with ulpscope.check.perturb(tmp_path, model, fuzz_level="L0", module=["blocks.*"]) as check:
        model(torch.randint(0, 64, (2, 16))).float().logsumexp(-1).mean().backward()
    assert [str(one) for one in check.findings] == []


def test_a_result_beyond_the_range_of_its_dtype_is_no_overflow_inside(tmp_path: Path) -> None:
    class LengthKernel(torch.autograd.Function):
        """A norm whose squares overflow, and whose result would not."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return (x * x).sum().sqrt()

    x = torch.full((4,), 150.0)
    with ulpscope.check.perturb(tmp_path) as check:
        torch.exp(x)
        LengthKernel.apply(x * 1e20)
    causes = {one.api_name: one.cause for one in check.findings}
    assert "finite, but up to 1.4e+65, beyond the range of torch.float32" in causes["Torch.exp.0.forward"]
    assert "finite: it overflows inside" in causes["Autograd.LengthKernel.0.forward"]


def test_the_backward_pass_of_calls_that_get_a_tensor_twice_is_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="ulpscope.check")
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(8, 2), torch.randn(3, 2, 8, requires_grad=True)
    with ulpscope.check.perturb(tmp_path, fuzz_stage="backward", strict=True) as check:
        (attention(x, x, x)[0] + (x * x)).square().sum().backward()
    assert check.findings == []
    assert "different shapes" not in caplog.text


def test_a_gradient_that_cancels_by_nature_is_no_finding(tmp_path: Path) -> None:
    # The normalisation removes what the bias adds: its gradient is rounding noise around zero.
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    with ulpscope.check.perturb(tmp_path, fuzz_stage="backward") as check:
        model(torch.randn(4, 3, 8, 8)).square().mean().backward()
    assert check.findings == []


def test_singular_vectors_that_are_not_unique_are_ill_conditioned(tmp_path: Path) -> None:
    with ulpscope.check.perturb(tmp_path) as check:
        torch.linalg.svd(torch.ones(5, 5))
    assert check.findings
    assert all(one.cause.startswith("ill-conditioned") for one in check.findings)
