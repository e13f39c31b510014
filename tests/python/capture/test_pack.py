"""Tensors of a step in a few large files: what others read of them, also when a run was killed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import ulpscope
from captured import Captured, capture_of

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]


def shards(captured: Captured) -> list[Path]:
    return sorted((captured.folder / "dump_tensor_data").iterdir())


def tensors_of(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict) and "dtype" in value:
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [found for part in parts for found in tensors_of(part)]


def bytes_of(tensor: torch.Tensor) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def test_the_safetensors_library_opens_it(tmp_path: Path) -> None:
    """Every tensor under the name of its entry, in its dtype, where the dump says, aligned to 64 bytes."""
    values = [torch.arange(-3, 4).to(dtype) for dtype in DTYPES]
    values += [torch.tensor(1.5), torch.empty(0, 3), torch.randn(6, 5).t()]

    def program() -> None:
        for value in values:
            torch.clone(value)

    captured = capture_of(tmp_path, program, task="tensor")
    (shard,) = shards(captured)
    with safe_open(shard, "pt") as opened:
        found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        restored = opened.metadata()
    for number, value in enumerate(values):
        item = captured.calls[f"Torch.clone.{number}.forward"]["input_args"][0]
        other = found[item.get("data_key", f"Torch.clone.{number}.forward.input.0")]
        if value.dtype == torch.complex128:
            # The library has no name for it: the parts are the last dimension, and the metadata says so.
            assert restored[f"ulpscope.dtype.Torch.clone.{number}.forward.input.0"] == "complex128"
            other = torch.view_as_complex(other)
        for read in (other, captured.tensor(item)):
            assert (read.dtype, read.shape) == (value.dtype, value.shape)
            assert bytes_of(read) == bytes_of(value)
        assert item["data_at"][0] % 64 == 0
    # Ours are all of them but the fillers.
    ours = ulpscope.load(shard)
    assert set(ours) == {name for name in found if not name.startswith("__padding__.")}


def test_a_quantized_tensor_and_an_expanded_one_are_read_back(tmp_path: Path) -> None:
    q = torch.quantize_per_tensor(torch.tensor([0.5, -1.0, 2.0]), 0.5, 0, torch.qint8)
    large = torch.arange(3.0).expand(1 << 23, 3)
    captured = capture_of(tmp_path, lambda: (q.clone(), torch.sum(large)), task="tensor")
    item = captured.calls["Tensor.clone.0.forward"]["input_args"][0]
    assert item["dtype"] == "torch.qint8"
    shown = ulpscope.load(f"{captured.folder}:Tensor.clone.0.forward.input.0")
    assert np.asarray(shown).tolist() == [0.5, -1.0, 2.0]
    item = captured.calls["Torch.sum.0.forward"]["input_args"][0]
    assert (item["data_shape"], item["data_at"][1]) == ([1, 3], 12)
    found = ulpscope.stats(f"{tmp_path}:Torch.sum.0.forward.input.0")
    assert (tuple(found.shape), found.mean) == ((1 << 23, 3), 1.0)


def test_many_tensors_take_several_files(tmp_path: Path) -> None:
    x = torch.zeros(4)

    def program() -> None:
        for number in range(700):
            torch.add(x, number)

    captured = capture_of(tmp_path, program, task="tensor")
    files = shards(captured)
    assert [file.name for file in files] == [
        f"tensors-{number:05}.safetensors" for number in range(len(files))
    ]
    assert len(files) > 1
    for number in range(700):
        item = captured.calls[f"Torch.add.{number}.forward"]["output"][0]
        assert captured.tensor(item).tolist() == [number] * 4
        with safe_open(captured.folder / "dump_tensor_data" / item["data_name"], "pt") as opened:
            name = item.get("data_key", f"Torch.add.{number}.forward.output.0")
            assert opened.get_tensor(name).tolist() == [number] * 4
    assert ulpscope.compare(tmp_path, tmp_path).ok


def test_a_step_that_goes_on_after_a_pause_has_all_of_it(tmp_path: Path) -> None:
    run = ulpscope.capture(tmp_path, task="tensor")
    for number in range(3):
        run.start()
        torch.sin(torch.full((5,), number + 1.0))
        run.stop()
        (shard,) = shards(Captured(tmp_path))
        with safe_open(shard, "pt") as opened:
            names = [name for name in opened.keys() if ".sin." in name]  # noqa: SIM118
            assert len(names) == number + 1
    run.close()
    assert ulpscope.compare(tmp_path, tmp_path).ok


KILLED = """
import os, signal, sys
import torch, ulpscope
run = ulpscope.capture(sys.argv[1], task="tensor")
run.start()
for number in range(40):
    torch.add(torch.zeros(100), number)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(folder: Path) -> Captured:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)])
    assert ended.returncode == -signal.SIGKILL
    return Captured(folder)


def test_a_killed_run_is_read_by_its_journal(tmp_path: Path) -> None:
    """The header of its file was never filled in, and says where to look instead."""
    captured = killed(tmp_path / "dump")
    assert (captured.folder / "journal.jsonl").exists()
    for number in range(40):
        found = ulpscope.load(f"{tmp_path / 'dump'}:Torch.add.{number}.forward.output.0")
        assert np.asarray(found).tolist() == [number] * 100
    (shard,) = shards(captured)
    with pytest.raises(ValueError, match=r"header was never filled in.*journal\.jsonl"):
        ulpscope.load(shard)
    unpacked = tmp_path / "unpacked"
    assert command("convert", tmp_path / "dump", "-o", unpacked, "--to", "npy").returncode == 0
    assert (
        np.load(unpacked / "step0/rank/dump_tensor_data/Torch.add.7.forward.output.0.npy").tolist()
        == [7] * 100
    )
    assert "Torch.add.7.forward" in json.loads((unpacked / "step0/rank/dump.json").read_text())["data"]


def test_a_tensor_that_is_cut_off_is_noticed(tmp_path: Path) -> None:
    captured = killed(tmp_path / "dump")
    (shard,) = shards(captured)
    os.truncate(shard, shard.stat().st_size - 7)
    ran = command("compare", tmp_path / "dump", tmp_path / "dump")
    assert ran.returncode == 2
    assert "tensors-00000.safetensors: truncated: expected 400 bytes from byte" in ran.stderr
    first = ulpscope.load(f"{tmp_path / 'dump'}:Torch.add.0.forward.output.0")
    assert np.asarray(first).tolist() == [0] * 100


def command(*words: Any) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "ulpscope", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of two steps that differ in one call."""
    folder = tmp_path_factory.mktemp("pair")

    def run(path: Path, factor: float) -> Path:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
        with ulpscope.capture(path, model=model, level="mix", task="tensor") as capture:
            for _ in range(2):
                torch.mul(model(torch.ones(3, 6)), factor).sum().backward()
                capture.step()
        return path

    return run(folder / "target", 1.1), run(folder / "golden", 1.0)


def test_one_file_per_tensor_for_the_older_tools(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """The same as a capture that writes them: names, elements, links, and what compare says."""
    target, _ = pair
    for format_ in ("pt", "npy", "safetensors"):
        out = tmp_path / format_
        ran = command("convert", target, "-o", out, "--to", format_)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        packed, unpacked = Captured(target), Captured(out)
        assert packed.document("stack.json") == unpacked.document("stack.json")
        assert packed.document("construct.json") == unpacked.document("construct.json")
        assert packed.ledger == unpacked.ledger
        for name, call in packed.calls.items():
            for item, other in zip(tensors_of(call), tensors_of(unpacked.calls[name]), strict=True):
                assert other["data_name"].endswith(f".{format_}")
                assert {key for key in other if key.startswith("data_")} == {"data_name"}
                assert torch.equal(packed.tensor(item), unpacked.tensor(other))
        assert ulpscope.compare(out, target).ok
        again = command("convert", target, "-o", out, "--to", format_)
        assert again.returncode == 2
        assert "exists already" in again.stderr
        assert command("convert", target, "-o", out, "--to", format_, "--force").returncode == 0
    folder = tmp_path / "pt/step0/rank/dump_tensor_data"
    inode = (folder / "Functional.linear.0.forward.input.1.pt").stat().st_ino
    assert (folder / "Module.0.Linear.forward.0.parameters.weight.pt").stat().st_ino == inode


def test_one_tensor_is_named_by_its_dump_and_entry(pair: tuple[Path, Path], tmp_path: Path) -> None:
    target, golden = pair
    call = "Torch.mul.0.forward.output.0"
    one, other = (f"{side}/step0:{call}" for side in pair)
    ran = command("diff", one, other)
    assert ran.returncode == 1, ran.stderr
    assert command("diff", one, one).returncode == 0
    shown = json.loads(command("stats", one, "--json").stdout)
    expected = Captured(target).calls["Torch.mul.0.forward"]["output"][0]
    assert expected["Max"] == pytest.approx(float(str(shown).split("'max': ")[1].split(",")[0]))
    assert command("convert", one, "-o", tmp_path / "one.npy").returncode == 0
    assert np.array_equal(np.load(tmp_path / "one.npy"), np.asarray(ulpscope.load(one)))
    compared = command("compare", one, other)
    assert compared.returncode == 1, compared.stderr
    assert command("ls", one).returncode == 0
    assert ulpscope.diff(one, other).ok is False
    # A checkpoint is a dump too.
    (shard,) = shards(Captured(target))
    assert command("diff", f"{shard}:{call}", one).returncode == 0

    several = command("diff", f"{target}:{call}", other)
    assert several.returncode == 2
    assert f"name one of them: {target}/step0/rank:{call}, {target}/step1/rank:{call}" in several.stderr
    nothing = command("stats", f"{golden}/step0:Torch.mul.9.forward.output.0")
    assert nothing.returncode == 2
    assert "has no entry of this name" in nothing.stderr
    scalar = command("stats", f"{golden}/step0:Torch.mul.0.forward.input.1")
    assert scalar.returncode == 2
    assert "is not a tensor" in scalar.stderr


def test_a_rank_that_cannot_be_read_does_not_hide_the_tensor_of_another(tmp_path: Path) -> None:
    with ulpscope.capture(tmp_path / "run", level="L1", task="tensor"):
        torch.neg(torch.ones(3))
    torn = tmp_path / "dump"
    torn.mkdir()
    (tmp_path / "run" / "step0").rename(torn / "step1")
    (torn / "step0" / "rank").mkdir(parents=True)
    (torn / "step0" / "rank" / "dump.json").write_text("{")
    entry = "Torch.neg.0.forward.output.0"
    assert torch.equal(ulpscope.load(f"{torn}:{entry}"), torch.full((3,), -1.0))
    # Where no rank has it, the one that cannot be read is the reason.
    with pytest.raises(ulpscope.FormatError, match=r"step0/rank/dump\.json"):
        ulpscope.load(f"{torn}:Torch.neg.7.forward.output.0")


def test_explain_names_the_tensor_to_look_at(tmp_path: Path) -> None:
    """With a command that works as it stands."""
    torch.manual_seed(0)
    x = torch.randn(64, 64)
    wrong = 1 + 0.3 * torch.randn(64, 64)

    def run(path: Path, factor: torch.Tensor) -> None:
        class Fused(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
                return value.sigmoid() * factor

        with torch.no_grad(), ulpscope.capture(path, task="tensor"):
            torch.sum(Fused.apply(torch.relu(x)))

    run(tmp_path / "target", wrong)
    run(tmp_path / "golden", torch.ones(64, 64))
    told = str(ulpscope.compare(tmp_path / "target", tmp_path / "golden").explain())
    (line,) = [line.strip() for line in told.splitlines() if line.strip().startswith("ulpscope diff")]
    words = shlex.split(line)[1:]
    entry = "Autograd.Fused.0.forward.output.0"
    assert words == ["diff", *(f"{tmp_path / side}/step0/rank:{entry}" for side in ("target", "golden"))]
    assert command(*words).returncode == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data_at": [1 << 60, 24]}, "truncated: expected 24 bytes from byte 1152921504606846976"),
        ({"data_at": [(1 << 63) + ((1 << 63) - 1), 24]}, "truncated: expected 24 bytes"),
        ({"data_at": [16384, 1 << 62]}, "expected the bytes of float32 of shape [3, 2]"),
        ({"data_at": [16384, 20]}, "expected the bytes of float32 of shape [3, 2]"),
        ({"data_at": [-1, 24]}, "data_at: expected [offset, length] in bytes"),
        ({"data_at": [1, 2, 3]}, "data_at: expected [offset, length] in bytes"),
        ({"data_at": "65536"}, "data_at: expected [offset, length] in bytes"),
        ({"data_dtype": 5}, "data_dtype: expected the name of a dtype"),
        ({"data_dtype": "float99"}, "expected a dtype that can be read"),
        ({"data_shape": [1, 9]}, "expected a data_shape that repeats to [3, 2]"),
        ({"data_shape": [1 << 40, 1 << 40]}, "expected a data_shape that repeats to [3, 2]"),
        (
            {"shape": [1 << 30, 1 << 30], "data_shape": [1, 1], "data_at": [16384, 4]},
            "the number of repeated elements of 1152921504606846976 exceeds the limit",
        ),
        ({"data_name": "../tensors-00000.safetensors"}, "leads out of its folder"),
        ({"data_name": "tensors-00009.safetensors"}, "No such file"),
    ],
)
def test_hostile_places_are_refused_by_name(
    pair: tuple[Path, Path], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    target, _ = pair
    shutil.copytree(target / "step0", tmp_path / "step0")
    file = tmp_path / "step0/rank/dump.json"
    document = json.loads(file.read_text())
    document["data"]["Torch.mul.0.forward"]["output"][0] |= change
    file.write_text(json.dumps(document))
    ran = command("show", tmp_path, "Torch.mul.0.forward")
    assert ran.returncode == 2
    assert message in ran.stderr
    assert command("convert", tmp_path, "-o", tmp_path / "out", "--to", "pt").returncode == 2


def test_a_link_in_place_of_a_file_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    target, _ = pair
    shutil.copytree(target / "step0", tmp_path / "step0")
    shard = tmp_path / "step0/rank/dump_tensor_data/tensors-00000.safetensors"
    shard.rename(tmp_path / "outside")
    shard.symlink_to(tmp_path / "outside")
    ran = command("show", tmp_path, "Torch.mul.0.forward")
    assert ran.returncode == 2
    assert "a link, which is not followed" in ran.stderr
