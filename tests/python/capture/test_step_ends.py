"""What a step leaves behind and no call returned, and gradients of the model's own parameters."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope


class Net(nn.Module):
    def __init__(self, last: Callable[[Tensor], Any] = lambda x: x) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.scale, self.last = nn.Linear(4, 4), nn.Parameter(torch.rand(4)), last

    def forward(self, x: Tensor) -> Any:
        return self.last(self.first(x) * self.scale)


def calls(path: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((path / f"step{step}" / "rank" / "dump.json").read_text())["data"]  # type: ignore[no-any-return]


def assigned(x: Tensor) -> Tensor:
    x[0] = 5.0
    return x


def test_a_result_is_recorded_as_it_stands_at_the_end(tmp_path: Path) -> None:
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net()), level="mix"):
        result = net(torch.ones(2, 4))
        result[0] = 7.0
    record = calls(tmp_path)["Returned.step_end.0"]["output"]["0"]
    assert (record["Max"], record["shape"]) == (7.0, [2, 4])
    assert record["Norm"] == pytest.approx(result.double().norm().item())
    assert record["source"] == "Tensor.__setitem__.0.forward.input.0"


def test_one_that_is_written_into_twice_is_recorded_twice(tmp_path: Path) -> None:
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net(assigned)), level="mix"):
        result = net(torch.ones(2, 4))
        result[1] = 9.0
    recorded = calls(tmp_path)
    assert [recorded[f"Returned.step_end.{n}"]["output"]["0"]["Max"] for n in (0, 1)] == [5.0, 9.0]


def test_one_that_is_freed_is_recorded_when_it_was_returned(tmp_path: Path) -> None:
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net(assigned)), level="mix"):
        net(torch.ones(2, 4))
        gc.collect()
    assert calls(tmp_path)["Returned.step_end.0"]["output"]["0"]["Max"] == 5.0


@pytest.mark.parametrize(
    "last", [lambda x: x, lambda x: x.mul_(2), torch.relu_], ids=["as it is", "mul_", "relu_"]
)
def test_what_a_call_returned_is_not_recorded_again(last: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net(last)), level="mix"):
        net(torch.ones(2, 4))
    assert not any("step_end" in call for call in calls(tmp_path))


def test_buffers_that_a_step_changes(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.BatchNorm1d(4))
    net[2].eval()
    with ulpscope.capture(tmp_path, model=net, level="mix", task="tensor") as run:
        net(torch.arange(8.0).reshape(2, 4))
        run.step()
        net[1].eval()
        net(torch.arange(8.0).reshape(2, 4))
    buffers = calls(tmp_path)["Buffers.step_end.0"]["output"]
    assert sorted(buffers) == ["1.running_mean", "1.running_var"]
    mean = net[1].running_mean
    assert isinstance(mean, Tensor)
    assert buffers["1.running_mean"]["Norm"] == pytest.approx(mean.double().norm().item())
    assert buffers["1.running_mean"]["source"].startswith("Functional.batch_norm.0.forward.input.")
    assert not any("step_end" in call for call in calls(tmp_path, 1))


def test_gradients_of_the_models_own_parameters(tmp_path: Path) -> None:
    net = Net()
    with ulpscope.capture(tmp_path, model=net, level="mix"):
        net(torch.ones(2, 4)).sum().backward()
    assert net.scale.grad is not None
    recorded = calls(tmp_path)["Module.Module.parameters_grad.0"]["scale"][0]
    assert recorded["Norm"] == pytest.approx(net.scale.grad.double().norm().item())
    assert net.scale._post_accumulate_grad_hooks is None


def ledger(path: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((path / f"step{step}" / "rank" / "ledger.json").read_text())  # type: ignore[no-any-return]


def test_the_ledger_says_what_models_returned(tmp_path: Path) -> None:
    net = Net(lambda x: {"all": (x, x.relu()), "none": None})
    with torch.no_grad(), ulpscope.capture(tmp_path, model=net, level="mix"):
        net(torch.ones(2, 4))
        net(torch.ones(2, 4)).clear()
        torch.ones(2).exp()
    recorded = list(calls(tmp_path))
    returned = ledger(tmp_path)["returned"]
    assert [entry["results"] for entry in returned] == [
        {
            f"{n}.all.0": f"Tensor.__mul__.{n}.forward.output.0",
            f"{n}.all.1": f"Tensor.relu.{n}.forward.output.0",
        }
        for n in (0, 1)
    ]
    # How many calls there were by then.
    assert [recorded[entry["calls"] - 1] for entry in returned] == [
        "Tensor.relu.0.forward",
        "Tensor.relu.1.forward",
    ]
    assert recorded[-1] == "Tensor.exp.0.forward"


def test_what_was_given_to_a_model_is_no_result_of_a_call(tmp_path: Path) -> None:
    given = torch.ones(2, 4)
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net(lambda x: (given, x))), level="mix"):
        net(given)
    (returned,) = ledger(tmp_path)["returned"]
    assert returned["results"] == {"0.0": None, "0.1": "Tensor.__mul__.0.forward.output.0"}


def test_each_step_has_its_own_results(tmp_path: Path) -> None:
    with torch.no_grad(), ulpscope.capture(tmp_path, model=(net := Net()), level="mix") as run:
        net(torch.ones(2, 4))
        run.step()
        torch.ones(2).exp()
    assert len(ledger(tmp_path)["returned"]) == 1
    assert "returned" not in ledger(tmp_path, 1)


def test_a_step_with_too_many_results_has_none(tmp_path: Path) -> None:
    net = Net(lambda x: [x] * 6_000)
    with torch.no_grad(), ulpscope.capture(tmp_path, model=net, level="mix"):
        net(torch.ones(2, 4))
        net(torch.ones(2, 4))
    assert "returned" not in ledger(tmp_path)


def test_selected_calls_have_no_such_records(tmp_path: Path) -> None:
    with (
        torch.no_grad(),
        ulpscope.capture(
            tmp_path, model=(net := Net(assigned)), level="mix", list=["Functional.linear.0.forward"]
        ),
    ):
        net(torch.ones(2, 4))
    assert not any("step_end" in call for call in calls(tmp_path))
    assert "returned" not in ledger(tmp_path)
