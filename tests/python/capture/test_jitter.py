"""A run with jitter: inputs differ by one unit, everything is restored, and how its dump compares."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16}


class Net(nn.Module):
    """Parameters, buffers of several kinds, a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        # The gradient of a bias in front of a normalisation cancels out: it is nothing but noise.
        self.first = nn.Linear(16, 16, bias=False)
        self.norm = nn.BatchNorm1d(16)
        self.second = nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.register_buffer("mask", torch.tensor([0.0, 1.0] * 8))
        self.register_buffer("cache", None)
        self.register_buffer("wave", torch.polar(torch.ones(4), torch.arange(4.0) + 1))

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor | None = None) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = self.second(x) * self.mask
        self.cache = x.detach().clone()
        return x if scale is None else x * scale


def program(seed: int = 0) -> tuple[Net, torch.optim.Optimizer, torch.Tensor]:
    torch.manual_seed(seed)
    model = Net()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(8, 16)


def bits(values: torch.Tensor) -> torch.Tensor:
    values = torch.view_as_real(values) if values.is_complex() else values
    return values.detach().view(BITS[values.element_size()]).clone()


def state(model: nn.Module) -> dict[str, Any]:
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: (id(values), bits(values)) for name, values in named.items()}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        one[name][0] == other[name][0] and torch.equal(one[name][1], other[name][1]) for name in one
    )


def train(dump_path: Path, jitter: int | None, steps: int = 2, **settings: Any) -> Net:
    model, optimizer, x = program()
    settings = {"level": "mix", "task": "tensor"} | settings
    scale = torch.tensor(3.0)
    with ulpscope.capture(dump_path, model=model, jitter=jitter, **settings) as run:
        for _ in range(steps):
            optimizer.zero_grad()
            model(x, scale=scale).square().mean().backward()
            optimizer.step()
            run.step()
    return model


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_element_becomes_a_neighbour(tmp_path, dtype):
    values = torch.randn(1000, generator=torch.Generator().manual_seed(1)).to(dtype)
    info = torch.finfo(dtype)
    special = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), info.max, info.min, 1.0, -2.0]
    values = torch.cat([values, torch.tensor(special, dtype=dtype)])
    # The smallest number there is: down from it is zero, which it must not become.
    values = torch.cat([values, torch.ones(1, dtype=BITS[values.element_size()]).view(dtype)])
    model = nn.Identity()
    model.register_buffer("values", values.clone())
    with ulpscope.capture(tmp_path, model=model, jitter=7):
        moved = model.values.clone()
    assert torch.equal(bits(model.values), bits(values))
    stays = (values == 0) | ~torch.isfinite(values)
    assert torch.equal(bits(moved)[stays], bits(values)[stays])
    steps = (bits(moved).to(torch.int64) - bits(values).to(torch.int64))[~stays]
    assert steps.abs().eq(1).all()
    assert torch.isfinite(moved[~stays]).all()
    assert moved[~stays].ne(0).all()
    share = steps.eq(1).double().mean()
    assert 0.4 < share < 0.6
    if dtype in (torch.float64, torch.float32):
        up, down = torch.full_like(values, torch.inf), torch.full_like(values, -torch.inf)
        beside = (moved == torch.nextafter(values, up)) | (moved == torch.nextafter(values, down))
        assert beside[~stays].all()


def test_inputs_of_the_model_differ_by_one_unit_and_are_restored(tmp_path):
    model, _, x = program()
    before, x_before = state(model), bits(x)
    seen: dict[str, Any] = {}

    class Look(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.update(state(model), x=bits(x))
            return self.net(x)

    with ulpscope.capture(tmp_path, model=(outer := Look()), level="L1", jitter=3):
        outer(x)
    for name, (_, was) in before.items():
        steps = (seen[name][1].to(torch.int64) - was.to(torch.int64)).abs()
        if name == "norm.num_batches_tracked":
            assert steps.max() == 0
        else:
            zero = was.to(torch.int64) == 0
            assert torch.equal(steps, (~zero).to(torch.int64)), name
    assert (seen["x"] - x_before).abs().eq(1).all()
    assert torch.equal(bits(x), x_before), "the program's own tensor is not touched"
    assert same(state(model), before)
    assert model.cache is None


def test_everything_is_put_back_after_training(tmp_path):
    before = state(program()[0])
    after = state(train(tmp_path, jitter=5, steps=3))
    assert {name: value[1].tolist() for name, value in after.items()} == {
        name: value[1].tolist() for name, value in before.items()
    }
    trained = state(train(tmp_path / "without", jitter=None, steps=3))
    assert not torch.equal(trained["first.weight"][1], after["first.weight"][1])


def broken(model: Net, x: torch.Tensor) -> None:
    model(x)
    raise KeyError("broken")


def replaced(model: Net, x: torch.Tensor) -> None:
    model.mask = torch.zeros(16)
    model.second.bias.data = torch.zeros(16, dtype=torch.float64)
    raise KeyError("broken")


@pytest.mark.parametrize("fault", [broken, replaced])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_everything_is_put_back_after_an_error(
    tmp_path: Path, fault: Callable[[Net, torch.Tensor], None], named: bool, level: str
) -> None:
    model, _, x = program()
    before = state(model)

    def fail() -> None:
        with ulpscope.capture(tmp_path, model=model if named else None, level=level, jitter=1):
            model(x)
            fault(model, x)

    with pytest.raises(KeyError, match="broken"):
        fail()
    assert same(state(model), before)
    assert model.cache is None
    assert "ulpscope" not in nn.Module.__call__.__module__


def test_a_pause_puts_nothing_back(tmp_path):
    model, _, x = program()
    before = state(model)
    run = ulpscope.capture(tmp_path, model=model, jitter=1)
    run.start()
    model(x)
    run.stop()
    # Between two starts the run goes on as it began.
    assert not torch.equal(state(model)["first.weight"][1], before["first.weight"][1])
    run.start()
    model(x)
    run.close()
    assert same(state(model), before)


def test_random_numbers_are_those_of_the_program(tmp_path):
    def drawn(jitter: int | None) -> torch.Tensor:
        model, _, x = program()
        with ulpscope.capture(tmp_path / str(jitter), model=model, jitter=jitter):
            model(x)
        return torch.cat([torch.rand(4), torch.get_rng_state().float()])

    assert torch.equal(drawn(None), drawn(9))


def numbers(dump: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(dump)): json.loads(path.read_text())["data"]
        for path in sorted(dump.rglob("dump.json"))
    }


@pytest.mark.parametrize("level", ["L1", "mix", "L2"])
def test_the_seed_says_which_way(tmp_path, level):
    for name, seed in (("one", 4), ("same", 4), ("other", 5), ("none", None)):
        train(tmp_path / name, jitter=seed, level=level, task="statistics")
    one, same, other, none = (numbers(tmp_path / name) for name in ("one", "same", "other", "none"))
    assert one == same
    assert one != other
    assert one != none
    # The same calls under the same names: nothing of the jitter itself is recorded.
    assert {step: list(calls) for step, calls in one.items()} == {
        step: list(calls) for step, calls in none.items()
    }


def test_gradients_of_arguments_reach_them(tmp_path):
    model, _, x = program()
    x.requires_grad_()
    with ulpscope.capture(tmp_path, model=model, jitter=2):
        model(x).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0


def test_errors_are_of_the_size_of_rounding(tmp_path):
    train(tmp_path / "golden", jitter=None, steps=1)
    train(tmp_path / "jittered", jitter=1, steps=1)
    golden, jittered = Captured(tmp_path / "golden"), Captured(tmp_path / "jittered")
    errors = {}
    for name, call in golden.calls.items():
        # What a step leaves in buffers has their names.
        output = call.get("output", [])
        places = output.items() if isinstance(output, dict) else enumerate(output)
        for number, item in places:
            other = jittered.calls[name]["output"][number]
            if item and item.get("data_name") and golden.tensor(item).is_floating_point():
                one, two = golden.tensor(item).double(), jittered.tensor(other).double()
                errors[f"{name}.{number}"] = float((one - two).norm() / one.norm())
    assert len(errors) > 10
    # The gradient of a mean is one over the number of elements, whatever they are.
    assert [name for name, error in errors.items() if error == 0] == ["Tensor.mean.0.backward.0"]
    # Some hundred roundings of float32 at most: 16 terms a sum, a dozen calls, a normalisation.
    assert max(errors.values()) < 200 * torch.finfo(torch.float32).eps, errors
    assert "jitter 1" in json.dumps(jittered.ledger)
    assert "jitter" not in json.dumps(golden.ledger)


def test_a_jittered_golden_is_the_noise_of_a_comparison(tmp_path):
    train(tmp_path / "golden", jitter=None)
    for seed in range(2):
        train(tmp_path / f"noise{seed}", jitter=seed)
    result = ulpscope.compare(tmp_path / "noise0", tmp_path / "golden", noise=tmp_path / "noise1")
    assert result.divergences == []
    assert any("noise floor measured" in note for note in result.notes), result.notes
    assert json.loads(result.to_json())["noise"] == str(tmp_path / "noise1")

    model, optimizer, x = program()
    scale = torch.tensor(3.0)
    with torch.no_grad():
        model.second.bias[3] += 0.01
    with ulpscope.capture(tmp_path / "faulty", model=model, level="mix", task="tensor") as run:
        optimizer.zero_grad()
        model(x, scale=scale).square().mean().backward()
        run.step()
    found = ulpscope.compare(tmp_path / "faulty", tmp_path / "golden", noise=tmp_path / "noise1", step=0)
    assert found.first_divergence is not None
    assert found.first_divergence.kind == "origin differs"
    assert "linear.1" in found.first_divergence.call or "second" in found.first_divergence.call


def test_noise_is_for_the_native_style(tmp_path):
    train(tmp_path / "golden", jitter=None, steps=1)
    with pytest.raises(ValueError, match="--noise is for the native style"):
        ulpscope.compare(tmp_path / "golden", tmp_path / "golden", noise=tmp_path / "golden", style="ptdbg-6")


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True, 2**32])
def test_a_seed_is_a_number(tmp_path, seed):
    with pytest.raises(ulpscope.SettingsError, match=r"jitter is .*; expected a seed from 0"):
        ulpscope.capture(tmp_path, jitter=seed)


@pytest.mark.slow
def test_a_script_is_run_with_jitter(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n"
        "torch.manual_seed(0)\n"
        "model = torch.nn.Linear(4, 4)\n"
        "before = model.weight.detach().clone()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(2):\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    moved = not torch.equal(before, model.weight)\n"
        "    optimizer.step()\n"
        "print(moved, torch.equal(before, model.weight))\n"
    )
    words = ["run", "--dump-path", tmp_path / "dump", "--step", "0-1", "--jitter", "3", "--", script]
    command = [sys.executable, "-m", "ulpscope", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    # The last wanted step is over with the second step of the optimizer.
    assert ran.stdout == "True True\n", ran.stderr
