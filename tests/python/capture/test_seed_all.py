"""seed_all: the same numbers again, kernels that repeat, and dropout out of the way until it is back."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import dropout as dropout_imported_before

import ulpscope

DROPOUTS = [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout]
FUNCTIONS = [
    functional.dropout,
    functional.dropout1d,
    functional.dropout2d,
    functional.dropout3d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
]
SHAPES = {"Dropout1d": (4, 64, 8), "Dropout2d": (4, 64, 2, 2), "Dropout3d": (4, 64, 2, 2, 2)}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """What a test changes in torch and the environment is put back."""
    names = ("PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "HCCL_DETERMINISTIC")
    environment = {name: os.environ.get(name) for name in names}
    cudnn = torch.backends.cudnn
    flags = (cudnn.enabled, cudnn.deterministic, cudnn.benchmark)
    yield
    ulpscope.seed_all().restore()
    torch.use_deterministic_algorithms(False)
    cudnn.enabled, cudnn.deterministic, cudnn.benchmark = flags
    for name, value in environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def draw() -> list[float]:
    return [random.random(), float(numpy.random.rand()), float(torch.rand(()))]


def ones(kind: str) -> torch.Tensor:
    return torch.ones(SHAPES.get(kind, (4, 64)), requires_grad=True)


def test_the_same_seed_gives_the_same_numbers() -> None:
    ulpscope.seed_all(7)
    first = draw()
    ulpscope.seed_all(7)
    assert draw() == first
    ulpscope.seed_all(8)
    assert all(a != b for a, b in zip(draw(), first, strict=True))
    assert os.environ["PYTHONHASHSEED"] == "8"


def test_the_seed_is_1234_where_none_is_given() -> None:
    ulpscope.seed_all()
    first = draw()
    ulpscope.seed_all(seed=1234, mode=False, rm_dropout=False)
    assert draw() == first


def test_numpy_is_not_imported_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy")
    ulpscope.seed_all()
    assert "numpy" not in sys.modules


def test_mode_makes_kernels_deterministic_and_turns_cudnn_off() -> None:
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    torch.backends.cudnn.benchmark = True
    ulpscope.seed_all(mode=False)
    assert not torch.are_deterministic_algorithms_enabled()
    ulpscope.seed_all(mode=True)
    cudnn = torch.backends.cudnn
    assert torch.are_deterministic_algorithms_enabled()
    assert (cudnn.enabled, cudnn.deterministic, cudnn.benchmark) == (False, True, False)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert os.environ["HCCL_DETERMINISTIC"] == "True"


@pytest.mark.parametrize(("before", "after"), [(":16:8", ":16:8"), (":0:0", ":4096:8")])
def test_a_workspace_that_will_do_is_kept(before: str, after: str) -> None:
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = before
    ulpscope.seed_all(mode=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == after


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1; expected a number from 0 to 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296; expected"),
        ({"seed": "7"}, "seed is '7'; expected"),
        ({"seed": True}, "seed is True; expected"),
        ({"mode": 1}, "mode is 1; expected True or False"),
        ({"rm_dropout": None}, "rm_dropout is None; expected True or False"),
    ],
)
def test_errors_name_the_argument(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ulpscope.seed_all(**arguments)


@pytest.mark.parametrize("kind", DROPOUTS)
@pytest.mark.parametrize("inplace", [False, True])
def test_dropout_modules_do_nothing_until_restored(kind: Any, inplace: bool) -> None:
    module = kind(0.5, inplace=inplace)
    x = ones(kind.__name__)
    seeded = ulpscope.seed_all(rm_dropout=True)
    state = torch.get_rng_state()
    y = module(x * 1)
    y.sum().backward()
    assert torch.equal(y, x)
    assert torch.equal(x.grad, torch.ones_like(x))
    assert torch.equal(torch.get_rng_state(), state), "no random number is drawn"
    assert (module.p, module.training) == (0.5, True)
    seeded.restore()
    assert not torch.equal(module(x * 1), x)


@pytest.mark.parametrize("function", [*FUNCTIONS, dropout_imported_before])
def test_dropout_functions_do_nothing_until_restored(function: Any) -> None:
    x = ones(f"Dropout{function.__name__.removeprefix('dropout')}")
    with ulpscope.seed_all(rm_dropout=True):
        assert torch.equal(function(x, p=0.5, training=True), x)
    assert not torch.equal(function(x, p=0.5, training=True), x)


def test_bad_probabilities_are_still_refused() -> None:
    ulpscope.seed_all(rm_dropout=True)
    with pytest.raises(ValueError, match="probability"):
        functional.dropout(torch.ones(2), p=2.0)


def test_afterwards_torch_is_as_before() -> None:
    before = dict(vars(torch._VF)), {name: getattr(functional, name) for name in dir(functional)}
    for _ in range(3):
        seeded = ulpscope.seed_all(rm_dropout=True)
    assert functional.dropout is before[1]["dropout"]
    seeded.restore()
    seeded.restore()
    assert (dict(vars(torch._VF)), {name: getattr(functional, name) for name in dir(functional)}) == before


def test_dropout_is_out_in_every_thread() -> None:
    x = torch.ones(1000)
    seen: list[bool] = []
    with ulpscope.seed_all(rm_dropout=True):
        thread = threading.Thread(target=lambda: seen.append(torch.equal(functional.dropout(x), x)))
        thread.start()
        thread.join()
    assert seen == [True]


def test_dropout_is_out_under_torch_compile() -> None:
    x = torch.ones(1000)
    with ulpscope.seed_all(rm_dropout=True):
        compiled = torch.compile(lambda x: nn.Dropout(0.5)(x) * 2, backend="eager")
        assert torch.equal(compiled(x), x * 2)


def drops() -> bool:
    x = torch.ones(1000)
    return not torch.equal(functional.dropout(x), x)


def test_it_comes_and_goes_with_capture_until_restored(tmp_path: Path) -> None:
    seeded = ulpscope.seed_all(rm_dropout=True)
    run = ulpscope.capture(tmp_path)
    seen = [drops()]
    for _ in range(2):
        run.start()
        seen.append(drops())
        run.stop()
        seen.append(drops())
    run.close()
    seeded.restore()
    run = ulpscope.capture(tmp_path)
    with run:
        seen.append(drops())
    assert seen == [False, False, True, False, True, True]


def test_it_is_out_in_every_capture(tmp_path: Path) -> None:
    seen = []
    with ulpscope.seed_all(rm_dropout=True):
        for name in ("first", "second"):
            with ulpscope.capture(tmp_path / name):
                seen.append(drops())
    assert seen == [False, False]


def test_it_works_again_after_the_last_wanted_step(tmp_path: Path) -> None:
    with ulpscope.seed_all(rm_dropout=True), ulpscope.capture(tmp_path, step=[0]) as run:
        seen = [drops()]
        run.step()
        seen.append(drops())
        run.stop()
        run.start()
        seen.append(drops())
    assert seen == [False, True, True]
