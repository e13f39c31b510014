"""What the ledger says of calls that are not in the dump, and why recording ended."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import ulpscope
from captured import Captured, Net, capture_of

LIMIT = 100_000


def parts_of(ledger: dict[str, Any]) -> int:
    """What became of the calls that were seen, all in all."""
    return ledger["recorded"] + sum(sum(ledger[kind].values()) for kind in ("raised", "skipped", "failed"))


def trained(net: torch.nn.Module, x: torch.Tensor) -> Any:
    """A program with calls of every kind: twice walked, in place, views, one that raises."""

    def program() -> None:
        made = net(x)
        first, second = made[:2], made[2:]
        first.mul_(2)
        with pytest.raises(RuntimeError):
            torch.mm(first, first)
        loss = (first * second).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    return program


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_as_much_is_seen_whatever_is_selected(tmp_path: Path, level: str) -> None:
    x = torch.randn(4, 4)
    selections: list[dict[str, Any]] = [
        {},
        {"list": ["linear"]},
        {"list": ["no such call"]},
        {"list": ["layers.1"]},
        {"step": [0]},
    ]
    if level == "L1":
        selections += [
            {"scope": ["Torch.tanh.0.forward", "Functional.linear.1.forward"]},
            {"scope": ["Torch.tanh.2.backward", "Torch.tanh.0.backward"]},
        ]
    seen = {}
    for number, selection in enumerate(selections):
        net = Net()
        place = tmp_path / str(number)
        found = capture_of(place, trained(net, x), model=net, level=level, **selection)
        ledger = found.ledger
        assert parts_of(ledger) == ledger["seen"], selection
        assert len(found.calls) == ledger["recorded"] + sum(ledger["raised"].values())
        assert "began as the step ended" not in ledger["skipped"]
        seen[str(selection)] = ledger["seen"]
    assert len(set(seen.values())) == 1, seen


def test_what_is_not_selected_has_no_backward_call(tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)
    found = capture_of(tmp_path, lambda: x.exp().sin().sum().backward(), list=["sin"])
    assert list(found.calls) == ["Tensor.sin.0.forward", "Tensor.sin.0.backward"]
    assert found.ledger["skipped"] == {"not selected": 4}


def test_calls_that_raise_are_counted_separately(tmp_path: Path) -> None:
    x = torch.ones(2, 3)

    def program() -> None:
        for _ in range(2):
            with pytest.raises(RuntimeError):
                torch.mm(x, x)
        with pytest.raises(IndexError):
            torch.softmax(x, dim=7)
        torch.sin(x)

    found = capture_of(tmp_path, program)
    ledger = found.ledger
    assert ledger["raised"] == {"Torch.mm: RuntimeError": 2, "Torch.softmax: IndexError": 1}
    assert (ledger["seen"], ledger["recorded"]) == (4, 1)
    without_results = [name for name, call in found.calls.items() if "output" not in call]
    assert without_results == ["Torch.mm.0.forward", "Torch.mm.1.forward", "Torch.softmax.0.forward"]


def test_a_module_that_raises_is_counted(tmp_path: Path) -> None:
    net, x = torch.nn.Sequential(torch.nn.Linear(4, 4)), torch.ones(3)

    def program() -> None:
        with pytest.raises(RuntimeError):
            net(x)

    ledger = capture_of(tmp_path, program, model=net, level="mix").ledger
    assert ledger["raised"] == {"Functional.linear: RuntimeError": 1, "Module.0.Linear: RuntimeError": 1}
    assert (ledger["seen"], ledger["recorded"]) == (2, 0)


@pytest.mark.parametrize("task", ["tensor", "statistics"])
@pytest.mark.parametrize("file_format", ["pack", "pt", "npy", "safetensors"])
def test_no_call_writes_more_than_max_bytes(tmp_path: Path, task: str, file_format: str) -> None:
    """However large its tensors are, and however many it has. What is there can be read."""
    small, large = torch.randn(8, requires_grad=True), torch.randn(1 << 20)
    many = [torch.randn(64) for _ in range(3000)]

    def program() -> None:
        torch.sin(small).sum().backward()
        torch.cos(large)
        torch.cat(many)
        torch.tanh(small)

    found = capture_of(tmp_path, program, task=task, file_format=file_format, max_bytes=LIMIT)
    files = list(found.folder.glob("dump_tensor_data/*"))
    taken = {file.stat().st_ino: file.stat().st_size for file in files}
    assert sum(taken.values()) + (found.folder / "dump.json").stat().st_size <= LIMIT
    ledger, calls = found.ledger, found.calls
    assert parts_of(ledger) == ledger["seen"] == 7
    assert ledger["ended"] == f"max_bytes is {LIMIT}: what came after was left out"
    assert {"Torch.sin.0.forward", "Tensor.sum.0.backward", "Torch.sin.0.backward"} <= set(calls)
    assert "Torch.tanh.0.forward" not in calls
    assert ledger["skipped"]["over max_bytes"] >= 1
    if task == "tensor":
        # Statistics of tensors without a file are still there, and nothing was recorded after them.
        (entry,) = calls["Torch.cos.0.forward"]["input_args"]
        assert "data_name" not in entry
        assert entry["Norm"] == pytest.approx(large.norm(dtype=torch.float64).item())
        assert ledger["unread"] == {"over max_bytes": 2}
        assert "Torch.cat.0.forward" not in calls
    for call in calls.values():
        for entry in [*call.get("input_args", []), *call.get("output", [])]:
            if "data_name" in entry:
                assert found.tensor(entry).shape == torch.Size(entry["shape"])


class Refusing(torch.Tensor):
    """A class that does not tell its dtype."""

    @property
    def dtype(self) -> Any:
        raise RuntimeError("at 0x7f00: internal assert failed")


def test_a_tensor_that_cannot_be_read_is_reported_in_our_words(tmp_path: Path) -> None:
    x = torch.ones(2).as_subclass(Refusing)
    found = capture_of(tmp_path, lambda: torch.sin(x))
    assert found.ledger["unread"] == {"Refusing: torch could not give its elements (RuntimeError)": 2}
    assert "Torch.sin.0.forward" in found.calls


def test_a_call_without_room_for_its_results_is_counted_apart(tmp_path: Path) -> None:
    """Its arguments are in the dump, so that there is a call more than are recorded."""
    x = torch.ones(2)

    def program() -> None:
        for _ in range(50):
            x.sin()

    seen = set()
    for number, limit in enumerate(range(1000, 2000, 100)):
        found = capture_of(tmp_path / str(number), program, max_bytes=limit, stacks=False)
        ledger = found.ledger
        halves = ledger["skipped"].get("results over max_bytes", 0)
        assert len(found.calls) == ledger["recorded"] + halves
        assert parts_of(ledger) == ledger["seen"] == 50
        seen.add(halves)
    assert seen == {0, 1}


def test_parameters_whose_gradients_come_after_a_limit_say_so(tmp_path: Path) -> None:
    """A setting has ended it, and nothing is missing that was wanted: two such dumps can agree."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))

    def program() -> None:
        model.zero_grad()
        for _ in range(3):
            model(torch.ones(2, 4)).sum().backward()

    def unread(limit: dict[str, int]) -> set[str]:
        folder = tmp_path / str(limit)
        found = capture_of(folder, program, model=model, level="mix", stacks=False, **limit)
        assert found.ledger["limited"] is True
        assert parts_of(found.ledger) == found.ledger["seen"]
        assert ulpscope.compare(folder, folder).agreement == "agree"
        return set(found.ledger["unread"])

    # Of the whole run such a dump is a part.
    capture_of(tmp_path / "whole", program, model=model, level="mix")
    unread({"max_calls": 9})
    cut = ulpscope.compare(tmp_path / "{'max_calls': 9}", tmp_path / "whole")
    assert cut.agreement == "inconclusive"
    # By calls, those that have begun are whole.
    assert unread({"max_calls": 12}) == set()
    by_bytes = [unread({"max_bytes": limit}) for limit in range(3_000, 7_000, 200)]
    assert set().union(*by_bytes) == {"a parameter's gradient that came after max_bytes was reached"}


def test_max_bytes_holds_over_steps(tmp_path: Path) -> None:
    x = torch.randn(1000)
    with ulpscope.capture(tmp_path, task="tensor", max_bytes=LIMIT) as run:
        for _ in range(40):
            torch.sin(x.normal_())
            run.step()
    ledgers = [Captured(tmp_path, step=step).ledger for step in range(40)]
    assert all(parts_of(ledger) == ledger["seen"] for ledger in ledgers)
    ended = [step for step, ledger in enumerate(ledgers) if ledger["ended"]]
    assert ended == list(range(ended[0], 40))
    assert sum(ledger["recorded"] for ledger in ledgers[ended[0] + 1 :]) == 0
    files = {file.stat().st_ino: file.stat().st_size for file in tmp_path.glob("*/*/dump_tensor_data/*")}
    assert LIMIT / 2 < sum(files.values()) <= LIMIT


def test_max_calls_says_why_recording_ended(tmp_path: Path) -> None:
    def program() -> None:
        for _ in range(3):
            torch.sin(torch.ones(2))

    enough = capture_of(tmp_path / "enough", program, max_calls=6).ledger
    fewer = capture_of(tmp_path / "fewer", program, max_calls=4).ledger
    assert (enough["recorded"], enough["ended"]) == (6, None)
    assert (fewer["recorded"], fewer["skipped"]) == (4, {"over max_calls": 2})
    assert fewer["ended"] == "max_calls is 4: what came after was left out"


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_there_are_never_more_than_max_calls(tmp_path: Path, level: str) -> None:
    """Backward calls begin long before they are written, by several hooks each, and pass after pass."""
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 2))

    def program() -> None:
        model.zero_grad()
        loss = model(torch.ones(3, 4)).pow(2).sum()
        loss.backward(retain_graph=True)
        loss.backward()

    settings = {"model": model, "level": level, "task": "tensor"}
    all_calls = list(capture_of(tmp_path / "all", program, **settings).calls)
    for limit in range(1, len(all_calls) + 1):
        captured = capture_of(tmp_path / str(limit), program, max_calls=limit, **settings)
        assert len(captured.calls) == captured.ledger["recorded"] == limit
        assert parts_of(captured.ledger) == captured.ledger["seen"]
        assert (captured.ledger["ended"] is None) == (limit == len(all_calls))
        # A module that is written last may be among the first to begin.
        assert set(captured.calls) <= set(all_calls)
        saved = captured.saved_names()
        assert saved
        assert all(any(tensor.startswith(f"{name}.") for name in captured.calls) for tensor in saved)


def test_max_calls_counts_calls_that_raise(tmp_path: Path) -> None:
    def program() -> None:
        for _ in range(4):
            with contextlib.suppress(RuntimeError):
                torch.mm(torch.ones(2), torch.ones(2))

    captured = capture_of(tmp_path, program, max_calls=7)
    ledger = captured.ledger
    assert len(captured.calls) == 7
    assert (ledger["recorded"], ledger["raised"]) == (5, {"Torch.mm: RuntimeError": 2})
    assert parts_of(ledger) == ledger["seen"]


def test_max_calls_holds_for_threads(tmp_path: Path) -> None:
    x = torch.ones(64, 64, requires_grad=True)

    def program() -> None:
        def work() -> None:
            for _ in range(20):
                x.mm(x).sum().backward()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    captured = capture_of(tmp_path, program, max_calls=61)
    assert len(captured.calls) == captured.ledger["recorded"] == 61
    assert parts_of(captured.ledger) == captured.ledger["seen"]


def test_the_last_call_within_max_calls_is_whole(tmp_path: Path) -> None:
    """The gradients of a module's parameters come one by one, and are one call."""
    model = nn.Sequential(nn.Linear(4, 4))
    program = {"model": model, "level": "L0"}
    last = "Module.0.Linear.parameters_grad.0"
    run = lambda: model(torch.ones(3, 4)).sum().backward()  # noqa: E731
    for limit, has_gradients in ((1, False), (2, False), (3, True)):
        captured = capture_of(tmp_path / str(limit), run, max_calls=limit, **program)
        assert len(captured.calls) == captured.ledger["recorded"] == limit
        assert (last in captured.calls) == has_gradients
        assert set(captured.calls.get(last, {"weight": [], "bias": []})) == {"weight", "bias"}
        assert not captured.ledger["unread"]
        assert parts_of(captured.ledger) == captured.ledger["seen"]


def unseen(calls: int) -> str:
    return (
        f"recording ended before any backward pass over {calls} calls whose graph is still there: "
        "one that runs now is not seen"
    )


def test_a_backward_that_can_only_come_too_late_is_noted(tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)
    with ulpscope.capture(tmp_path / "late"):
        late = x.exp().sum()
    late.backward()
    assert Captured(tmp_path / "late").ledger["notes"] == [unseen(2)]
    with ulpscope.capture(tmp_path / "in time"):
        in_time = x.exp().sum()
        in_time.backward()
    with ulpscope.capture(tmp_path / "never"):
        x.exp().sum()
    with ulpscope.capture(tmp_path / "step", step=[0]) as run:
        after = x.exp().sum()
        run.step()
        after.backward()
    notes = [Captured(tmp_path / name).ledger["notes"] for name in ("in time", "never", "step")]
    assert notes == [[], [], [unseen(2)]]
