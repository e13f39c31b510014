"""The examples of ptdbg_ascend's guide, unmodified, under ``ulpscope run --drop-in``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch

import ptdbg_scripts as scripts

VERSION = "v4.0.T2"


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "ulpscope", "run", "--drop-in", "--", "script.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


def names(pkl: Path) -> list[str]:
    return [json.loads(line)[0] for line in pkl.read_text().splitlines()]


def test_the_whole_net_of_a_single_card(tmp_path: Path) -> None:
    ended = run(tmp_path, scripts.MODEL + scripts.WHOLE_NET)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "npu_dump" / f"all_{VERSION}" / "rank0"
    found = names(folder / "api_stack_dump.pkl")
    assert {"Functional_linear_0_forward_input.1", "Functional_relu_0_forward_stack_info"} <= set(found)
    # On a GPU the backward pass has a thread of torch, without frames of the program.
    assert ("Functional_relu_0_backward_stack_info" in found) != torch.cuda.is_available()
    assert (folder / "api_stack_dump" / "Functional_linear_0_forward_input.1.npy").exists()


def test_the_name_that_the_guide_once_has_for_the_package(tmp_path: Path) -> None:
    script = "import torch\nfrom ptdbg import *\n"
    script += "assert torch.equal(torch.nn.functional.dropout(torch.ones(9)), torch.ones(9))\n"
    names = "acc_cmp_dump, compare, compare_distributed, module_dump, module_dump_end, overflow_check, parse"
    names += ", register_hook, seed_all, set_backward_input, set_dump_path, set_dump_switch"
    names += ", set_overflow_check_switch, PrecisionDebugger"
    ended = run(tmp_path, script + f"import ptdbg_ascend\nfor one in ({names}):\n    assert callable(one)\n")
    assert ended.returncode == 0, ended.stderr


def test_automatic_mode_ends_training_after_the_last_step(tmp_path: Path) -> None:
    ended = run(tmp_path, scripts.MODEL + scripts.AUTOMATIC + scripts.LOADER)
    assert ended.returncode == 1
    assert ended.stderr.rstrip().endswith("Exception: ptdbg: exit after iteration [0, 2]")
    printed = [line.partition("-[INFO]")[2] or line for line in ended.stdout.splitlines()]
    folder = tmp_path / "dump_path" / f"ptdbg_dump_{VERSION}"
    on = f"Dump switch is turned on. Dump data will be saved to {folder}. "
    recorded = [on, "trained", "Dump switch is turned off. "]
    assert printed == [*recorded, "trained", *recorded]
    steps = tmp_path / "dump_path" / f"ptdbg_dump_{VERSION}"
    assert sorted(path.name for path in steps.iterdir()) == ["step0", "step2"]


def test_manual_mode_has_both_pieces_in_one_step(tmp_path: Path) -> None:
    ended = run(tmp_path, scripts.MODEL + scripts.MANUAL)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "dump_path" / f"ptdbg_dump_{VERSION}" / "step0" / "rank0"
    assert "Functional_linear_1_forward_output" in names(folder / "api_stack_dump.pkl")


def test_overflows_end_training(tmp_path: Path) -> None:
    overflow = "for _ in range(9):\n    (torch.ones(2).npu() * 1e38).mul(1e38)\n"
    ended = run(tmp_path, scripts.MODEL + scripts.OVERFLOW + overflow)
    assert ended.returncode == 1
    pkl = tmp_path / "overflow_dump" / f"ptdbg_dump_{VERSION}" / "rank0" / "Tensor_mul_2_forward_3.pkl"
    expected = f"ValueError: [overflow 3 times]: dump file is saved in '{pkl}'."
    assert ended.stderr.rstrip().endswith(expected)


def test_acl_mode_checks_dump_json_and_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text(scripts.DUMP_JSON)
    ended = run(tmp_path, scripts.MODEL + scripts.FORWARD_ACL)
    assert "dump_path is './dump/output'; expected a folder that exists" in ended.stderr
    (tmp_path / "dump" / "output").mkdir(parents=True)
    ended = run(tmp_path, scripts.MODEL + scripts.FORWARD_ACL)
    assert ended.returncode == 1
    assert 'mode "acl" needs an Ascend NPU and torch_npu' in ended.stderr


def test_a_module_as_one_call(tmp_path: Path) -> None:
    printed = run(tmp_path, scripts.MODULE)
    # The class is not instantiated: the first of the slips that matters.
    expected = "module is <class '__main__.ModuleOP'>; expected an object of a torch.nn.Module class"
    assert printed.stderr.rstrip().endswith(f"TypeError: module_dump: {expected}")
    mended = scripts.MODULE
    for before, after in scripts.MODULE_MEND:
        assert before in mended
        mended = mended.replace(before, after)
    ended = run(tmp_path, mended)
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "dump_data" / "npu" / f"ptdbg_dump_{VERSION}" / "rank0"
    found = names(folder / "dump.pkl")
    assert {"MyModule_0_forward_input.0", "MyModule_0_forward_output"} <= set(found)
    assert not any("linear" in name for name in found)
    assert "Tensor_sum_0_forward_input.0" in found
    assert (folder / "dump" / "MyModule_0_forward_input.0.npy").exists()


def test_what_was_recorded_before_a_kill_can_be_read(tmp_path: Path) -> None:
    switch = 'set_dump_switch("ON")\ntrain()\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n'
    script = (
        scripts.MODEL + "from ptdbg_ascend import *\nset_dump_path('d')\nregister_hook(model, acc_cmp_dump)\n"
    )
    assert run(tmp_path, script + switch).returncode != 0
    command = [sys.executable, "-m", "ulpscope", "ls", f"d/ptdbg_dump_{VERSION}.journal"]
    listed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "Functional.linear.0.backward" in listed.stdout
    # The next run replaces it.
    assert run(tmp_path, script + 'set_dump_switch("ON")\ntrain()\nset_dump_switch("OFF")\n').returncode == 0
    assert [path.name for path in (tmp_path / "d").iterdir()] == [f"ptdbg_dump_{VERSION}"]
