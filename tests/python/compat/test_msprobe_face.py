"""``ulpscope.compat.msprobe.pytorch``: scripts and config.json files written for msprobe 1.1.1."""

from __future__ import annotations

import inspect
import json

import pytest
import torch
from torch.utils.data import DataLoader

from captured import Captured
from ulpscope import SettingsError
from ulpscope.compat.msprobe import pytorch
from ulpscope.compat.msprobe.exceptions import CompareException, MsprobeException
from ulpscope.compat.msprobe.pytorch import PrecisionDebugger, compare, compare_distributed


@pytest.fixture(autouse=True)
def one_debugger():
    yield
    PrecisionDebugger.close()


class Net(torch.nn.Module):
    """The net of the guide's first script."""

    def __init__(self):
        super().__init__()
        self.linear_1 = torch.nn.Linear(8, 4)
        self.linear_2 = torch.nn.Linear(4, 2)

    def forward(self, x):
        return torch.nn.functional.relu(self.linear_2(self.linear_1(x)))


def config(tmp_path, **keys):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"task": "statistics", "dump_path": str(tmp_path / "dump")} | keys))
    return str(file)


def train(debugger, net, steps=1):
    for _ in range(steps):
        debugger.start()
        net(torch.ones(10, 8)).sum().backward()
        debugger.stop()
        debugger.step()


def test_names_and_signature():
    parameters = list(inspect.signature(PrecisionDebugger).parameters)
    assert parameters == ["config_path", "task", "dump_path", "level", "model", "step"]
    assert {"PrecisionDebugger", "seed_all", "compare", "compare_distributed"} <= set(dir(pytorch))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"config_path": 3}, "config_path must be a string"),
        ({"task": "sum"}, "task must be one of ['tensor', 'statistics', "),
        ({"dump_path": 3}, "dump_path must be a string"),
        ({"level": "L3"}, "level must be one of ['L0', 'L1', 'L2', 'mix']"),
        ({"model": "net"}, "model must be a torch.nn.Module"),
    ],
)
def test_wrong_arguments_are_its_errors(arguments, text):
    with pytest.raises(MsprobeException) as error:
        PrecisionDebugger(**arguments)
    assert str(error.value).startswith("[msprobe] ")
    assert text in str(error.value)
    assert error.value.code == MsprobeException.INVALID_PARAM_ERROR


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_levels_with_modules_need_a_model_at_start(tmp_path, level, caplog):
    """The error comes at `start`, and nothing is written. The model may be given there."""
    debugger = PrecisionDebugger(config(tmp_path), level=level)
    with pytest.raises(MsprobeException, match="missing the parameter 'model'"):
        debugger.start()
    assert f"For level {level}, PrecisionDebugger or start interface must receive" in caplog.text
    assert not (tmp_path / "dump").exists()
    with pytest.raises(MsprobeException, match=r"model must be a torch\.nn\.Module"):
        debugger.start("net")
    debugger.start(Net())
    debugger.stop()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(("net", "Net"), "module must be a torch.nn.Module"), ((Net(), 3), "dump_name must be a string")],
)
def test_wrong_arguments_of_module_dump(tmp_path, arguments, text, caplog):
    PrecisionDebugger(config(tmp_path))
    with pytest.raises(MsprobeException, match=text):
        pytorch.module_dump(*arguments)
    assert "in module_dump must be a" in caplog.text


def test_before_there_is_an_object(tmp_path):
    for method in (PrecisionDebugger.start, PrecisionDebugger.stop, PrecisionDebugger.step):
        with pytest.raises(RuntimeError, match="there is no PrecisionDebugger"):
            method()


@pytest.mark.parametrize(("rank", "is_dumped"), [([], True), ([0], True), ([3], False), (["2-4"], False)])
def test_a_rank_that_this_process_does_not_have_is_not_dumped(tmp_path, rank, is_dumped, caplog):
    train(PrecisionDebugger(config(tmp_path, rank=rank)), Net(), steps=3)
    PrecisionDebugger.close()
    assert (tmp_path / "dump").exists() == is_dumped
    assert caplog.text.count("which this process does not have: nothing is dumped here") == (not is_dumped)


def test_a_single_process_and_the_stacks_of_the_release(tmp_path):
    """The folder is `rank`; the stack of each forward call is under its name, innermost first."""
    train(PrecisionDebugger(config(tmp_path)), Net(), steps=2)
    for step in range(2):
        found = Captured(tmp_path / "dump", step=step)
        stacks = found.document("stack.json")
        assert set(stacks) == {name for name in found.calls if ".forward" in name}
        assert all(line.startswith("File ") for line in stacks["Functional.relu.0.forward"])
        assert "in forward" in stacks["Functional.relu.0.forward"][0]


def test_data_loaders_drive_the_steps_and_end_the_training(tmp_path, caplog):
    net, seen = Net(), []
    before = torch.utils.data.dataloader._BaseDataLoaderIter.__next__
    debugger = PrecisionDebugger(config(tmp_path, enable_dataloader=True, step=[0, 2]))

    def training():
        for batch in DataLoader(torch.ones(40, 8), batch_size=10):
            debugger.start()
            seen.append(len(batch))
            net(batch).sum().backward()
            debugger.stop()
            debugger.step()

    with pytest.raises(SystemExit) as ended:
        training()
    assert (ended.value.code, seen) == (0, [10, 10, 10])
    PrecisionDebugger.close()
    assert torch.utils.data.dataloader._BaseDataLoaderIter.__next__ is before
    assert sorted(entry.name for entry in (tmp_path / "dump").glob("step*")) == ["step0", "step2"]
    calls = [list(Captured(tmp_path / "dump", step=step).calls) for step in (0, 2)]
    assert calls[0] == calls[1]
    assert "Functional.relu.0.backward" in calls[0]
    skipped = [text for text in caplog.messages if text.endswith("() skipped.")]
    assert skipped == [f"DataLoader is enabled, {name}() skipped." for name in ("start", "stop", "step")]


def test_a_data_loader_without_a_last_step_comes_to_its_end(tmp_path):
    """Two epochs of two batches."""
    PrecisionDebugger(config(tmp_path, enable_dataloader=True))
    for _ in range(2):
        for batch in DataLoader(torch.ones(20, 8), batch_size=10):
            torch.sin(batch)
    PrecisionDebugger.close()
    for step in range(4):
        assert "Torch.sin.0.forward" in Captured(tmp_path / "dump", step=step).calls


FRAGMENT = """\
functional:  # functional为算子类别
  - conv1d
  - conv2d
  - conv3d
"""


def test_the_list_of_functions_of_the_guide(tmp_path):
    """What is listed is recorded under its category's prefix, the rest is not."""
    (tmp_path / "support_wrap_ops.yaml").write_text(FRAGMENT)
    debugger = PrecisionDebugger(config(tmp_path, support_wrap_ops="support_wrap_ops.yaml"))
    debugger.start()
    x = torch.ones(1, 1, 4)
    torch.nn.functional.conv1d(x, torch.ones(1, 1, 2))
    torch.relu(x) + x
    torch.nn.functional.conv1d(x, torch.ones(1, 1, 2))
    debugger.stop()
    expected = ["Functional.conv1d.0.forward", "Functional.conv1d.1.forward"]
    assert list(Captured(tmp_path / "dump").calls) == expected


def test_every_category_has_its_prefix(tmp_path):
    prefixes = {
        "functional": "Functional",
        "tensor": "Tensor",
        "torch": "Torch",
        "_VF": "VF",
        "aten": "Aten",
        "torch_npu": "NPU",
        "distributed": "Distributed",
        "npu_distributed": "Distributed",
        "mindspeed": "MindSpeed",
    }
    (tmp_path / "ops.yaml").write_text("---\n# all\n" + "".join(f"{name}:\n- 'one'\n" for name in prefixes))
    settings = PrecisionDebugger(config(tmp_path, support_wrap_ops="ops.yaml")).settings
    assert set(settings["apis"]) == {f"{prefix}.one" for prefix in prefixes.values()}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("functional:\n  - conv1d: 2\n", "line 2"),
        ("- conv1d\n", "line 1"),
        ("functinal:\n", "no category 'functinal'"),
        ("functional:\n", "lists no function"),
        ("functional: [conv1d]\n", "line 1"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_lists_that_cannot_be_read(tmp_path, text, problem):
    file = tmp_path / "ops.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError, match=problem):
        PrecisionDebugger(config(tmp_path, support_wrap_ops="ops.yaml"))


def test_operators_of_torch_npu(tmp_path):
    """With a stand-in that registers operators under `torch.ops.npu`."""
    with torch.library._scoped_library("npu", "DEF") as library:
        library.define("npu_double(Tensor x) -> Tensor")
        library.impl("npu_double", lambda x: x * 2, "CompositeExplicitAutograd")
        debugger = PrecisionDebugger(config(tmp_path))
        debugger.start()
        torch.ops.npu.npu_double(torch.ones(2))
        debugger.stop()
    assert "NPU.npu_double.0.forward" in Captured(tmp_path / "dump").calls


def dumps(tmp_path):
    """The dump.json of two runs."""
    for name in ("npu", "bench"):
        torch.manual_seed(1)
        PrecisionDebugger(config(tmp_path), dump_path=str(tmp_path / name))
        train(PrecisionDebugger, Net())
        PrecisionDebugger.close()
    return [tmp_path / name / "step0" / "rank" / "dump.json" for name in ("npu", "bench")]


@pytest.mark.parametrize("auto_analyze", [True, False])
def test_compare(tmp_path, auto_analyze, capfd):
    npu, bench = dumps(tmp_path)
    stack = npu.with_name("stack.json")
    given = {"npu_json_path": str(npu), "bench_json_path": str(bench), "stack_json_path": str(stack)}
    compare(given, str(tmp_path / "out"), stack_mode=True, auto_analyze=auto_analyze)
    files = {file.name.partition("_")[0] for file in (tmp_path / "out").iterdir()}
    assert ("advisor" in files) == auto_analyze
    assert len(list((tmp_path / "out").glob("compare_result_*.xlsx"))) == 1


def test_compare_of_what_is_not_there(tmp_path):
    with pytest.raises(CompareException, match="npu_json_path"):
        compare({"npu_json_path": "none", "bench_json_path": "none"}, str(tmp_path))
    with pytest.raises(CompareException, match="fuzzy_match must be a bool"):
        compare({}, str(tmp_path), fuzzy_match=1)


def test_compare_distributed(tmp_path, capfd):
    npu, bench = (file.parents[1] for file in dumps(tmp_path))
    compare_distributed(str(npu), str(bench), str(tmp_path / "out"))
    assert list((tmp_path / "out").glob("compare_result*.xlsx"))
    (npu / "notes.txt").touch()
    with pytest.raises(CompareException, match="should only contain rank directories"):
        compare_distributed(str(npu), str(bench), str(tmp_path / "out"))
    (npu / "notes.txt").unlink()
    (npu / "rank1").mkdir()
    with pytest.raises(CompareException, match="number of ranks"):
        compare_distributed(str(npu), str(bench), str(tmp_path / "out"))


@pytest.mark.parametrize("level", ["L1", "L0"])
def test_task_overflow_check_dumps_the_calls_that_overflow(tmp_path, level):
    """The stock config.json: the check ends at overflow_nums, and training goes on."""
    file = config(
        tmp_path,
        task="overflow_check",
        level=level,
        statistics={"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
        tensor={"scope": [], "list": [], "data_mode": ["all"], "file_format": "npy"},
        overflow_check={"overflow_nums": 2, "check_mode": "all"},
        run_ut={"white_list": [], "black_list": [], "error_data_path": "./"},
    )
    net = Net()
    with torch.no_grad():
        net.linear_1.weight.fill_(3e38)
    debugger = PrecisionDebugger(file, model=net if level == "L0" else None)
    for _ in range(3):
        debugger.start()
        with torch.no_grad():
            net(torch.ones(10, 8))
        debugger.stop()
        debugger.step()
    dumps = sorted((tmp_path / "dump").glob("step*/rank/dump.json"))
    calls = [json.loads(dump.read_text()) for dump in dumps]
    first = {"L1": "Functional.linear.0.forward", "L0": "Module.linear_1.Linear.forward.0"}[level]
    assert [next(iter(call["data"])) for call in calls] == [first] * len(calls)
    assert sum(len(call["data"]) for call in calls) == 2
    assert all(call["task"] == "overflow_check" for call in calls)
    data = calls[0]["data"][first]
    saved = dumps[0].parent / "dump_tensor_data" / data["output"][0]["data_name"]
    assert torch.load(saved).isinf().all()
    assert (
        torch.load(dumps[0].parent / "dump_tensor_data" / data["input_args"][0]["data_name"]).isfinite().all()
    )
