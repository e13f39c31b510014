"""``ulpscope check`` as a command: options, files, processes, going on after an interruption."""

from __future__ import annotations

import ast
import io
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import ulpscope

PROGRESS_FILE = "check_progress.jsonl"


def check(*words: str) -> Any:
    """Runs ``ulpscope check`` in this process; its exit code."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["ulpscope", "check", *words])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("ulpscope", run_name="__main__")
    return ended.value.code


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Three calls, the second of them wrong by a factor."""
    folder = tmp_path / "dump"
    x = torch.randn(4, 8)
    with ulpscope.capture(folder, level="L1", task="tensor", file_format="pt"):
        y = torch.relu(torch.sin(x))
        F.softmax(y, -1)
    path = folder / "step0" / "rank" / "dump_tensor_data" / "Torch.relu.0.forward.output.0.pt"
    path.unlink()
    ulpscope.save(path, y * 1.5)
    return folder


def test_the_summary_names_what_is_wrong(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(str(dump)) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("3 calls: 2 pass, 0 doubtful, 1 wrong, 0 not replayed\n")
    assert re.search(
        r"Torch\.relu\.0: Torch\.relu\.0\.forward\.output\.0: \S+ x what rounding explains", shown
    )


def test_json_has_everything(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(str(dump), "--json", "--black-list", "relu") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["counts"] == {"pass": 2, "warning": 0, "error": 0, "SKIP": 0}
    assert [call["call"] for call in found["calls"]] == ["Torch.sin.0", "Functional.softmax.0"]


def test_lists_of_a_config_count(dump: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    lists = {
        "white_list": ["sin", "relu"],
        "black_list": ["relu"],
        "error_data_path": str(tmp_path / "errors"),
    }
    config.write_text(json.dumps({"task": "run_ut", "run_ut": lists}))
    assert check(str(dump), "--config", str(config)) == 0
    assert "1 calls: 1 pass" in capsys.readouterr().out
    assert list((tmp_path / "errors").glob("accuracy_checking_result_*.csv"))
    config.write_text(json.dumps({"run_ut": {"white_list": "sin"}}))
    assert check(str(dump), "--config", str(config)) == 2
    assert "white_list is 'sin'; expected a list of names" in capsys.readouterr().err


def test_a_name_in_a_dump_is_no_code_of_the_script(dump: Path, tmp_path: Path) -> None:
    record = dump / "step0" / "rank" / "dump.json"
    document = json.loads(record.read_text())
    hostile = 'Torch.relu.0"""\nraise SystemExit(77)\n""".forward'
    document["data"][hostile] = document["data"].pop("Torch.relu.0.forward")
    record.write_text(json.dumps(document))
    assert check(str(dump), "-o", str(tmp_path / "out")) == 1
    (script,) = (tmp_path / "out" / "repro").glob("*.py")
    tree = ast.parse(script.read_text())
    assert not any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def test_a_check_goes_on_where_it_was_interrupted(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    softmax, sin = F.softmax, torch.sin
    seen: list[str] = []

    def interrupted(*args: Any, **kwargs: Any) -> torch.Tensor:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(F, "softmax", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ulpscope.check(dump, output=out)
    progress = out / PROGRESS_FILE
    # The run was killed while it wrote a line.
    progress.write_text(progress.read_text() + '{"call": "Functional.so')
    monkeypatch.setattr(
        F, "softmax", lambda *args, **kwargs: (seen.append("softmax"), softmax(*args, **kwargs))[1]
    )
    monkeypatch.setattr(torch, "sin", lambda *args, **kwargs: (seen.append("sin"), sin(*args, **kwargs))[1])
    result = ulpscope.check(dump, output=out, resume=True)
    assert set(seen) == {"softmax"}
    assert [call.call for call in result.calls] == ["Torch.sin.0", "Torch.relu.0", "Functional.softmax.0"]
    assert [call.failed for call in result.calls] == [False, True, False]
    assert not progress.exists()


def test_a_different_check_is_not_continued(dump: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / PROGRESS_FILE).write_text('{"dump": "elsewhere"}\n')
    with pytest.raises(ValueError, match="is of a different check"):
        ulpscope.check(dump, output=out, resume=True)


@pytest.mark.slow
def test_several_processes_find_the_same(dump: Path) -> None:
    assert ulpscope.check(dump, jobs=2).calls == ulpscope.check(dump).calls


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(str(tmp_path / "nothing")) == 2
    assert "ulpscope check: error:" in capsys.readouterr().err
    assert check() == 2


def test_names_from_a_dump_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = tmp_path / "step0" / "rank"
    rank.mkdir(parents=True)
    call = {"input_args": [], "input_kwargs": {}, "output": []}
    data = {
        "task": "tensor",
        "level": "L1",
        "dump_data_dir": None,
        "data": {"Torch.\x1b[2Jx.0.forward": call},
    }
    (rank / "dump.json").write_text(json.dumps(data))
    assert check(str(tmp_path)) == 2
    assert "\x1b" not in capsys.readouterr().out


def test_the_manual_page_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("COLUMNS", "300")
        assert check("--help") == 0
    entry = r"^  (?:-\w(?: \S+)?, )?--([a-z-]+)(?: (\S+))?  +(\S.*)$"
    found = re.findall(entry, capsys.readouterr().out, re.MULTILINE)
    options = {(name, value or None, text) for name, value, text in found if name != "help"}
    assert len(options) > 10
    page = subprocess.run(
        [sys.executable, "-m", "ulpscope", "man", "check"], capture_output=True, text=True, check=True
    ).stdout
    plain = re.sub(r"\\f[A-Z]", "", page.split(".SH OPTIONS\n")[1].split(".SH ")[0])
    plain = plain.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'")
    entry = r"^\.TP\n--(\S+)(?: <(.+?)>)?(?: \[.*\])?\n(.*)$"
    shown = {(name, value or None, text) for name, value, text in re.findall(entry, plain, re.MULTILINE)}
    assert shown == options


@pytest.mark.parametrize(
    ("x", "api", "expected", "code"),
    [
        (torch.tensor([20.0], dtype=torch.float16), "exp", "is a normal overflow.", 0),
        (torch.tensor([1.0], dtype=torch.float16), "exp", "did not reproduce", 0),
        # Its square leaves the range of float16; its root does not.
        (torch.tensor([3e4, 3e4], dtype=torch.float16), "norm", "is an abnormal overflow.", 1),
    ],
)
def test_normal_and_abnormal_overflows_are_distinguished(
    x: torch.Tensor,
    api: str,
    expected: str,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if api == "norm":
        # A kernel that squares in its own dtype.
        monkeypatch.setattr(torch, "norm", lambda x: (x * x).sum().sqrt())
    folder = tmp_path / "forward_real_data"
    folder.mkdir()
    ulpscope.save(folder / "x.npy", x)
    # The path is that of the machine that recorded it.
    given = {"type": "torch.Tensor", "datapath": "/elsewhere/forward_real_data/x.npy", "requires_grad": False}
    info = tmp_path / "forward_info_1.json"
    info.write_text(json.dumps({f"Torch.{api}.0.forward": {"args": [given], "kwargs": {}}}))
    assert check("-forward", str(info)) == code
    assert expected in capsys.readouterr().out


def test_an_overflow_in_the_backward_pass_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = torch.tensor([1e-4], dtype=torch.float16)
    ulpscope.save(tmp_path / "x.npy", x)
    given = {"type": "torch.Tensor", "datapath": "x.npy", "requires_grad": True}
    forward, backward = tmp_path / "forward_info_1.json", tmp_path / "backward_info_1.json"
    forward.write_text(json.dumps({"Torch.reciprocal.0.forward": {"args": [given], "kwargs": {}}}))
    gradient = {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [1], "Max": 1.0, "Min": 1.0}
    backward.write_text(json.dumps({"Torch.reciprocal.0.backward": [gradient]}))
    assert check("-forward", str(forward), "-backward", str(backward)) == 0
    # The forward pass did not overflow, and nothing is said of it.
    assert capsys.readouterr().out == "The Torch.reciprocal.0.backward overflow is a normal overflow.\n"


def test_an_overflow_is_shown_with_its_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ulpscope.save(tmp_path / "x.npy", torch.tensor([20.0], dtype=torch.float16))
    given = {"type": "torch.Tensor", "datapath": "x.npy", "requires_grad": False}
    info, stack = tmp_path / "forward_info_7.json", tmp_path / "stack_info_7.json"
    info.write_text(json.dumps({"Torch*exp*0_forward": {"args": [given], "kwargs": {}}}))
    frames = ["File model.py, line 7, in forward, \n return x.exp()\x1b[2J", 3]
    stack.write_text(json.dumps({"Torch.exp.0.forward": frames}))
    assert check("-forward", str(info)) == 0
    said = "    File model.py, line 7, in forward, return x.exp()\\u{1b}[2J\n"
    assert capsys.readouterr().out == f"The Torch*exp*0_forward overflow is a normal overflow.\n{said}"
    stack.write_text("[")
    assert check("-forward", str(info)) == 0
    assert "ulpscope check: warning: " in capsys.readouterr().err


def test_the_command_of_the_guide_takes_these_files(tmp_path: Path) -> None:
    """As printed there, except for the folder of the script."""
    x = torch.tensor([20.0], dtype=torch.float16)
    ulpscope.save(tmp_path / "x.npy", x)
    given = {"type": "torch.Tensor", "datapath": "x.npy", "requires_grad": False}
    (tmp_path / "forward_info_0.json").write_text(
        json.dumps({"Torch*exp*0_forward": {"args": [given], "kwargs": {}}})
    )
    module = "ulpscope.compat.ptdbg_ascend.run_overflow_check"
    for more in ([], ["-j", "-d", "0"]):
        command = [sys.executable, "-m", module, "-forward", "./forward_info_0.json", *more]
        ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (
            0,
            "The Torch*exp*0_forward overflow is a normal overflow.\n",
        ), ran.stderr
    assert subprocess.run([sys.executable, "-m", module], capture_output=True, check=False).returncode == 2


def test_a_killed_run_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "killed"
    program = (
        "import os, signal, sys, torch, ulpscope\n"
        "with ulpscope.capture(sys.argv[1], level='L1', task='tensor'):\n"
        "    torch.relu(torch.ones(4))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(folder)], check=False)
    assert check(str(folder)) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("2 calls: 2 pass, ")
    assert captured.err.startswith("note: ")
    assert "journal.jsonl: the run ended before the step was over" in captured.err


def test_a_dump_that_is_cut_off_is_not_called_whole(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = dump / "step0" / "rank" / "dump.json"
    text = record.read_text()
    record.write_text(text[: text.index('"Functional.softmax.0.forward"') + 10])
    assert check(str(dump), "--black-list", "relu") == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("1 calls: 1 pass")
    assert "dump.json" in shown.err


def test_the_device_of_msprobe_is_that_number(
    dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ulpscope.compat.msprobe import accuracy_check

    words = ["-api_info", str(dump), "-o", str(tmp_path / "out"), "-d", "99"]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    accuracy_check.check("acc_check", words)
    assert "not replayed" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert accuracy_check.check("acc_check", words) == 2
    assert "--device cuda:99 cannot be used: " in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_and_removed(dump: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = _Terminal()
    monkeypatch.setattr(sys, "stderr", errors)
    check(str(dump))
    count = len(ulpscope.check(dump).calls)
    assert f"\rchecking {count}/{count}" in errors.getvalue()
    assert errors.getvalue().endswith("\r\x1b[K")
    errors.truncate(0)
    check(str(dump), "--json")
    assert "checking" not in errors.getvalue()


def test_a_function_that_this_torch_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ulpscope.capture(tmp_path, level="L1", task="tensor"):
        torch.sinc(torch.ones(4))
    monkeypatch.delattr(torch, "sinc")
    [call] = ulpscope.check(tmp_path, white_list=["sinc"]).calls
    assert call.forward == "SKIP"
    assert call.message == f"torch {torch.__version__} has no Torch.sinc"
