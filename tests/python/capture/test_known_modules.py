"""Modules and parameters that come, change and go while calls are recorded."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured, capture_of

LEVELS = ("L0", "mix")


def trained(model: Callable[..., torch.Tensor], times: int = 1) -> None:
    for _ in range(times):
        model(torch.ones(2, 4)).square().sum().backward()


def modules_of(captured: Captured) -> list[str]:
    return [name for name in captured.calls if name.startswith("Module.") and ".forward." in name]


def gradients_of(captured: Captured) -> dict[str, list[str]]:
    """The parameters that have gradients, by module."""
    return {
        name.partition(".parameters_grad.")[0]: sorted(call)
        for name, call in captured.calls.items()
        if ".parameters_grad." in name
    }


@pytest.mark.parametrize("level", LEVELS)
def test_parameters_have_the_hooks_they_had(tmp_path: Path, level: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    # One parameter in two modules, one that has had a hook, and one that has got one meanwhile.
    model[1].weight = model[0].weight
    seen: list[str] = []
    model[2].weight.register_post_accumulate_grad_hook(lambda _: seen.append("had")).remove()
    had = model[2].weight._post_accumulate_grad_hooks
    for number in range(2):
        with ulpscope.capture(tmp_path / str(number), model=model, level=level):
            trained(model)
            if number == 0:
                model[3].weight.register_post_accumulate_grad_hook(lambda _: seen.append("meanwhile"))
                own = model[3].weight._post_accumulate_grad_hooks
            trained(model)
        assert gradients_of(Captured(tmp_path / str(number)))["Module.0.Linear"] == ["bias", "weight"]
        kept = {
            name: parameter._post_accumulate_grad_hooks
            for name, parameter in model.named_parameters()
            if parameter._post_accumulate_grad_hooks is not None
        }
        assert kept == {"2.weight": had, "3.weight": own}
        assert kept["2.weight"] is had
        assert (len(had), len(own)) == (0, 1)
    # Whoever comes afterwards finds a parameter as new.
    model[0].weight.register_post_accumulate_grad_hook(lambda _: seen.append("afterwards"))
    trained(model)
    assert sorted(seen) == ["afterwards"] + ["meanwhile"] * 4


@pytest.mark.parametrize("level", LEVELS)
def test_a_model_without_modules_is_reported(
    tmp_path: Path, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = nn.Linear(4, 4)
    with caplog.at_level(logging.WARNING, logger="ulpscope"):
        found = capture_of(tmp_path, lambda: trained(model, 2), model=model, level=level)
    note = f"Linear has no modules below it: level {level} has none to record"
    assert note in found.ledger["notes"]
    told = [record.getMessage() for record in caplog.records]
    # At level mix there are its API calls.
    assert told == ([f"{note}; its API calls are recorded at levels L1 and mix"] if level == "L0" else [])


@pytest.mark.parametrize("level", LEVELS)
def test_modules_outside_the_model_are_counted(tmp_path: Path, level: str) -> None:
    generator = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    discriminator = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    loss = nn.MSELoss()

    def program() -> None:
        loss(discriminator(generator(torch.ones(2, 4))), torch.ones(2, 1))

    found = capture_of(tmp_path, program, model=generator, level=level)
    assert modules_of(found) == ["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"]
    ledger = found.ledger
    assert ledger["skipped"]["outside the model"] == 4
    parts = ledger["recorded"] + sum(sum(ledger[kind].values()) for kind in ("raised", "skipped", "failed"))
    assert ledger["seen"] == parts


@pytest.mark.parametrize("is_given", [True, False])
def test_a_module_that_is_added_later_has_its_name(tmp_path: Path, is_given: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    with ulpscope.capture(tmp_path, model=model if is_given else None, level="L0") as run:
        trained(model)
        run.step()
        model.append(nn.Sequential(nn.Linear(4, 4)))
        trained(model)
    found = Captured(tmp_path, 1)
    assert modules_of(found) == [
        "Module.0.Linear.forward.0",
        "Module.1.0.Linear.forward.0",
        "Module.1.Sequential.forward.0",
    ]
    assert list(gradients_of(found)) == ["Module.1.0.Linear", "Module.0.Linear"]
    assert (
        found.calls["Module.1.0.Linear.forward.0"]["parameters"]["weight"]["source"] == "parameter:1.0.weight"
    )
    assert "outside the model" not in found.ledger["skipped"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_layer_that_is_unfrozen_later(tmp_path: Path, level: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    model[0].requires_grad_(False)
    with ulpscope.capture(tmp_path, model=model, level=level) as run:
        trained(model)
        run.step()
        model[0].requires_grad_(True)
        trained(model)
    assert list(gradients_of(Captured(tmp_path))) == ["Module.1.Linear"]
    both = {"Module.1.Linear": ["bias", "weight"], "Module.0.Linear": ["bias", "weight"]}
    assert gradients_of(Captured(tmp_path, 1)) == both


@pytest.mark.parametrize("level", LEVELS)
def test_parameters_that_are_made_in_the_first_call(tmp_path: Path, level: str) -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 1))
    found = capture_of(tmp_path, lambda: trained(model), model=model, level=level)
    both = {"Module.1.Linear": ["bias", "weight"], "Module.0.LazyLinear": ["bias", "weight"]}
    assert gradients_of(found) == both


class Uncalled(nn.Module):
    """Uses the parameters of a module that it does not call."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.inner.weight, self.inner.bias)


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(4, 4)), Uncalled()])
def test_parameters_that_are_replaced(tmp_path: Path, model: nn.Module) -> None:
    linear = next(module for module in model.modules() if isinstance(module, nn.Linear))
    first = linear.weight
    with ulpscope.capture(tmp_path, model=model, level="L0"):
        linear.weight = nn.Parameter(torch.full((4, 4), 3.0))
        trained(model)
    found = next(call for name, call in Captured(tmp_path).calls.items() if "parameters_grad" in name)
    grad = linear.weight.grad
    assert grad is not None
    assert found["weight"][0]["Max"] == grad.max().item()
    assert not first._post_accumulate_grad_hooks
    assert not linear.weight._post_accumulate_grad_hooks


def test_a_gradient_that_came_before_it_could_be_seen_is_noted(tmp_path: Path) -> None:
    model = Uncalled()
    model.inner.requires_grad_(False)
    with ulpscope.capture(tmp_path, model=model, level="L0") as run:
        model.inner.requires_grad_(True)
        # By a way that calls no module.
        Uncalled.forward(model, torch.ones(2, 4)).sum().backward()
        run.step()
        Uncalled.forward(model, torch.ones(2, 4)).sum().backward()
    note = "a parameter had its gradient before it was known that it is trained: that is not recorded"
    assert any(text.startswith(note) for text in Captured(tmp_path).ledger["notes"])
    assert list(gradients_of(Captured(tmp_path, 1))) == ["Module.inner.Linear"]


@pytest.mark.parametrize("level", LEVELS)
def test_models_made_in_every_iteration_are_not_kept(tmp_path: Path, level: str) -> None:
    alive: list[weakref.ref[Any]] = []
    with ulpscope.capture(tmp_path, level=level):
        for _ in range(20):
            model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
            loss = nn.MSELoss()
            loss(model(torch.ones(2, 4)), torch.ones(2, 4)).backward()
            alive += [weakref.ref(model), weakref.ref(model[0].weight), weakref.ref(loss)]
            del model, loss
        gc.collect()
        assert sum(reference() is not None for reference in alive) == 0
    found = modules_of(Captured(tmp_path))
    # Each has a number of its own, whatever is gone by then.
    wanted = [f"Module.{2 * number}." if number else "Module." for number in range(20)]
    assert found == [
        name for start in wanted for name in (f"{start}0.Linear.forward.0", f"{start}1.ReLU.forward.0")
    ]


@pytest.mark.slow
def test_discovered_models_do_not_grow(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4))

    def step(run: Any) -> None:
        nn.MSELoss()(net(torch.ones(2, 4)), torch.ones(2, 4)).backward()
        nn.Sequential(nn.Linear(4, 4))(torch.ones(2, 4)).sum().backward()
        run.step()

    with ulpscope.capture(tmp_path, level="mix") as run:
        for _ in range(50):
            step(run)
        gc.collect()
        before = len(gc.get_objects())
        for _ in range(200):
            step(run)
        gc.collect()
        assert len(gc.get_objects()) - before < 50


class Refusing(nn.Module):
    """Fails when its parameters are listed."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("not these")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.mark.parametrize("is_given", [True, False])
def test_a_model_that_cannot_be_looked_into_runs_on(
    tmp_path: Path, is_given: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = Refusing()
    before = nn.Module.__call__
    with (
        caplog.at_level(logging.WARNING),
        ulpscope.capture(tmp_path, model=model if is_given else None, level="mix"),
    ):
        trained(model, times=3)
    note = "the names in Refusing: RuntimeError: not these"
    assert note in Captured(tmp_path).ledger["notes"]
    assert sum(note in record.getMessage() for record in caplog.records) == 1
    with (
        pytest.raises(RuntimeError, match="not these"),
        ulpscope.capture(tmp_path / "strict", model=model if is_given else None, level="mix", strict=True),
    ):
        trained(model)
    assert nn.Module.__call__ is before
