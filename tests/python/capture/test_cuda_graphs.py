"""CUDA graphs on a GPU that are recorded at each replay: numbers, names, and what the program computes.

Skipped where there is no GPU: there ``test_posing_graphs.py`` runs the same code with a driver for tests.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("needs torch 2.10, whose tensors give their address and stream", allow_module_level=True)

import ulpscope  # noqa: E402

pytestmark = pytest.mark.gpu

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

WARM_UPS, STEPS = 3, 7


def calls(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}" / "rank" / "dump.json").read_text())["data"]


def ledger(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}" / "rank" / "ledger.json").read_text())


def maxima(found: dict[str, Any], base: str) -> list[float]:
    return [call["output"][0]["Max"] for name, call in found.items() if name.startswith(f"{base}.")]


class Block(torch.nn.Module):
    """A layer with a buffer, dropout and an activation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(64, 64)
        self.norm = torch.nn.BatchNorm1d(64)
        self.act = torch.nn.ReLU(inplace=True)
        self.drop = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One residual block."""
        return x + self.drop(self.act(self.norm(self.fc(x))))


@contextlib.contextmanager
def on_a_side_stream() -> Iterator[None]:
    """As torch asks for: the first iterations before a capture run on another stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)


def plant(tensor: torch.Tensor) -> None:
    """Changes an element unseen, as a kernel of the program could."""
    with torch._C.DisableTorchFunction(), torch.no_grad():
        tensor.data[0, 0] += 100


def train(
    folder: Path | None, is_graph: bool, planted: int | None = None, **settings: Any
) -> list[torch.Tensor]:
    """Trains, with one graph for the whole step or without; returns what it has computed."""
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(2))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = [(torch.randn(32, 64).cuda(), torch.randn(32, 64).cuda()) for _ in range(STEPS)]
    x, target = torch.zeros(32, 64, device="cuda"), torch.zeros(32, 64, device="cuda")
    run = None if folder is None else ulpscope.capture(folder, model, **{"cuda_graphs": True, **settings})
    losses = []

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    if run is not None:
        run.start()
    graph, loss = None, torch.zeros(())
    for number, (one, other) in enumerate(data):
        x.copy_(one)
        target.copy_(other)
        if number == planted:
            plant(model[1].fc.weight)
        if number < WARM_UPS:
            with on_a_side_stream():
                loss = step()
        elif is_graph:
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = step()
            graph.replay()
        else:
            loss = step()
        # Not by torch's functions: a call would be recorded.
        with torch._C.DisableTorchFunction():
            losses.append(loss.detach().clone())
        if run is not None:
            run.step()
    if run is not None:
        run.close()
    torch.cuda.synchronize()
    return [*losses, *(value.detach().clone() for value in model.state_dict().values())]


def close_to_each_other(one: Path, other: Path) -> None:
    for step in range(WARM_UPS, STEPS):
        graph, eager = calls(one, step), calls(other, step)
        assert list(graph) == list(eager), step
        for name, call in eager.items():
            assert [key for key, _, _ in items(graph[name])] == [key for key, _, _ in items(call)], name
            for (key, found, source), (_, expected, known) in zip(
                items(graph[name]), items(call), strict=True
            ):
                assert source == known, (step, name, key)
                close = pytest.approx(expected, rel=1e-4, abs=1e-4, nan_ok=True)
                assert found == close, (step, name, key)


def items(value: Any, path: str = "") -> Iterator[tuple[str, list[float], str | None]]:
    """The tensors of a call: their places, their numbers, their sources."""
    if isinstance(value, dict) and "Max" in value:
        numbers = [value[key] for key in ("Max", "Min", "Mean", "Norm")]
        yield (
            path,
            [float("nan") if number is None else float(number) for number in numbers],
            value.get("source"),
        )
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from items(item, f"{path}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from items(item, f"{path}.{number}")


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_training_step_in_a_graph_compares_with_the_same_without(tmp_path, level):
    train(tmp_path / "graph", True, level=level)
    train(tmp_path / "eager", False, level=level)
    for step in range(STEPS):
        found = ledger(tmp_path / "graph", step)
        assert (found["failed"], found["unread"], found["ended"]) == ({}, {}, None), step
        assert found.get("returned") == ledger(tmp_path / "eager", step).get("returned"), step
    (note,) = ledger(tmp_path / "graph", WARM_UPS)["notes"]
    assert "is recorded whenever it is replayed" in note
    assert ledger(tmp_path / "graph", WARM_UPS + 1)["notes"] == []
    close_to_each_other(tmp_path / "graph", tmp_path / "eager")
    result = ulpscope.compare(tmp_path / "graph", tmp_path / "eager")
    assert result.first_divergence is None
    assert result.partnerless == []


def test_level_l2_sees_the_operators_of_a_graph(tmp_path):
    train(tmp_path / "graph", True, level="L2")
    train(tmp_path / "eager", False, level="L2")
    graph, eager = calls(tmp_path / "graph", STEPS - 1), calls(tmp_path / "eager", STEPS - 1)
    assert [name for name in eager if "addmm" in name] == [name for name in graph if "addmm" in name]
    assert ulpscope.compare(tmp_path / "graph", tmp_path / "eager").first_divergence is None


def test_a_wrong_value_between_two_replays_is_named(tmp_path):
    train(tmp_path / "graph", True, planted=STEPS - 2, level="mix")
    train(tmp_path / "eager", False, level="mix")

    def compared(step: int) -> Any:
        return ulpscope.compare(*(tmp_path / side / f"step{step}" for side in ("graph", "eager")))

    planted = STEPS - 2
    for step in range(WARM_UPS, planted):
        assert compared(step).first_divergence is None, step
    name = "Functional.linear.1.forward"
    graph, eager = (calls(tmp_path / side, planted)[name] for side in ("graph", "eager"))
    assert graph["input_args"][1]["Max"] > eager["input_args"][1]["Max"] + 50
    found = compared(planted).first_divergence
    assert found is not None
    assert (found.call, found.entry) == (name, f"{name}.input.1")


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_every_bit_is_the_same(tmp_path, level):
    plain = train(None, True)
    recorded = train(tmp_path, True, level=level)
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))
    assert calls(tmp_path, STEPS - 1)


def captured(step: Any, **settings: Any) -> tuple[Any, Any]:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, **settings):
        made = step()
    return graph, made


def keep_busy(x: torch.Tensor) -> None:
    """Has the device work for a while: what is asked of it next waits."""
    with torch._C.DisableTorchFunction():
        for _ in range(40):
            x = x @ x / 64


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_replays_one_after_the_other_have_their_own_numbers_and_nothing_waits(tmp_path, mode):
    x, busy = torch.ones(1000, device="cuda"), torch.ones(4096, 4096, device="cuda") / 64
    keep_busy(busy)
    x.fill_(1.0)
    torch.cuda.synchronize()
    with ulpscope.capture(tmp_path, digest="mix64", cuda_graphs=True) as run:
        # Kernels are compiled and loaded in the step before: that may wait for the device.
        torch.mul(torch.add(x, 1), 2)
        run.step()
        graph, _ = captured(lambda: torch.mul(torch.add(x, 1), 2), capture_error_mode=mode)
        torch.cuda.synchronize()
        keep_busy(busy)
        for value in (1.0, 2.0, 3.0):
            with torch._C.DisableTorchFunction():
                x.fill_(value)
            graph.replay()
        assert not torch.cuda.current_stream().query(), "the program has waited for the device"
    found = calls(tmp_path, 1)
    assert maxima(found, "Torch.add") == [2.0, 3.0, 4.0]
    assert maxima(found, "Torch.mul") == [4.0, 6.0, 8.0]
    for value, name in ((1.0, "Torch.add.0.forward"), (3.0, "Torch.add.2.forward")):
        expected = ulpscope.digest(torch.full((1000,), value), "mix64")
        assert found[name]["input_args"][0]["md5"] == expected
    assert ledger(tmp_path, 1)["unread"] == {}


def test_what_changes_in_place_within_a_graph_is_measured_in_its_place(tmp_path):
    x = torch.zeros(300_000, device="cuda")
    with ulpscope.capture(tmp_path, cuda_graphs=True):
        graph, _ = captured(lambda: x.add_(1).mul_(2))
        graph.replay()
        graph.replay()
    found = calls(tmp_path)
    assert [call["input_args"][0]["Max"] for call in found.values()] == [0, 1, 2, 3]
    assert [call["output"][0]["Max"] for call in found.values()] == [1, 2, 3, 6]


def test_branches_of_a_graph_on_several_streams(tmp_path):
    x, side = torch.randn(3_000_000, device="cuda"), torch.cuda.Stream()

    def branches() -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            one = torch.sin(x)
        other = torch.cos(x)
        torch.cuda.current_stream().wait_stream(side)
        return torch.add(one, other)

    with ulpscope.capture(tmp_path, digest="mix64", cuda_graphs=True):
        graph, made = captured(branches)
        for _ in range(5):
            graph.replay()
    found = calls(tmp_path)
    assert len(found) == 15
    for base, expected in (
        ("Torch.sin", torch.sin(x)),
        ("Torch.cos", torch.cos(x)),
        ("Torch.add", made),
    ):
        digest = ulpscope.digest(expected.cpu(), "mix64")
        digests = {call["output"][0]["md5"] for name, call in found.items() if name.startswith(base)}
        assert digests == {digest}, base


def test_a_graph_is_replayed_on_other_streams(tmp_path):
    """Numbers that may be those of the next replay are left out, and counted."""
    x, busy = torch.ones(1000, device="cuda"), torch.ones(4096, 4096, device="cuda") / 64
    streams = [torch.cuda.Stream() for _ in range(2)]
    with ulpscope.capture(tmp_path, cuda_graphs=True):
        graph, _ = captured(lambda: torch.add(x, 1))
        torch.cuda.synchronize()
        for number in range(6):
            with torch.cuda.stream(streams[number % 2]):
                if number == 2:
                    keep_busy(busy)
                graph.replay()
            if number != 2:
                torch.cuda.synchronize()
    found, counted = calls(tmp_path), ledger(tmp_path)["unread"]
    numbers = [call["output"][0]["Max"] for call in found.values()]
    assert len(numbers) == 6
    assert set(numbers) <= {2, None}
    assert sum(counted.values()) == 2 * numbers.count(None)


def test_a_graph_stays_correct_after_the_recording_and_in_the_next_one(tmp_path):
    x = torch.ones(1000, device="cuda")
    with ulpscope.capture(tmp_path / "first", cuda_graphs=True):
        graph, made = captured(lambda: torch.sin(x) * 2)
        graph.replay()
    others = [torch.randn(100_000, device="cuda") for _ in range(20)]
    expected = []
    for value in (0.25, 0.5):
        x.fill_(value)
        graph.replay()
        expected.append(torch.equal(made, torch.sin(x) * 2))
    with ulpscope.capture(tmp_path / "second", cuda_graphs=True):
        x.fill_(0.75)
        graph.replay()
        torch.sin(x)
        # One that is recorded beside it uses none of its memory.
        other, _ = captured(lambda: [torch.cos(one) for one in others])
        for _ in range(3):
            graph.replay()
            other.replay()
    assert expected == [True, True]
    assert torch.equal(made, torch.sin(x) * 2)
    assert (
        "a captured graph was replayed: what runs inside it is not seen (4 times)"
        in ledger(tmp_path / "second")["notes"]
    )
    found = calls(tmp_path / "second")
    assert maxima(found, "Torch.cos") == [torch.cos(one).max().item() for one in others] * 3
    del graph, other, made
    gc.collect()
    torch.cuda.synchronize()


def test_steps_that_are_not_selected_have_nothing_and_the_next_one_has_all(tmp_path):
    x = torch.ones(1000, device="cuda")
    with ulpscope.capture(tmp_path, step=[0, 3], cuda_graphs=True) as run:
        graph, _ = captured(lambda: torch.sin(x))
        for value in (1.0, 2.0, 3.0, 4.0):
            with torch._C.DisableTorchFunction():
                x.fill_(value)
            graph.replay()
            run.step()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("step")) == [
        "step0",
        "step3",
    ]
    for step, value in ((0, 1.0), (3, 4.0)):
        found = calls(tmp_path, step)
        assert list(found) == ["Torch.sin.0.forward"]
        assert found["Torch.sin.0.forward"]["input_args"][0]["Max"] == value


def test_memory_for_graphs_is_bounded(tmp_path):
    x = torch.ones(1000, device="cuda")
    with ulpscope.capture(tmp_path, cuda_graphs=True):
        torch.sin(x)
        captured(lambda: torch.sin(x))
        torch.cuda.synchronize()
        free, _ = torch.cuda.mem_get_info()
        allocated = torch.cuda.memory_allocated()
        graphs = [captured(lambda: torch.sin(x)) for _ in range(50)]
        torch.cuda.synchronize()
        taken = free - torch.cuda.mem_get_info()[0]
        for graph, _ in graphs:
            graph.replay()
    # Torch has 2 MiB for each graph.
    assert taken <= 50 * (2 + 2) * 2**20
    assert torch.cuda.memory_allocated() - allocated <= 50 * 2**13
    assert maxima(calls(tmp_path), "Torch.sin") == [pytest.approx(torch.sin(x).max().item())] * 51


def test_without_the_setting_graphs_are_left_alone(tmp_path):
    x = torch.ones(1000, device="cuda")
    with ulpscope.capture(tmp_path):
        graph, _ = captured(lambda: torch.sin(x))
        graph.replay()
    found = ledger(tmp_path)
    assert found["unread"]["inside a captured graph"] >= 2
    assert found["notes"] == ["a captured graph was replayed: what runs inside it is not seen"]


def test_a_capture_that_fails_leaves_the_program_as_it_is(tmp_path):
    x = torch.ones(1000, device="cuda")

    def fails() -> None:
        torch.sin(x)
        raise ValueError("of the program")

    with ulpscope.capture(tmp_path, cuda_graphs=True):
        with pytest.raises(ValueError, match="of the program"):
            captured(fails)
        torch.cos(x)
        graph, _ = captured(lambda: torch.sin(x))
        graph.replay()
        # The device is asked for a number, which ends the capture. Torch may capture no other one afterwards.
        with pytest.raises(RuntimeError):
            captured(lambda: torch.sin(x).item())
        torch.cuda.synchronize()
        torch.cos(x)
    found = calls(tmp_path)
    assert list(found) == ["Torch.cos.0.forward", "Torch.sin.0.forward", "Torch.cos.1.forward"]
    assert all(call["output"][0]["Max"] is not None for call in found.values())


def test_graphed_callables_are_never_silent_and_compute_the_same(tmp_path):
    def program(run: Any) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)).cuda()
        sample = torch.randn(16, 32, device="cuda", requires_grad=True)
        graphed = torch.cuda.make_graphed_callables(model, (sample,))
        made = []
        for number in range(3):
            torch.manual_seed(number)
            x = torch.randn(16, 32, device="cuda", requires_grad=True)
            model.zero_grad(set_to_none=True)
            out = graphed(x)
            out.square().mean().backward()
            made += [out.detach().clone(), x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
            if run is not None:
                run.step()
        torch.cuda.synchronize()
        return made

    plain = program(None)
    with ulpscope.capture(tmp_path, level="mix", cuda_graphs=True) as run:
        recorded = program(run)
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))
    for step in (1, 2):
        found, counted = calls(tmp_path, step), ledger(tmp_path, step)
        assert (counted["failed"], counted["ended"]) == ({}, None)
        # Forward and backward are graphs of their own.
        assert [name for name in found if "linear" in name and "forward" in name] == [
            "Functional.linear.0.forward",
            "Functional.linear.1.forward",
        ]
        backward = [name for name in found if "linear" in name and "backward" in name]
        assert sorted(backward) == ["Functional.linear.0.backward", "Functional.linear.1.backward"]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the compiler of torch.compile needs gcc")
def test_graphs_of_compiled_regions_are_counted_and_left_alone(tmp_path):
    pytest.importorskip("triton")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Tanh()).cuda()
    x = torch.randn(16, 32, device="cuda")
    compiled = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(3):
            expected = compiled(x).clone()
        with ulpscope.capture(tmp_path, level="mix", cuda_graphs=True):
            torch.sin(x)
            for _ in range(4):
                found = compiled(x).clone()
    assert torch.equal(found, expected)
    assert any("compiled region" in note for note in ledger(tmp_path)["notes"])
