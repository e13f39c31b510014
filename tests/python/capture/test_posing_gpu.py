"""Everything between a tensor on an NVIDIA GPU and the journal, where there is no GPU.

Tensors of the CPU pose as those of a GPU (``posing_gpu.py``). Nothing here says how a real one behaves: that
is in ``test_cuda_kernel.py``, which needs one.
"""

from __future__ import annotations

import json
import math
import os
import signal
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
import torch, ulpscope, posing_gpu
folder = sys.argv[1]

def numbers():
    "The numbers of arguments in the journal so far."
    path = folder + "/step0/rank/journal.jsonl"
    lines = open(path, "rb").read().rstrip(b"\\0").splitlines()
    calls = [json.loads(line).get("data", {{}}) for line in lines]
    return [call["input_args"][0]["Max"] for call in calls if "input_args" in call]

def soon(is_true):
    last = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < last
        time.sleep(0.005)

"""


def run(folder: Path, program: str, code: int = 0, timeout: float = 120) -> str:
    command = [sys.executable, "-c", HEAD + textwrap.dedent(program), str(folder / "dump")]
    environment = posing_gpu.environment(folder)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == code, done.stderr
    return done.stdout


def calls(folder: Path, name: str = "dump", step: int = 0) -> dict[str, Any]:
    return json.loads((folder / name / f"step{step}" / "rank" / "dump.json").read_text())["data"]


def ledger(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / "dump" / f"step{step}" / "rank" / "ledger.json").read_text())


def test_numbers_and_digests_arrive_late_and_are_those_of_the_host(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        model = torch.nn.Sequential(*layers)
        x = torch.randn(5, 8)
        def step():
            model(x).square().mean().backward()
            torch.matmul(x.t().to(torch.bfloat16), x.to(torch.bfloat16)) > 0
        with ulpscope.capture(folder + "-host", model, digest="mix64", level="mix", device_statistics="host"):
            step()
        model.zero_grad()
        assert gpu.count("launches") == 0
        with ulpscope.capture(folder, model, digest="mix64", level="mix", flush_interval=0.01):
            torch.sin(x)
            soon(lambda: numbers() and numbers()[0] is not None)
            gpu.pause(True)
            torch.cos(x)
            time.sleep(0.1)
            assert numbers()[-1] is None
            gpu.pause(False)
            step()
        assert gpu.count("launches") > 20
        """
    run(tmp_path, program)
    found, expected = calls(tmp_path), calls(tmp_path, "dump-host")
    assert (ledger(tmp_path)["unread"], ledger(tmp_path)["notes"]) == ({}, [])
    assert list(found)[2:] == list(expected)
    compared = 0
    for name, call in expected.items():
        for part in ("input_args", "output", "input", "grad"):
            for one, other in zip(found[name].get(part) or [], call.get(part) or [], strict=True):
                if isinstance(other, dict) and "Max" in other:
                    assert one["md5"] == other["md5"], name
                    assert (one["Max"], one["Min"]) == (other["Max"], other["Min"]), name
                    assert one["Norm"] == pytest.approx(other["Norm"], rel=1e-12), name
                    compared += 1
    assert compared > 20


def test_a_killed_run_has_the_numbers_that_had_arrived(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        x = torch.full((3,), 0.5)
        run = ulpscope.capture(folder, flush_interval=0.01)
        run.start()
        y = torch.sin(x)
        soon(lambda: numbers() == [0.5])
        gpu.pause(True)
        torch.cos(y)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    run(tmp_path, program, code=-signal.SIGKILL)
    command = [sys.executable, "-m", "ulpscope", "ls", str(tmp_path / "dump"), "--json"]
    listed = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
    assert listed.returncode == 0, listed.stderr
    assert "numbers of 2 tensors had not arrived" in listed.stdout + listed.stderr
    lines = (tmp_path / "dump" / "step0" / "rank" / "journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    items = [json.loads(line).get("data", {}) for line in lines]
    outputs = [data["output"][0]["Max"] for data in items if "output" in data]
    assert outputs == [pytest.approx(math.sin(0.5)), None]


def test_streams_have_orders_of_their_own(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        tensors = [torch.full((3000,), float(number)) for number in range(60)]
        with ulpscope.capture(folder, flush_interval=0.01):
            for number in range(40):
                gpu.use_stream(64 * number)
                torch.sin(tensors[number])
            soon(lambda: len(numbers()) == 40 and None not in numbers())
            gpu.pause(True, stream=64)
            for number in range(40, 60):
                gpu.use_stream(64 * (number % 2))
                torch.sin(tensors[number])
            soon(lambda: numbers()[40::2] == [float(number) for number in range(40, 60, 2)])
            assert numbers()[41::2] == [None] * 10
            gpu.pause(False, stream=64)
        """
    run(tmp_path, program)
    found = [call["input_args"][0] for name, call in calls(tmp_path).items() if "sin" in name]
    assert [item["Max"] for item in found] == list(range(60))
    assert [item["Mean"] for item in found] == list(range(60))
    assert (ledger(tmp_path)["unread"], ledger(tmp_path)["notes"]) == ({}, [])


def test_when_all_slots_are_taken_the_program_waits_and_nothing_is_lost(tmp_path):
    # More than the 64 times 4,096 tensors that can be measured at a time, and many in one call.
    program = """
        gpu = posing_gpu.Gpu()
        tensors = [torch.full((2,), float(number)) for number in range(4000)]
        def go_on():
            time.sleep(1)
            last = -1
            while last != gpu.count("launches"):
                last = gpu.count("launches")
                time.sleep(1)
            gpu.pause(False)
        with ulpscope.capture(folder, stacks=False):
            torch.sin(tensors[0])
            gpu.pause(True)
            thread = threading.Thread(target=go_on)
            thread.start()
            for _ in range(70):
                torch.broadcast_tensors(*tensors)
            thread.join()
        """
    run(tmp_path, program, timeout=300)
    assert (ledger(tmp_path)["unread"], ledger(tmp_path)["notes"]) == ({}, [])
    last = list(calls(tmp_path).values())[-1]
    assert [item["Max"] for item in last["output"]] == list(range(4000))


def test_a_launch_that_fails_is_measured_by_torch_and_the_next_by_the_kernel(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        x = torch.ones(5)
        with ulpscope.capture(folder) as run:
            torch.sin(x)
            gpu.fail("cuLaunchKernel")
            torch.sin(x)
            gpu.fail("")
            before = gpu.count("launches")
            torch.sin(x)
            assert gpu.count("launches") == before + 1
            run.step()
            # It fails again and again: no more is asked of it.
            gpu.fail("cuLaunchKernel")
            for _ in range(20):
                torch.sin(x)
            gpu.fail("")
            before = gpu.calls("cuLaunchKernel")
            torch.sin(x)
            run.step()
            torch.sin(x)
            assert gpu.calls("cuLaunchKernel") == before
        with ulpscope.capture(folder + "-next"):
            torch.sin(x)
        assert gpu.calls("cuLaunchKernel") > before
        """
    run(tmp_path, program)
    for step in range(3):
        found = [call["input_args"][0]["Max"] for call in calls(tmp_path, step=step).values()]
        assert found == [1.0] * len(found)
        (note,) = ledger(tmp_path, step)["notes"]
        assert "operations of torch" in str(note)
        assert "cuLaunchKernel" in str(note)


def test_a_gpu_with_wrong_numbers_is_not_used(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        gpu.spoil()
        x = torch.ones(5)
        with ulpscope.capture(folder):
            torch.sin(x)
            launches = gpu.count("launches")
            torch.sin(x)
            assert gpu.count("launches") == launches
        """
    run(tmp_path, program)
    assert [call["input_args"][0]["Max"] for call in calls(tmp_path).values()] == [1.0] * 2
    (note,) = ledger(tmp_path)["notes"]
    assert "failed its self-check" in str(note)


def test_a_gpu_is_prepared_once_and_without_waiting_for_its_work(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        for number in range(3):
            with ulpscope.capture(f"{folder}{number}"):
                torch.sin(torch.ones(5))
        assert gpu.calls("cuModuleLoadData") == 1
        assert gpu.calls("cuMemFree_v2") + gpu.calls("cuMemFreeHost") == 0
        """
    run(tmp_path, program)


def test_a_launch_that_waits_for_the_device_does_not_hold_up_other_threads(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        x = torch.ones(5)
        with ulpscope.capture(folder):
            torch.sin(x)
            soon(lambda: None not in numbers())
            gpu.limit_queue(4)
            gpu.pause(True)
            def needed_by_the_device():
                # As a callback on the host would: Python code, which needs the GIL.
                sum(range(1000))
                gpu.pause(False)
            threading.Timer(0.5, needed_by_the_device).start()
            for _ in range(20):
                torch.sin(x)
        """
    run(tmp_path, program, timeout=60)
    assert len(calls(tmp_path)) == 21


def test_a_graph_that_is_captured_by_another_thread_is_left_alone(tmp_path):
    # Questions about events end such a capture, unless the thread that asks is in the relaxed mode.
    program = """
        gpu = posing_gpu.Gpu()
        import standin_device
        modes = set()
        class Event(standin_device.Event):
            def query(self):
                modes.add((threading.current_thread() is threading.main_thread(), gpu.mode()))
                return super().query()
            def synchronize(self):
                self.query()
                super().synchronize()
        torch.standin.Event = Event
        x = standin_device.to_device(torch.ones(5))
        with ulpscope.capture(folder, device_statistics="torch", flush_interval=0.01):
            for _ in range(70):
                torch.sin(x)
            soon(lambda: (False, 2) in modes)
        assert modes == {(True, 2), (False, 2)}, modes
        assert gpu.mode() == 0
        """
    run(tmp_path, program)


def test_nothing_is_launched_while_a_graph_is_captured(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        x = torch.ones(5)
        with ulpscope.capture(folder):
            gpu.capture(True)
            torch.sin(x)
            assert gpu.calls("cuModuleLoadData") == 0
            gpu.capture(False)
            torch.sin(x)
            launches = gpu.count("launches")
            gpu.capture(True)
            torch.sin(x)
            assert gpu.count("launches") == launches
            gpu.capture(False)
        assert gpu.count("unsafe") == 0
        """
    run(tmp_path, program)


def test_a_freed_tensor_is_not_read(tmp_path):
    program = """
        gpu = posing_gpu.Gpu()
        base = torch.ones(200_000)
        part = base[100_000:]
        base.untyped_storage().resize_(0)
        with ulpscope.capture(folder):
            torch.sin(torch.ones(3))
            launches = gpu.count("launches")
            torch.atleast_1d(part)
            assert gpu.count("launches") == launches
        """
    run(tmp_path, program)
    assert ledger(tmp_path)["unread"] == {"its memory was freed": 2}


LAUNCHES = """
import torch.nn.functional as F
gpu = posing_gpu.Gpu()
x, y, z, half = torch.ones(4, 4), torch.ones(4, 4), torch.zeros(4, 4), torch.ones(4, 4).bfloat16()
def launched(call, *arguments, **named):
    "How many launches a call is measured with: before the program's code goes on inside it, and in all."
    before, inside = gpu.calls("cuLaunchKernel"), []
    def pack(tensor):
        inside.append(gpu.calls("cuLaunchKernel") - before)
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        call(*arguments, **named)
    return inside[0] if inside else None, gpu.calls("cuLaunchKernel") - before
"""


def test_what_a_call_only_reads_is_measured_with_its_results(tmp_path):
    program = """
        w, statistics = torch.ones(4, 4, requires_grad=True), (torch.zeros(4), torch.ones(4))
        with ulpscope.capture(folder, level="L1"):
            torch.sin(x)
            assert launched(torch.sin, w) == (0, 1)
            assert launched(F.linear, x, w) == (0, 1)
            assert launched(F.layer_norm, w, (4,)) == (0, 1)
            assert launched(torch.add, x, half) == (None, 2), "one for each dtype"
            assert launched(F.batch_norm, w, *statistics, training=False) == (0, 1)
        with ulpscope.capture(folder + "-writes", level="L1"):
            assert launched(torch.sin_, z) == (None, 2)
            assert launched(torch.add, x, y, out=z) == (None, 2)
            assert launched(torch.norm, x, 2, None, False, torch.empty(())) == (None, 2)
            assert launched(z.__setitem__, 0, 1.0)[1] == 1, "it has no result"
            assert launched(F.relu, z, inplace=True) == (None, 2)
            assert launched(F.batch_norm, w, *statistics, training=True) == (1, 2)
            assert launched(F.embedding, torch.arange(4), y, max_norm=1.0)[1] == 3
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program))
    for name in ("dump", "dump-writes"):
        for call in calls(tmp_path, name).values():
            items = [*call["input_args"], *call["output"]]
            tensors = [item for item in items if isinstance(item, dict) and "requires_grad" in item]
            assert all(item["Max"] is not None for item in tensors if not item.get("blank"))


def test_where_code_of_the_program_may_write_arguments_are_measured_before_it_runs(tmp_path):
    program = """
        from torch.utils._python_dispatch import TorchDispatchMode
        class Writes(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                written.append(gpu.calls("cuLaunchKernel") - before)
                return func(*args, **(kwargs or {}))
        class Wrapper(torch.Tensor):
            __torch_function__ = torch._C._disabled_torch_function_impl
            @staticmethod
            def __new__(cls, tensor):
                return torch.Tensor._make_wrapper_subclass(cls, tensor.shape)
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                written.append(gpu.calls("cuLaunchKernel") - before)
                return args[1]
        written = []
        with ulpscope.capture(folder, level="L1"):
            torch.sin(x)
            wrapper, before = Wrapper(x), gpu.calls("cuLaunchKernel")
            torch.add(wrapper, y)
            before = gpu.calls("cuLaunchKernel")
            with Writes():
                torch.sin(x)
            assert written == [1, 1], written
            library = torch.library.Library("aten", "IMPL")
            assert launched(torch.add, x, y) == (None, 1)
            library.impl("add.Tensor", lambda one, other, alpha=1: one.mul_(2), "CPU", allow_override=True)
            # Any function may call it.
            assert launched(torch.sub, x, y) == (None, 2)
            library._destroy()
            assert launched(torch.add, x, y) == (None, 1)
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program))


def test_arguments_of_a_call_that_fails_or_ends_the_recording(tmp_path):
    program = """
        w, three = torch.ones(4, 4, requires_grad=True), torch.ones(3)
        with ulpscope.capture(folder, level="L1") as run:
            try:
                torch.matmul(x, three)
            except RuntimeError:
                pass
            torch.sin(x)
            run.step()
            def stop(tensor):
                run.stop()
                return tensor
            with torch.autograd.graph.saved_tensors_hooks(stop, lambda tensor: tensor):
                torch.sin(w)
        with ulpscope.capture(folder + "-next", level="L1"):
            before = gpu.calls("cuLaunchKernel")
            torch.sin(x)
            # Nothing is left of the call that ended the recording. Torch has put the mode of that run
            # back: with another mode, arguments are measured first.
            assert gpu.calls("cuLaunchKernel") == before + 2
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program))
    first, second = calls(tmp_path).values()
    assert [item["Max"] for item in first["input_args"]] == [1.0, 1.0]
    assert second["input_args"][0]["Max"] == 1.0
    assert ledger(tmp_path)["unread"] == {}
    # As a run that was killed there: the call began, and its numbers are missing.
    (last,) = calls(tmp_path, step=1).values()
    assert last["input_args"][0]["Max"] is None
    (why,) = ledger(tmp_path, step=1)["unread"].items()
    assert why == ("its numbers did not arrive from its device", 1)


def test_a_call_that_ends_the_process_has_its_line(tmp_path):
    program = """
        w = torch.ones(4, 4, requires_grad=True)
        run = ulpscope.capture(folder, level="L1", flush_interval=0.01)
        run.start()
        torch.sin(x)
        soon(lambda: numbers() == [1.0])
        def kill(tensor):
            os.kill(os.getpid(), signal.SIGKILL)
        with torch.autograd.graph.saved_tensors_hooks(kill, lambda tensor: tensor):
            torch.cos(w)
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program), code=-signal.SIGKILL)
    lines = (tmp_path / "dump/step0/rank/journal.jsonl").read_bytes().rstrip(b"\0").splitlines()
    items = [json.loads(line).get("data", {}) for line in lines]
    inputs = [data["input_args"][0] for data in items if "input_args" in data]
    assert [item["Max"] for item in inputs] == [1.0, None]
    assert ["pending" in item for item in inputs] == [False, True]


def test_gradients_of_a_node_are_measured_together(tmp_path):
    program = """
        w, bias = torch.ones(4, 4, requires_grad=True), torch.ones(4, requires_grad=True)
        with ulpscope.capture(folder, level="L1"):
            loss = F.linear(x.requires_grad_(), w, bias).sum()
            before = gpu.calls("cuLaunchKernel")
            loss.backward()
            # The sum, the product, and the transposition of the weight, which is a node of its own.
            assert gpu.calls("cuLaunchKernel") == before + 3
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program))
    backward = calls(tmp_path)["Functional.linear.0.backward"]
    assert [item["Max"] for item in backward["input"]] == [1.0]
    assert [item["Max"] for item in backward["output"]] == [4.0, 4.0, 4.0]


def test_a_dump_is_complete_when_the_recording_ends(tmp_path):
    program = """
        left = 0
        for number in range(200):
            with ulpscope.capture(f"{folder}/{number}", level="L1"):
                torch.sin(x)
            # A thread that still ended the step would remove it in a moment.
            left += os.path.exists(f"{folder}/{number}/step0/rank/journal.jsonl")
        assert left == 0, left
        """
    run(tmp_path, LAUNCHES + textwrap.dedent(program))


def test_the_part_of_a_distributed_tensor_is_measured_on_its_device(tmp_path):
    program = """
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Shard
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        mesh = init_device_mesh("cpu", (1,))
        x = DTensor.from_local(torch.arange(6.0).view(2, 3), mesh, [Shard(0)])
        gpu = posing_gpu.Gpu()
        with ulpscope.capture(folder, digest="mix64") as run:
            torch.cos(torch.ones(2))
            gpu.pause(True)
            before = gpu.count("launches")
            torch.sin(x)
            launched = gpu.count("launches") - before
            gpu.pause(False)
        assert launched > 0
        with ulpscope.capture(folder + "-host", digest="mix64", device_statistics="host"):
            torch.sin(x)
        dist.destroy_process_group()
        """
    run(tmp_path, program)
    device, host = (
        json.loads((tmp_path / name / "step0" / "rank0" / "dump.json").read_text())["data"][
            "Torch.sin.0.forward"
        ]
        for name in ("dump", "dump-host")
    )
    for one, other in (
        (device["input_args"][0], host["input_args"][0]),
        (device["output"][0], host["output"][0]),
    ):
        assert one["type"] == "torch.distributed.tensor.DTensor"
        assert one == {**other, "Mean": pytest.approx(other["Mean"]), "Norm": pytest.approx(other["Norm"])}
    assert device["input_args"][0]["Max"] == 5.0
