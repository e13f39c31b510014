"""Functions of torch that a program has replaced by its own do what they do without capture, and once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import ulpscope

PLACES: list[tuple[Any, str, Callable[[Tensor], Tensor], str]] = [
    (F, "relu", nn.ReLU(), "Functional.relu.0.forward"),
    (F, "layer_norm", nn.LayerNorm(4), "Functional.layer_norm.0.forward"),
    (
        F,
        "cross_entropy",
        lambda x: nn.CrossEntropyLoss()(x, torch.arange(len(x))),
        "Functional.cross_entropy.0.forward",
    ),
    (Tensor, "relu", lambda x: x.relu(), "Tensor.relu.0.forward"),
    (Tensor, "norm", lambda x: x.norm(), "Tensor.norm.0.forward"),
]


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize(("place", "name", "program", "call"), PLACES, ids=[place[3] for place in PLACES])
def test_a_function_in_the_place_of_torchs_runs_once(
    place: Any,
    name: str,
    program: Callable[[Tensor], Tensor],
    call: str,
    moment: str,
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, runs = getattr(place, name), 0

    def doubled(*args: Any, **kwargs: Any) -> Tensor:
        nonlocal runs
        runs += 1
        result: Tensor = original(*args, **kwargs) * 2
        return result

    torch.manual_seed(0)
    x = torch.randn(3, 4)
    wanted = program(x) * 2
    if moment == "before":
        monkeypatch.setattr(place, name, doubled)
    with ulpscope.capture(tmp_path / "dump", level=level):
        if moment == "meanwhile":
            monkeypatch.setattr(place, name, doubled)
        made = program(x)
    assert torch.equal(made, wanted)
    assert runs == 1
    if level in ("L1", "mix"):
        (dump,) = (tmp_path / "dump").rglob("dump.json")
        assert call in json.loads(dump.read_text())["data"]


def test_a_block_sees_what_the_modes_around_it_make_of_a_call(tmp_path: Path) -> None:
    class Doubled(TorchFunctionMode):
        """Sines of twice the size."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.sin else result

    with Doubled(), ulpscope.capture(tmp_path / "dump", task="tensor", file_format="pt"):
        made = torch.sin(torch.ones(3))
    (recorded,) = (tmp_path / "dump").rglob("Torch.sin.0.forward.output.0.pt")
    assert torch.equal(torch.load(recorded), made)
