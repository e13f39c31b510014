"""What a capture records: names, arguments, statistics, sources, selection, files, the ledger."""

import json
import logging
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope
from captured import Captured, Net, capture_of, forward_of


def test_operators_are_named_by_how_they_are_written(tmp_path):
    x = torch.ones(3)

    def program():
        x + 1
        1 + x
        2 * x
        x.add(1)
        torch.add(x, 1)
        x == 1  # noqa: B015
        y = x.clone()
        y += 1
        y[0] = 2
        add_up([x, x])

    # In a function of its own: one that mentions `add` might have called it.
    def add_up(tensors):
        return sum(tensors)

    names = list(capture_of(tmp_path, program).calls)
    assert names == [
        "Tensor.__add__.0.forward",
        "Tensor.__radd__.0.forward",
        "Tensor.__rmul__.0.forward",
        "Tensor.add.0.forward",
        "Torch.add.0.forward",
        "Tensor.__eq__.0.forward",
        "Tensor.clone.0.forward",
        "Tensor.__iadd__.0.forward",
        "Tensor.__setitem__.0.forward",
        "Tensor.__radd__.1.forward",
        "Tensor.__add__.1.forward",
    ]


def test_arguments_are_recorded_as_they_were_passed(tmp_path):
    x, w = torch.ones(2, 4), torch.ones(4)

    def program():
        F.layer_norm(x, (4,), w, eps=1e-3)
        x.to(torch.float64)
        torch.sum(x, dim=(0, 1), keepdim=True)
        x[1:, ..., None]

    calls = capture_of(tmp_path, program).calls
    norm = calls["Functional.layer_norm.0.forward"]
    assert [len(norm["input_args"]), list(norm["input_kwargs"])] == [3, ["eps"]]
    assert norm["input_args"][1] == [{"type": "int", "value": 4}]
    dtype = {"type": "torch.dtype", "value": "torch.float64"}
    assert calls["Tensor.to.0.forward"]["input_args"][1] == dtype
    assert calls["Torch.sum.0.forward"]["input_kwargs"]["keepdim"] == {"type": "bool", "value": True}
    index = calls["Tensor.__getitem__.0.forward"]["input_args"][1]
    assert [one and one["type"] for one in index] == ["slice", "ellipsis", None]
    assert index[0]["value"] == [1, None, None]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_statistics_are_those_of_numpy_in_double_precision(tmp_path, dtype):
    torch.manual_seed(0)
    x = (torch.randn(37, 53) * 10).to(getattr(torch, dtype)).t()
    item = capture_of(tmp_path, lambda: x.clone()).calls["Tensor.clone.0.forward"]["input_args"][0]
    exact = x.double().numpy()
    assert (item["dtype"], item["shape"]) == (f"torch.{dtype}", [53, 37])
    assert (item["Max"], item["Min"]) == (exact.max(), exact.min())
    np.testing.assert_allclose(
        [item["Mean"], item["Norm"]], [exact.mean(), np.linalg.norm(exact)], rtol=1e-12
    )
    assert "nan" not in item


@pytest.mark.parametrize(
    "array",
    [
        np.array([1.0, np.nan, -3.0, np.inf, -np.inf]),
        np.arange(6, dtype=np.int32).reshape(2, 3).T[::2],
        np.array([True, False]),
        np.ones((2, 2), dtype=np.float16),
        np.zeros((0, 3)),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_are_measured_as_tensors_are(tmp_path, array):
    holder = types.ModuleType("mine")
    holder.take = lambda array, tensor: None
    with ulpscope.capture(tmp_path, list=["mine"]) as run:
        run.register_custom_api(holder, "take")
        holder.take(array, torch.from_numpy(array.copy()))
    taken, tensor = Captured(tmp_path).calls["mine.take.0.forward"]["input_args"]
    assert (taken.pop("type"), taken.pop("dtype")) == ("numpy.ndarray", str(array.dtype))
    numbers = ("shape", "Max", "Min", "Mean", "Norm", "nan", "inf", "finite_max", "finite_min")
    # As text, in which NaN equals NaN.
    assert str(taken) == str({key: tensor[key] for key in numbers if key in tensor})


def test_arrays_of_no_numbers_have_none(tmp_path):
    holder = types.ModuleType("mine")
    holder.take = lambda *arrays: None
    with ulpscope.capture(tmp_path, list=["mine"]) as run:
        run.register_custom_api(holder, "take")
        holder.take(np.array(["a"]), np.array([object()]), np.array(["2020-01-01"], dtype="M8[s]"))
    for taken in Captured(tmp_path).calls["mine.take.0.forward"]["input_args"]:
        assert [taken[key] for key in ("shape", "Max", "Min", "Mean", "Norm")] == [
            [1],
            None,
            None,
            None,
            None,
        ]
    assert Captured(tmp_path).ledger["failed"] == {}


def test_what_is_not_finite_is_counted(tmp_path):
    x = torch.tensor([1.0, float("nan"), -3.0, float("inf"), float("-inf"), float("nan")])
    item = capture_of(tmp_path, lambda: x.clone()).calls["Tensor.clone.0.forward"]["output"][0]
    assert np.isnan([item["Max"], item["Min"]]).all()
    assert [item[key] for key in ("nan", "inf", "finite_max", "finite_min")] == [2, 2, 1.0, -3.0]


def test_every_tensor_has_its_source(tmp_path):
    net, x = Net(), torch.randn(2, 4)

    def program():
        y = net(x)
        z = y.T * 2
        z[0] = 0
        torch.cat([z, y.detach().T])

    captured = capture_of(tmp_path, program, model=net, level="mix")
    source = lambda call, *path: _at(captured.calls[call]["input_args"], path)["source"]  # noqa: E731
    assert source("Functional.linear.0.forward", 0) == "outside"
    assert source("Functional.linear.0.forward", 1) == "parameter:layers.0.weight"
    assert source("Functional.linear.1.forward", 0) == "Torch.tanh.0.forward.output.0"
    assert source("Tensor.__add__.0.forward", 1) == "buffer:shift"
    assert source("Tensor.T.0.forward", 0) == "Tensor.__add__.0.forward.output.0"
    assert source("Tensor.__mul__.0.forward", 0) == "Tensor.T.0.forward.output.0"
    assert source("Torch.cat.0.forward", 0, 0) == "Tensor.__setitem__.0.forward.input.0"
    assert source("Torch.cat.0.forward", 0, 1) == "Tensor.T.1.forward.output.0"


def _at(item, path):
    for part in path:
        item = item[part]
    return item


def test_nesting_and_stacks(tmp_path):
    net, x = Net(), torch.randn(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def program():
        net(x).sum().backward()
        optimizer.step()

    captured = capture_of(tmp_path, program, model=net, level="mix")
    parents = captured.document("construct.json")
    assert parents["Functional.linear.1.forward"] == "Module.layers.1.Linear.forward.0"
    assert parents["Functional.linear.1.backward"] == "Module.layers.1.Linear.backward.0"
    assert parents["Tensor.add_.0.forward"] == "optimizer"
    stacks = {name: frames for names, frames in captured.document("stack.json").values() for name in names}
    assert "x = torch.tanh(layer(x))" in stacks["Torch.tanh.0.forward"][0]
    # The package's own folder: the word alone may be part of the path of any clone.
    ours = str(Path(ulpscope.__file__).parent)
    assert all(ours not in frame for frames in stacks.values() for frame in frames)


@pytest.mark.parametrize("format_", ["pack", "pt", "npy", "safetensors"])
def test_files_hold_the_tensors(tmp_path, format_):
    x = torch.randn(5, 7).t()
    captured = capture_of(tmp_path, lambda: torch.sin(x), task="tensor", file_format=format_)
    call = captured.calls["Torch.sin.0.forward"]
    assert torch.equal(captured.tensor(call["input_args"][0]), x)
    assert torch.equal(captured.tensor(call["output"][0]), x.sin())


@pytest.mark.parametrize("file_format", ["pack", "pt"])
def test_the_same_content_is_stored_once(tmp_path, file_format):
    x = torch.randn(1000)
    program = lambda: torch.sin(torch.cos(x))  # noqa: E731
    captured = capture_of(tmp_path, program, task="tensor", file_format=file_format)
    calls = captured.calls
    names = [calls["Torch.cos.0.forward"]["output"][0], calls["Torch.sin.0.forward"]["input_args"][0]]
    folder = captured.folder / "dump_tensor_data"
    files = [((folder / item["data_name"]).stat().st_ino, item.get("data_at")) for item in names]
    assert files[0] == files[1]


def test_a_tensor_changed_without_torch_is_measured_again(tmp_path):
    x = torch.ones(8)
    shared = x.numpy()

    def program():
        torch.sin(x)
        shared[:] = 5
        torch.sin(x)

    captured = capture_of(tmp_path, program, task="tensor")
    items = [captured.calls[f"Torch.sin.{n}.forward"]["input_args"][0] for n in range(2)]
    assert [item["Max"] for item in items] == [1.0, 5.0]
    assert [captured.tensor(item).max().item() for item in items] == [1.0, 5.0]


@pytest.mark.parametrize(("digest", "kind"), [("md5", "crc32"), ("xxh3", "xxh3"), ("mix64", "mix64")])
def test_digests(tmp_path, digest, kind):
    x = torch.randn(9)
    item = capture_of(tmp_path, lambda: x.clone(), digest=digest).calls["Tensor.clone.0.forward"]["output"][0]
    assert item["md5"] == ulpscope.digest(x, kind)


def test_every_operator_with_those_of_the_backward_pass(tmp_path):
    x, w = torch.randn(2, 4), torch.randn(3, 4, requires_grad=True)
    calls = capture_of(tmp_path, lambda: F.linear(x, w).sum().backward(), level="L2").calls
    bases = [name.rsplit(".", 2)[0] for name in calls]
    assert bases.count("Aten.mm") == 2
    assert {"Aten.t", "Aten.sum", "Aten.expand"} <= set(bases)


def test_structure_alone(tmp_path):
    net = Net()
    captured = capture_of(
        tmp_path, forward_of(net, torch.randn(2, 4)), model=net, level="mix", task="structure"
    )
    assert captured.calls == {}
    assert "Functional.linear.0.forward" in captured.document("construct.json")


def test_structure_has_the_backward_calls(tmp_path):
    net = Net()
    x = torch.randn(2, 4)
    captured = capture_of(tmp_path, lambda: net(x).sum().backward(), model=net, level="mix", task="structure")
    assert captured.calls == {}
    parents = captured.document("construct.json")
    assert parents["Functional.linear.0.backward"] == "Module.layers.0.Linear.backward.0"
    assert parents["Module.layers.2.Linear.backward.0"] is None


def test_values_saved_by_hand(tmp_path):
    x = torch.randn(3, requires_grad=True)
    with ulpscope.capture(tmp_path, level="debug", task="tensor") as run:
        y = x * 2
        run.save({"y": y, "n": 3}, "middle")
        (y * torch.arange(3.0)).sum().backward()
    captured = Captured(tmp_path)
    data = captured.document("debug.json")["data"]
    assert list(data) == ["middle.0.debug", "middle_grad.0.debug"]
    assert torch.equal(captured.tensor(data["middle.0.debug"]["y"]), (x * 2).detach())
    assert torch.equal(captured.tensor(data["middle_grad.0.debug"]["y"]), torch.arange(3.0))


def test_saving_a_value_switches_nothing_else_on(tmp_path):
    x = torch.ones(2)
    with ulpscope.capture(tmp_path) as run:
        torch.sin(x)
        run.end_forward()
        run.save(x, "mine")
        torch.cos(x)
    assert list(Captured(tmp_path).calls) == ["Torch.sin.0.forward", "mine.0.debug"]


def test_gradients_that_have_come_are_saved_at_the_end(tmp_path):
    """Of a value of which another part never gets one."""
    x, unused = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
    with ulpscope.capture(tmp_path, level="debug") as run:
        run.save([x, unused], "pair")
        (x * 3).sum().backward()
    gradients = Captured(tmp_path).document("debug.json")["data"]["pair_grad.0.debug"]
    assert (gradients[0]["Max"], gradients[1]) == (3.0, None)


def test_after_the_end_nothing_is_saved(tmp_path):
    run = ulpscope.capture(tmp_path, level="debug")
    run.save(torch.ones(2), "kept")
    run.close()
    with pytest.raises(RuntimeError, match="this capture is closed"):
        run.save(torch.ones(2), "late")
    assert list(Captured(tmp_path).document("debug.json")["data"]) == ["kept.0.debug"]
    assert not list(tmp_path.glob("**/journal.jsonl"))


def test_functions_of_the_user(tmp_path):
    class Kernels:
        @staticmethod
        def fused(x, scale=1.0):
            return x.mul(scale).add(1)

    original = Kernels.__dict__["fused"]
    x = torch.ones(2)
    with ulpscope.capture(tmp_path) as run:
        run.register_custom_api(Kernels, "fused", "Mine")
        Kernels.fused(x, scale=3.0)
        run.restore_custom_api(Kernels, "fused")
        Kernels.fused(x)
    calls = Captured(tmp_path).calls
    assert [name for name in calls if name.startswith("Mine")] == ["Mine.fused.0.forward"]
    assert calls["Mine.fused.0.forward"]["output"][0]["Max"] == 4.0
    assert Kernels.__dict__["fused"] is original


def test_steps_have_folders_and_numbers_of_their_own(tmp_path):
    x = torch.ones(2)
    with ulpscope.capture(tmp_path, step="0,2") as run:
        for _ in range(4):
            torch.sin(x)
            torch.sin(x)
            run.step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step0", "step2"]
    assert list(Captured(tmp_path, step=2).calls) == ["Torch.sin.0.forward", "Torch.sin.1.forward"]


def test_start_and_stop_within_a_step_count_on(tmp_path):
    x = torch.ones(2)
    run = ulpscope.capture(tmp_path)
    for _ in range(2):
        run.start()
        torch.sin(x)
        run.stop()
        torch.cos(x)
    run.close()
    assert list(Captured(tmp_path).calls) == ["Torch.sin.0.forward", "Torch.sin.1.forward"]


def test_after_the_end_of_the_forward_only_gradients_come(tmp_path):
    x = torch.ones(2, requires_grad=True)
    with ulpscope.capture(tmp_path) as run:
        y = torch.sin(x)
        run.end_forward()
        torch.cos(y).sum().backward()
    assert list(Captured(tmp_path).calls) == ["Torch.sin.0.forward", "Torch.sin.0.backward"]


def test_an_exception_in_a_call_is_passed_on_and_noted(tmp_path):
    x = torch.ones(2)
    with ulpscope.capture(tmp_path):
        with pytest.raises(RuntimeError):
            torch.matmul(x, torch.ones(3))
        torch.sin(x)
    calls = Captured(tmp_path).calls
    assert "output" not in calls["Torch.matmul.0.forward"]
    assert "Torch.sin.0.forward" in calls


def test_a_failure_is_reported_once_and_counted(tmp_path, caplog):
    class Odd(dict):
        def items(self):
            raise KeyError("no")

        keys = __iter__ = items

    x = torch.ones(2)

    def program():
        for _ in range(3):
            Holder.take(Odd(), x)

    class Holder:
        @staticmethod
        def take(odd, tensor):
            return tensor + 1

    with caplog.at_level(logging.WARNING, "ulpscope"), ulpscope.capture(tmp_path) as run:
        run.register_custom_api(Holder, "take", "Mine")
        program()
    ledger = Captured(tmp_path).ledger
    assert sum(ledger["failed"].values()) == 3
    told = [record for record in caplog.records if "could not record" in record.message]
    assert len(told) == len(ledger["failed"])
    with ulpscope.capture(tmp_path, strict=True) as run:
        run.register_custom_api(Holder, "take", "Mine")
        with pytest.raises(KeyError):
            program()


def test_two_ledgers_that_disagree_are_a_warning(tmp_path):
    x = torch.ones(2)
    for name, count in (("one", 1), ("two", 2)):
        with ulpscope.capture(tmp_path / name, list=["sin"]):
            torch.sin(x)
            for _ in range(count):
                torch.cos(x)
    result = ulpscope.compare(tmp_path / "one", tmp_path / "two")
    one, two = (tmp_path / name / "step0" / "rank" / "dump.json" for name in ("one", "two"))
    differ = "calls seen 2 against 3; skipped (not selected) 1 against 2."
    told = f"{one} and {two}: the two runs did not make the same calls: {differ}"
    assert any(note.startswith(told) for note in result.notes)


def test_the_dump_is_strict_enough_for_json(tmp_path):
    net = torch.nn.ModuleDict({'a "b"\\c': torch.nn.Linear(2, 2)})
    net.forward = lambda x: net['a "b"\\c'](x)
    captured = capture_of(tmp_path, lambda: net(torch.ones(1, 2)), model=net, level="mix", task="tensor")
    for name in ("dump.json", "stack.json", "construct.json", "ledger.json"):
        json.loads((captured.folder / name).read_text())
    item = captured.calls['Module.a "b"\\c.Linear.forward.0']["output"][0]
    assert captured.tensor(item).shape == (1, 2)


def test_blank_memory_is_not_measured(tmp_path):
    def program():
        x = torch.empty(1000)
        torch.nn.init.ones_(x)
        torch.sin(x)

    captured = capture_of(tmp_path, program, task="tensor")
    calls = captured.calls
    blank = calls["Torch.empty.0.forward"]["output"][0]
    assert (blank["Max"], blank["Norm"]) == (None, None)
    assert "data_name" not in blank
    assert calls["Torch.sin.0.forward"]["input_args"][0]["Max"] == 1.0


@pytest.mark.parametrize("file_format", ["pack", "pt"])
def test_no_file_leaves_its_folder(tmp_path, file_format):
    names = ["../../escaped", str(tmp_path / "absolute"), "a/b\\c", "n" * 300]
    with ulpscope.capture(tmp_path / "dump", level="debug", task="tensor", file_format=file_format) as run:
        for name in names:
            run.save(torch.ones(2), name)
        run.save({1: torch.ones(1), "1": torch.zeros(1)}, "twice")
    assert [path.name for path in tmp_path.iterdir()] == ["dump"]
    captured = Captured(tmp_path / "dump")
    # In a pack equal tensors have one name.
    assert len(captured.saved_names()) == (3 if file_format == "pack" else 6)
    assert [path.name for path in captured.folder.parent.iterdir()] == ["rank"]
    assert ulpscope.compare(tmp_path / "dump", tmp_path / "dump").ok


def test_threads_whose_operators_are_not_seen_are_noted(tmp_path):
    with ulpscope.capture(tmp_path, level="L2"):
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
    assert Captured(tmp_path).ledger["notes"] == [
        "a thread was started: level L2 does not see what runs on it"
    ]


def test_threads_lose_no_call(tmp_path):
    big = torch.ones(1 << 19)

    def work():
        for _ in range(50):
            torch.sin(big)
            torch.cos(torch.ones(2))

    with ulpscope.capture(tmp_path):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    captured = Captured(tmp_path)
    assert len([name for name in captured.calls if name.startswith("Torch.sin")]) == 200
    assert captured.ledger["recorded"] == len(captured.calls) == 600


@pytest.mark.slow
def test_a_program_that_ends_without_a_word_leaves_a_dump(tmp_path):
    program = f"""
import torch, ulpscope
ulpscope.capture({str(tmp_path)!r}).start()
torch.ones(1) + 1
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert "Tensor.__add__.0.forward" in Captured(tmp_path).calls
