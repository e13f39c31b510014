"""CUDA graphs that are recorded at each replay, where there is no GPU.

The graphs are those of ``posing_graph.py``. Nothing here says how real ones behave: that is in
``test_cuda_graphs.py``, which needs a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import posing_gpu
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("needs torch 2.10, whose tensors give their address and stream", allow_module_level=True)
if not posing_gpu.is_possible():
    pytest.skip("needs g++", allow_module_level=True)

import ulpscope  # noqa: E402

HERE = Path(__file__).parent

HEAD = f"""
import json, os, signal, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import torch, ulpscope, posing_gpu, posing_graph
folder = sys.argv[1]
gpu = posing_gpu.Gpu()
posing_graph.use(gpu)

def captured(step, *results):
    "A graph of what a function does."
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    try:
        results = step()
    finally:
        graph.capture_end()
    return graph, results

def change(tensor, value):
    "Changes a tensor when its turn has come."
    gpu.run(lambda: tensor.data.fill_(value), posing_graph.STREAM)

torch.cos(torch.ones(1))
"""


def run(folder: Path, program: str, code: int = 0, timeout: float = 120) -> str:
    command = [sys.executable, "-c", HEAD + textwrap.dedent(program), str(folder / "dump")]
    environment = posing_gpu.environment(folder)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def calls(folder: Path, step: int = 0, name: str = "dump") -> dict[str, Any]:
    return json.loads((folder / name / f"step{step}" / "rank" / "dump.json").read_text())["data"]


def ledger(folder: Path, step: int = 0, name: str = "dump") -> dict[str, Any]:
    return json.loads((folder / name / f"step{step}" / "rank" / "ledger.json").read_text())


def outputs(found: dict[str, Any], base: str) -> list[float]:
    return [call["output"][0]["Max"] for name, call in found.items() if name.startswith(f"{base}.")]


def test_each_replay_has_the_calls_that_follow_with_its_own_numbers(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True, digest="mix64") as run:
            torch.sin(x)
            graph, y = captured(lambda: torch.mul(torch.add(x, 1), 2))
            for value in (1.0, 2.0, 3.0):
                change(x, value)
                graph.replay()
            gpu.wait()
            torch.sin(x)
            run.step()
            change(x, 5.0)
            graph.replay()
            gpu.wait()
            torch.sin(y)
        """
    run(tmp_path, program)
    found = calls(tmp_path)
    adds, products = (
        [f"Torch.add.{n}.forward" for n in range(3)],
        [f"Torch.mul.{n}.forward" for n in range(3)],
    )
    replays = [name for pair in zip(adds, products, strict=True) for name in pair]
    assert list(found) == ["Torch.sin.0.forward", *replays, "Torch.sin.1.forward"]
    assert outputs(found, "Torch.add") == [2.0, 3.0, 4.0]
    assert outputs(found, "Torch.mul") == [4.0, 6.0, 8.0]
    for add, product in zip(adds, products, strict=True):
        assert found[product]["input_args"][0]["source"] == f"{add}.output.0"
        assert found[product]["input_args"][0]["md5"] == found[add]["output"][0]["md5"]
        assert found[add]["input_args"][0]["source"] == "outside"
    assert len({found[add]["input_args"][0]["md5"] for add in adds}) == 3
    notes = ledger(tmp_path)
    assert (notes["seen"], notes["recorded"], notes["unread"]) == (8, 8, {})
    assert notes["notes"] == ["a captured graph of 2 calls is recorded whenever it is replayed"]
    later = calls(tmp_path, 1)
    assert list(later) == ["Torch.add.0.forward", "Torch.mul.0.forward", "Torch.sin.0.forward"]
    assert outputs(later, "Torch.mul") == [12.0]
    assert later["Torch.sin.0.forward"]["input_args"][0]["source"] == "Torch.mul.0.forward.output.0"
    stacks = json.loads((tmp_path / "dump" / "step1" / "rank" / "stack.json").read_text())
    assert sum(len(names) for names, _ in stacks.values()) == 3


TRAINING = """
torch.manual_seed(0)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
    def forward(self, x):
        return self.norm(torch.relu(self.fc(x)))
model = torch.nn.Sequential(Block(), Block())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
x, target = torch.randn(8, 4), torch.randn(8, 4)
data = [(torch.randn(8, 4).numpy(), torch.randn(8, 4).numpy()) for _ in range(5)]
memory = x.numpy(), target.numpy()
weight = model[1].fc.weight.detach().numpy()
def train():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    return loss
def load(number):
    gpu.wait()
    for into, value in zip(memory, data[number]):
        into[:] = value
"""


TRAIN_STEPS = """
level, is_graph, planted = sys.argv[2], sys.argv[3] == "graph", int(sys.argv[4])
where = "auto" if is_graph else "host"
run = ulpscope.capture(folder, model, level=level, cuda_graphs=True, device_statistics=where)
run.start()
load(0)
train()
run.step()
graph = None
for number in range(1, 4):
    load(number)
    if not is_graph:
        train()
    else:
        if graph is None:
            before = {name: value.clone() for name, value in model.state_dict().items()}
            held = [state["momentum_buffer"].clone() for state in optimizer.state.values()]
            graph, loss = captured(train)
            # Here the program runs while it is captured.
            model.load_state_dict(before)
            for state, value in zip(optimizer.state.values(), held):
                state["momentum_buffer"].copy_(value)
        if number == planted:
            weight[0, 0] += 100
        graph.replay()
    gpu.wait()
    run.step()
run.close()
"""


def trained(folder: Path, level: str, planted: int = 0) -> tuple[Path, Path]:
    """The dumps of a training whose steps are replays of a graph, and of the same without."""
    for kind in ("graph", "eager"):
        script = HEAD + TRAINING + TRAIN_STEPS
        command = [sys.executable, "-c", script, str(folder / kind / "dump"), level, kind, str(planted)]
        environment = posing_gpu.environment(folder / kind)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    return folder / "graph", folder / "eager"


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_training_step_compares_with_the_one_that_runs_without_a_graph(tmp_path, level):
    one, other = trained(tmp_path, level)
    # In the step with the capture, the model is also reset.
    for step in (2, 3):
        graph, eager = calls(one, step), calls(other, step)
        assert list(graph) == list(eager), step
        assert ledger(one, step)["unread"] == {}
        for name, call in eager.items():
            assert without_numbers(graph[name]) == without_numbers(call), name
            close = pytest.approx(list(numbers_of(call)), rel=1e-6, nan_ok=True)
            assert list(numbers_of(graph[name])) == close, name
        assert ledger(one, step).get("returned") == ledger(other, step).get("returned")
        parents = [side / "dump" / f"step{step}" / "rank" / "construct.json" for side in (one, other)]
        assert parents[0].read_text() == parents[1].read_text()
        result = compared(one, other, step)
        assert result.first_divergence is None
        assert result.partnerless == []


def test_a_wrong_value_between_two_replays_is_named(tmp_path):
    one, other = trained(tmp_path, "mix", planted=3)
    assert compared(one, other, 2).first_divergence is None
    found = compared(one, other, 3).first_divergence
    assert found is not None
    assert (found.call, found.entry) == (
        "Functional.linear.1.forward",
        "Functional.linear.1.forward.input.1",
    )


def compared(one: Path, other: Path, step: int) -> Any:
    return ulpscope.compare(*(side / "dump" / f"step{step}" for side in (one, other)))


STATISTICS = ("Max", "Min", "Mean", "Norm")


def without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_numbers(item) for key, item in value.items() if key not in STATISTICS}
    return [without_numbers(item) for item in value] if isinstance(value, list) else value


def numbers_of(value: Any) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in STATISTICS:
                yield float("nan") if item is None else float(item)
            else:
                yield from numbers_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers_of(item)


def test_what_changes_in_place_within_a_graph_is_measured_in_its_place(tmp_path):
    program = """
        x = torch.zeros(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            graph, _ = captured(lambda: x.add_(1).mul_(2))
            change(x, 0.0)
            graph.replay()
            graph.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    found = calls(tmp_path)
    assert list(found) == [f"Tensor.{name}.{n}.forward" for n in range(2) for name in ("add_", "mul_")]
    assert [call["input_args"][0]["Max"] for call in found.values()] == [0, 1, 2, 3]
    assert [call["output"][0]["Max"] for call in found.values()] == [1, 2, 3, 6]
    assert found["Tensor.add_.1.forward"]["input_args"][0]["source"] == "Tensor.mul_.0.forward.output.0"


def test_the_forward_and_the_backward_pass_may_be_graphs_of_their_own(tmp_path):
    """As ``make_graphed_callables`` has it."""
    program = """
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
        x = torch.ones(2, 3, requires_grad=True)
        with ulpscope.capture(folder, model, level="mix", cuda_graphs=True) as run:
            forward, made = captured(lambda: model(x))
            slope = torch.ones(2, 3)
            backward, _ = captured(lambda: torch.autograd.grad(made, x, slope))
            run.step()
            for _ in range(2):
                forward.replay()
                backward.replay()
            gpu.wait()
            run.step()
            # Without a forward pass in the step, nobody knows which call the backward pass belongs to.
            backward.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    found = calls(tmp_path, 1)
    for number in range(2):
        assert found[f"Functional.linear.{number}.forward"]["input_args"][0]["Max"] == 1.0
        assert found[f"Functional.linear.{number}.backward"]["input"][0]["Max"] is not None
        assert found[f"Module.0.Linear.backward.{number}"]["output"][0]["Max"] is not None
    parents = json.loads((tmp_path / "dump" / "step1" / "rank" / "construct.json").read_text())
    assert parents["Functional.linear.1.backward"] == "Module.0.Linear.backward.1"
    counted = ledger(tmp_path, 1)
    assert counted["seen"] == counted["recorded"] + sum(counted["skipped"].values())
    alone = ledger(tmp_path, 2)
    assert alone["skipped"]["its call is in a graph that was not replayed in this step"] == 4
    assert alone["recorded"] == 0


def test_gradients_of_parameters_are_numbered_with_those_outside_of_the_graph(tmp_path):
    program = """
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
        x = torch.ones(2, 3)
        def train():
            model(x).sum().backward()
        with ulpscope.capture(folder, model, level="mix", cuda_graphs=True, device_statistics="auto") as run:
            graph, _ = captured(train)
            train()
            gpu.wait()
            graph.replay()
            gpu.wait()
            train()
            graph.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    found = calls(tmp_path)
    names = [name for name in found if "parameters_grad" in name]
    assert names == [f"Module.0.Linear.parameters_grad.{number}" for number in range(4)]
    for name in names:
        assert sorted(found[name]) == ["bias", "weight"]


def test_a_limit_leaves_out_a_replay_as_a_whole(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True, max_calls=5):
            graph, _ = captured(lambda: torch.mul(torch.add(x, 1), 2))
            for _ in range(4):
                graph.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    assert len(calls(tmp_path)) == 4
    counted = ledger(tmp_path)
    assert (counted["seen"], counted["recorded"], counted["skipped"]) == (8, 4, {"over max_calls": 4})
    assert "max_calls is 5" in counted["ended"]


def test_a_recording_that_is_over_leaves_the_graph_to_the_program(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True, step=[0, 2]) as run:
            graph, y = captured(lambda: torch.mul(torch.add(x, 1), 2))
            graph.replay()
            run.step()
            launches = gpu.count("launches")
            change(x, 4.0)
            graph.replay()
            gpu.wait()
            assert y.numpy()[0] == 10.0
            assert gpu.count("launches") == launches
            run.step()
            change(x, 5.0)
            graph.replay()
        graph.replay()
        gpu.wait()
        assert y[0] == 12.0
        # A recording that did not capture it counts its replays.
        with ulpscope.capture(folder + "-next", cuda_graphs=True):
            torch.sin(x)
            graph.replay()
            gpu.wait()
        assert "capture_begin" in vars(torch.cuda.CUDAGraph)
        assert torch.cuda.CUDAGraph.replay.__qualname__ == "Graph.replay"
        assert not hasattr(torch.cuda.CUDAGraph.replay, "__wrapped__")
        """
    run(tmp_path, program)
    assert outputs(calls(tmp_path), "Torch.mul") == [4.0]
    assert list(calls(tmp_path, 2)) == ["Torch.add.0.forward", "Torch.mul.0.forward"]
    assert outputs(calls(tmp_path, 2), "Torch.mul") == [12.0]
    assert list(calls(tmp_path, name="dump-next")) == ["Torch.sin.0.forward"]
    assert ledger(tmp_path, name="dump-next")["notes"] == [
        "a captured graph was replayed: what runs inside it is not seen"
    ]


def test_a_killed_run_has_the_replays_so_far(tmp_path):
    program = """
        x = torch.ones(5)
        run = ulpscope.capture(folder, cuda_graphs=True, flush_interval=0.01)
        run.start()
        graph, _ = captured(lambda: torch.mul(torch.add(x, 1), 2))
        graph.replay()
        gpu.wait()
        last = time.monotonic() + 60
        path = folder + "/step0/rank/journal.jsonl"
        while b"pending" in open(path, "rb").read():
            assert time.monotonic() < last
        gpu.pause(True)
        graph.replay()
        os.kill(os.getpid(), signal.SIGKILL)
        """
    run(tmp_path, program, code=-9)
    command = [sys.executable, "-m", "ulpscope", "ls", str(tmp_path / "dump"), "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert listed.returncode == 0, listed.stderr
    assert "numbers of 4 tensors had not arrived" in listed.stdout + listed.stderr
    for name in ("Torch.add.0.forward", "Torch.mul.1.forward"):
        assert name in listed.stdout


def test_numbers_that_may_be_those_of_the_next_replay_are_left_out_and_counted(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            graph, _ = captured(lambda: torch.add(x, 1))
            graph.replay()
            gpu.pause(True, stream=posing_graph.STREAM)
            graph.replay()
            gpu.use_stream(128)
            gpu.pause(False, stream=posing_graph.STREAM)
            gpu.pause(True)
            graph.replay(128)
            gpu.pause(False)
            gpu.wait()
        """
    run(tmp_path, program)
    found = [call["output"][0]["Max"] for call in calls(tmp_path).values()]
    assert found[2] == 2.0
    lost = found.count(None)
    assert ledger(tmp_path)["unread"] == (
        {"its numbers did not arrive from its device": 2 * lost} if lost else {}
    )


def test_a_step_that_ends_during_a_capture_counts_its_calls(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True) as run:
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin()
            torch.sin(x)
            run.step()
            torch.cos(x)
            graph.capture_end()
            graph.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    assert ledger(tmp_path)["notes"] == [
        "a captured graph of 1 calls is not recorded: its capture failed, "
        "or during it the step ended or another capture began"
    ]
    assert list(calls(tmp_path, 1)) == ["Torch.cos.0.forward"]
    assert "a captured graph was replayed: what runs inside it is not seen" in ledger(tmp_path, 1)["notes"]


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuLaunchKernel", "cuMemsetD8Async"])
def test_what_fails_during_a_capture_leaves_tensors_without_numbers(tmp_path, function):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            torch.sin(x)
            gpu.fail(sys.argv[2])
            graph, y = captured(lambda: torch.add(x, 1))
            gpu.fail("")
            change(x, 3.0)
            graph.replay()
            gpu.wait()
        assert y[0] == 4.0
        assert gpu.count("unsafe") == 0
        assert gpu.mode() == 0
        """
    command = [sys.executable, "-c", HEAD + textwrap.dedent(program), str(tmp_path / "dump"), function]
    environment = posing_gpu.environment(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert list(calls(tmp_path)) == ["Torch.sin.0.forward", "Torch.add.0.forward"]
    counted = ledger(tmp_path)
    assert counted["unread"] == {"its numbers did not arrive from its device": 2}
    assert any(function in note for note in counted["notes"])


@pytest.mark.parametrize(
    "settings", ["{'digest': 'md5'}", "{'task': 'tensor'}", "{'list': ['sin']}", "{'call': 'Torch.*'}", "{}"]
)
def test_what_cannot_be_recorded_is_counted(tmp_path, settings):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=sys.argv[2] != "{}", **eval(sys.argv[2])):
            torch.sin(x)
            launches = gpu.count("launches")
            graph, _ = captured(lambda: torch.sin(x))
            assert gpu.count("launches") == launches
            graph.replay()
            gpu.wait()
        """
    command = [sys.executable, "-c", HEAD + textwrap.dedent(program), str(tmp_path / "dump"), settings]
    environment = posing_gpu.environment(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    notes = ledger(tmp_path)["notes"]
    assert "a captured graph was replayed: what runs inside it is not seen" in notes
    assert any("is not recorded: that needs" in note for note in notes) == (settings != "{}")


def test_graphed_callables_of_torch(tmp_path):
    """The module has the call of the program, and within it that of the graph."""
    program = """
        posing_graph.use_with_torch(gpu)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
        sample = torch.ones(2, 3, requires_grad=True)
        with ulpscope.capture(folder, torch.nn.Sequential(model), level="mix", cuda_graphs=True) as run:
            graphed = torch.cuda.make_graphed_callables(model, (sample,))
            gpu.wait()
            run.step()
            for number in (1.0, 2.0):
                x = torch.full((2, 3), number, requires_grad=True)
                graphed(x).sum().backward()
                gpu.wait()
                run.step()
        """
    run(tmp_path, program)
    for step in (1, 2):
        found, counted = calls(tmp_path, step), ledger(tmp_path, step)
        linear = [name for name in found if name.startswith("Functional.linear")]
        assert sorted(linear) == [
            f"Functional.linear.{n}.{way}" for n in (0, 1) for way in ("backward", "forward")
        ]
        assert found["Functional.linear.0.forward"]["input_args"][0]["Max"] == float(step)
        sequential = [name for name in found if name.startswith("Module.0.Sequential.forward.")]
        assert sequential == ["Module.0.Sequential.forward.1", "Module.0.Sequential.forward.0"]
        assert (counted["unread"], counted["failed"]) == ({}, {})
        assert counted["seen"] == counted["recorded"] + sum(counted["skipped"].values())


def test_the_context_of_torch_and_a_capture_that_raises(tmp_path):
    program = """
        posing_graph.use_with_torch(gpu)
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(first):
                    torch.sin(x)
                    raise ValueError
            except ValueError:
                pass
            with torch.cuda.graph(second):
                y = torch.add(x, 1)
            second.replay()
            first.replay()
            second.replay()
        """
    run(tmp_path, program)
    names = ["Torch.add.0.forward", "Torch.sin.0.forward", "Torch.add.1.forward"]
    assert list(calls(tmp_path)) == names
    assert ledger(tmp_path)["unread"] == {}


def test_two_graphs_that_are_replayed_on_two_streams_at_once(tmp_path):
    program = """
        x, z = torch.ones(5), torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            one, _ = captured(lambda: torch.add(x, 1))
            other, _ = captured(lambda: torch.mul(z, 3))
            gpu.pause(True)
            for number in range(5):
                gpu.use_stream(posing_graph.STREAM)
                change(x, float(number))
                one.replay()
                gpu.use_stream(128)
                gpu.run(lambda number=number: z.data.fill_(number), 128)
                other.replay(128)
            gpu.pause(False)
            gpu.wait()
        """
    run(tmp_path, program)
    found = calls(tmp_path)
    assert outputs(found, "Torch.add") == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert outputs(found, "Torch.mul") == [0.0, 3.0, 6.0, 9.0, 12.0]


def test_a_capture_that_begins_during_another_leaves_the_first_to_the_program(tmp_path):
    program = """
        x = torch.ones(5)
        with ulpscope.capture(folder, cuda_graphs=True):
            first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            first.capture_begin()
            torch.sin(x)
            gpu.end_graph(posing_graph.STREAM)
            first._program.__exit__(None, None, None)
            second.capture_begin()
            torch.add(x, 1)
            second.capture_end()
            second.replay()
            gpu.wait()
        """
    run(tmp_path, program)
    assert list(calls(tmp_path)) == ["Torch.add.0.forward"]
    assert ledger(tmp_path)["notes"][0] == (
        "a captured graph of 1 calls is not recorded: its capture failed, "
        "or during it the step ended or another capture began"
    )
