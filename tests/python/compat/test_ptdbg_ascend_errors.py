"""Values that ptdbg_ascend's face refuses: in the call that has them, and before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch


def net() -> torch.nn.Module:
    return torch.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"switch": "on"}, "switch is 'on'; expected one of ON, OFF"),
        ({"switch": None}, "switch is None; expected one of ON, OFF"),
        (
            {"mode": "every"},
            "mode is 'every'; expected one of all, list, range, stack, acl, api_list, api_stack",
        ),
        ({"mode": "list"}, 'scope has 0 names; mode "list" needs the names of the APIs'),
        ({"mode": "range", "scope": ["a"]}, 'scope has 1 name; mode "range" needs two names'),
        ({"mode": "range", "scope": ["a", "b", "c"]}, 'scope has 3 names; mode "range" needs two names'),
        ({"mode": "stack", "scope": ["a", "b", "c"]}, 'scope has 3 names; mode "stack" needs no name'),
        ({"mode": "acl"}, 'scope has 0 names; mode "acl" needs the name of one API'),
        ({"mode": "api_list"}, 'api_list is empty; mode "api_list" needs names'),
        ({"mode": "list", "scope": "Torch_relu"}, "scope is 'Torch_relu'; expected a list of names"),
        ({"mode": "api_list", "api_list": [1]}, r"api_list is \[1\]; expected a list of names"),
        ({"filter_switch": True}, "filter_switch is True; expected one of ON, OFF"),
        ({"dump_mode": []}, r"dump_mode is \[\]; expected a list of all, forward, backward, input, output"),
        ({"dump_mode": ["fwd"]}, "dump_mode is .* expected a list of all, forward"),
        ({"dump_mode": ["all", "input"]}, "'all' can only be given alone"),
        ({"summary_only": "yes"}, "summary_only is 'yes'; expected True or False"),
    ],
)
def test_set_dump_switch_refuses(
    ptdbg: ModuleType, tmp_path: Path, arguments: dict[str, Any], problem: str
) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(net(), ptdbg.acc_cmp_dump)
    with pytest.raises(ValueError, match=problem):
        ptdbg.set_dump_switch(**({"switch": "ON"} | arguments))
    assert list(tmp_path.iterdir()) == []


def test_set_dump_path_refuses(ptdbg: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fpath is None and ASCEND_WORK_PATH is not set: give a folder"):
        ptdbg.set_dump_path()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="which is a file; expected a folder"):
        ptdbg.set_dump_path(str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"but '.*/file' is a file; expected a folder"):
        ptdbg.set_dump_path(str(tmp_path / "file" / "below"))
    for wrong in (3, ""):
        with pytest.raises(ValueError, match=r"fpath is .*; expected the path of a folder"):
            ptdbg.set_dump_path(wrong)
    for tag in ("", "..", "a/b", None):
        with pytest.raises(ValueError, match=r"dump_tag is .*; expected the name of a folder"):
            ptdbg.set_dump_path(str(tmp_path), dump_tag=tag)


def test_a_dump_needs_a_path(ptdbg: ModuleType) -> None:
    with pytest.raises(ValueError, match="register_hook: there is no dump path; call set_dump_path first"):
        ptdbg.register_hook(net(), ptdbg.acc_cmp_dump)
    with pytest.raises(ValueError, match="set_dump_switch: there is no dump path; call set_dump_path first"):
        ptdbg.set_dump_switch("ON")


def test_none_is_an_empty_list_as_in_the_tool(ptdbg: ModuleType, tmp_path: Path) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    ptdbg.register_hook(net(), ptdbg.acc_cmp_dump)
    ptdbg.set_dump_switch("ON", scope=None, api_list=None, dump_mode=None)
    torch.relu(torch.ones(2))
    ptdbg.set_dump_switch("OFF")
    assert list(tmp_path.glob("*/rank0/dump/Torch_relu_0_forward_*.npy"))
    with pytest.raises(ValueError, match='scope has 0 names; mode "list" needs the names'):
        ptdbg.set_dump_switch("ON", mode="list", scope=None)
    ptdbg.PrecisionDebugger(str(tmp_path), "dump", step=None).configure_hook(scope=None, backward_input=None)


@pytest.mark.parametrize(
    ("keywords", "error", "problem"),
    [
        ({"hook": print}, TypeError, "expected acc_cmp_dump or overflow_check"),
        ({"hook": "dump"}, TypeError, "expected acc_cmp_dump or overflow_check"),
        ({"model": None}, TypeError, "is a NoneType; expected .* Please register hooks to nn.Module."),
        ({"sample": True}, TypeError, "'sample' is unknown; known: rank, overflow_nums"),
        ({"rank": -1}, ValueError, "rank is -1; expected a number from 0 on"),
        ({"rank": "0"}, ValueError, "rank is '0'; expected a number from 0 on"),
        ({"overflow_nums": 0}, ValueError, "overflow_nums is 0; expected a number above 0, or -1"),
        ({"overflow_nums": "3"}, ValueError, "overflow_nums is '3'; expected a number above 0, or -1"),
        ({"dump_mode": "all"}, ValueError, "dump_mode is 'all'; expected one of api, acl"),
        ({"dump_mode": "acl"}, ValueError, "dump_config is None; acl mode needs the path of a dump.json"),
        (
            {"dump_mode": "acl", "dump_config": "no.json"},
            ValueError,
            "'no.json' cannot be read: No such file",
        ),
    ],
)
def test_register_hook_refuses(
    ptdbg: ModuleType, tmp_path: Path, keywords: dict[str, Any], error: type[Exception], problem: str
) -> None:
    ptdbg.set_dump_path(str(tmp_path))
    given = {"model": net(), "hook": ptdbg.acc_cmp_dump} | keywords
    with pytest.raises(error, match=problem):
        ptdbg.register_hook(**given)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is no JSON"),
        ("[]", 'has no object "dump"'),
        ({"dump_list": ["a"]}, "dump_list is .*; expected an empty list"),
        ({"dump_path": "missing"}, "dump_path is 'missing'; expected a folder that exists"),
        ({"dump_path": None}, "dump_path is None; expected a folder that exists"),
        ({"dump_mode": "some"}, "dump_mode is 'some'; expected one of output, input, all"),
        ({"dump_op_switch": "yes"}, "dump_op_switch is 'yes'; expected one of on, off"),
    ],
)
def test_dump_json_is_checked_before_the_run(
    ptdbg: ModuleType, tmp_path: Path, content: Any, problem: str
) -> None:
    whole = {"dump_list": [], "dump_path": str(tmp_path), "dump_mode": "all", "dump_op_switch": "on"}
    file = tmp_path / "dump.json"
    file.write_text(content if isinstance(content, str) else json.dumps({"dump": whole | content}))
    ptdbg.set_dump_path(str(tmp_path / "dump"))
    with pytest.raises(ValueError, match=problem):
        ptdbg.register_hook(net(), ptdbg.acc_cmp_dump, dump_mode="acl", dump_config=str(file))
    debugger = ptdbg.PrecisionDebugger(str(tmp_path / "dump"), "dump")
    with pytest.raises(ValueError, match=problem):
        debugger.configure_hook(mode="acl", scope=["Torch_relu_0_forward"], acl_config=str(file))


def test_acl_mode_says_what_is_missing(ptdbg: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({"dump": {"dump_path": str(tmp_path)}}))
    ptdbg.set_dump_path(str(tmp_path / "dump"))
    ptdbg.register_hook(net(), ptdbg.acc_cmp_dump, dump_mode="acl", dump_config=str(tmp_path / "dump.json"))
    with pytest.raises(RuntimeError, match='mode "acl" needs an Ascend NPU and torch_npu, which is not'):
        ptdbg.set_dump_switch("ON", mode="acl", scope=["Torch_relu_0_forward"])
    ptdbg.register_hook(net(), ptdbg.acc_cmp_dump)
    with pytest.raises(ValueError, match='mode "acl" needs register_hook'):
        ptdbg.set_dump_switch("ON", mode="acl", scope=["Torch_relu_0_forward"])
    with pytest.raises(ValueError, match="set_backward_input is for register_hook"):
        ptdbg.set_backward_input([])


def test_set_backward_input_refuses(ptdbg: ModuleType, tmp_path: Path) -> None:
    for wrong, problem in (
        ("x.npy", "expected a list of .npy files"),
        (["x.txt"], "expected the path of a .npy file"),
        ([str(tmp_path / "x.npy")], "which does not exist"),
    ):
        with pytest.raises(ValueError, match=problem):
            ptdbg.set_backward_input(wrong)


@pytest.mark.parametrize(
    ("keywords", "problem"),
    [
        ({"hook_name": None}, "hook_name is None; expected one of dump, overflow_check"),
        ({"hook_name": "all"}, "hook_name is 'all'; expected one of dump, overflow_check"),
        ({"dump_path": None}, "dump_path is None and ASCEND_WORK_PATH is not set"),
        ({"rank": -1}, "rank is -1; expected a number from 0 on"),
        ({"step": 3}, r"step is 3; expected a list of numbers, as in step=\[0, 2\]"),
        ({"step": ["1"]}, "step has '1'; expected numbers from 0 to"),
        ({"step": [-1]}, "step has -1; expected numbers from 0 to"),
        ({"enable_dataloader": 1}, "enable_dataloader is 1; expected True or False"),
    ],
)
def test_the_debugger_refuses(
    ptdbg: ModuleType, tmp_path: Path, keywords: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        ptdbg.PrecisionDebugger(**({"dump_path": str(tmp_path), "hook_name": "dump"} | keywords))
    with pytest.raises(RuntimeError, match=r"there is no PrecisionDebugger: construct one before start\(\)"):
        ptdbg.PrecisionDebugger.start()


def test_configure_hook_refuses(ptdbg: ModuleType, tmp_path: Path) -> None:
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "dump")
    for keywords, problem in (
        ({"mode": "every"}, "mode is 'every'; expected one of all, list"),
        ({"mode": "range", "scope": ["a"]}, "scope has 1 name"),
        ({"input_output_mode": ["both"]}, "input_output_mode is .*; expected a list of all"),
        ({"mode": "acl", "scope": ["a"]}, "acl_config is None; acl mode needs the path of a dump.json"),
    ):
        with pytest.raises(ValueError, match=problem):
            debugger.configure_hook(**keywords)
    with pytest.raises(TypeError):
        debugger.configure_hook(overflow_nums=1)
    debugger = ptdbg.PrecisionDebugger(str(tmp_path), "overflow_check")
    for keywords, problem in (
        ({"overflow_nums": 0}, "overflow_nums is 0"),
        ({"mode": "list"}, "mode is 'list'; expected None, 'api' or 'acl'"),
        ({"need_replicate": 1}, "need_replicate is 1; expected True or False"),
    ):
        with pytest.raises(ValueError, match=problem):
            debugger.configure_hook(**keywords)


def test_module_dump_refuses(ptdbg: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"expected an object of a torch.nn.Module class"):
        ptdbg.module_dump(torch.nn.Linear, "MyModule")
    for wrong in (None, "", "a/b", "a.b"):
        with pytest.raises(ValueError, match="expected letters, digits and underscores"):
            ptdbg.module_dump(net(), wrong)
    with pytest.raises(RuntimeError, match="module_dump: nothing is dumped; call set_dump_switch"):
        ptdbg.module_dump(net(), "MyModule")


def test_the_hooks_are_no_functions_to_call(ptdbg: ModuleType) -> None:
    for hook in (ptdbg.acc_cmp_dump, ptdbg.overflow_check):
        with pytest.raises(TypeError, match="is an argument of register_hook"):
            hook()
