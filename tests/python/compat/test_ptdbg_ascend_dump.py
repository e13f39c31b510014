"""The functions of ptdbg_ascend's face: what they take, what they refuse, and where files go."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional

import ulpscope

TAG = "ptdbg_dump_v4.0.T2"


class Net(torch.nn.Module):
    """Calls of each prefix, integers and numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.fc(x).permute(1, 0))
        return (x.transpose(0, 1) * 2)[0].sum()


def names(pkl: Path) -> list[str]:
    return [json.loads(line)[0] for line in pkl.read_text().splitlines()]


def calls(pkl: Path) -> list[str]:
    """The names of calls, in order and each once."""
    return list(dict.fromkeys(name.rsplit("_", 1)[0].removesuffix("_stack") for name in names(pkl)))


def dump(face: ModuleType, folder: Path, *, times: int = 1, tag: str | None = None, **switch: Any) -> Path:
    face.set_dump_path(str(folder), **({} if tag is None else {"dump_tag": tag}))
    net = Net()
    face.register_hook(net, face.acc_cmp_dump)
    for _ in range(times):
        face.set_dump_switch("ON", **switch)
        net(torch.ones(2, 4)).backward()
        face.set_dump_switch("OFF")
    return folder / f"{tag or 'ptdbg_dump'}_v4.0.T2" / "rank0"


def test_the_recommended_dump_has_stacks_arrays_and_a_script(ptdbg: ModuleType, tmp_path: Path) -> None:
    folder = dump(ptdbg, tmp_path, mode="api_stack", filter_switch="OFF")
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["api_stack_dump", "api_stack_dump.pkl", "compare_data.py"]
    lines = names(folder / "api_stack_dump.pkl")
    arrays = {path.stem for path in (folder / "api_stack_dump").iterdir()}
    assert arrays == {name for name in lines if not name.endswith("_stack_info")}
    assert {"Torch_relu_0_forward_stack_info", "Torch_relu_0_backward_stack_info"} <= set(lines)
    assert "Tensor___getitem___0_forward_input.1" in arrays


def test_dump_tag_and_the_environment_choose_the_folder(
    ptdbg: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dump(ptdbg, tmp_path, tag="dump_conv2d").parent.name == "dump_conv2d_v4.0.T2"
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path / "work"))
    ptdbg.set_dump_path()
    ptdbg.register_hook(Net(), ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON")
    torch.relu(torch.ones(2))
    ptdbg.set_dump_switch("OFF")
    assert (tmp_path / "work" / "dump_data" / TAG / "rank0" / "dump.pkl").exists()
    # A path wins over the environment.
    dump(ptdbg, tmp_path / "given")
    assert (tmp_path / "given" / TAG / "rank0" / "dump.pkl").exists()


def test_several_on_and_off_are_one_dump_and_a_second_run_replaces_it(
    ptdbg: ModuleType, tmp_path: Path
) -> None:
    once = len(names(dump(ptdbg, tmp_path / "once") / "dump.pkl"))
    folder = dump(ptdbg, tmp_path, times=3)
    lines = names(folder / "dump.pkl")
    assert len(lines) == len(set(lines)) == 3 * once
    assert "Torch_relu_2_forward_output" in lines
    lines = names(dump(ptdbg, tmp_path, api_list=["RELU"], mode="api_list") / "api_list_dump.pkl")
    assert all("relu" in name for name in lines)
    assert len(names(dump(ptdbg, tmp_path) / "dump.pkl")) == once
    assert len(list((folder / "dump").iterdir())) == once


def test_notes_name_the_file_and_come_once(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Event()
    threading.Thread(target=ended.wait, daemon=True).start()
    dump(ptdbg, tmp_path, mode="range", scope=["Torch_relu_0_forward", "Functional_linear_0_forward"])
    ptdbg.set_dump_path(str(tmp_path))
    ended.set()
    assert f"{tmp_path / TAG}/rank0/range_dump.pkl: threads that ran before recording began" in caplog.text
    assert caplog.text.count("no call Functional.linear.0.forward was seen after Torch.relu.0.forward") == 1


def test_a_dump_without_calls_replaces_an_older_one_and_says_so(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older = dump(ptdbg, tmp_path, mode="api_list", api_list=["relu"]) / "api_list_dump.pkl"
    assert names(older)
    dump(ptdbg, tmp_path, mode="api_list", api_list=["conv9d"])
    ptdbg.set_dump_path(str(tmp_path))
    assert names(older) == []
    assert not older.with_suffix("").exists()
    assert 'list: "conv9d" is part of no name that was seen in this step' in caplog.text


@pytest.mark.parametrize(
    ("switch", "file", "expected"),
    [
        (
            {"mode": "list", "scope": ["Tensor_permute_0_forward", "Torch_relu_0_backward"]},
            "list_dump.pkl",
            ["Tensor_permute_0_forward", "Torch_relu_0_backward"],
        ),
        # The beginning of a name, and names as the table of a comparison has them.
        (
            {"mode": "list", "scope": ["Tensor_perm"]},
            "list_dump.pkl",
            ["Tensor_permute_0_forward", "Tensor_permute_0_backward"],
        ),
        (
            {"mode": "list", "scope": ["Torch_relu_0_forward_input.0"]},
            "list_dump.pkl",
            ["Torch_relu_0_forward"],
        ),
        (
            {"mode": "range", "scope": ["Tensor_permute_0_forward", "Tensor_transpose_0_forward"]},
            "range_dump.pkl",
            ["Tensor_permute_0_forward", "Torch_relu_0_forward", "Tensor_transpose_0_forward"],
        ),
        (
            {"mode": "range", "scope": ["Torch_relu_0_backward", "Tensor_permute_0_backward"]},
            "range_dump.pkl",
            ["Torch_relu_0_backward", "Tensor_permute_0_backward"],
        ),
        (
            {"mode": "api_list", "api_list": ["ReLU"]},
            "api_list_dump.pkl",
            ["Torch_relu_0_forward", "Torch_relu_0_backward"],
        ),
    ],
)
def test_a_mode_selects_by_names_with_underscores(
    ptdbg: ModuleType, tmp_path: Path, switch: dict[str, Any], file: str, expected: list[str]
) -> None:
    folder = dump(ptdbg, tmp_path, **switch)
    assert calls(folder / file) == expected
    has_stacks = any(name.endswith("stack_info") for name in names(folder / file))
    assert has_stacks == (switch["mode"] != "api_list")
    assert (folder / file).with_suffix("").is_dir()


def test_apis_that_were_dumped_again_are_compared_alone(
    ptdbg: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pkl = dump(ptdbg, tmp_path, mode="list", scope=["Torch_relu_0_forward"]) / "list_dump.pkl"
    data = pkl.with_suffix("")
    sides = {f"{side}_pkl_path": pkl for side in ("npu", "bench")}
    ptdbg.compare(sides | {f"{side}_dump_data_dir": data for side in ("npu", "bench")}, tmp_path)
    (table,) = tmp_path.glob("compare_result_*.csv")
    rows = table.read_text().splitlines()[1:]
    assert [row.partition(",")[0] for row in rows] == [
        "Torch_relu_0_forward_input.0",
        "Torch_relu_0_forward_output",
    ]


@pytest.mark.parametrize(
    ("scope", "count"),
    [([], None), (["Torch_relu"], 2), (["Tensor_permute_0_forward", "Tensor_transpose_0_forward"], 3)],
)
def test_stack_mode_has_no_data(
    ptdbg: ModuleType, tmp_path: Path, scope: list[str], count: int | None
) -> None:
    folder = dump(ptdbg, tmp_path, mode="stack", scope=scope)
    assert [path.name for path in folder.iterdir()] == ["stack_dump.pkl"]
    found = names(folder / "stack_dump.pkl")
    assert all(name.endswith("_stack_info") for name in found)
    assert len(found) == count if count else len(found) > 8


def test_filters_of_kinds_and_sides(ptdbg: ModuleType, tmp_path: Path) -> None:
    everything = set(names(dump(ptdbg, tmp_path / "all") / "dump.pkl"))
    filtered = set(names(dump(ptdbg, tmp_path / "filtered", filter_switch="ON") / "dump.pkl"))
    assert everything - filtered >= {
        "Tensor_permute_0_forward_input.1",
        "Tensor___mul___0_forward_input.1",
        "Tensor_sum_0_forward_output",
    }
    assert filtered < everything
    backward = names(dump(ptdbg, tmp_path / "backward", dump_mode=["backward"]) / "dump.pkl")
    assert backward
    assert all("_backward_" in name for name in backward)
    inputs = names(dump(ptdbg, tmp_path / "in", dump_mode=["forward", "input"]) / "dump.pkl")
    assert inputs
    assert all("_forward_input" in name for name in inputs)
    summary = dump(ptdbg, tmp_path / "summary", summary_only=True)
    assert [path.name for path in summary.iterdir()] == ["dump.pkl"]
    assert set(names(summary / "dump.pkl")) == everything


def test_bfloat16_is_saved_as_float32(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(Net(), ptdbg.acc_cmp_dump)
    x = torch.tensor([1.5, -2.25, 3e38, float("nan")], dtype=torch.bfloat16)
    ptdbg.set_dump_switch("ON")
    torch.relu(x)
    ptdbg.set_dump_switch("OFF")
    folder = tmp_path / TAG / "rank0"
    line = json.loads((folder / "dump.pkl").read_text().splitlines()[0])
    assert line[3] == "torch.bfloat16"
    saved = ulpscope.load(folder / "dump" / "Torch_relu_0_forward_input.0.npy", "torch")
    assert saved.dtype == torch.float32
    torch.testing.assert_close(saved, x.float(), rtol=0, atol=0, equal_nan=True)


def test_what_is_switched_on_before_register_hook_begins_with_it(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.set_dump_switch("ON")
    torch.tanh(torch.ones(2))
    ptdbg.register_hook(Net(), ptdbg.acc_cmp_dump)
    torch.relu(torch.ones(2))
    ptdbg.set_dump_switch("OFF")
    found = names(tmp_path / TAG / "rank0" / "dump.pkl")
    assert "Torch_relu_0_forward_output" in found
    assert not any("tanh" in name for name in found)


@pytest.mark.parametrize(("rank", "is_dumped"), [(None, True), (0, True), (4, False), (10, False)])
def test_a_rank_that_no_process_has_dumps_nothing_and_says_so(
    ptdbg: ModuleType, tmp_path: Path, caplog: pytest.LogCaptureFixture, rank: int | None, is_dumped: bool
) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(Net(), ptdbg.acc_cmp_dump, rank=rank)
    ptdbg.set_dump_switch("ON")
    torch.relu(torch.ones(2))
    ptdbg.set_dump_switch("OFF")
    assert (tmp_path / TAG).exists() == is_dumped
    assert ("nothing is dumped here" in caplog.text) != is_dumped


@pytest.mark.parametrize("mode", ["all", "api_stack"])
def test_the_script_beside_a_dump_compares_once_filled_in(
    ptdbg: ModuleType, tmp_path: Path, mode: str
) -> None:
    folder = dump(ptdbg, tmp_path / mode, mode=mode)
    script = folder / "compare_data.py"
    text = script.read_text()
    for side in ("npu", "bench"):
        text = text.replace(f'"{side}_pkl_path": ""', f'"{side}_pkl_path": pkl_path')
        text = text.replace(f'"{side}_dump_data_dir": ""', f'"{side}_dump_data_dir": dump_data_dir')
    script.write_text(text)
    results = tmp_path / "results"
    results.mkdir()
    ran = subprocess.run([sys.executable, script], cwd=results, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (table,) = results.glob("compare_result_*.csv")
    assert ("NPU_Stack_Info" in table.read_text().splitlines()[0]) == (mode == "api_stack")


def test_seed_all_seeds_everything_and_turns_cudnn_off(ptdbg: ModuleType) -> None:
    found = []
    for _ in range(2):
        ptdbg.seed_all(1000)
        found.append((random.random(), torch.rand(3).tolist()))
    assert found[0] == found[1]
    assert os.environ["PYTHONHASHSEED"] == "1000"
    cudnn = torch.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, False, True)
    assert not torch.are_deterministic_algorithms_enabled()
    try:
        ptdbg.seed_all(mode=True)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def test_seed_all_seeds_every_device(ptdbg: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA, and the device of torch_npu, which torch knows as a custom one."""
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: seeded.append(("cuda", seed)))
    monkeypatch.setattr(torch.random, "_seed_custom_device", lambda seed: seeded.append(("custom", seed)))
    ptdbg.seed_all(7)
    assert {("cuda", 7), ("custom", 7)} <= set(seeded)


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**32}, {"seed": "1"}, {"mode": 1}])
def test_seed_all_refuses(ptdbg: ModuleType, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*; expected"):
        ptdbg.seed_all(**wrong)


@pytest.mark.parametrize(
    "dropout",
    [
        lambda x: functional.dropout(x, 0.5),
        lambda x: functional.dropout2d(x, 0.5),
        lambda x: functional.dropout3d(x, 0.5),
        torch.nn.Dropout(0.5),
        torch.nn.Dropout2d(0.5),
        torch.nn.Dropout3d(0.5),
    ],
    ids=["dropout", "dropout2d", "dropout3d", "Dropout", "Dropout2d", "Dropout3d"],
)
def test_dropout_has_no_effect_before_during_and_after_a_dump(
    ptdbg: ModuleType, tmp_path: Path, dropout: Any
) -> None:
    x = torch.ones(2, 3, 4, 4)
    assert torch.equal(dropout(x), x)
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(Net(), ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON")
    assert torch.equal(dropout(x), x)
    ptdbg.set_dump_switch("OFF")
    assert torch.equal(dropout(x), x)
