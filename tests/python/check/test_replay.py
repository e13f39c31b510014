"""Replay: healthy calls pass, wrong ones are named, and nothing else is."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import ulpscope
from twin_programs import GPT, Residual, edges
from wrong_kernels import Wrong


def train(model: torch.nn.Module, loss_of: Callable[[], Tensor], dump: Path, wrong: Wrong | None) -> None:
    """One recorded step. The faults are below the recorder: it sees what they return."""

    @contextmanager
    def faults() -> Iterator[None]:
        if wrong is None:
            yield
        else:
            with wrong:
                yield

    with faults(), ulpscope.capture(dump, model=model, level="L1", task="tensor"):
        loss_of().backward()


def gpt(dump: Path, wrong: Wrong | None = None) -> None:
    torch.manual_seed(0)
    model = GPT()
    tokens = torch.randint(0, 32, (2, 8))

    def loss_of() -> Tensor:
        return F.cross_entropy(model(tokens[:, :-1]).reshape(-1, 32), tokens[:, 1:].reshape(-1))

    train(model, loss_of, dump, wrong)


def conv_net(dump: Path, wrong: Wrong | None = None) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 6, 3),
        torch.nn.MaxPool2d(2),
        Residual(6),
        torch.nn.Dropout(0.2),
        torch.nn.Flatten(),
    )
    x = torch.randn(2, 3, 12, 12)
    train(model, lambda: model(x).square().mean(), dump, wrong)


@pytest.mark.parametrize("program", [gpt, conv_net])
def test_healthy_calls_pass(program: Callable[[Path], None], tmp_path: Path) -> None:
    program(tmp_path)
    result = ulpscope.check(tmp_path)
    assert result.failed == []
    assert result.skipped == []
    assert len(result.calls) > 10
    # Most have gradients, and these were judged too.
    assert sum(call.backward == "pass" for call in result.calls) > len(result.calls) / 2
    assert result


def test_every_kind_of_argument_is_rebuilt(tmp_path: Path) -> None:
    torch.manual_seed(0)
    edges(lambda model: ulpscope.capture(tmp_path, model=model, level="mix", task="tensor"))
    result = ulpscope.check(tmp_path)
    assert result.failed == []
    reasons = {call.call: call.message for call in result.skipped}
    assert set(reasons.values()) <= {
        "its result is uninitialised memory",
        "an autograd function of the program",
        "none of its results is recorded, and no device was given",
    }
    assert len(result.calls) > 100


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_pass_and_a_wrong_one_is_named(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(16, 64).to(dtype), torch.randn(32, 64).to(dtype).requires_grad_()
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        F.softmax(F.layer_norm(F.linear(x, weight), (32,)), -1).sum().backward()
    assert ulpscope.check(tmp_path).failed == []


def test_autocast_is_not_a_fault(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(64, 32), torch.randn(16, 64)
    with (
        ulpscope.capture(tmp_path, model=layer, level="L1", task="tensor"),
        torch.autocast("cpu", torch.bfloat16),
    ):
        layer(x).sum().backward()
    assert ulpscope.check(tmp_path).failed == []


FAULTS: dict[Any, Callable[[Tensor], None]] = {
    F.gelu: lambda y: y.mul_(1.0001),
    F.softmax: lambda y: y.view(-1)[3].add_(0.01),
    F.layer_norm: lambda y: y.copy_(y.bfloat16().float()),
    torch.matmul: lambda y: y.add_(1e-3),
}


@pytest.mark.slow
def test_exactly_the_wrong_calls_are_named(tmp_path: Path) -> None:
    """Four wrong results and one wrong gradient: a factor, one element, a coarser dtype, an offset."""
    gpt(tmp_path / "dump", Wrong(FAULTS, backward=F.embedding))
    result = ulpscope.check(tmp_path / "dump", output=tmp_path / "out")
    named = {call.call: (call.forward, call.backward) for call in result.failed}
    assert named == {
        "Functional.gelu.0": ("error", "pass"),
        "Functional.softmax.0": ("error", named["Functional.softmax.0"][1]),
        "Functional.layer_norm.0": ("error", "pass"),
        "Torch.matmul.0": ("error", "pass"),
        "Functional.embedding.0": ("pass", "error"),
    }
    assert result.exit_code == 1
    assert not result
    # Each has a script, which shows the failure with plain torch, and nothing of ours.
    scripts = [Path(call.repro) for call in result.failed]
    one_by_one = "import runpy, sys\nfor path in sys.argv[1:]:\n    try: runpy.run_path(path)\n"
    one_by_one += "    except SystemExit as end: print('ended with', end.code)\n"
    shown = subprocess.run(
        [sys.executable, "-I", "-c", one_by_one, *map(str, scripts)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stdout.count("ended with 1") == len(scripts), shown.stderr
    assert all("import ulpscope" not in script.read_text() for script in scripts)


CONV_FAULTS: dict[Any, Callable[[Tensor], None]] = {
    F.conv2d: lambda y: y.mul_(1.0001),
    F.batch_norm: lambda y: y.view(-1)[3].add_(0.01),
    Tensor.square: lambda y: y.copy_(y.bfloat16().float()),
    Tensor.mean: lambda y: y.add_(1e-3),
}


def test_exactly_the_wrong_calls_of_a_conv_net_are_named(tmp_path: Path) -> None:
    """Four wrong results and one wrong gradient."""
    conv_net(tmp_path, Wrong(CONV_FAULTS, backward=F.max_pool2d))
    named = {call.call: (call.forward, call.backward) for call in ulpscope.check(tmp_path).failed}
    assert named == {
        "Functional.conv2d.0": ("error", "pass"),
        "Functional.max_pool2d.0": ("pass", "error"),
        "Functional.batch_norm.0": ("error", "pass"),
        "Tensor.square.0": ("error", "pass"),
        "Tensor.mean.0": ("error", "pass"),
    }


def rows(folder: Path, kind: str) -> list[dict[str, str]]:
    [path] = folder.glob(f"accuracy_checking_{kind}_*.csv")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_files_are_those_of_the_older_tool(tmp_path: Path) -> None:
    x = torch.randn(4, 8, requires_grad=True)
    with ulpscope.capture(tmp_path / "dump", level="L1", task="tensor"):
        torch.relu(x).sum().backward()
        torch.empty(3)
    ulpscope.check(tmp_path / "dump", output=tmp_path / "out")
    results = rows(tmp_path / "out", "result")
    assert list(results[0]) == ["API name", "Forward Test Success", "Backward Test Success", "Message"]
    assert [list(row.values()) for row in results] == [
        ["Torch.relu.0", "pass", "pass", ""],
        ["Tensor.sum.0", "pass", "pass", ""],
        ["Torch.empty.0", "SKIP", "", "its result is uninitialised memory"],
    ]
    details = rows(tmp_path / "out", "details")
    assert list(details[0])[:5] == ["API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "余弦相似度"]
    assert list(details[0])[21:23] == ["Status", "Message"]
    relu = details[0]
    assert relu["API Name"] == "Torch.relu.0.forward.output.0"
    assert (relu["Bench Dtype"], relu["DEVICE Dtype"], relu["Shape"]) == (
        "torch.float64",
        "torch.float32",
        "[4, 8]",
    )
    assert (relu["二进制一致错误率"], relu["Status"], relu["Standard"]) == (
        "0.0",
        "pass",
        "binary consistency",
    )
    assert not (tmp_path / "out" / "check_progress.jsonl").exists()


def test_statistics_are_enough_to_check_a_device(tmp_path: Path) -> None:
    x = torch.randn(4, 8)
    x[1, 2] = torch.nan
    places, table = torch.tensor([[1, 5], [2, 0]]), torch.randn(6, 3)
    with ulpscope.capture(tmp_path, level="L1", task="statistics"):
        F.embedding(places, table)
        torch.relu(x)
    result = ulpscope.check(tmp_path)
    assert [call.forward for call in result.calls] == ["pass", "pass"]
    assert all(tensor.judged == "cpu" for call in result.calls for tensor in call.tensors)


def test_lists_select_apis(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        torch.relu(torch.sin(torch.cos(torch.ones(3))))
    names = lambda **lists: [call.call for call in ulpscope.check(tmp_path, **lists).calls]  # noqa: E731
    assert names(white_list=["relu", "sin"]) == ["Torch.sin.0", "Torch.relu.0"]
    assert names(white_list=["relu", "sin"], black_list=["sin"]) == ["Torch.relu.0"]
    assert names(white_list=["Torch.cos.0"]) == ["Torch.cos.0"]


def test_the_standards_of_msprobe_judge_too(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        torch.matmul(torch.randn(64, 64), torch.randn(64, 64))
        torch.exp(torch.randn(64))
    result = ulpscope.check(tmp_path, standard="msprobe")
    judged = {call.call: call.tensors[0] for call in result.calls if call.tensors}
    assert judged["Torch.matmul.0"].standard == "ulp"
    assert judged["Torch.exp.0"].standard == "benchmark"
    assert {tensor.by_standard for tensor in judged.values()} <= {"pass", ""}


def hostile(folder: Path, calls: dict[str, Any]) -> Path:
    rank = folder / "step0" / "rank"
    rank.mkdir(parents=True)
    header = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    (rank / "dump.json").write_text(json.dumps({**header, "data": calls}))
    return folder


def value(kind: str, what: Any) -> dict[str, Any]:
    return {"type": kind, "value": what}


def test_only_functions_of_the_table_are_called(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    names = [
        "Torch.save.0",
        "Torch.load.0",
        "Torch.from_file.0",
        "Torch.compile.0",
        "Torch.os.system.0",
        "Torch._C.fork.0",
        "Torch.hub.load.0",
        "Tensor.apply_.0",
        "Tensor.__class__.0",
        "Functional.__loader__.0",
        "Aten.from_file.0",
        "os.system.0",
        "builtins.eval.0",
        "NPU.__init__.0",
        "Autograd.Evil.0",
    ]
    call = {"input_args": [value("str", f"touch {marker}")], "input_kwargs": {}, "output": [None]}
    result = ulpscope.check(hostile(tmp_path / "dump", {f"{name}.forward": call for name in names}))
    assert [call.call for call in result.skipped] == names
    assert not marker.exists()
    assert result.exit_code == 2


@pytest.mark.parametrize("section", ["input_args", "output"])
@pytest.mark.parametrize("name", ["../../../secret.pt", "/etc/hostname", "missing.pt"])
def test_elements_that_cannot_be_read_are_listed_and_never_drawn(
    section: str, name: str, tmp_path: Path
) -> None:
    with ulpscope.capture(tmp_path / "dump", level="L1", task="tensor", file_format="pt"):
        torch.relu(torch.ones(4))
        torch.sin(torch.ones(4))
    ulpscope.save(tmp_path / "secret.pt", torch.ones(4))
    record = tmp_path / "dump" / "step0" / "rank" / "dump.json"
    document = json.loads(record.read_text())
    document["data"]["Torch.relu.0.forward"][section][0]["data_name"] = name
    record.write_text(json.dumps(document))
    result = ulpscope.check(tmp_path / "dump")
    [call] = result.skipped
    place = "input" if section == "input_args" else "output"
    assert call.call == "Torch.relu.0"
    assert call.message.startswith(f"Torch.relu.0.forward.{place}.0 cannot be read: ")
    assert result.exit_code == 2


def test_sizes_from_a_dump_do_not_exhaust_memory(tmp_path: Path) -> None:
    huge = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1 << 40], "Max": 1.0, "Min": 0.0}
    index = {"type": "torch.Tensor", "dtype": "torch.int64", "shape": [1], "Max": 1 << 40, "Min": 1 << 40}
    calls = {
        "Torch.ones.0.forward": {"input_args": [value("int", 1 << 40)], "input_kwargs": {}, "output": [huge]},
        "Torch.relu.0.forward": {"input_args": [huge], "input_kwargs": {}, "output": [huge]},
        "Functional.one_hot.0.forward": {"input_args": [index], "input_kwargs": {}, "output": [huge]},
    }
    result = ulpscope.check(hostile(tmp_path, calls))
    assert {call.call: call.forward for call in result.calls} == dict.fromkeys(
        ("Torch.ones.0", "Torch.relu.0", "Functional.one_hot.0"), "SKIP"
    )


def test_torch_is_left_as_it_was(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        F.dropout(torch.ones(100), 0.5)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    ulpscope.check(tmp_path)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() == torch.float32


def test_a_dropout_that_keeps_too_much_is_wrong(tmp_path: Path) -> None:
    def keep_all(y: Tensor) -> None:
        y.fill_(2.0)

    with Wrong({F.dropout: keep_all}), ulpscope.capture(tmp_path, level="L1", task="tensor"):
        F.dropout(torch.ones(1000), 0.5)
    [call] = [call for call in ulpscope.check(tmp_path).calls if "dropout" in call.call]
    assert call.forward == "error"
    assert call.message.startswith("0 of 1000 elements are dropped, where 500 were expected")
