"""Task overflow_check: the call where NaN or infinity begins is named and written while the program runs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

import ulpscope


class Checked:
    """What a check of some calls leaves."""

    def __init__(self, folder: Path, run: Callable[[], Any], **settings: Any) -> None:
        keywords = {"overflow_nums": -1, "strict": True, **settings}
        with ulpscope.capture(folder, task="overflow_check", **keywords) as capture:
            run()
            capture.step()
            self.overflows = capture.overflows
        self.folder = folder / "step0" / "rank"
        dump = self.folder / "dump.json"
        self.calls: dict[str, Any] = json.loads(dump.read_text())["data"] if dump.exists() else {}
        ledger = self.folder / "ledger.json"
        self.ledger: dict[str, Any] = json.loads(ledger.read_text()) if ledger.exists() else {}

    @property
    def names(self) -> list[str]:
        return list(self.calls)

    @property
    def notes(self) -> list[str]:
        return [note for note in self.ledger.get("notes", []) if note.startswith("overflow: ")]

    def tensor(self, entry: str) -> Tensor:
        found = ulpscope.load(f"{self.folder}:{entry}", "torch")
        assert isinstance(found, Tensor)
        return found


def test_nothing_is_written_while_nothing_is_wrong(tmp_path: Path) -> None:
    def run() -> None:
        x = torch.linspace(-1, 1, 12, requires_grad=True).reshape(3, 4)
        F.linear(x, torch.ones(2, 4)).relu().sum().backward()

    found = Checked(tmp_path / "dump", run)
    assert (found.overflows, found.names) == ([], [])
    assert [
        path for path in (tmp_path / "dump").rglob("*") if path.is_file() and path.suffix != ".lock"
    ] == []


def test_the_call_where_infinity_begins_is_written_in_full(tmp_path: Path) -> None:
    x = torch.full((3,), 1e30)

    def run() -> None:
        big = torch.mul(x, 1e5)
        huge = torch.mul(big, 1e5)
        torch.add(huge, 1.0)

    found = Checked(tmp_path, run)
    assert [one.call for one in found.overflows] == ["Torch.mul.1.forward"]
    assert found.names == ["Torch.mul.1.forward"]
    assert torch.equal(found.tensor("Torch.mul.1.forward.input.0"), torch.full((3,), 1e30) * 1e5)
    assert found.tensor("Torch.mul.1.forward.output.0").isinf().all()
    (stack,) = json.loads((found.folder / "stack.json").read_text()).values()
    assert "in run" in json.dumps(stack)
    assert found.notes == [
        "overflow: 1 calls returned NaN or infinity that their inputs do not have; the first is "
        "Torch.mul.1.forward",
        "overflow: 1 calls returned infinity that was among their inputs; the first is Torch.add.0.forward",
    ]
    assert found.ledger["seen"] == 3
    assert found.ledger["skipped"] == {"in range": 1, "passed infinity on": 1}


def test_names_are_those_of_a_recording(tmp_path: Path) -> None:
    def run() -> None:
        x = torch.full((3,), 1e38)
        x + 1
        x.add(1)
        y = x * 1
        y *= 1e38
        2 * x
        x * 1e38

    found = Checked(tmp_path / "check", run)
    with ulpscope.capture(tmp_path / "all") as capture:
        run()
        capture.step()
    everything = json.loads((tmp_path / "all" / "step0" / "rank" / "dump.json").read_text())["data"]
    bad = [
        name
        for name, call in everything.items()
        if any(one["Max"] == "inf" or one["Max"] == float("inf") for one in call["output"])
    ]
    assert len(bad) == 2
    assert found.names == bad


def test_a_value_that_is_passed_on_purpose_is_no_overflow(tmp_path: Path) -> None:
    def run() -> None:
        mask = torch.tensor([True, False])
        torch.zeros(2).masked_fill(mask, float("-inf"))
        torch.full((2,), float("inf"))
        torch.full((2,), torch.finfo(torch.float16).min, dtype=torch.float16)
        torch.zeros(2).masked_fill(mask, torch.finfo(torch.float32).min)
        torch.empty(64).view(torch.int32).fill_(-1)

    found = Checked(tmp_path, run)
    assert (found.overflows, found.names) == ([], [])


def test_nan_of_infinities_is_an_origin(tmp_path: Path) -> None:
    """Every element of a row is masked: the mask is right, its softmax is not."""
    mask = torch.full((2,), float("-inf"))
    found = Checked(tmp_path, lambda: F.softmax(mask + 1, dim=0))
    assert [one.call for one in found.overflows] == ["Functional.softmax.0.forward"]


def test_what_comes_from_outside_is_shown_once(tmp_path: Path) -> None:
    x = torch.tensor([1.0, float("nan")])
    found = Checked(tmp_path, lambda: [x + 1, x + 2])
    assert found.overflows == []
    assert found.names == ["Tensor.__add__.0.forward"]


def test_saturation_is_shown_and_does_not_count(tmp_path: Path) -> None:
    x = torch.full((2,), 65504.0)
    found = Checked(tmp_path, lambda: [x.half(), (x + 0.5).half()], overflow_nums=1)
    assert found.overflows == []
    assert found.names == ["Tensor.half.0.forward"]
    assert found.notes == [
        "overflow: 2 calls returned the largest number of their dtype; the first is Tensor.half.0.forward"
    ]


def in_place(x: Tensor, y: Tensor) -> None:
    y.div_(x)


def into_out(x: Tensor, y: Tensor) -> None:
    torch.div(torch.ones(2), x, out=y)


def by_operator(x: Tensor, y: Tensor) -> None:
    y /= x


def by_assignment(x: Tensor, y: Tensor) -> None:
    y[0] = 1 / x[0]


def in_lists(x: Tensor, y: Tensor) -> None:
    torch._foreach_div_([y, torch.ones(2)], [x, x])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (in_place, "Tensor.div_.0.forward"),
        (into_out, "Torch.div.0.forward"),
        (by_operator, "Tensor.__idiv__.0.forward"),
        (in_lists, "Torch._foreach_div_.0.forward"),
    ],
)
def test_a_call_that_changes_its_argument(
    change: Callable[[Tensor, Tensor], None], name: str, tmp_path: Path
) -> None:
    """Whether the damage was there before is known, although the argument is gone."""
    found = Checked(tmp_path / "born", lambda: change(torch.zeros(2), torch.ones(2)))
    assert [one.call for one in found.overflows] == [name]
    if change is not into_out:
        assert any("as it is after the call" in note for note in found.notes)
        damaged = torch.full((2,), float("inf"))
        found = Checked(tmp_path / "inherited", lambda: change(torch.ones(2), damaged))
        assert (found.overflows, found.names) == ([], [])


def test_an_argument_that_was_changed_is_marked(tmp_path: Path) -> None:
    """Its recorded value is that after the call: the call is still an origin, and is not replayed."""
    x = torch.full((3,), 300.0, dtype=torch.float16)
    found = Checked(tmp_path, lambda: x.mul_(torch.full((3,), 300.0, dtype=torch.float16)))
    (call,) = found.calls.values()
    changed, other = call["input_args"]
    assert changed["changed"] is True
    assert "changed" not in other
    assert "changed" not in call["output"][0]
    named = run_command("overflow", str(tmp_path))
    assert (named.returncode, "Tensor.mul_.0.forward returns infinity" in named.stdout) == (1, True)
    checked = run_command("check", str(tmp_path), "-o", str(tmp_path / "out"))
    assert "an argument was recorded after the call changed it" in checked.stdout + checked.stderr


def run_command(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ulpscope", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_assigning_to_a_part(tmp_path: Path) -> None:
    found = Checked(tmp_path / "passed on", lambda: by_assignment(torch.zeros(2), torch.ones(2)))
    assert len(found.overflows) == 1
    assert "div" in found.overflows[0].call
    whole = torch.tensor([0.0, float("nan")])
    found = Checked(tmp_path / "elsewhere", lambda: by_assignment(torch.ones(2), whole))
    assert found.overflows == []


def test_a_large_parameter_that_was_damaged_between_two_steps(tmp_path: Path) -> None:
    """A tensor that was in range is not read again before each change, unless it has changed meanwhile."""
    weight = torch.ones(1 << 16)
    with ulpscope.capture(tmp_path, task="overflow_check", overflow_nums=-1) as capture:
        weight.add_(1)
        weight.add_(1)
        capture.stop()
        weight[3] = float("nan")
        capture.start()
        weight.add_(1)
        assert capture.overflows == []
        weight.fill_(1.0)
        weight.div_(torch.zeros(1 << 16))
        assert [one.call for one in capture.overflows] == ["Tensor.div_.0.forward"]


def test_the_backward_call_where_it_begins(tmp_path: Path) -> None:
    x = torch.zeros(2, requires_grad=True)
    found = Checked(tmp_path, lambda: (torch.sqrt(x) * 3).sum().backward())
    assert [one.call for one in found.overflows] == ["Torch.sqrt.0.backward"]
    call = found.calls["Torch.sqrt.0.backward"]
    assert [len(call[side]) for side in ("input", "output")] == [1, 1]
    assert found.tensor("Torch.sqrt.0.backward.input.0").tolist() == [3, 3]
    assert found.tensor("Torch.sqrt.0.backward.output.0").isinf().all()


def test_a_function_with_several_nodes(tmp_path: Path) -> None:
    """Its inner nodes are watched, too: the loss is a log_softmax, and a gather of it."""
    x = torch.tensor([[3e38, 0.0]], requires_grad=True)

    def run() -> None:
        loss = F.cross_entropy(x * 1, torch.tensor([0]), reduction="sum")
        (loss * 3e38 * 1e-38 * 1e38 * 1e-38).backward(torch.tensor(float("1e38")))

    found = Checked(tmp_path, run)
    assert all(name.endswith(("forward", "backward")) for name in found.names)
    direct = Checked(
        tmp_path / "b", lambda: F.normalize(torch.zeros(2, 2, requires_grad=True), eps=0.0).sum().backward()
    )
    assert direct.overflows[0].call.startswith("Functional.normalize.0")


def test_the_number_of_overflows_ends_the_run(tmp_path: Path) -> None:
    x = torch.full((2,), 3e38)
    seen = []

    def train() -> None:
        with ulpscope.capture(tmp_path, task="overflow_check", overflow_nums=2):
            for number in range(5):
                seen.append(number)
                x * 2

    message = r"^\[overflow 2 times\]: dump file is saved in '.*step0/rank'\.$"
    with pytest.raises(ulpscope.OverflowLimitError, match=message):
        train()
    assert seen == [0, 1]
    dump = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())
    assert list(dump["data"]) == ["Tensor.__mul__.0.forward", "Tensor.__mul__.1.forward"]
    assert issubclass(ulpscope.OverflowLimitError, ValueError)


def test_an_overflow_in_the_backward_pass_ends_the_run(tmp_path: Path) -> None:
    x = torch.zeros(2, requires_grad=True)
    with (
        pytest.raises(ulpscope.OverflowLimitError, match=r"\[overflow 1 times\]"),
        ulpscope.capture(tmp_path, task="overflow_check"),
    ):
        torch.sqrt(x).sum().backward()


def test_only_the_check_may_end(tmp_path: Path) -> None:
    """As in msprobe: after the number nothing more is recorded, and the run goes on."""
    x = torch.full((2,), 3e38)
    with ulpscope.capture(tmp_path, task="overflow_check", overflow_nums=2, on_overflow="stop") as capture:
        for _ in range(2):
            for _ in range(5):
                x * 2
            capture.step()
        assert len(capture.overflows) == 2
    assert [path.name for path in tmp_path.glob("step*")] == ["step0"]


def test_modules_at_level_l0(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    with torch.no_grad():
        model[0].weight.fill_(3e38)
    found = Checked(tmp_path, lambda: model(torch.full((1, 2), 10.0)), level="L0", model=model)
    assert found.names == ["Module.0.Linear.forward.0"]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_what_contains_the_origin_is_no_second_one(level: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU()))
    with torch.no_grad():
        model[0][0].weight.fill_(3e38)
    found = Checked(tmp_path, lambda: model(torch.full((1, 2), 10.0)), level=level, model=model)
    expected = {"L0": "Module.0.0.Linear.forward.0", "mix": "Functional.linear.0.forward"}[level]
    assert [one.call for one in found.overflows] == [expected]
    assert found.names == [expected]


def test_selected_calls_only(tmp_path: Path) -> None:
    x = torch.full((2,), 3e38)
    found = Checked(tmp_path, lambda: [x * 2, torch.exp(x)], call=["Torch.*"])
    assert found.names == ["Torch.exp.0.forward"]


def test_config_json_ends_the_check_as_msprobe_does(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    section = {"overflow_nums": 1, "check_mode": "all"}
    config.write_text(
        json.dumps({"task": "overflow_check", "dump_path": str(tmp_path / "dump"), "overflow_check": section})
    )
    debugger = ulpscope.PrecisionDebugger(str(config))
    try:
        debugger.start()
        for _ in range(3):
            torch.full((2,), 3e38) * 2
        debugger.stop()
        debugger.step()
    finally:
        ulpscope.PrecisionDebugger.close()
    dump = json.loads((tmp_path / "dump" / "step0" / "rank" / "dump.json").read_text())
    assert list(dump["data"]) == ["Tensor.__mul__.0.forward"]
    assert dump["task"] == "overflow_check"
    (entry,) = dump["data"]["Tensor.__mul__.0.forward"]["output"]
    assert (tmp_path / "dump" / "step0" / "rank" / "dump_tensor_data" / entry["data_name"]).exists()


def test_values_that_another_dtype_would_lose(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 70000.0, 1e-9, 0.0, -65504.0, 65520.0, 2e-8])
    found = Checked(tmp_path, lambda: [x * 1, x * 0], would_overflow="float16")
    assert found.overflows == []
    with (found.folder / "would_overflow.csv").open() as file:
        (row,) = csv.DictReader(file)
    half = x[x != 0].half()
    assert row["call"] == "Tensor.__mul__.0.forward"
    assert int(row["values"]) == len(half)
    assert int(row["overflows"]) == int(half.isinf().sum()) == 2
    assert int(row["underflows"]) == int((half == 0).sum()) == 2
    assert float(row["overflow share"]) == pytest.approx(2 / 6, rel=1e-5)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_lost_values_are_those_of_torchs_conversion(dtype: str, tmp_path: Path) -> None:
    x = torch.logspace(-45, 38, 3000, dtype=torch.float64).float()
    found = Checked(tmp_path, lambda: x * 1, would_overflow=dtype)
    with (found.folder / "would_overflow.csv").open() as file:
        (row,) = csv.DictReader(file)
    x = x[x != 0]
    lost = x.to(getattr(torch, dtype)).float()
    assert (int(row["overflows"]), int(row["underflows"])) == (
        int((~lost.isfinite()).sum()),
        int((lost == 0).sum()),
    )


def test_a_step_that_the_loss_scaler_skips_does_not_count(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    # The first steps overflow when the loss is multiplied, the next ones in the backward pass.
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1000)
    with ulpscope.capture(tmp_path, task="overflow_check") as capture:
        for _ in range(16):
            loss = model(torch.full((1, 2), 1e2)).square().sum()
            optimizer.zero_grad()
            scaler.scale(loss * 1e-1).backward()
            scaler.step(optimizer)
            scaler.update()
            capture.step()
        skipped = capture.overflows
    assert skipped
    assert not any(one.counted for one in skipped)
    assert {one.call.rpartition(".")[2] for one in skipped} == {"forward", "backward"}
    notes = [
        note
        for file in sorted(tmp_path.rglob("ledger.json"))
        for note in json.loads(file.read_text())["notes"]
        if "loss scaler skips" in note
    ]
    assert notes
    assert vars(torch.amp.GradScaler)["update"].__qualname__ == "GradScaler.update"


def test_an_overflow_that_the_loss_scaler_does_not_see_counts(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    hidden = torch.zeros(1, requires_grad=True)
    with ulpscope.capture(tmp_path, task="overflow_check") as capture:
        loss = model(torch.ones(1, 2)).sum() + torch.sqrt(hidden).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        assert capture.overflows == []
        with pytest.raises(ulpscope.OverflowLimitError):
            scaler.update()


def test_the_flag_of_an_npu_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a chip that saturates, results do not show an overflow. The stand-in's flag is set by the test."""
    calls: list[str] = []
    is_set = [True]

    def check() -> bool:
        calls.append("check")
        return is_set[0]

    def clear() -> None:
        calls.append("clear")
        is_set[0] = False

    torch_npu = SimpleNamespace(_C=SimpleNamespace(_check_overflow_npu=check, _clear_overflow_npu=clear))
    monkeypatch.setitem(sys.modules, "torch_npu", torch_npu)
    x = torch.ones(2, requires_grad=True)

    def run() -> None:
        y = torch.relu(x)
        is_set[0] = True
        y = torch.tanh(y)
        total = torch.sum(y)
        y.register_hook(lambda gradient: is_set.__setitem__(0, True))
        total.backward()

    found = Checked(tmp_path, run)
    assert [one.call for one in found.overflows] == ["Torch.tanh.0.forward", "Torch.tanh.0.backward"]
    assert found.names == ["Torch.tanh.0.forward", "Torch.tanh.0.backward"]
    # What was set before the check is not for its first call.
    assert calls[:2] == ["clear", "check"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"task": "overflow_check", "overflow_nums": 0},
            "overflow_nums is 0; expected a number above 0, or -1",
        ),
        ({"task": "overflow_check", "overflow_nums": "3"}, "overflow_nums is '3'"),
        ({"task": "overflow_check", "would_overflow": "int8"}, "would_overflow is 'int8'; expected one of"),
        (
            {"task": "overflow_check", "on_overflow": "end"},
            "on_overflow is 'end'; expected one of raise, stop",
        ),
        ({"task": "overflow_check", "check_mode": "none"}, "check_mode is 'none'"),
        ({"task": "overflow_check", "level": "debug"}, "level is 'debug'"),
        (
            {"would_overflow": "float16"},
            "would_overflow is for task overflow_check, but task is 'statistics'",
        ),
        ({"overflow_nums": 3}, "overflow_nums is for task overflow_check"),
        ({"task": "overflow_check", "estimate": True}, "writes nothing until a call overflows"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ulpscope.SettingsError, match=message):
        ulpscope.capture(tmp_path, **settings)
