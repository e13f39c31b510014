"""Calls of modules, made again from classes that the user names and parameters of the dump."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ulpscope
from twin_programs import GPT, Block

WRONG = 1.001


def record(model: nn.Module, given: Any, dump: Path, level: str = "L0", **settings: Any) -> None:
    """One recorded step."""
    with ulpscope.capture(dump, model=model, level=level, task="tensor", **settings):
        model(given).square().mean().backward()


@pytest.fixture
def gpt_dump(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    record(GPT(), torch.randint(0, 32, (2, 7)), tmp_path / "dump")
    return tmp_path / "dump"


def statuses(result: Any) -> dict[str, tuple[str, str]]:
    return {call.call: (call.forward, call.backward) for call in result.calls if not call.skipped}


def test_a_model_gives_the_arguments_of_all_its_modules(gpt_dump: Path) -> None:
    result = ulpscope.check(gpt_dump, modules=["twin_programs:GPT"])
    assert result.failed == []
    assert result.skipped == []
    found = statuses(result)
    # 2 blocks with 6 modules in each, 2 embeddings, a norm, a head.
    assert len(found) == 18
    assert found["Module.blocks.0.Block.0"] == ("pass", "pass")
    assert found["Module.blocks.1.norm2.LayerNorm.0"] == ("pass", "pass")
    [block] = [call for call in result.calls if call.call == "Module.blocks.0.Block.0"]
    judged = {tensor.name.removeprefix("Module.blocks.0.Block.0.") for tensor in block.tensors}
    assert {"forward.output.0", "backward.output.0", "backward.parameters_grad.qkv.weight"} <= judged


def test_parameters_decide_about_arguments_of_torch_modules(gpt_dump: Path) -> None:
    names = ["torch.nn:Linear", "torch.nn:LayerNorm", "torch.nn:Embedding"]
    result = ulpscope.check(gpt_dump, modules=names)
    assert set(statuses(result).values()) == {("pass", "pass")}
    assert result.failed == []
    reasons = {call.call: call.message for call in result.skipped}
    assert set(reasons) == {"Module.blocks.0.Block.0", "Module.blocks.1.Block.0"}
    assert reasons["Module.blocks.0.Block.0"].startswith("a module: --module package:Block makes it again")


class Scaled(Block):
    """A block whose second projection is wrong, and whose gradients are not."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        with torch.no_grad():
            y.data[0, 0] *= WRONG
        return y


def test_exactly_the_wrong_module_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = GPT()
    wrong = model.blocks[1]
    wrong.__class__ = Scaled
    # The class in the dump is that of the healthy program.
    Scaled.__name__ = "Block"
    try:
        record(model, torch.randint(0, 32, (2, 7)), tmp_path)
    finally:
        Scaled.__name__ = "Scaled"
    result = ulpscope.check(tmp_path, modules=["twin_programs:GPT"])
    assert [call.call for call in result.failed] == ["Module.blocks.1.Block.0"]
    assert result.failed[0].backward == "pass"


@pytest.mark.parametrize("name", ["twin_programs:Block(16, 2)", "twin_programs:Block(width=16, heads=2)"])
def test_arguments_are_literals_in_the_name(gpt_dump: Path, name: str) -> None:
    result = ulpscope.check(gpt_dump, modules=[name])
    assert statuses(result) == dict.fromkeys(
        ("Module.blocks.0.Block.0", "Module.blocks.1.Block.0"), ("pass", "pass")
    )


def test_modules_are_checked_beside_their_calls(tmp_path: Path) -> None:
    torch.manual_seed(0)
    record(GPT(), torch.randint(0, 32, (2, 7)), tmp_path, level="mix")
    plain = {call.call for call in ulpscope.check(tmp_path).calls}
    assert not any(name.startswith("Module.") for name in plain)
    named = ulpscope.check(tmp_path, modules=[lambda: Block(16, 2)])
    assert {call.call for call in named.calls} - plain == {
        "Module.blocks.0.Block.0",
        "Module.blocks.1.Block.0",
    }
    assert named.failed == []


class Net(nn.Module):
    """Its results depend on whether it is training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(self.conv(x)))


@pytest.mark.parametrize("training", [True, False])
def test_a_module_is_called_as_it_was_trained_or_not(training: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net().train(training)
    model.norm.running_mean.fill_(0.5)
    record(model, torch.randn(2, 3, 9, 9), tmp_path, level="mix")
    result = ulpscope.check(tmp_path, modules=[Net()])
    modules = {call.call: call for call in result.calls if call.call.startswith("Module.")}
    # The running mean is an argument of the recorded batch_norm.
    assert modules["Module.norm.BatchNorm2d.0"].forward == "pass"
    assert modules["Module.conv.Conv2d.0"].forward == "pass"
    drawn = [call for call in modules.values() if call.message == "it draws random numbers"]
    assert {call.call for call in drawn} == ({"Module.drop.Dropout.0"} if training else set())
    assert result.failed == []


def test_autocast_inside_a_module_is_not_a_fault(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        record(GPT(), torch.randint(0, 32, (2, 7)), tmp_path)
    assert ulpscope.check(tmp_path, modules=[GPT()]).failed == []


def test_a_name_that_does_not_fit_is_explained(gpt_dump: Path) -> None:
    result = ulpscope.check(gpt_dump, modules=["twin_programs:GPT(width=8)"], white_list=["LayerNorm"])
    assert {call.message for call in result.skipped} == {
        "no LayerNorm of --module has parameters of the recorded shapes: weight [16], bias [16]"
    }
    for name, message in {
        "twin_programs:Block": r"twin_programs:Block cannot be constructed: .*Give its arguments",
        "twin_programs": "expected package:Class",
        "twin_programs:GPT(open('x'))": "expected package:Class",
        "twin_programs:NoSuch": "cannot be imported",
        "no_such_package:X": "cannot be imported",
        "builtins:dict": "is a dict; expected a torch.nn.Module",
    }.items():
        with pytest.raises(ValueError, match=message):
            ulpscope.check(gpt_dump, modules=[name])


def test_nothing_that_only_a_dump_names_is_imported(tmp_path: Path) -> None:
    """A module of the working folder whose import would be seen."""
    (tmp_path / "evil.py").write_text("open('imported', 'w')\n")
    (tmp_path / "model.py").write_text(
        "import torch\nclass Own(torch.nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    )
    program = (
        "import sys, torch, ulpscope, model\n"
        "net = torch.nn.Sequential(model.Own())\n"
        "model.Own.__name__ = sys.argv[1]\n"
        "with ulpscope.capture(sys.argv[2], model=net, level='L0', task='tensor'):\n    net(torch.ones(3))\n"
    )
    for name, dump in (("evil:Own", "hostile"), ("Own", "honest")):
        subprocess.run([sys.executable, "-c", program, name, dump], cwd=tmp_path, check=True)

    def check(dump: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ulpscope", "check", dump, "--module", "model:Own"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    ran = check("hostile")
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (
        2,
        "1 calls: 0 pass, 0 doubtful, 0 wrong, 1 not replayed",
    )
    assert not (tmp_path / "imported").exists()
    assert check("honest").returncode == 0


@pytest.mark.slow
def test_several_processes_rebuild_modules_too(gpt_dump: Path) -> None:
    names = ["twin_programs:GPT"]
    several, one = (ulpscope.check(gpt_dump, modules=names, jobs=jobs) for jobs in (2, 1))
    assert len(statuses(one)) == 18
    assert statuses(several) == statuses(one)
