"""CUDA graphs that are recorded at each replay, where there is no GPU.

The graphs are those of ``posing_graph.py``. Nothing here says how real ones behave: that is in
``test_cuda_graphs.py``, which needs a GPU.
"""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_training_step_compares_with_the_one_that_runs_without_a_graph(tmp_path, level):
    program = """
        level, is_graph = sys.argv[2], sys.argv[3] == "graph"
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
                graph.replay()
            gpu.wait()
            run.step()
        run.close()
        """
    program = TRAINING + textwrap.dedent(program)
    for kind in ("graph", "eager"):
        folder = tmp_path / kind
        command = [sys.executable, "-c", HEAD + program, str(folder / "dump"), level, kind]
        done = subprocess.run(
            command, env=posing_gpu.environment(folder), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    # In the step with the capture, the model is also reset.
    for step in (2, 3):
        graph, eager = (calls(tmp_path / kind, step) for kind in ("graph", "eager"))
        assert sorted(graph) == sorted(eager), step
        assert ledger(tmp_path / "graph", step)["unread"] == {}
        for name, call in eager.items():
            assert without_numbers(graph[name]) == without_numbers(call), name
            assert list(numbers_of(graph[name])) == pytest.approx(list(numbers_of(call)), rel=1e-6), name
        one, other = (ledger(tmp_path / kind, step) for kind in ("graph", "eager"))
        assert one.get("returned") == other.get("returned")
        parents = [
            json.loads((tmp_path / kind / "dump" / f"step{step}" / "rank" / "construct.json").read_text())
            for kind in ("graph", "eager")
        ]
        assert parents[0] == parents[1]


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
