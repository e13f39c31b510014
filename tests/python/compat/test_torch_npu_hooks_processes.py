"""torch_npu.hooks' face in processes: two runs, workers of data loaders, ranks; torch_npu."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hooks_scripts import NO_TORCHVISION, RESNET, VALID_LABEL
from hooks_scripts import run as run_example

IMPORTS = """
import sys, torch
from ulpscope.compat.torch_npu_hooks import *
from ulpscope.compat.torch_npu_hooks.tools import compare
"""


def start(folder: Path, script: str, *words: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", IMPORTS + script, *words],
        cwd=folder,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str], code: int = 0) -> tuple[str, str]:
    printed = process.communicate(timeout=300)
    assert process.returncode == code, printed[1]
    return printed


def lines(path: Path) -> list[list[object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


VERSION = """
seed_all()
gelu = torch.nn.GELU(approximate=sys.argv[2])
model = torch.nn.Sequential(torch.nn.Linear(4, 4), gelu, torch.nn.Linear(4, 2))
set_dump_path(sys.argv[1])
register_hook(model, wrap_acc_cmp_hook, sample=False)
model(torch.randn(3, 4)).sum().backward()
"""


def test_a_model_before_and_after_a_change(tmp_path: Path) -> None:
    """Each version in a process of its own, on one device; a third process compares."""
    before = start(tmp_path, VERSION, "before.pkl", "none")
    after = start(tmp_path, VERSION, "after.pkl", "tanh")
    end(before)
    end(after)
    end(start(tmp_path, 'compare("after.pkl", "before.pkl", "result.csv")'))
    found = [(row["NPU Name"].split("_", 1)[1], float(row["RMSE"])) for row in rows(tmp_path / "result.csv")]
    assert [name for name, _ in found] == [
        str(line[0]).split("_", 1)[1] for line in lines(tmp_path / "after.pkl")
    ]
    assert next(name for name, error in found if error) == "Functional_gelu_forward_output"


def test_two_dumps_of_one_device(tmp_path: Path) -> None:
    """The guide's resnet50 with both models on the device: nothing differs."""
    both = (
        'set_dump_path("./cpu_resnet50_op.pkl")\n',
        'set_dump_path("./cpu_resnet50_op.pkl")\n'
        "model_cpu.npu()\ninputs = inputs.npu()\nlabels = labels.npu()\n",
    )
    run_example(RESNET, tmp_path, NO_TORCHVISION, VALID_LABEL, both)
    found = rows(tmp_path / "resnet50_result.csv")
    assert len(found) == len(lines(tmp_path / "npu_resnet50_op.pkl")) > 80
    assert {row["RMSE"] for row in found} == {"0.0"}


LOADER = """
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        return torch.full((2,), float(index)).neg().abs()
if __name__ == "__main__":
    model = torch.nn.Linear(2, 2)
    register_hook(model, wrap_acc_cmp_hook)
    set_dump_path("loaded.pkl")
    for batch in DataLoader(Numbers(), batch_size=2, num_workers=int(sys.argv[1])):
        model(batch)
"""


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loaders(tmp_path: Path, workers: int) -> None:
    """Only the process that registered writes: what workers compute has no lines, and they end well."""
    _, errors = end(start(tmp_path, LOADER, str(workers)))
    names = [str(line[0]).split("_", 1)[1] for line in lines(tmp_path / "loaded.pkl")]
    assert names.count("Functional_linear_forward_output") == 2
    assert names.count("Tensor___abs___forward_output") == (0 if workers else 4)
    assert "Error" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["loaded.pkl"]


RANKS = """
import torch.distributed as dist
rank = int(sys.argv[1])
if sys.argv[2] == "late":
    from multiprocessing import process
    process._parent_process = object()
model = torch.nn.Linear(2, 2)
register_hook(model, wrap_acc_cmp_hook, sample=False)
set_dump_path("cpu.pkl")
if sys.argv[2] == "late":
    dist.init_process_group("gloo", init_method=f"file://{sys.argv[3]}", rank=rank, world_size=2)
torch.neg(torch.full((2,), float(rank)))
set_dump_path("npu.pkl")
torch.neg(torch.full((2,), float(rank)))
compare("npu.pkl", "cpu.pkl", "result.csv")
register_hook(model, wrap_async_datadump_hook, path="output")
torch.neg(torch.full((2,), float(rank)))
"""


@pytest.mark.distributed
@pytest.mark.parametrize("known", ["early", "late"])
def test_each_rank_has_files_of_its_own(tmp_path: Path, known: str) -> None:
    """All ranks are given one path. The rank is in the environment, or known only after joining a group."""
    folder = tmp_path / "run"
    folder.mkdir()
    started = [
        start(
            folder,
            RANKS,
            str(rank),
            known,
            str(tmp_path / "meeting"),
            **({"RANK": str(rank), "WORLD_SIZE": "2"} if known == "early" else {}),
        )
        for rank in range(2)
    ]
    for _, errors in [end(process) for process in started]:
        line = f"{folder}/cpu.pkl is set in one of several ranks: rank N writes to {folder}/cpu_rankN.pkl"
        assert line in errors
    written = [("cpu", "pkl"), ("npu", "pkl"), ("result", "csv")]
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["output"] + [f"{name}_rank{rank}.{end}" for rank in (0, 1) for name, end in written]
    )
    for rank in range(2):
        assert [
            line[1] for line in lines(folder / f"npu_rank{rank}.pkl") if "neg_forward_output" in str(line[0])
        ] == [[-float(rank)] * 2]
        assert rows(folder / f"result_rank{rank}.csv")[-1]["RMSE"] == "0.0"
        assert len(list((folder / "output" / f"rank{rank}").glob("*_Torch_neg_forward_output0_*.npy"))) == 1


HOLDER = """
set_dump_path("one.pkl")
register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
torch.neg(torch.ones(2))
print("recording", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", IMPORTS + HOLDER],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "recording\n"
    _, errors = end(start(tmp_path, 'set_dump_path("one.pkl")'), code=1)
    assert "RuntimeError: set_dump_path: 'one.pkl' is in use" in errors
    holder.communicate(timeout=60)
    assert [str(line[0]) for line in lines(tmp_path / "one.pkl")][-1].endswith("Torch_neg_forward_output")
    assert [path.name for path in tmp_path.iterdir()] == ["one.pkl"]


WITH_TORCH_NPU = """
import logging
logging.basicConfig(level=logging.INFO)
if sys.argv[1] == "with":
    import torch_npu
register_hook(torch.nn.ReLU(), wrap_async_datadump_hook, path="output")
torch.neg(torch.ones(2))
set_dump_path("one.pkl")
register_hook(torch.nn.ReLU(), wrap_acc_cmp_hook)
torch.neg(torch.ones(2))
print("torch_npu" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "variable"), [("with", ""), ("with", "OutfeedEnqueueOpV2"), ("without", "")]
)
def test_with_torch_npu_and_without(tmp_path: Path, given: str, variable: str) -> None:
    """A script for an NPU sets a variable for the asynchronous dump, which is not needed here."""
    (tmp_path / "site" / "torch_npu").mkdir(parents=True)
    (tmp_path / "site" / "torch_npu" / "__init__.py").touch()
    environment = {"PYTHONPATH": str(tmp_path / "site"), "RUNTIME_V2_BLACKLIST": variable}
    output, errors = end(start(tmp_path, WITH_TORCH_NPU, given, **environment))
    assert output == f"{given == 'with'}\n"
    assert len(lines(tmp_path / "one.pkl")) > 1
    assert list((tmp_path / "output").glob("*_Torch_neg_forward_output0_*.npy"))
    assert ("RUNTIME_V2_BLACKLIST=OutfeedEnqueueOpV2 is not set, and not needed" in errors) == (
        given == "with" and not variable
    )
