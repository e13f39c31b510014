"""Tensors that change places: torch refuses that for those that anybody refers to weakly."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured, capture_of

pytestmark = pytest.mark.skipif(not hasattr(torch.utils, "swap_tensors"), reason="torch has no such swaps")

LEVELS = ("L0", "L1", "mix", "L2")


@pytest.fixture
def swapping_modules() -> Iterator[None]:
    """Modules that are converted or loaded keep their parameters, which get other insides."""
    before = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(before)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.usefixtures("swapping_modules")
def test_a_model_is_converted_and_loaded(tmp_path: Path, level: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    parameters = list(model.parameters())
    state = {name: torch.full_like(value, 0.5) for name, value in model.state_dict().items()}
    with ulpscope.capture(tmp_path, model=model, level=level) as run:
        model(torch.ones(1, 2)).sum().backward()
        model.zero_grad()
        run.step()
        model.to(torch.float64)
        model.load_state_dict(state)
        model(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
    assert all(one is other for one, other in zip(model.parameters(), parameters, strict=True))
    assert {parameter.dtype for parameter in parameters} == {torch.float64}
    assert not any(weakref.getweakrefcount(parameter) for parameter in parameters)
    if level in ("L0", "mix"):
        # Their gradients are still seen.
        for step in range(2):
            found = Captured(tmp_path, step=step).calls["Module.1.Linear.parameters_grad.0"]
            assert sorted(found) == ["bias", "weight"]
            assert found["bias"][0]["Max"] == 1.0


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
def test_results_change_places(tmp_path: Path, level: str) -> None:
    def program() -> None:
        a, b = torch.ones(3).mul(5), torch.ones(3).exp()
        torch.utils.swap_tensors(a, b)
        a.sin()
        b.cos()

    calls = capture_of(tmp_path, program, level=level).calls
    space = "Aten" if level == "L2" else "Tensor"
    assert calls[f"{space}.sin.0.forward"]["input_args"][0]["source"] == f"{space}.exp.0.forward.output.0"
    assert calls[f"{space}.cos.0.forward"]["input_args"][0]["source"] == f"{space}.mul.0.forward.output.0"


def test_a_swap_that_is_refused_stays_so(tmp_path: Path) -> None:
    """For a weak reference of the program's own; what was known stays known."""

    def program() -> None:
        a, b = torch.ones(3).mul(5), torch.ones(3).exp()
        mine = weakref.ref(a, lambda _: None)
        with pytest.raises(RuntimeError, match="weakref"):
            torch.utils.swap_tensors(a, b)
        assert mine() is a
        a.sin()

    calls = capture_of(tmp_path, program).calls
    assert calls["Tensor.sin.0.forward"]["input_args"][0]["source"] == "Tensor.mul.0.forward.output.0"
